//! Pairs of programs under every policy, and what they got beside what they get alone.

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
/// No simulation is measured for longer than this, however rare its requests.
const LONGEST: Nanos = 120 * SECOND;
const SHORTEST: Nanos = SECOND;

/// Every model with somebody waiting beside every one without.
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

/// How pairs are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The device.
    pub device: DeviceKind,
    /// Requests of the urgent program that are measured, about.
    pub requests: u64,
    /// Decides arrivals and jitter.
    pub seed: u64,
}

/// What a pair got under a policy, beside what each gets alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// Under which policy.
    pub policy: Policy,
    /// The urgent program's 99th percentile, over that of the same alone.
    pub p99_ratio: f64,
    /// Work of the urgent program, over that of the same alone.
    pub urgent: f64,
    /// Work of the other, over that of the same alone.
    pub effort: f64,
    /// Part of the time in which the device was active.
    pub active: f64,
    /// The urgent program's latencies: every half percent of the distribution.
    pub latencies: Vec<Nanos>,
}

impl Shared {
    /// Sum of the work of both, each over what it does alone.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.urgent + self.effort
    }
}

/// What the two do alone, natively.
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

/// How long so many requests take to come.
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

/// Runs a pair with nobody more urgent than the other.
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
