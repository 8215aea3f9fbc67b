//! Steps of a random cluster: settings, tenants and steps, and their application.

use crate::model::{COSTS, Model, launches, sync};
use bus_schemas::{
    CloseReason, ClusterSettings, CostClass, CostRun, GrantKind, Incarnation, KernelKey, Place,
    SessionResidency, TenantSettings,
};
use proptest::prelude::*;
use scheduler_leader_core::{Effect, Input};

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Open(usize),
    /// Session, runs, and true if the worker gets them at once.
    Submit(usize, Vec<CostRun>, bool),
    Announce(usize, usize),
    Send(usize),
    Received(usize),
    Run(usize, usize),
    Close(usize, bool),
    Hold(bool),
    /// Tenant, and true if it is suspended.
    Suspend(usize, bool),
    Ticks(u32),
    /// Worker, and its report of its sessions: index, GiB, place, pinned.
    Memory(usize, Vec<(usize, u64, usize, bool)>),
    TakeOver,
}

/// Ops of one kind.
pub(crate) fn run_strategy() -> impl Strategy<Value = CostRun> {
    prop_oneof![
        8 => (0..COSTS.len(), 1..200u32).prop_map(|(kernel, count)| launches(kernel, count)),
        2 => Just(sync()),
        1 => (1..2_000_000u64, 1..4u32).prop_map(|(bytes, count)| CostRun {
            key: KernelKey(0), bytes, count, class: CostClass::Copy,
        }),
        1 => (1..2_000u32).prop_map(|count| CostRun {
            key: KernelKey(0), bytes: 0, count, class: CostClass::Light,
        }),
    ]
}

/// Any step, with or without changes of the leader.
pub(crate) fn step_strategy(takeovers: bool) -> impl Strategy<Value = Step> {
    let runs = prop::collection::vec(run_strategy(), 1..6);
    prop_oneof![
        2 => (0..4usize).prop_map(Step::Open),
        6 => (any::<usize>(), runs, prop::bool::weighted(0.8))
            .prop_map(|(session, runs, send)| Step::Submit(session, runs, send)),
        6 => (any::<usize>(), 1..400usize).prop_map(|(session, most)| Step::Announce(session, most)),
        1 => any::<usize>().prop_map(Step::Send),
        2 => any::<usize>().prop_map(Step::Received),
        8 => (0..2usize, 1..6usize).prop_map(|(worker, count)| Step::Run(worker, count)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(session, asked)| Step::Close(session, asked)),
        2 => prop_oneof![
            any::<bool>().prop_map(Step::Hold),
            (0..4usize, any::<bool>())
                .prop_map(|(tenant, suspended)| Step::Suspend(tenant, suspended)),
        ],
        5 => prop_oneof![
            3 => (1..15u32).prop_map(Step::Ticks),
            2 => (0..2usize, prop::collection::vec(row_strategy(), 0..5))
                .prop_map(|(worker, rows)| Step::Memory(worker, rows)),
        ],
        u32::from(takeovers) => Just(Step::TakeOver),
    ]
}

/// A possible report of a session's memory.
fn row_strategy() -> impl Strategy<Value = (usize, u64, usize, bool)> {
    let pinned = prop::bool::weighted(0.1);
    (any::<usize>(), 0..9u64, 0..4usize, pinned)
}

/// Any tenant.
pub(crate) fn tenant_strategy() -> impl Strategy<Value = TenantSettings> {
    (
        0..5u8,
        1..20u32,
        prop_oneof![3 => Just(0), 1 => 100_000..3_000_000u64],
        prop_oneof![5 => Just(0), 1 => 20..100u8],
        prop_oneof![2 => Just(0), 1 => 1..8_000_000u64],
    )
        .prop_map(
            |(priority, weight, outstanding_ns, cap, slo_ns)| TenantSettings {
                priority,
                weight,
                outstanding_ns,
                cap,
                slo_ns,
                ..TenantSettings::default()
            },
        )
}

/// Any cluster.
pub(crate) fn settings_strategy() -> impl Strategy<Value = ClusterSettings> {
    let small = prop_oneof![1 => Just(0), 4 => 50_000..900_000u64];
    let standing = prop::bool::weighted(0.7);
    (
        300_000..4_000_000u64,
        50_000..800_000u64,
        small,
        0..25u32,
        standing,
    )
        .prop_map(
            |(window_ns, quantum_ns, slo_window_ns, slo_wait_ticks, standing)| ClusterSettings {
                window_ns,
                quantum_ns,
                slo_window_ns,
                slo_wait_ticks,
                standing,
                ..ClusterSettings::default()
            },
        )
}

/// Applies a step and makes the checks that are possible from outside at every grant.
#[expect(clippy::too_many_lines, reason = "one arm for each step")]
pub(crate) fn step(model: &mut Model, step: &Step) {
    let ids: Vec<_> = model.sessions.keys().copied().collect();
    let pick = |index: &usize| ids.get(index % ids.len().max(1)).copied();
    match step {
        Step::Open(tenant) => {
            model.open(*tenant);
        }
        Step::Submit(session, runs, send) => {
            if let Some(id) = pick(session) {
                model.submit(id, runs, *send);
            }
        }
        Step::Announce(session, most) => {
            if let Some(id) = pick(session) {
                model.announce(id, *most);
            }
        }
        Step::Send(session) => {
            if let Some(id) = pick(session) {
                let session = model.sessions.get_mut(&id).unwrap();
                session.received = session.ops.len() as u64;
            }
        }
        Step::Received(session) => {
            if let Some(id) = pick(session) {
                model.tell_received(id);
            }
        }
        Step::Run(worker, count) => {
            model.run(Incarnation(*worker as u64 + 100), *count);
        }
        Step::Close(index, asked) => {
            if let Some(session) = pick(index) {
                let after = model.sessions[&session].ops.len() as u64;
                let reason = if *asked {
                    CloseReason::Asked
                } else {
                    CloseReason::Killed
                };
                model.apply(Input::SessionClose {
                    session,
                    after,
                    reason,
                });
            }
        }
        Step::Hold(held) => {
            let effects = model.apply(Input::Hold { held: *held });
            let runs = |effect: &Effect| matches!(effect, Effect::Grant { grant, .. } if grant.kind == GrantKind::Run);
            assert!(
                !*held || !effects.iter().any(runs),
                "nothing is granted while held"
            );
        }
        Step::Suspend(tenant, suspended) => {
            model.suspend(*tenant, *suspended);
        }
        Step::Ticks(count) => (0..*count).for_each(|_| {
            model.apply(Input::Tick);
        }),
        Step::Memory(worker, rows) => {
            let places = [Place::Resident, Place::Leaving, Place::Out, Place::Coming];
            let rows = rows.iter().filter_map(|(session, gib, place, pinned)| {
                Some(SessionResidency {
                    session: pick(session)?,
                    bytes: gib << 30,
                    place: places[*place],
                    pinned: *pinned,
                })
            });
            let rows = rows.collect();
            model.tell_memory(Incarnation(*worker as u64 + 100), 10_000, rows);
        }
        Step::TakeOver => model.take_over(),
    }
}
