//! Workloads: models as lists of kernels, and when requests come.

mod file;
mod generator;

pub use file::{FileError, read_dir, write_dir};
pub use generator::{Published, SHAPES, Shape, generate};

use std::sync::Arc;

use sim_cluster::Random;
use sim_cluster::{Nanos, SECOND};

/// One kernel of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// How long it runs alone.
    pub ns: u64,
    /// Percent of the device's arithmetic it uses meanwhile.
    pub compute: u8,
    /// Percent of the memory's bandwidth it uses meanwhile.
    pub memory: u8,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantRole {
    /// Somebody waits for each request.
    Latency,
    /// As many requests as possible.
    Throughput,
}

/// When requests come.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// At random, so many that the device is busy this part of the time with the model alone.
    Load(f64),
    /// At random, so many a second.
    Rate(f64),
    /// The next comes this long after the last was answered; at random around it if `random`.
    Closed {
        /// Nanoseconds between an answer and the next request.
        think: Nanos,
        /// Whether that is a mean of an exponential distribution.
        random: bool,
    },
    /// At these times, repeated when they are used up.
    Trace(Arc<[Nanos]>),
}

/// A model: what one request launches, and when requests come by default.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: TenantRole,
    /// When requests come.
    pub arrivals: Arrivals,
    /// One request's kernels, in order.
    pub kernels: Arc<[Kernel]>,
}

impl Model {
    /// Nanoseconds of all kernels of one request.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kernels.iter().map(|kernel| kernel.ns).sum()
    }

    /// How long one request takes alone on an idle device, when launch calls are quick.
    #[must_use]
    pub fn alone(&self, gap: Nanos) -> u64 {
        self.total() + gap * self.kernels.len() as u64
    }
}

/// The times of requests, one after the other.
#[derive(Debug)]
pub(crate) struct Clockwork {
    arrivals: Arrivals,
    random: Random,
    /// Nanoseconds between two requests, where they come by themselves.
    mean: f64,
    at: f64,
    seen: usize,
    start: Nanos,
}

impl Clockwork {
    pub(crate) fn new(model: &Model, gap: Nanos, start: Nanos, random: Random) -> Self {
        let mean = match model.arrivals {
            Arrivals::Load(load) => model.alone(gap) as f64 / load.max(1e-6),
            Arrivals::Rate(rate) => SECOND as f64 / rate.max(1e-6),
            Arrivals::Closed { .. } | Arrivals::Trace(_) => 0.0,
        };
        Self {
            arrivals: model.arrivals.clone(),
            random,
            mean,
            at: start as f64,
            seen: 0,
            start,
        }
    }

    /// Whether a request comes only after the one before was answered.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.arrivals, Arrivals::Closed { .. })
    }

    /// When the next request comes; the one before was answered at `answered`.
    pub(crate) fn next(&mut self, answered: Nanos) -> Nanos {
        self.seen += 1;
        match &self.arrivals {
            Arrivals::Load(_) | Arrivals::Rate(_) => {
                self.at += self.random.exponential(self.mean);
                self.at as Nanos
            }
            Arrivals::Closed { .. } if self.seen == 1 => self.start,
            Arrivals::Closed {
                think,
                random: false,
            } => answered + think,
            Arrivals::Closed { think, .. } => {
                answered + self.random.exponential(*think as f64) as Nanos
            }
            Arrivals::Trace(times) => {
                let Some(last) = times.last() else {
                    return Nanos::MAX;
                };
                let (round, index) = ((self.seen - 1) / times.len(), (self.seen - 1) % times.len());
                self.start + round as Nanos * last + times[index]
            }
        }
    }
}
