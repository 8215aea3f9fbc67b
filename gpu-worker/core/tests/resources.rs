//! A device's resources: the times at which the waiting claim is asked again.

use std::collections::BTreeMap;

use proptest::prelude::*;

use bus_schemas::{GpuId, Incarnation, OpNumber, SessionId};
use device::Recharged;
use gpu_worker_core::dispatch::Claim;
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::pager::{GRANULE, Need};
use gpu_worker_core::resources::MeteredSlice;
use gpu_worker_core::{Meter, Pager, Resources};

const GPU: GpuId = 0;

fn resources(capacity: u64, sessions: u64) -> Resources {
    let meter = Meter::new(0, Incarnation(1), GPU, 1, true);
    let mut resources = Resources::new(Pager::new(capacity), meter, 256);
    for session in 1..=sessions {
        let tenant = format!("t{session}").parse().unwrap();
        resources.open(0, SessionId(session), &tenant, 0);
    }
    resources
}

fn claim(session: u64, first: OpNumber, need: Need) -> Claim {
    Claim {
        session: SessionId(session),
        first,
        needs: vec![need],
    }
}

fn alloc(op: OpNumber, bytes: u64) -> Need {
    let address = op << 20;
    Need::Alloc { op, address, bytes }
}

fn free(op: OpNumber) -> Need {
    let address = op << 20;
    Need::Free { address }
}

fn completed(session: u64, first: OpNumber, resident: u64) -> MeteredSlice<'static> {
    MeteredSlice {
        first,
        last: first,
        resident,
        faulted: false,
        used: SliceUse {
            session: SessionId(session),
            device_ns: 10,
            launches: 1,
            sm_ns: 10,
            kernels: &[],
        },
    }
}

/// Session 1 holds all memory and is about to free it; session 2 waits for it.
fn one_waits() -> Resources {
    let mut resources = resources(4_096, 2);
    assert!(resources.ask(claim(1, 1, alloc(1, 4_096))).is_some());
    assert_eq!(resources.completed(1, [completed(1, 1, 4_096)]), None);
    assert!(resources.ask(claim(1, 2, free(1))).is_some());
    assert_eq!(resources.ask(claim(2, 1, alloc(1, 4_096))), None);
    assert!(resources.is_waiting());
    resources
}

#[test]
fn a_completed_slice_and_an_ended_session_let_the_claim_through() {
    let mut resources = one_waits();
    let answer = resources.completed(2, [completed(1, 2, 0)]).unwrap();
    assert_eq!((answer.session, answer.refused), (SessionId(2), None));
    assert!(!resources.is_waiting());

    let mut resources = one_waits();
    let answer = resources.close(2, SessionId(1)).unwrap();
    assert_eq!((answer.session, answer.refused), (SessionId(2), None));
    assert_eq!(resources.charged(), 4_096);
}

#[test]
fn what_is_withdrawn_gets_no_answer() {
    let mut resources = one_waits();
    resources.withdraw(SessionId(1));
    assert!(resources.is_waiting(), "another's");
    resources.withdraw(SessionId(2));
    assert_eq!(resources.completed(2, [completed(1, 2, 0)]), None);
}

#[test]
fn what_is_shared_is_told_and_frees_nothing() {
    let mut resources = one_waits();
    let charge = Recharged {
        session: SessionId(1),
        charged: 0,
        saved: 4_096,
    };
    resources.recharged(2, &[charge], 4_096);
    let moves = resources.moves(1_000_002);
    assert_eq!(moves.values().next().unwrap().saved_byte_ms, 4_096);
    assert!(resources.is_waiting());
    let usage = resources.usage(3);
    assert_eq!((usage.saved, usage.sessions[0].resident), (4_096, 0));
    assert_eq!(usage.sessions[0].launches, 1);
}

proptest! {
    /// Sessions allocate and free in turns. After each completion or end, a claim that is still open would
    /// not fit: it never waits for free memory.
    #[test]
    fn no_claim_waits_for_memory_that_is_free(
        steps in prop::collection::vec((1..=4_u64, 0..4_u8, 1..5_u64), 1..120),
    ) {
        const CAPACITY: u64 = 8 * GRANULE;
        let mut resources = resources(CAPACITY, 4);
        // For each session, its next op, and its slices that have not completed.
        let mut next: BTreeMap<u64, (OpNumber, Vec<OpNumber>)> =
            (1..=4).map(|session| (session, (1, Vec::new()))).collect();
        let mut waiting: Option<(u64, OpNumber, u64)> = None;
        for (at, (session, what, blocks)) in (1..).zip(steps) {
            let Some((op, running)) = next.get_mut(&session) else {
                continue;
            };
            let answer = match what {
                0 | 1 if waiting.is_none() => {
                    let first = *op;
                    *op += 1;
                    let need = match what {
                        0 => alloc(first, blocks * GRANULE),
                        _ => free(first.saturating_sub(blocks)),
                    };
                    let answer = resources.ask(claim(session, first, need));
                    match answer {
                        Some(_) => running.push(first),
                        None => waiting = Some((session, first, blocks * GRANULE)),
                    }
                    None
                }
                2 if !running.is_empty() => {
                    let first = running.remove(0);
                    resources.completed(at, [completed(session, first, 0)])
                }
                3 if blocks == 1 => {
                    next.remove(&session);
                    if waiting.is_some_and(|(of, ..)| of == session) {
                        resources.withdraw(SessionId(session));
                        waiting = None;
                    }
                    resources.close(at, SessionId(session))
                }
                _ => None,
            };
            if let Some(answer) = answer {
                let (of, first, _) = waiting.take().expect("only what is open is answered");
                prop_assert_eq!((answer.session, answer.first), (SessionId(of), first));
                if let Some((_, running)) = next.get_mut(&of) {
                    running.push(first);
                }
            }
            prop_assert_eq!(resources.is_waiting(), waiting.is_some());
            prop_assert!(resources.charged() <= CAPACITY);
            if let Some((_, _, bytes)) = waiting {
                prop_assert!(resources.charged() + bytes > CAPACITY, "it waits for free memory");
            }
        }
    }
}
