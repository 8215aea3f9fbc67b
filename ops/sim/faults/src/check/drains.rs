//! Drains: once a leader has said that a worker is drained, it places no session there until it is
//! told that the worker is not; the next leaders know of it; and who has a session there keeps it:
//! no worker is told to leave while it has one.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Drain, Epoch, Grant, GrantKind, Incarnation, InputNumber, Status};

use super::{CheckResult, Violation};
use sim_cluster::NodeId;
use sim_cluster::{Nanos, SECOND};

/// By then a leader has read what was stored, where nothing keeps it from the store.
const READ: Nanos = SECOND;

/// What leaders said of drained workers.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// Workers that a leader was last told to drain.
    asked: BTreeSet<Incarnation>,
    /// By leader, its epoch and worker: the leader's last input when it first said that the worker is
    /// drained.
    said: BTreeMap<(NodeId, Epoch, Incarnation), InputNumber>,
    /// Since when the store has said so.
    stored: BTreeMap<Incarnation, Nanos>,
    /// When each leader said something first.
    began: BTreeMap<(NodeId, Epoch), Nanos>,
    /// Workers that were told to leave.
    dismissed: BTreeSet<Incarnation>,
    /// Nothing keeps a leader from the store.
    pub exact: bool,
    /// Workers that a leader said are drained.
    pub held: BTreeSet<Incarnation>,
}

fn wrong(what: String) -> CheckResult {
    Err(Violation::new("placement", what))
}

impl Drains {
    /// A leader is told to drain a worker, or not to any more. From the latter on anything goes.
    pub(crate) fn asked(&mut self, drain: &Drain) {
        let worker = drain.incarnation;
        if drain.draining {
            self.asked.insert(worker);
            return;
        }
        self.asked.remove(&worker);
        self.stored.remove(&worker);
        self.said.retain(|(_, _, of), _| *of != worker);
    }

    /// A leader says how its cluster is.
    pub(crate) fn said(&mut self, now: Nanos, leader: NodeId, status: &Status) -> CheckResult {
        let began = *self.began.entry((leader, status.epoch)).or_insert(now);
        for worker in &status.workers {
            let of = worker.incarnation;
            if !self.asked.contains(&of) {
                continue;
            }
            if worker.draining {
                let key = (leader, status.epoch, of);
                self.said.entry(key).or_insert(status.input);
                self.held.insert(of);
                continue;
            }
            let stored = self.stored.get(&of);
            let known = stored.map(|since| began.max(*since) + READ);
            if self.exact && known.is_some_and(|known| now >= known) {
                let gpu = worker.gpu;
                return wrong(format!(
                    "worker {gpu} is drained, as is stored, and a leader forgot it"
                ));
            }
        }
        Ok(())
    }

    /// A leader grants something on a worker.
    pub(crate) fn granted(
        &self,
        (leader, epoch): (NodeId, Epoch),
        worker: Incarnation,
        grant: &Grant,
    ) -> CheckResult {
        let said = self.said.get(&(leader, epoch, worker));
        let later = said.is_some_and(|said| grant.input > *said);
        if grant.kind != GrantKind::Open || !later {
            return Ok(());
        }
        let session = grant.session;
        wrong(format!(
            "session {session} was placed on worker {worker}, which is drained"
        ))
    }

    /// What is stored of drained workers. A new leader may write over it before it has read it, for
    /// a moment.
    pub(crate) fn stored(&mut self, now: Nanos, drained: &[Incarnation]) {
        for worker in drained {
            self.stored.entry(*worker).or_insert(now);
        }
    }

    /// The leader that a worker obeys tells it to leave; it has so many sessions.
    pub(crate) fn dismissed(&mut self, worker: Incarnation, sessions: usize) -> CheckResult {
        self.dismissed.insert(worker);
        match sessions {
            0 => Ok(()),
            _ => wrong(format!(
                "worker {worker} was told to leave and has {sessions} sessions"
            )),
        }
    }

    /// Whether some leader has said that a worker is drained, and nobody undid it.
    #[must_use]
    pub(crate) fn holds(&self, worker: Incarnation) -> bool {
        self.said.keys().any(|(_, _, of)| *of == worker)
    }

    /// Workers that left because they were drained and had no sessions.
    #[must_use]
    pub(crate) fn left(&self) -> u64 {
        self.dismissed.len() as u64
    }
}
