//! Clients that ask, a worker's pager, and a device that runs slices on command.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Code, OpNumber, SessionId, Tenant, TenantQuota};
use gpu_worker_core::Pager;
use gpu_worker_core::pager::{MemoryAction, MemoryDecision, MemoryRequested, Need};

pub(crate) const CAPACITY: u64 = 1 << 20;
pub(crate) const QUOTA: u64 = 768 << 10;
pub(crate) const PAGE: u64 = 4_096;
pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn tenant(name: &str) -> Tenant {
    name.parse().expect("a name")
}

/// A session of a client that asks, and its worker's device, which runs slices on command.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) answered: u64,
    pub(crate) held: u64,
    pub(crate) ceiling: u64,
    pub(crate) op: OpNumber,
    pub(crate) next_address: u64,
    pub(crate) live: VecDeque<(u64, u64)>,
    /// Ops that it sent and the pager has not admitted.
    pub(crate) sent: VecDeque<(OpNumber, Need)>,
    /// Ops that the pager has admitted and the device has not run.
    pub(crate) admitted: VecDeque<OpNumber>,
    /// Bytes that it allocates as soon as it may.
    pub(crate) wants: u64,
    /// The newest recall received.
    pub(crate) recall: u64,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) pager: Pager,
    pub(crate) sessions: BTreeMap<u64, Session>,
    /// Answers that clients have not looked at.
    pub(crate) answers: BTreeMap<u64, Result<u64, Code>>,
    /// Recalls on their way, if they take time: number and sending time, by session.
    pub(crate) on_the_way: Option<BTreeMap<u64, (u64, u64)>>,
}

impl World {
    pub(crate) fn new(owners: &[&str]) -> Self {
        let mut world = Self {
            now: 0,
            pager: Pager::new(CAPACITY),
            sessions: BTreeMap::new(),
            answers: BTreeMap::new(),
            on_the_way: None,
        };
        for (id, owner) in (1..).zip(owners) {
            world.pager.open(0, SessionId(id), &tenant(owner), QUOTA);
            world.sessions.insert(id, Session::default());
        }
        world
    }

    pub(crate) fn session(&mut self, id: u64) -> &mut Session {
        self.sessions.get_mut(&id).expect("a session")
    }

    /// A leader sets the quotas of tenants.
    pub(crate) fn set_quotas(&mut self, quotas: &[(&str, u64)]) {
        let quotas = quotas.iter().map(|(name, quota)| TenantQuota {
            tenant: tenant(name),
            quota: *quota,
        });
        let mut actions = Vec::new();
        self.pager.set_quotas(self.now, quotas, &mut actions);
        self.carry_out(actions);
    }

    /// Sends a request and returns its immediate outcome. Clients with memory to give back answer recalls.
    pub(crate) fn request(
        &mut self,
        id: u64,
        least: u64,
        wanted: u64,
    ) -> Option<Result<u64, Code>> {
        self.ask(id, least, wanted);
        self.answers.remove(&id)
    }

    pub(crate) fn ask(&mut self, id: u64, least: u64, wanted: u64) {
        let session = self.session(id);
        session.ceiling = session.held;
        self.send(id, least, wanted);
    }

    /// Asks ahead of need: the session goes on within its commitment.
    pub(crate) fn ahead(&mut self, id: u64, wanted: u64) -> Option<Result<u64, Code>> {
        let ceiling = self.session(id).ceiling;
        self.send(id, ceiling, wanted);
        self.answers.remove(&id)
    }

    fn send(&mut self, id: u64, least: u64, wanted: u64) {
        let session = self.session(id);
        session.number += 1;
        let requested = MemoryRequested {
            session: SessionId(id),
            number: session.number,
            held: session.ceiling,
            after: session.op,
            wanted,
            least,
            recall: session.recall,
        };
        let mut actions = Vec::new();
        self.pager.request(self.now, requested, &mut actions);
        self.carry_out(actions);
    }

