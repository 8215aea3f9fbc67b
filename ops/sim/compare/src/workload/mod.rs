//! Workloads: models as lists of kernels, and the arrivals of requests.

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
    /// Duration when it runs alone.
    pub ns: u64,
    /// Percentage of the device's arithmetic that it uses meanwhile.
    pub compute: u8,
    /// Percentage of the memory's bandwidth that it uses meanwhile.
    pub memory: u8,
}

/// Role of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TenantRole {
    /// A user waits for each request.
    Latency,
    /// As many requests as possible are served.
    Throughput,
}

/// Arrivals of requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Random, at the rate that keeps the device busy this fraction of the time with the model alone.
    Load(f64),
    /// Random, at this rate per second.
    Rate(f64),
    /// The next request comes this long after the last answer.
    Closed {
        /// Nanoseconds between an answer and the next request.
        think: Nanos,
        /// True if `think` is the mean of an exponential distribution.
        random: bool,
    },
    /// At these times, repeated when they are used up.
    Trace(Arc<[Nanos]>),
}

/// A model: the kernels of one request, and its default arrivals.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: TenantRole,
    /// The arrivals of its requests.
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

    /// Time of one request alone on an idle device, if launch calls are quick.
    #[must_use]
    pub fn alone(&self, gap: Nanos) -> u64 {
        self.total() + gap * self.kernels.len() as u64
    }
}

/// Generates the arrival times of requests, one after the other.
#[derive(Debug)]
pub(crate) struct Clockwork {
    arrivals: Arrivals,
    random: Random,
    /// Mean nanoseconds between two requests, if they do not depend on answers.
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

    /// True if a request comes only after the answer to the previous one.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.arrivals, Arrivals::Closed { .. })
    }

    /// Time of the next request; the previous one was answered at `answered`.
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
