//! Figures of the order itself: shares, equality, newcomers, and the overhead.

use crate::outcome::{ComparedRun, KernelRow};
use crate::rival::Policy;
use crate::scenario::{Scenario, SimulationError, TenantSetup};
use crate::workload::{Arrivals, Model, TenantRole};
use sim_cluster::{MILLI, Nanos, SECOND};

/// Number of equal tenants in [`jain`].
pub const JAIN_TENANTS: usize = 100;
/// Number of tenants in [`active`].
pub const ACTIVE_TENANTS: usize = 8;
/// Fraction of the time in which each of them would be active alone.
const ACTIVE_PART: f64 = 0.3;
/// Time by which every kernel was measured and a profile version made of it.
const LEARNED: Nanos = 4 * SECOND;

/// Tenants of one priority that always have work.
fn backlogged(models: &[(&Model, u32)]) -> Vec<TenantSetup> {
    let tenant = |(model, weight): &(&Model, u32)| TenantSetup {
        model: Model {
            role: TenantRole::Throughput,
            arrivals: Arrivals::Closed {
                think: 0,
                random: false,
            },
            ..(*model).clone()
        },
        priority: 2,
        weight: *weight,
        start: 0,
    };
    models.iter().map(tenant).collect()
}

fn scenario(tenants: Vec<TenantSetup>, measured: Nanos, seed: u64) -> Scenario {
    Scenario {
        warm_up: LEARNED,
        measured,
        timeline: true,
        ..Scenario::new(tenants, seed)
    }
}

fn throughput_models(models: &[Model]) -> Result<[&Model; 2], SimulationError> {
    let mut efforts = models
        .iter()
        .filter(|model| model.role == TenantRole::Throughput);
    let none = SimulationError::Scenario("there is no model of role `throughput`");
    let first = efforts.next().ok_or(none)?;
    Ok([first, efforts.next().unwrap_or(first)])
}

/// Device time of a kernel between two times, its gap included.
fn within(row: &KernelRow, gap: Nanos, from: Nanos, to: Nanos) -> u64 {
    let (start, end) = (row.start - gap, row.end);
    end.min(to).saturating_sub(start.max(from))
}

/// A tenant's fraction of all device time between two times.
fn share_of(outcome: &ComparedRun, tenant: u32, gap: Nanos, from: Nanos, to: Nanos) -> f64 {
    let first = outcome.rows.partition_point(|row| row.end <= from);
    let rows = outcome.rows[first..].iter();
    let (mut own, mut all) = (0, 0);
    for row in rows.take_while(|row| row.start < to + gap) {
        let time = within(row, gap, from, to);
        all += time;
        own += if row.tenant == tenant { time } else { 0 };
    }
    own as f64 / all.max(1) as f64
}

/// Deviation from their shares, as a fraction of device time, of two tenants of weights 75 and 25. Both
/// always have work. It is that of the worst of all seconds that begin at a tenth of one.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn share_error(models: &[Model], seed: u64) -> Result<f64, SimulationError> {
    let [first, second] = throughput_models(models)?;
    let scenario = scenario(backlogged(&[(first, 75), (second, 25)]), 5 * SECOND, seed);
    let outcome = crate::run(&scenario, Policy::Ours)?;
    let starts = (0..=40).map(|tenth| scenario.warm_up + tenth * 100 * MILLI);
    let off = starts.map(|from| {
        let share = share_of(&outcome, 0, scenario.gap, from, from + SECOND);
        (share - 0.75).abs()
    });
    Ok(off.fold(0.0, f64::max))
}

/// Jain's index of the device time of a hundred equal tenants that always have work: 1 if all got the same,
/// 0.01 if one got all.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn jain(models: &[Model], seed: u64) -> Result<f64, SimulationError> {
    let [_, model] = throughput_models(models)?;
    let tenants = backlogged(&vec![(model, 1); JAIN_TENANTS]);
    let mut scenario = scenario(tenants, 20 * SECOND, seed);
    scenario.timeline = false;
    let outcome = crate::run(&scenario, Policy::Ours)?;
    let time =
        |tenant: &crate::outcome::Tenancy| (tenant.work_ns + scenario.gap * tenant.kernels) as f64;
    let (mut sum, mut squares) = (0.0, 0.0);
    for tenant in &outcome.tenants {
        sum += time(tenant);
        squares += time(tenant) * time(tenant);
    }
    Ok(sum * sum / (squares * JAIN_TENANTS as f64))
}

