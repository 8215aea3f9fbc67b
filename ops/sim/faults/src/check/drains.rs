//! Drains. Once a leader has reported a worker as drained, it places no session there until it is told to
//! undo the drain. The next leaders know of the drain. Sessions on the worker stay: no worker is told to
//! leave while it has one.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Drain, Epoch, Grant, GrantKind, Incarnation, InputNumber, Status};

use super::{CheckResult, Violation};
use sim_cluster::NodeId;
use sim_cluster::{Nanos, SECOND};

/// Time within which a leader has read the stored drains, if it can reach the store.
const READ: Nanos = SECOND;

/// Reports of leaders about drained workers.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    /// Workers that a leader was last told to drain.
    asked: BTreeSet<Incarnation>,
    /// Workers with a drain that was undone.
    undone: BTreeSet<Incarnation>,
    /// By leader, epoch and worker: the leader's last input when it first reported the worker as drained.
    said: BTreeMap<(NodeId, Epoch, Incarnation), InputNumber>,
    /// Time since which the store holds the drain.
    stored: BTreeMap<Incarnation, Nanos>,
    /// Time of each leader's first report.
    began: BTreeMap<(NodeId, Epoch), Nanos>,
    /// Workers that were told to leave.
    dismissed: BTreeSet<Incarnation>,
    /// True if nothing keeps a leader from the store.
    pub exact: bool,
    /// Workers that a leader reported as drained.
    pub held: BTreeSet<Incarnation>,
}

fn wrong(what: String) -> CheckResult {
    Err(Violation::new("placement", what))
}

impl Drains {
    /// Notes that a leader is told to drain a worker, or to undo it. After the latter nothing is checked.
    pub(crate) fn asked(&mut self, drain: &Drain) {
        let worker = drain.incarnation;
        if drain.draining {
            self.asked.insert(worker);
            return;
        }
        self.undone.insert(worker);
        self.asked.remove(&worker);
        self.stored.remove(&worker);
        self.said.retain(|(_, _, of), _| *of != worker);
    }

    /// Checks the cluster's status as reported by a leader.
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

    /// Checks a leader's grant on a worker.
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

    /// Notes the stored drains. A new leader may overwrite them for a moment before it has read them.
    pub(crate) fn stored(&mut self, now: Nanos, drained: &[Incarnation]) {
        for worker in drained {
            self.stored.entry(*worker).or_insert(now);
        }
    }

    /// Checks that a worker has no sessions when the leader that it obeys tells it to leave. Sessions may come
    /// before that message if the drain was undone after it was sent.
    pub(crate) fn dismissed(&mut self, worker: Incarnation, sessions: usize) -> CheckResult {
        self.dismissed.insert(worker);
        match sessions {
            0 => Ok(()),
            _ if self.undone.contains(&worker) => Ok(()),
            _ => wrong(format!(
                "worker {worker} was told to leave and has {sessions} sessions"
            )),
        }
    }

    /// Checks that a worker has no sessions when it leaves because a leader told it to.
    pub(crate) fn leaves(&self, worker: Incarnation, sessions: usize) -> CheckResult {
        match (self.dismissed.contains(&worker), sessions) {
            (true, 0) => Ok(()),
            (told, _) => wrong(format!(
                "worker {worker} leaves with {sessions} sessions, told to: {told}"
            )),
        }
    }

    /// True if a leader has reported a worker as drained, and the drain was not undone.
    #[must_use]
    pub(crate) fn holds(&self, worker: Incarnation) -> bool {
        self.said.keys().any(|(_, _, of)| *of == worker)
    }

    /// Number of workers that left because they were drained and had no sessions.
    #[must_use]
    pub(crate) fn left(&self) -> u64 {
        self.dismissed.len() as u64
    }
}
