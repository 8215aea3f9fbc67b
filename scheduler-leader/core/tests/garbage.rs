//! Garbage on every subject: for any message, a leader goes on, without a panic, a lost term or a
//! grant.

use bus_schemas::subject::{Admin, Subjects, ToLeader};
use bus_schemas::{
    Chain, Code, Column, Compilation, Done, DoneReport, DoneTimes, Failure, Grant, GrantKind,
    Incarnation, LeaderId, Outcome, ReportTimes, SealAnswer, SealPage, SealReply, SealedGrant,
    SealedName, SealedSession, SessionFault, SessionId, Tenant, TenantSettings, WIRE_VERSION,
    Window, WorkerBeat, encode, limits,
};
use proptest::prelude::*;
use scheduler_leader_core::{Action, Event, LeaderConfig, LeaderNode, StateSnapshot};

const MS: u64 = 1_000_000;

fn subjects() -> Vec<String> {
    let subjects = Subjects::new(&"lab".parse().unwrap());
    let tenant: Tenant = "chat".parse().unwrap();
    let worker = Incarnation(7);
    vec![
        subjects.to_leader(&tenant, ToLeader::Open),
        subjects.to_leader(&tenant, ToLeader::Close),
        subjects.to_leader(&tenant, ToLeader::Alive),
        subjects.to_leader(&tenant, ToLeader::Intent(SessionId(1))),
        subjects.done(worker),
        subjects.worker_beat(worker),
        subjects.refusal(worker),
        subjects.measured(worker),
        subjects.leader_beat(),
        subjects.admin(Admin::Status),
        subjects.admin(Admin::Hold),
        subjects.admin(Admin::Kill),
        subjects.admin(Admin::Drain),
        subjects.admin(Admin::Sessions),
        seal_inbox(&subjects, worker),
        "wl.v1.lab.s.l.nonsense".into(),
        "elsewhere".into(),
    ]
}

/// The subject for a worker's answers to seals of [`leader`].
fn seal_inbox(subjects: &Subjects, worker: Incarnation) -> String {
    format!(
        "{}.leader.{}.{worker}",
        subjects.cluster_inbox(),
        LeaderId(1)
    )
}

/// A leader in its first term.
fn leader() -> LeaderNode {
    let mut node = LeaderNode::new(LeaderConfig::new("lab".parse().unwrap()), LeaderId(1));
    let state = StateSnapshot {
        tenants: vec![("chat".parse().unwrap(), TenantSettings::default())],
        ..StateSnapshot::default()
    };
    let mut actions = Vec::new();
    node.handle(MS, Event::State(&state), &mut actions);
    node.handle(MS, Event::Connected, &mut actions);
    let (lease, revision) = (None, 0);
    node.handle(MS, Event::LeaseRead { lease, revision }, &mut actions);
    node.handle(MS, Event::LeaseWritten { revision: 1 }, &mut actions);
    assert_eq!(node.leader().epoch(), Some(1));
    node
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_changes_nothing(
        messages in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..120), any::<bool>()),
            1..40,
        ),
    ) {
        let (mut node, mut actions, mut now) = (leader(), Vec::new(), 2 * MS);
        let subjects = subjects();
        for (at, bytes, reply) in messages {
            now += MS;
            let reply = reply.then_some("wl.v1.lab.t.chat.dn.inbox.x");
            node.message(now, &subjects[at.index(subjects.len())], reply, &bytes, &mut actions);
            node.handle(now, Event::Timer, &mut actions);
        }
        prop_assert_eq!(node.leader().epoch(), Some(1));
        let scheduler = node.leader().scheduler().unwrap();
        prop_assert_eq!(scheduler.global(), 0);
        let ended = |action: &Action| matches!(action, Action::TermEnded { .. });
        prop_assert!(!actions.iter().any(ended));
    }

    /// A worker that is not sealed, or reports grants that it never had, changes no order.
    #[test]
    fn reports_of_nobodys_grants_are_ignored(
        epoch in 0..2u64,
        accepted in any::<u64>(),
        first in any::<u64>(),
        rows in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
    ) {
        let (mut node, mut actions) = (leader(), Vec::new());
        let subjects = Subjects::new(&"lab".parse().unwrap());
        let (worker, beat) = (WORKER, beat());
        node.message(2 * MS, &subjects.worker_beat(worker), None, &encode(&beat), &mut actions);
        let reports: Vec<_> = rows.iter().map(|(position, session, received)| {
            report(*position, *session, *received, Outcome::Void)
        }).collect();
        let done = done(epoch, accepted, first, &reports);
        for round in 3..6 {
            node.message(round * MS, &subjects.done(worker), None, &done, &mut actions);
            node.handle(round * MS, Event::Timer, &mut actions);
        }
        prop_assert_eq!(node.leader().epoch(), Some(1));
        prop_assert_eq!(node.leader().scheduler().unwrap().global(), 0);
    }

    /// For any numbers in a worker's seal answer and reports, the leader goes on.
    #[test]
    fn no_number_of_a_seal_answer_ends_a_leader(
        numbers in prop::collection::vec(number(), 1..200),
    ) {
        let mut numbers = numbers.into_iter().cycle();
        play_numbers(|| numbers.next().unwrap());
    }
}