/// Number of quanta from a newcomer's first launch call until it gets its share, which is a half. It has
/// its share when a stretch of eight quanta begins in which it has nine tenths of that.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn newcomer_quanta(models: &[Model], seed: u64) -> Result<f64, SimulationError> {
    let [first, second] = throughput_models(models)?;
    // The kernels of both are known by then, because the newcomer runs the kernels of the first tenant.
    let mut tenants = backlogged(&[(first, 1), (second, 1)]);
    tenants[1].model.name.clone_from(&first.name);
    tenants[1].model.kernels = first.kernels.clone();
    // The seed decides the newcomer's time.
    tenants[1].start = LEARNED + (seed % 97) * 13_577_000 % SECOND;
    let scenario = scenario(tenants, 2 * SECOND, seed);
    let outcome = crate::run(&scenario, Policy::Ours)?;
    let came = outcome.rows.iter().find(|row| row.tenant == 1);
    let came = came
        .ok_or(SimulationError::Scenario("the newcomer never ran"))?
        .ready;
    let quantum = scenario.quantum as f64;
    let reached = (0..1_000).find(|tenth| {
        let from = came + (f64::from(*tenth) * quantum / 10.0) as Nanos;
        let to = from + 8 * scenario.quantum;
        share_of(&outcome, 1, scenario.gap, from, to) >= 0.45
    });
    Ok(f64::from(reached.unwrap_or(1_000)) / 10.0)
}

/// Relative slowdown of a program alone, compared with a run without Warploom. Its next request follows the
/// last at once.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn alone_overhead(model: &Model, seed: u64) -> Result<f64, SimulationError> {
    let mut scenario = scenario(backlogged(&[(model, 1)]), 5 * SECOND, seed);
    scenario.timeline = false;
    let work = |policy| -> Result<f64, SimulationError> {
        let outcome = crate::run(&scenario, policy)?;
        Ok(outcome.tenants[0].work_ns as f64)
    };
    Ok(work(Policy::Native)? / work(Policy::Ours)?.max(1.0) - 1.0)
}

/// Fraction of the time in which the device is active with eight tenants that are active 30 % of the time
/// each when alone.
///
/// # Errors
/// [`SimulationError`], as [`crate::run`].
pub fn active(models: &[Model], seed: u64) -> Result<f64, SimulationError> {
    let chosen: Vec<_> = models.iter().cycle().take(ACTIVE_TENANTS).collect();
    let mut tenants = backlogged(
        &chosen
            .into_iter()
            .map(|model| (model, 1))
            .collect::<Vec<_>>(),
    );
    let mut scenario = scenario(Vec::new(), 20 * SECOND, seed);
    for tenant in &mut tenants {
        let alone = tenant.model.alone(scenario.gap) as f64;
        tenant.model.arrivals = Arrivals::Closed {
            think: (alone * (1.0 - ACTIVE_PART) / ACTIVE_PART) as Nanos,
            random: true,
        };
    }
    scenario.tenants = tenants;
    scenario.timeline = false;
    Ok(crate::run(&scenario, Policy::Ours)?.active())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tenant: u32, start: Nanos, end: Nanos) -> KernelRow {
        KernelRow {
            tenant,
            request: 1,
            kernel: 0,
            ready: 0,
            start,
            end,
        }
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let outcome = ComparedRun {
            rows: vec![row(0, 10, 100), row(1, 110, 130), row(0, 140, 200)],
            ..ComparedRun::default()
        };
        // A gap counts with the kernel after it.
        let share = |from, to| share_of(&outcome, 0, 10, from, to);
        assert_eq!(share(0, 100), 1.0);
        assert_eq!(share(100, 130), 0.0);
        assert_eq!(share(70, 160), 60.0 / 90.0);
        assert_eq!(share(300, 400), 0.0);
    }
}
