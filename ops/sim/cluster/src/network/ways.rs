//! The ways of messages over the links: their delays and their mishaps.

use serde::{Deserialize, Serialize};

use crate::{MICRO, MILLI, Nanos, Random, time_text};

/// Mishap of one message.
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
    /// Name of the mishap.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Doubled => "doubled",
            Self::Late => "late",
        }
    }
}

/// Behaviour of messages on the links.
#[derive(Debug)]
pub enum Ways {
    /// Each link has a random source of its own, and loses some messages.
    Lossy(Lossy),
    /// All messages arrive, in order on each link. One generator draws the delays for all links.
    Jittered(Jitter),
}

/// Trouble on all links.
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
    /// No message is lost, doubled or overtaken.
    pub const FAIR: Self = Self {
        loss: 0,
        duplicates: 0,
        reordered: 0,
        late: 0,
        delay: 150 * MICRO,
    };

    /// Draws some mixture of troubles.
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

/// Delays with a lognormal distribution.
#[derive(Debug)]
pub struct Jitter {
    random: Random,
    median: f64,
    deviation: f64,
}

impl Jitter {
    /// Makes delays with this median and a 99th percentile of `times` the median.
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