/// Numbers at the edges of what sums hold, and any other.
fn number() -> impl Strategy<Value = u64> {
    let edges = vec![0, 1, 2, 1 << 21, 1 << 31, 1 << 62, (1 << 62) + 1, 1 << 63];
    prop_oneof![
        prop::sample::select(edges),
        Just(u64::MAX),
        Just(u64::MAX - 1),
        any::<u64>()
    ]
}

#[test]
fn a_seal_answer_of_the_highest_numbers_ends_no_leader() {
    play_numbers(|| u64::MAX);
}

/// A worker that reports sessions with shared addresses, or with windows that no leader gives out.
#[test]
fn sessions_whose_addresses_are_not_their_own_are_not_taken_in() {
    let (mut node, mut actions) = (leader(), Vec::new());
    let subjects = Subjects::new(&"lab".parse().unwrap());
    let beats = subjects.worker_beat(WORKER);
    node.message(2 * MS, &beats, None, &encode(&beat()), &mut actions);
    let window = |at: u64, size: u64| Window {
        base: limits::ADDRESS_FIRST + (at << 30),
        size: size << 30,
    };
    let odd = Window {
        base: limits::ADDRESS_FIRST + (8 << 30) + 1,
        size: 1 << 30,
    };
    let windows = [window(0, 2), window(1, 1), window(2, 1), window(3, 0), odd];
    let sessions = (1..).zip(windows).map(|(id, window)| SealedSession {
        session: SessionId(id),
        window,
        ..sealed_session(&mut || 0)
    });
    let sealed = SealReply {
        v: WIRE_VERSION,
        refused: None,
        page: None,
        sealed: Some(SealAnswer {
            sessions: sessions.collect(),
            ..seal_answer(&mut || 0)
        }),
    };
    let inbox = seal_inbox(&subjects, WORKER);
    node.message(4 * MS, &inbox, None, &encode(&sealed), &mut actions);
    let scheduler = node.leader().scheduler().unwrap();
    let mut taken: Vec<_> = scheduler.sessions().map(|session| session.0).collect();
    taken.sort_unstable();
    assert_eq!(taken, [1, 3]);
}

/// Seals a worker with these numbers and reports such numbers: the leader stays, and goes on
/// counting.
fn play_numbers(mut next: impl FnMut() -> u64) {
    let (mut node, mut actions) = (leader(), Vec::new());
    let subjects = Subjects::new(&"lab".parse().unwrap());
    let (inbox, dones) = (seal_inbox(&subjects, WORKER), subjects.done(WORKER));
    let beats = subjects.worker_beat(WORKER);
    node.message(2 * MS, &beats, None, &encode(&beat()), &mut actions);
    let page = SealReply {
        v: WIRE_VERSION,
        sealed: None,
        refused: None,
        page: Some(SealPage {
            epoch: 1,
            leader: LeaderId(1),
            after: 0,
            tail: vec![sealed_grant(GrantKind::Run, &mut next)],
            named: vec![sealed_name(&mut next)],
        }),
    };
    node.message(3 * MS, &inbox, None, &encode(&page), &mut actions);
    let sealed = SealReply {
        page: None,
        sealed: Some(seal_answer(&mut next)),
        ..page
    };
    node.message(4 * MS, &inbox, None, &encode(&sealed), &mut actions);
    for round in 5..12 {
        let outcomes = [
            Outcome::Ran,
            Outcome::Void,
            Outcome::Part,
            Outcome::Closed,
            Outcome::Part,
        ];
        let reports = outcomes.map(|outcome| report(next(), next(), next(), outcome));
        let done = done(1, next(), next(), &reports);
        node.message(round * MS, &dones, None, &done, &mut actions);
        node.handle(round * MS, Event::Timer, &mut actions);
    }
    assert_eq!(node.leader().epoch(), Some(1));
}

