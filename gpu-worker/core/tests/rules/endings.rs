//! Ends of sessions and of workers.

use bus_schemas::{
    ClientState, Code, Compilation, Failure, GrantKind, Incarnation, LeaderId, Leave, Lost,
    Outcome, WIRE_VERSION,
};
use gpu_worker_core::sequencer::{
    Action, CompletedEvent, Event, ExitReason, SequencerConfig, StartAction,
};

use crate::bench::{Bench, MS, ack, done, grant, id, outcomes, run, starts, tenant};

#[test]
fn a_fault_ends_the_session_and_is_told_until_it_is_closed() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 9);
    let started = starts(&bench.order(&[run(1, 1, 3), run(1, 4, 6), run(1, 7, 9)]));
    assert_eq!(started.len(), 3);
    let failure = Failure::new(Code::Trap, "the kernel trapped");
    let fault = |start: StartAction, op| {
        Event::Completed(CompletedEvent {
            position: start.position,
            session: start.session,
            began: None,
            device_ns: 5,
            results: &[],
            compiled: &[],
            declared: 0,
            fault: Some((op, &failure)),
        })
    };
    let actions = bench.tell(fault(started[0], 2));
    assert_eq!(outcomes(&actions), [(2, Outcome::Ran)]);
    assert_eq!(done(&actions).unwrap().faults[0].op, 2);
    let told = ack(&actions).unwrap();
    assert_eq!((told.done, told.failure), (1, Some((2, failure.clone()))));
    let actions = bench.tell(fault(started[1], 4));
    assert_eq!(outcomes(&actions), [(3, Outcome::Gone)]);
    bench.tell(fault(started[2], 7));
    bench.batch(1, 10, 4);
    let actions = bench.order(&[run(1, 10, 13)]);
    assert_eq!(outcomes(&actions), [(5, Outcome::Gone)]);
    let repeated = (0..40).filter_map(|_| done(&bench.after(5 * MS)));
    assert!(repeated.filter(|done| done.faults.len() == 1).count() > 2);
    let actions = bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
    assert!(actions.contains(&Action::Close { session: id(1) }));
    let actions = bench.tell(Event::Closed { session: id(1) });
    assert_eq!(outcomes(&actions), [(6, Outcome::Ran)]);
    assert!(done(&actions).unwrap().faults.is_empty());
    assert!(actions.contains(&Action::Ended { session: id(1) }));
}

#[test]
fn compilations_are_told_with_the_report_of_their_slice() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 2);
    let started = starts(&bench.order(&[run(1, 1, 1), run(1, 2, 2)]));
    let compiled = Compilation { began: 3, ended: 9 };
    let completed = |start: StartAction, compiled| {
        Event::Completed(CompletedEvent {
            position: start.position,
            session: start.session,
            began: None,
            device_ns: 5,
            results: &[],
            compiled,
            declared: 0,
            fault: None,
        })
    };
    let mut told = vec![done(&bench.tell(completed(started[0], &[])))];
    told.push(done(&bench.tell(completed(started[1], &[compiled]))));
    told.extend((0..40).map(|_| done(&bench.after(5 * MS))));
    let mut count = 0;
    for done in told.into_iter().flatten() {
        let mut reports = done.reports.iter();
        let at = reports.position(|report| report.position == started[1].position);
        let expected: Vec<_> = at.map(|at| (at, compiled)).into_iter().collect();
        assert_eq!(done.times.unwrap().compiled, expected);
        count += expected.len();
    }
    assert!(count > 1, "and again with it");
}

#[test]
fn what_has_not_begun_when_a_close_is_accepted_runs_no_more() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 2);
    let orders = [run(1, 1, 1), run(1, 2, 2), grant(GrantKind::Close, 1, 0, 0)];
    let actions = bench.order(&orders);
    assert_eq!(starts(&actions).len(), 0);
    assert_eq!(outcomes(&actions), [(2, Outcome::Gone), (3, Outcome::Gone)]);
    assert!(actions.contains(&Action::Close { session: id(1) }));
    assert!(!actions.contains(&Action::Stop { session: id(1) }));
}

#[test]
fn a_close_waits_for_what_runs_and_its_results_wait_for_the_client() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 1);
    let started = starts(&bench.order(&[run(1, 1, 1)]));
    assert_eq!(started.len(), 1);
    let actions = bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
    let stop = Action::Stop { session: id(1) };
    assert!(actions.contains(&stop), "what runs is not waited for long");
    assert!(!actions.contains(&Action::Close { session: id(1) }));
    let actions = bench.complete(started[0], &[64]);
    assert!(actions.contains(&Action::Close { session: id(1) }));
    bench.tell(Event::Closed { session: id(1) });
    bench.now += 100 * MS;
    let state = |results| ClientState {
        v: WIRE_VERSION,
        sent: 1,
        results,
    };
    let tenant = tenant();
    let says = |state| Event::ClientState {
        tenant: &tenant,
        session: id(1),
        state,
    };
    let actions = bench.tell(says(state(0)));
    let again = Action::ResendResults {
        session: id(1),
        from: 1,
    };
    assert!(actions.contains(&again));
    assert!(
        !bench.tell(says(state(0))).contains(&again),
        "not at once again"
    );
    let actions = bench.tell(says(state(1)));
    assert!(actions.contains(&Action::Ended { session: id(1) }));
}

