//! Garbage on every subject: whatever arrives, a leader goes on, without a panic, a lost term or a grant.

use bus_schemas::subject::{Admin, Subjects, ToLeader};
use bus_schemas::{
    Chain, Column, Done, DoneReport, Incarnation, LeaderId, Outcome, SessionId, Tenant,
    TenantSettings, WIRE_VERSION, WorkerBeat, encode,
};
use proptest::prelude::*;
use scheduler_leader_core::{Action, Config, Event, LeaderNode, StateSnapshot};

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
        format!(
            "{}.leader.{}.{worker}",
            subjects.cluster_inbox(),
            LeaderId(1)
        ),
        "wl.v1.lab.s.l.nonsense".into(),
        "elsewhere".into(),
    ]
}

/// A leader in its first term.
fn leader() -> LeaderNode {
    let mut node = LeaderNode::new(Config::new("lab".parse().unwrap()), LeaderId(1));
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

    /// A worker that is not sealed, or reports what it never was granted, changes no order.
    #[test]
    fn reports_of_nobodys_grants_are_ignored(
        epoch in 0..2u64,
        accepted in any::<u64>(),
        first in any::<u64>(),
        rows in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 0..20),
    ) {
        let (mut node, mut actions) = (leader(), Vec::new());
        let subjects = Subjects::new(&"lab".parse().unwrap());
        let worker = Incarnation(7);
        let beat = WorkerBeat {
            v: WIRE_VERSION,
            incarnation: worker,
            gpu: 0,
            epoch: 0,
            leader: LeaderId(0),
            device: String::new(),
            capacity: u64::MAX,
            draining: true,
            properties: None,
            group: None,
            exclusive: false,
            held: 0,
            images: None,
            weights: None,
        };
        node.message(2 * MS, &subjects.worker_beat(worker), None, &encode(&beat), &mut actions);
        let reports: Vec<_> = rows.iter().map(|(position, session, received)| DoneReport {
            position: *position,
            session: SessionId(*session),
            measured: u64::MAX,
            received: *received,
            outcome: Outcome::Void,
            declared: 0,
        }).collect();
        let (mut packed, mut none) = (Vec::new(), Vec::new());
        let done = Done {
            v: WIRE_VERSION,
            epoch,
            accepted,
            chain: Chain::default(),
            first,
            reports: Column::pack(&reports, &mut packed),
            received: Column::pack(&[], &mut none),
            faults: Column::default(),
            details: "",
        };
        for round in 3..6 {
            node.message(round * MS, &subjects.done(worker), None, &encode(&done), &mut actions);
            node.handle(round * MS, Event::Timer, &mut actions);
        }
        prop_assert_eq!(node.leader().epoch(), Some(1));
        prop_assert_eq!(node.leader().scheduler().unwrap().global(), 0);
    }
}