fn sealed_grant(kind: GrantKind, next: &mut impl FnMut() -> u64) -> SealedGrant {
    SealedGrant {
        position: next(),
        grant: Grant {
            kind,
            priority: 4,
            global: next(),
            session: SessionId(next()),
            first: next(),
            last: next(),
            cost: next(),
            declared: next(),
            input: next(),
            epoch: next(),
        },
    }
}

fn sealed_name(next: &mut impl FnMut() -> u64) -> SealedName {
    SealedName {
        tenant: "chat".parse().unwrap(),
        session: SessionId(next()),
        ordinal: next(),
    }
}

fn sealed_session(next: &mut impl FnMut() -> u64) -> SealedSession {
    SealedSession {
        tenant: "chat".parse().unwrap(),
        session: SessionId(next()),
        ordinal: next(),
        window: Window {
            base: next(),
            size: next(),
        },
        quota: next(),
        nonce: next(),
        accepted: next(),
        done: next(),
        received: next(),
        closing: next() % 2 == 1,
    }
}

fn seal_answer(next: &mut impl FnMut() -> u64) -> SealAnswer {
    let kinds = [
        GrantKind::Open,
        GrantKind::Run,
        GrantKind::Standing,
        GrantKind::Close,
    ];
    SealAnswer {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(1),
        gpu: 0,
        capacity: next(),
        position: next(),
        chain: Chain::default(),
        global: next(),
        reports: next(),
        sessions: [(); 4].map(|()| sealed_session(next)).to_vec(),
        outstanding: kinds.map(|kind| sealed_grant(kind, next)).to_vec(),
        tail_epoch: next(),
        tail_recorded: next(),
        tail: kinds.map(|kind| sealed_grant(kind, next)).to_vec(),
        ordinals: vec![("chat".parse().unwrap(), next())],
        faults: vec![SessionFault {
            session: SessionId(next()),
            op: next(),
            failure: Failure::new(Code::Quota, ""),
        }],
        named: vec![sealed_name(next)],
        forgotten: Some((next(), next())),
    }
}

const WORKER: Incarnation = Incarnation(7);

fn beat() -> WorkerBeat {
    WorkerBeat {
        draining: true,
        ..WorkerBeat::new(WORKER, 0, u64::MAX)
    }
}

fn report(position: u64, session: u64, received: u64, outcome: Outcome) -> DoneReport {
    DoneReport {
        position,
        session: SessionId(session),
        measured: u64::MAX,
        received,
        outcome,
        declared: 0,
    }
}

fn done(epoch: u64, accepted: u64, first: u64, reports: &[DoneReport]) -> Vec<u8> {
    let (mut packed, mut none) = (Vec::new(), Vec::new());
    // Valid if the position is even, else nonsense.
    let row = ReportTimes {
        ended: accepted,
        ..ReportTimes::default()
    };
    let times = match accepted % 2 {
        0 => DoneTimes {
            clock: epoch,
            rows: vec![row; reports.len()],
            compiled: vec![(reports.len() / 2, Compilation::default()); 3],
        }
        .encode(),
        _ => vec![0xd9; (accepted % 97) as usize],
    };
    encode(&Done {
        v: WIRE_VERSION,
        epoch,
        accepted,
        chain: Chain::default(),
        first,
        reports: Column::pack(reports, &mut packed),
        received: Column::pack(&[], &mut none),
        faults: Column::default(),
        details: "",
        times: &times,
    })
}