    pub(crate) fn carry_out(&mut self, actions: Vec<MemoryAction>) {
        let mut recalled = Vec::new();
        for action in actions {
            match action {
                MemoryAction::Recall { session, number } => recalled.push((session.0, number)),
                MemoryAction::Answer {
                    session,
                    number,
                    committed,
                    refused,
                    ..
                } => {
                    let known = self.session(session.0);
                    assert_eq!(number, known.number);
                    assert!(committed >= known.held, "less than it holds");
                    (known.ceiling, known.answered) = (committed, number);
                    let wants = std::mem::take(&mut known.wants);
                    if refused.is_none() && wants > 0 {
                        self.allocate(session.0, wants);
                    }
                    let answer = refused.map_or(Ok(committed), |it| Err(it.code));
                    self.answers.insert(session.0, answer);
                }
            }
        }
        for (other, number) in recalled {
            assert!(!self.waits(other), "it has said what it holds");
            match &mut self.on_the_way {
                Some(recalls) => {
                    let sent = recalls.get(&other).map_or(self.now, |(_, at)| *at);
                    recalls.insert(other, (number, sent));
                }
                None => self.obey(other, number),
            }
        }
    }

    pub(crate) fn obey(&mut self, id: u64, number: u64) {
        self.session(id).recall = number;
        // The op goes behind the answer that it waits for.
        if !self.waits(id) {
            let held = self.session(id).held;
            let earlier = self.answers.remove(&id);
            self.ask(id, held, held);
            self.answers.remove(&id);
            self.answers.extend(earlier.map(|answer| (id, answer)));
        }
    }

    /// Delivers a recall that is on its way.
    pub(crate) fn deliver(&mut self, id: u64) {
        let recalls = self.on_the_way.as_mut();
        if let Some((number, _)) = recalls.and_then(|it| it.remove(&id)) {
            self.obey(id, number);
        }
    }

    /// True if a session's request is not answered.
    pub(crate) fn waits(&self, id: u64) -> bool {
        self.sessions
            .get(&id)
            .is_some_and(|session| session.number > session.answered)
    }

    pub(crate) fn settle(&mut self, id: u64) -> Option<Result<u64, Code>> {
        let mut actions = Vec::new();
        self.pager.settle(self.now, &mut actions);
        self.carry_out(actions);
        self.answers.remove(&id)
    }

    pub(crate) fn allocate(&mut self, id: u64, bytes: u64) {
        let session = self.session(id);
        session.held += bytes;
        assert!(session.held <= session.ceiling);
        session.op += 1;
        session.next_address += bytes;
        let (op, address) = (session.op, session.next_address);
        session.live.push_back((address, bytes));
        let need = Need::Alloc { op, address, bytes };
        session.sent.push_back((op, need));
    }

    pub(crate) fn free(&mut self, id: u64) {
        let session = self.session(id);
        let Some((address, bytes)) = session.live.pop_front() else {
            return;
        };
        session.held -= bytes;
        session.op += 1;
        let op = session.op;
        session.sent.push_back((op, Need::Free { address }));
    }

    /// The pager admits a session's next op, which needs no more than the commitment.
    pub(crate) fn admit(&mut self, id: u64) {
        let session = self.session(id);
        if let Some((op, need)) = session.sent.pop_front() {
            session.admitted.push_back(op);
            let decision = self.pager.admit(op, SessionId(id), &[need]);
            assert_eq!(decision, MemoryDecision::Fits, "committed");
        }
    }

    /// The device runs a session's next op.
    pub(crate) fn run(&mut self, id: u64) {
        if let Some(op) = self.session(id).admitted.pop_front() {
            self.pager
                .completed(self.now, (op, op), SessionId(id), 0, false);
        }
    }

    pub(crate) fn run_all(&mut self, id: u64) {
        while !self.session(id).sent.is_empty() || !self.session(id).admitted.is_empty() {
            self.admit(id);
            self.run(id);
        }
    }
}
