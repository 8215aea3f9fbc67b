//! Pairs of programs under every policy, and their results relative to those alone.

mod figures;
mod pair;
mod published;

pub use figures::{
    ACTIVE_TENANTS, JAIN_TENANTS, active, alone_overhead, jain, newcomer_quanta, share_error,
};
pub use pair::Pair;
pub use published::{PUBLISHED_RATES, PublishedFigure, at_published_rates, published};

use crate::device::DeviceKind;
use crate::outcome::{ComparedRun, quantile};
use crate::rival::Policy;
use crate::scenario::{Scenario, SimulationError};
use crate::workload::{Arrivals, Model, TenantRole};
use sim_cluster::{MILLI, Nanos, SECOND};

/// Points of a latency distribution that are kept: every half percent.
const POINTS: usize = 201;
/// Maximum measured time of a simulation, even if requests are rare.
const LONGEST: Nanos = 120 * SECOND;
const SHORTEST: Nanos = SECOND;

/// Every latency model paired with every throughput model.
#[must_use]
pub fn pairs(models: &[Model]) -> Vec<Pair> {
    let of = |role| {
        models
            .iter()
            .filter(move |model: &&Model| model.role == role)
    };
    let pair = |urgent: &Model, effort: &Model| Pair {
        urgent: urgent.clone(),
        effort: effort.clone(),
    };
    of(TenantRole::Latency)
        .flat_map(|urgent| of(TenantRole::Throughput).map(move |effort| pair(urgent, effort)))
        .collect()
}

/// Terms of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The device.
    pub device: DeviceKind,
    /// Approximate number of measured requests of the urgent program.
    pub requests: u64,
    /// Seed of arrivals and jitter.
    pub seed: u64,
}

/// Results of a pair under a policy, relative to those alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// The policy.
    pub policy: Policy,
    /// The urgent program's 99th percentile, divided by that alone.
    pub p99_ratio: f64,
    /// Work of the urgent program, divided by that alone.
    pub urgent: f64,
    /// Work of the other program, divided by that alone.
    pub effort: f64,
    /// Fraction of the time in which the device was active.
    pub active: f64,
    /// The urgent program's latencies: every half percent of the distribution.
    pub latencies: Vec<Nanos>,
}

impl Shared {
    /// Sum of both programs' work, each divided by that alone.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.urgent + self.effort
    }
}

/// Results of both programs alone, natively.
#[derive(Debug, Clone, PartialEq)]
pub struct Alone {
    /// The urgent program's 99th percentile.
    pub p99: Nanos,
    /// Its latencies, as [`Shared::latencies`].
    pub latencies: Vec<Nanos>,
    work: [u64; 2],
    scenario: Scenario,
}

/// Runs each program of a pair alone.
///
/// # Errors
/// [`SimulationError`] for a pair that cannot be simulated.
pub fn alone(pair: &Pair, terms: &Terms) -> Result<Alone, SimulationError> {
    let tenants = vec![pair.urgent.clone().into(), pair.effort.clone().into()];
    let mut scenario = Scenario::new(tenants, terms.seed);
    scenario.device = terms.device;
    scenario.measured = length(&pair.urgent, scenario.gap, terms.requests);
    let by_itself = |index: usize| {
        let single = Scenario {
            tenants: vec![scenario.tenants[index].clone()],
            ..scenario.clone()
        };
        crate::run(&single, Policy::Native)
    };
    let (urgent, effort) = (by_itself(0)?, by_itself(1)?);
    let latencies = &urgent.tenants[0].latencies;
    if latencies.is_empty() || effort.tenants[0].work_ns == 0 {
        return Err(SimulationError::Scenario(
            "a program does nothing in the time that is measured",
        ));
    }
    Ok(Alone {
        p99: quantile(latencies, 0.99),
        latencies: distribution(latencies),
        work: [urgent.tenants[0].work_ns, effort.tenants[0].work_ns],
        scenario,
    })
}

/// Time in which this many requests arrive.
fn length(model: &Model, gap: Nanos, requests: u64) -> Nanos {
    let between = match &model.arrivals {
        Arrivals::Load(load) => model.alone(gap) as f64 / load,
        Arrivals::Rate(rate) => SECOND as f64 / rate,
        Arrivals::Closed { think, .. } => (model.alone(gap) + think) as f64,
        Arrivals::Trace(times) => {
            times.last().copied().unwrap_or(MILLI) as f64 / times.len().max(1) as f64
        }
    };
    ((between * requests as f64) as Nanos).clamp(SHORTEST, LONGEST)
}

fn distribution(latencies: &[Nanos]) -> Vec<Nanos> {
    let points = (0..POINTS).map(|point| point as f64 / (POINTS - 1) as f64);
    points.map(|part| quantile(latencies, part)).collect()
}

/// Runs a pair under a policy.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn share(alone: &Alone, policy: Policy) -> Result<Shared, SimulationError> {
    let outcome = crate::run(&alone.scenario, policy)?;
    Ok(beside(alone, policy, &outcome))
}

/// Runs a pair under a policy and keeps every kernel's times.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn timeline(alone: &Alone, policy: Policy) -> Result<ComparedRun, SimulationError> {
    let scenario = Scenario {
        timeline: true,
        ..alone.scenario.clone()
    };
    crate::run(&scenario, policy)
}

/// Runs a pair in which neither program is more urgent.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn share_freely(alone: &Alone, policy: Policy) -> Result<Shared, SimulationError> {
    let mut scenario = alone.scenario.clone();
    for tenant in &mut scenario.tenants {
        tenant.priority = 2;
    }
    let outcome = crate::run(&scenario, policy)?;
    Ok(beside(alone, policy, &outcome))
}

fn beside(alone: &Alone, policy: Policy, outcome: &ComparedRun) -> Shared {
    let work =
        |index: usize| outcome.tenants[index].work_ns as f64 / alone.work[index].max(1) as f64;
    let latencies = &outcome.tenants[0].latencies;
    Shared {
        policy,
        p99_ratio: quantile(latencies, 0.99) as f64 / alone.p99.max(1) as f64,
        urgent: work(0),
        effort: work(1),
        active: outcome.active(),
        latencies: distribution(latencies),
    }
}