#[test]
fn a_device_is_told_once_to_close_a_session_whose_memory_returns_late() {
    let mut bench = Bench::new();
    bench.open(1);
    let close = Action::Close { session: id(1) };
    bench.order(&[grant(GrantKind::Return, 1, 0, 0)]);
    let actions = bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
    assert!(!actions.contains(&close));
    let returned = Event::Returned { session: id(1) };
    assert!(bench.tell(returned).contains(&close));
    let returned = Event::Returned { session: id(1) };
    assert!(!bench.tell(returned).contains(&close));
    let actions = bench.tell(Event::Closed { session: id(1) });
    assert_eq!(outcomes(&actions), [(3, Outcome::Ran)]);
}

#[test]
fn a_session_whose_results_nobody_takes_stalls_alone_and_fails_in_the_end() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.open(2);
    let large = SequencerConfig::default().result_bytes;
    bench.batch_of(1, 1, 2, &[(1, large), (2, 8)], &[]);
    bench.batch(2, 1, 1);
    let started = starts(&bench.order(&[run(1, 1, 1)]));
    bench.complete(started[0], &[large]);
    bench.order(&[run(1, 2, 2), run(2, 1, 1)]);
    let actions = bench.after(2 * MS);
    assert_eq!(outcomes(&actions), [(4, Outcome::Void)]);
    assert_eq!(starts(&actions)[0].session, id(2));
    let actions = bench.order(&[run(1, 2, 2)]);
    assert_eq!(
        outcomes(&actions),
        [(6, Outcome::Void)],
        "at once from now on"
    );
    bench.now += SequencerConfig::default().stall_ns;
    let actions = bench.order(&[run(1, 2, 2)]);
    assert_eq!(outcomes(&actions), [(7, Outcome::Gone)]);
    let fault = &done(&actions).unwrap().faults[0];
    assert_eq!((fault.session, fault.failure.code), (id(1), Code::Protocol));
}

#[test]
fn a_result_smaller_than_it_might_be_leaves_the_rest_of_its_room() {
    let mut bench = Bench::new();
    bench.open(1);
    let rest = SequencerConfig::default().result_bytes - 8;
    bench.batch_of(1, 1, 3, &[(1, 100), (3, rest)], &[]);
    let started = starts(&bench.order(&[run(1, 1, 1), run(1, 2, 2), run(1, 3, 3)]));
    assert_eq!(started.len(), 2, "the third finds no room");
    // The second session runs on; the room that the first might have taken is free again.
    let actions = bench.complete(started[0], &[8]);
    assert_eq!(starts(&actions)[0].first, 3);
}

#[test]
fn a_lost_worker_leaves_whatever_it_thinks() {
    let mut bench = Bench::new();
    let lost = |epoch, incarnation| Lost {
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(1),
        incarnation: Incarnation(incarnation),
    };
    assert!(bench.tell(Event::Lost(&lost(1, 8))).is_empty());
    assert!(bench.tell(Event::Lost(&lost(0, 9))).is_empty(), "stale");
    let actions = bench.tell(Event::Lost(&lost(5, 9)));
    assert_eq!(actions, [Action::Exit(ExitReason::Lost)]);
    assert!(bench.batch(1, 1, 1).is_empty());
    assert_eq!(bench.core.next_wakeup(), None);
}

#[test]
fn a_new_worker_with_a_taken_number_leaves_and_one_that_obeys_stays() {
    let taken = Leave {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        noted: false,
        taken: true,
    };
    let mut joining = Bench::joining(SequencerConfig::default());
    let actions = joining.tell(Event::Leave(&taken));
    assert_eq!(actions, [Action::Exit(ExitReason::NumberTaken)]);
    let mut joined = Bench::new();
    assert_eq!(joined.tell(Event::Leave(&taken)), []);
}

