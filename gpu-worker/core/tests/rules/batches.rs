//! A client's messages: batches, transfers, and the parts of them that are taken.

use bus_schemas::{ClientState, Code, Tenant, WIRE_VERSION};
use gpu_worker_core::sequencer::{Action, ChunkEvent, Event, ImageReadiness, SequencerConfig};

use crate::bench::{Bench, MS, ack, id, run, starts, tenant};

#[test]
fn batches_are_trimmed_and_gaps_asked_for_again() {
    let mut bench = Bench::new();
    bench.open(1);
    let keep = |actions: &[Action]| match actions[0] {
        Action::Keep {
            first, count, skip, ..
        } => (first, count, skip),
        _ => panic!("{actions:?}"),
    };
    assert_eq!(keep(&bench.batch(1, 1, 4)), (1, 4, 0));
    assert!(bench.batch(1, 6, 2).is_empty(), "a gap is not kept");
    assert_eq!(ack(&bench.after(MS)).unwrap().received, 4);
    assert_eq!(keep(&bench.batch(1, 3, 4)), (5, 2, 2));
    assert!(bench.batch(1, 1, 6).is_empty(), "a repeat is not kept");
    assert!(bench.batch(1, u64::MAX, 4).is_empty());
    assert!(bench.batch(1, 0, 9).is_empty());
}

#[test]
fn a_message_that_brings_nothing_new_is_told_from_one_that_does() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 4);
    assert!(bench.core.took());
    bench.after(MS);
    assert!(bench.core.took(), "the clock is no message");
    for (first, count, what) in [(1, 4, "a repeat"), (9, 1, "a gap"), (1, 0, "no ops")] {
        bench.batch(1, first, count);
        assert!(!bench.core.took(), "{what}");
    }
    bench.batch(1, 3, 4);
    assert!(bench.core.took(), "two are new");
    bench.chunk(1, 1, 100, 40);
    assert!(bench.core.took());
    bench.chunk(1, 1, 100, 40);
    assert!(!bench.core.took(), "the same bytes");
    bench.batch(2, 1, 4);
    assert!(!bench.core.took(), "of no session");
    let started = starts(&bench.order(&[run(1, 1, 2)]));
    bench.complete(started[0], &[1]);
    let mut state = |results| {
        let (v, sent) = (WIRE_VERSION, 6);
        let state = ClientState { v, sent, results };
        let (tenant, session) = (&tenant(), id(1));
        bench.tell(Event::ClientState {
            tenant,
            session,
            state,
        });
        bench.core.took()
    };
    assert!(!state(0));
    assert!(state(1), "a result has come");
    assert!(!state(1), "it is known");
}

#[test]
fn nobody_may_send_above_the_credit() {
    let mut bench = Bench::new();
    bench.open(1);
    let most = SequencerConfig::default().pending_ops;
    for first in (1..=most + 4_096).step_by(1_024) {
        bench.batch(1, first, 1_024);
    }
    let told = ack(&bench.after(MS)).unwrap();
    assert_eq!((told.received, told.send_through), (most, most));
    let started = starts(&bench.order(&[run(1, 1, 1_000)]));
    bench.complete(started[0], &[]);
    assert_eq!(ack(&bench.after(MS)).unwrap().send_through, most + 1_000);
}

#[test]
fn the_session_of_another_tenant_is_as_gone_as_one_that_never_was() {
    let mut bench = Bench::new();
    bench.open(1);
    let other: Tenant = "b".parse().unwrap();
    for (tenant, session) in [(&other, 1), (&other, 5)] {
        let state = ClientState {
            v: WIRE_VERSION,
            sent: 0,
            results: 0,
        };
        let event = Event::ClientState {
            tenant,
            session: id(session),
            state,
        };
        let actions = bench.tell(event);
        let Action::Reject {
            failure, tenant, ..
        } = &actions[0]
        else {
            panic!("{actions:?}")
        };
        assert_eq!((failure.code, tenant), (Code::SessionGone, &other));
        assert!(bench.tell(event).is_empty(), "not too often");
    }
}

#[test]
fn a_copy_waits_for_its_transfer_and_may_use_it_once() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch_of(1, 1, 1, &[], &[(1, 1)]);
    assert!(starts(&bench.order(&[run(1, 1, 1)])).is_empty());
    let actions = bench.chunk(1, 1, 100, 40);
    assert!(matches!(actions[0], Action::Store { offset: 40, .. }));
    let event = Event::Chunk(ChunkEvent {
        tenant: &tenant(),
        session: id(1),
        transfer: 1,
        total: 100,
        offset: 0,
        bytes: 40,
        module: None,
        image: ImageReadiness::Unknown,
    });
    let actions = bench.tell(event);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Whole { .. }))
    );
    assert_eq!(starts(&actions).len(), 1);
    assert_eq!(ack(&actions).unwrap().staged[0].received, 100);
    let actions = bench.batch_of(1, 2, 1, &[], &[(2, 1)]);
    let told = ack(&actions).unwrap();
    assert_eq!(told.failure.unwrap().1.code, Code::Protocol);
}
