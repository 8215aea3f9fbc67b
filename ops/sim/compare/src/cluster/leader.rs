//! The leader: the real core with its queues, a store that always answers, and the thin shell.

use bus_schemas::{ClusterSettings, LeaderId};
use scheduler_leader_core::{
    Action, Config, Event, LeaderNode, Lease, Placement, Profile, StateSnapshot,
};

use super::bus::{self, Bus, Message, Party, Stored};
use super::place::{Place, WORKER, settings};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// The leader's process and its store.
pub(super) struct LeaderShell {
    core: LeaderNode,
    state: StateSnapshot,
    lease: Option<Lease>,
    revision: u64,
    /// Until the store has answered.
    store: Nanos,
    worker: String,
    pub wake: Option<Nanos>,
}

impl LeaderShell {
    pub(super) fn new(scenario: &Scenario, place: &Place) -> Self {
        let cluster = place.subjects.cluster().clone();
        let tenants = place.tenants.iter().cloned();
        Self {
            core: LeaderNode::new(Config::new(cluster), LeaderId(1)),
            state: StateSnapshot {
                settings: ClusterSettings {
                    window_ns: scenario.window,
                    quantum_ns: scenario.quantum,
                    ..ClusterSettings::default()
                },
                tenants: tenants.zip(scenario.tenants.iter().map(settings)).collect(),
                profile: Profile::default(),
                pinned: None,
                placement: Placement::default(),
            },
            lease: None,
            revision: 0,
            store: 2 * scenario.bus,
            worker: format!(".s.w.{}.", WORKER),
            wake: None,
        }
    }

    pub(super) fn start(&mut self, now: Nanos, bus: &mut Bus) {
        self.event(now, Event::Connected, bus);
        let state = self.state.clone();
        self.event(now, Event::State(&state), bus);
    }

    pub(super) fn timer(&mut self, now: Nanos, bus: &mut Bus) {
        self.event(now, Event::Timer, bus);
    }

    pub(super) fn message(&mut self, now: Nanos, message: &Message, bus: &mut Bus) {
        let mut actions = Vec::new();
        let reply = message.reply.as_deref();
        let (subject, bytes) = (&message.subject, &message.bytes);
        self.core.message(now, subject, reply, bytes, &mut actions);
        self.carry_out(now, actions, bus);
    }

    pub(super) fn stored(&mut self, now: Nanos, answer: Stored, bus: &mut Bus) {
        let (lease, revision) = (self.lease, self.revision);
        let event = match answer {
            Stored::Read => Event::LeaseRead { lease, revision },
            Stored::Write => Event::LeaseWritten { revision },
            Stored::Appended { epoch, number } => Event::Recorded { epoch, number },
        };
        self.event(now, event, bus);
    }

    fn event(&mut self, now: Nanos, event: Event<'_>, bus: &mut Bus) {
        let mut actions = Vec::new();
        self.core.handle(now, event, &mut actions);
        self.carry_out(now, actions, bus);
    }

    fn carry_out(&mut self, now: Nanos, actions: Vec<Action>, bus: &mut Bus) {
        for action in actions {
            self.act(now, action, bus);
        }
        self.wake = self.core.deadline();
    }

    fn act(&mut self, now: Nanos, action: Action, bus: &mut Bus) {
        let stored = match action {
            Action::Publish {
                subject,
                reply,
                bytes,
            } => {
                let message = Message {
                    subject,
                    reply,
                    bytes,
                };
                return self.publish(now, message, bus);
            }
            Action::ReadLease => Stored::Read,
            // Nobody else writes it.
            Action::WriteLease { lease, .. } => {
                self.lease = Some(lease);
                self.revision += 1;
                Stored::Write
            }
            Action::Append { epoch, number, .. } => Stored::Appended { epoch, number },
            _ => return,
        };
        bus.later(now + self.store, bus::Event::Stored(stored));
    }

    fn publish(&self, now: Nanos, message: Message, bus: &mut Bus) {
        if let Some(client) = client_of(&message.subject) {
            bus.send(now, Party::Leader, Party::Client(client), message);
        } else if message.subject.contains(&self.worker) {
            bus.send(now, Party::Leader, Party::Worker, message);
        }
    }
}

/// Whose client a subject of a tenant belongs to.
fn client_of(subject: &str) -> Option<usize> {
    let mut tokens = subject.split('.').skip(3);
    let ("t", tenant) = (tokens.next()?, tokens.next()?) else {
        return None;
    };
    tenant.strip_prefix('t')?.parse().ok()
}
