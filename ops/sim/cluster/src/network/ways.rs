//! The ways of messages over the links: how long they are, and what goes wrong on them.

use serde::{Deserialize, Serialize};

use crate::{MICRO, MILLI, Nanos, Random, time_text};

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mishap {
    /// It does not arrive.
    Lost,
    /// It arrives, and again later.
    Doubled,
    /// It arrives later only.
    Late,
}

impl Mishap {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Late => "late",
        }
    }
}

/// How messages come over the links.
#[derive(Debug)]
pub enum Ways {
    /// Each link has chance of its own, and loses some.
    Lossy(Lossy),
    /// All come, each link's in order, after a while that one generator draws for all links.
    Jittered(Jitter),
}

/// How badly all links behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lossy {
    /// Messages lost, per thousand.
    pub loss: u64,
    /// Messages delivered twice, per thousand.
    pub duplicates: u64,
    /// Messages held back by up to `late` and so overtaken, per thousand.
    pub reordered: u64,
    /// Longest extra delay of a reordered or duplicated message.
    #[serde(with = "time_text")]
    pub late: Nanos,
    /// Longest ordinary delay; the shortest is 20 µs.
    #[serde(with = "time_text")]
    pub delay: Nanos,
}

impl Lossy {
    /// Nothing is lost, doubled or overtaken.
    pub const FAIR: Self = Self {
        loss: 0,
        duplicates: 0,
        reordered: 0,
        late: 0,
        delay: 150 * MICRO,
    };

    /// Some mixture of troubles.
    #[must_use]
    pub fn draw(random: &mut Random) -> Self {
        let mut part = |permille: u64, most: u64| {
            if random.chance(permille) {
                random.between(1, most)
            } else {
                0
            }
        };
        Self {
            loss: part(600, 250),
            duplicates: part(500, 200),
            reordered: part(500, 300),
            late: MILLI + part(800, 40) * MILLI,
            delay: 100 * MICRO + part(300, 5) * MILLI,
        }
    }
}

/// The 99th percentile of a normal distribution, in deviations.
const P99: f64 = 2.326;

/// Ways of a lognormal length.
#[derive(Debug)]
pub struct Jitter {
    random: Random,
    median: f64,
    deviation: f64,
}

impl Jitter {
    /// With this median; the 99th percentile is `times` that.
    #[must_use]
    pub fn new(random: Random, median: Nanos, times: f64) -> Self {
        Self {
            random,
            median: median as f64,
            deviation: times.max(1.0).ln() / P99,
        }
    }

    pub(super) fn draw(&mut self) -> Nanos {
        (self.median * (self.deviation * self.random.normal()).exp()) as Nanos
    }
}