#[test]
fn a_draining_worker_finishes_what_it_accepted_and_takes_no_more() {
    let mut bench = Bench::new();
    bench.open(1);
    bench.batch(1, 1, 2);
    let started = starts(&bench.order(&[run(1, 1, 1)]));
    let actions = bench.tell(Event::Drain);
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::Beat(beat) if beat.draining))
    );
    // A repeated request is not answered again: a leader repeats it at each heartbeat.
    let again = bench.tell(Event::Drain);
    assert!(!again.iter().any(|it| matches!(it, Action::Beat(_))));
    bench.order(&[run(1, 2, 2)]);
    assert_eq!(bench.core.accepted().0, 2);
    let actions = bench.complete(started[0], &[]);
    assert!(
        !actions.contains(&Action::Exit(ExitReason::Drained)),
        "not yet heard"
    );
    bench.reports = 2;
    let actions = bench.order(&[]);
    let gone = |actions: &[Action]| actions.contains(&Action::Exit(ExitReason::Drained));
    assert!(!gone(&actions), "its leader may not know that it leaves");
    let noted = |leader| Leave {
        noted: true,
        taken: false,
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(leader),
    };
    let actions = bench.tell(Event::Leave(&noted(2)));
    assert!(!gone(&actions), "not a leader it obeys");
    assert!(gone(&bench.tell(Event::Leave(&noted(1)))));
}

#[test]
fn a_draining_worker_does_not_wait_for_ever() {
    let drained = |noted: bool| {
        let mut bench = Bench::new();
        bench.open(1);
        bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
        bench.tell(Event::Closed { session: id(1) });
        bench.tell(Event::Drain);
        if noted {
            bench.reports = 2;
            bench.order(&[]);
            let leave = Leave {
                noted,
                taken: false,
                v: WIRE_VERSION,
                epoch: 1,
                leader: LeaderId(1),
            };
            let actions = bench.tell(Event::Leave(&leave));
            return actions.contains(&Action::Exit(ExitReason::Drained));
        }
        let mut left = false;
        while !left {
            assert!(bench.now < 6_000 * MS, "{}", bench.now);
            let due = bench.core.next_wakeup().expect("it waits for something");
            let wait = due.saturating_sub(bench.now).max(1);
            left = bench
                .after(wait)
                .contains(&Action::Exit(ExitReason::Drained));
        }
        bench.now > 4_000 * MS
    };
    assert!(drained(true), "told, at once");
    assert!(drained(false), "without a leader, after a while");
}

#[test]
fn what_a_leader_was_told_a_later_one_is_told_again() {
    let mut bench = Bench::new();
    let noted = |epoch| Leave {
        noted: true,
        taken: false,
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(epoch),
    };
    // The leader was not told that the worker leaves: its word then means nothing.
    bench.tell(Event::Leave(&noted(1)));
    bench.open(1);
    bench.batch(1, 1, 1);
    let started = starts(&bench.order(&[run(1, 1, 1)]));
    bench.tell(Event::Drain);
    bench.tell(Event::Leave(&noted(1)));
    bench.seal(2, 2);
    bench.complete(started[0], &[]);
    bench.reports = 2;
    bench.epoch = 2;
    let gone = |actions: &[Action]| actions.contains(&Action::Exit(ExitReason::Drained));
    assert!(!gone(&bench.order(&[])), "the first may be dead");
    assert!(gone(&bench.tell(Event::Leave(&noted(2)))));
}

#[test]
fn a_worker_told_to_leave_does_so_when_it_has_no_session() {
    let mut bench = Bench::new();
    let leave = |epoch, leader| Leave {
        noted: false,
        taken: false,
        v: WIRE_VERSION,
        epoch,
        leader: LeaderId(leader),
    };
    let goes = |actions: &[Action]| {
        let drains = |action: &Action| matches!(action, Action::Beat(beat) if beat.draining);
        actions.iter().any(drains)
    };
    // The leader has heard everything, and has granted a session since.
    bench.open(1);
    assert!(!goes(&bench.tell(Event::Leave(&leave(1, 1)))));
    bench.order(&[grant(GrantKind::Close, 1, 0, 0)]);
    assert!(!goes(&bench.tell(Event::Leave(&leave(1, 1)))), "it closes");
    bench.tell(Event::Closed { session: id(1) });
    bench.reports = 2;
    bench.order(&[]);
    for (epoch, leader) in [(0, 1), (1, 2), (2, 1)] {
        let actions = bench.tell(Event::Leave(&leave(epoch, leader)));
        assert!(!goes(&actions), "not a leader it obeys");
    }
    bench.open(2);
    bench.order(&[grant(GrantKind::Close, 2, 0, 0)]);
    bench.tell(Event::Closed { session: id(2) });
    bench.reports = 4;
    bench.order(&[]);
    let actions = bench.tell(Event::Leave(&leave(1, 1)));
    let drains = |action: &Action| matches!(action, Action::Beat(beat) if beat.draining);
    assert!(actions.iter().any(drains));
    let noted = Leave {
        noted: true,
        taken: false,
        ..leave(1, 1)
    };
    let actions = bench.tell(Event::Leave(&noted));
    assert!(actions.contains(&Action::Exit(ExitReason::Drained)));
}
