//! Programs that do not fit into memory together, on a device that swaps: see "Memory" in
//! `src/policy/README.md`.

mod device;
mod program;

use bus_schemas::{ClusterSettings, TenantSettings};
use proptest::prelude::*;

use crate::model::COSTS;
use device::run;
use program::{Machine, Program};
use scheduler_leader_core::TICK_NS;

/// Number of sequential messages from the end of a program to the first slice of one that was out.
/// They are: its close, the grant of that, the report, the return, its report, the slice.
const HANDOVER: u64 = 7;

fn machine(mib: u64, ns_per_mib: u64, latency: u64, tenants: usize) -> Machine {
    Machine {
        mib,
        ns_per_mib,
        latency,
        settings: ClusterSettings {
            standing: false,
            ..ClusterSettings::default()
        },
        tenants: vec![TenantSettings::default(); tenants],
    }
}

/// Time of the programs in sequence: each runs alone, and each but the first is swapped in once.
fn serial(machine: &Machine, programs: &[Program]) -> u64 {
    let alone = programs.iter().map(|program| {
        let brought = program.mib * machine.ns_per_mib;
        run(machine, std::slice::from_ref(program)).makespan() + brought
    });
    let first = programs
        .first()
        .map_or(0, |first| first.mib * machine.ns_per_mib);
    alone.sum::<u64>() - first
}

/// Batches: all work queued at the start, or in sequence with time between.
fn batches() -> impl Strategy<Value = Vec<(u64, u32)>> {
    let think = prop_oneof![
        Just(0),
        0..3_000_000u64,
        0..300_000_000u64,
        0..5_000_000_000u64
    ];
    prop_oneof![
        (1..20_000u32).prop_map(|count| vec![(0, count)]),
        prop::collection::vec((think, 1..500u32), 1..40),
    ]
}

fn program(tenant: usize) -> impl Strategy<Value = Program> {
    (1..=1_000u64, 0..6usize, 40..300u64, batches()).prop_map(
        move |(mib, kernel, percent, batches)| Program {
            tenant,
            mib,
            kernel,
            percent,
            batches,
            closes: true,
        },
    )
}

/// Number of exchanges of both that would take as long as all their work, in thousandths: from a
/// small part of one to a thousand.
fn exchanges() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => 30..1_000u64,
        2 => 1_000..30_000u64,
        2 => 30_000..1_000_000u64,
    ]
}

/// Nanoseconds that a mebibyte takes, for this number of exchanges.
fn pace(programs: &[Program], exchanges: u64) -> u64 {
    let mib: u64 = programs.iter().map(|it| it.mib).sum();
    let work: u64 = programs.iter().map(Program::work).sum();
    (work / mib).saturating_mul(1_000) / exchanges + 1
}

/// The time of programs together on a device, relative to running them in sequence.
fn ratio(machine: &Machine, programs: &[Program]) -> f64 {
    let together = run(machine, programs).makespan();
    // A user who starts programs by hand needs no messages to begin the next one.
    let messages = HANDOVER * machine.latency * (programs.len() as u64 - 1);
    together.saturating_sub(messages) as f64 / serial(machine, programs) as f64
}

/// A capacity that fits each program and not all, from the smallest to the largest such.
fn capacity(programs: &[Program], percent: u64) -> u64 {
    let largest = programs.iter().map(|it| it.mib).max().unwrap_or(0);
    let sum: u64 = programs.iter().map(|it| it.mib).sum();
    largest + (sum - 1 - largest) * percent / 100
}

/// Maximum time that an exchange of two counts for: the larger one, in both directions.
fn longest_exchange(machine: &Machine, programs: &[Program]) -> u64 {
    let largest = programs.iter().map(|it| it.mib).max().unwrap_or(0);
    2 * largest * machine.ns_per_mib
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_that_do_not_fit_take_little_longer_than_one_after_the_other(
        programs in [program(0), program(1)],
        percent in 0..=100u64,
        exchanges in exchanges(),
        latency in 20_000..500_000u64,
    ) {
        let mib = capacity(&programs, percent);
        let machine = machine(mib, pace(&programs, exchanges), latency, 2);
        let ratio = ratio(&machine, &programs);
        prop_assert!(ratio <= 1.1, "{ratio}");
    }

    /// The same holds for more than two, of several tenants or of one.
    #[test]
    fn many_that_do_not_fit_take_little_longer_than_one_after_the_other(
        programs in prop::collection::vec((0..3usize).prop_flat_map(program), 3..8),
        percent in 0..=100u64,
        exchanges in exchanges(),
        latency in 20_000..500_000u64,
    ) {
        let mib = capacity(&programs, percent);
        let machine = machine(mib, pace(&programs, exchanges), latency, 3);
        let ratio = ratio(&machine, &programs);
        prop_assert!(ratio <= 1.1, "{ratio}");
    }

    /// A session that is through and stays is waited for once, for a turn: its further work is
    /// unknown.
    #[test]
    fn who_is_through_and_stays_costs_a_turn(
        programs in [program(0), program(1)],
        percent in 0..=100u64,
        exchanges in 500..1_000_000u64,
        latency in 20_000..500_000u64,
    ) {
        let mut programs = programs;
        programs.iter_mut().for_each(|it| it.closes = false);
        let mib = capacity(&programs, percent);
        let machine = machine(mib, pace(&programs, exchanges), latency, 2);
        let exchange = longest_exchange(&machine, &programs);
        let turn = (16 * exchange).max(8 * TICK_NS) + 2 * TICK_NS;
        let most = serial(&machine, &programs) * 11 / 10 + turn + exchange + HANDOVER * latency;
        let together = run(&machine, &programs).makespan();
        prop_assert!(together <= most, "{together} of {most}");
    }

    /// A tenant with a target waits for one of its own priority no longer than documented.
    #[test]
    fn a_target_bounds_the_wait_for_a_turn(
        programs in [program(0), program(1)],
        percent in 0..=100u64,
        exchanges in exchanges(),
        latency in 20_000..500_000u64,
        slo_ns in 20_000_000..3_000_000_000u64,
    ) {
        let mib = capacity(&programs, percent);
        let mut machine = machine(mib, pace(&programs, exchanges), latency, 2);
        machine.tenants[1].slo_ns = slo_ns;
        let exchange = longest_exchange(&machine, &programs);
        // Granted work of the other one still runs: a window, or one longer launch.
        let launch = COSTS[programs[0].kernel];
        let granted = machine.settings.window_ns.max(launch) * programs[0].percent / 100;
        let messages = HANDOVER * latency;
        // The exchange in progress, a short turn, and one tick each until their ends are seen.
        let short = exchange + exchange.max(3 * TICK_NS) + 2 * TICK_NS + granted;
        let most = (slo_ns / 2).max(short) + granted + exchange + messages;
        let waited = run(&machine, &programs).waited[1];
        prop_assert!(waited <= most, "{waited} of {most}");
    }
}

/// Programs with pauses longer than an exchange are not swapped at each pause.
#[test]
fn pauses_cost_no_exchange_each() {
    let program = |tenant| Program {
        tenant,
        mib: 100,
        kernel: 5,
        percent: 100,
        batches: vec![(150_000_000, 8); 200],
        closes: true,
    };
    let machine = machine(150, 500_000, 100_000, 2);
    let ratio = ratio(&machine, &[program(0), program(1)]);
    assert!(ratio <= 1.1, "{ratio}");
}
