//! Programs whose memory does not fit together, on a device that swaps: see "Memory" in
//! `src/policy/README.md`.

mod device;
mod program;

use bus_schemas::{ClusterSettings, TenantSettings};
use proptest::prelude::*;

use crate::model::COSTS;
use device::run;
use program::{Machine, Program};
use scheduler_leader_core::TICK_NS;

/// Messages, one after the other, from the end of a program to the first slice of one that was out: its
/// close, the grant of that, the report, the return, its report, the slice.
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

/// What programs take one after the other: each alone, and each but the first is brought in once.
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

/// Batches: all work queued at the beginning, or one after the other with time between.
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

/// How many exchanges of both would take as long as all their work, in thousandths: from a few parts of
/// one to a thousand.
fn exchanges() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => 30..1_000u64,
        2 => 1_000..30_000u64,
        2 => 30_000..1_000_000u64,
    ]
}

/// Nanoseconds that a mebibyte takes, for so many exchanges.
fn pace(programs: &[Program], exchanges: u64) -> u64 {
    let mib: u64 = programs.iter().map(|it| it.mib).sum();
    let work: u64 = programs.iter().map(Program::work).sum();
    (work / mib).saturating_mul(1_000) / exchanges + 1
}

/// Holds programs, together on a device, against one after the other.
fn ratio(machine: &Machine, programs: &[Program]) -> f64 {
    let together = run(machine, programs).makespan();
    // Whoever starts programs by hand needs no messages to begin the next.
    let messages = HANDOVER * machine.latency * (programs.len() as u64 - 1);
    together.saturating_sub(messages) as f64 / serial(machine, programs) as f64
}

/// A capacity that each fits into and all do not, from the smallest to the largest such.
fn capacity(programs: &[Program], percent: u64) -> u64 {
    let largest = programs.iter().map(|it| it.mib).max().unwrap_or(0);
    let sum: u64 = programs.iter().map(|it| it.mib).sum();
    largest + (sum - 1 - largest) * percent / 100
}

/// What an exchange of two counts at most: the larger one, both ways.
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

    /// So it is with more than two, of several tenants or of one.
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

    /// Who is through and stays is waited for as long as a turn, once: nobody knows what it will do.
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

    /// A tenant with a target waits for one of its own priority no longer than stated.
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
        // What is granted to the other one still runs: a window, or one launch that is longer.
        let launch = COSTS[programs[0].kernel];
        let granted = machine.settings.window_ns.max(launch) * programs[0].percent / 100;
        let messages = HANDOVER * latency;
        // The exchange in progress, a short turn, and one tick each until they are seen to be over.
        let short = exchange + exchange.max(3 * TICK_NS) + 2 * TICK_NS + granted;
        let most = (slo_ns / 2).max(short) + granted + exchange + messages;
        let waited = run(&machine, &programs).waited[1];
        prop_assert!(waited <= most, "{waited} of {most}");
    }
}

/// Programs that pause for longer than an exchange takes are not swapped at each pause.
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
