//! An administrator. It drains workers and undoes that, as `warploom worker drain` does, and asks again
//! until a leader confirms it. It also asks later, because a store may forget.

use std::collections::BTreeMap;

use bus_schemas::subject::{Admin, Subjects};
use bus_schemas::{
    Drain, GpuId, Incarnation, Status, StatusRequest, Tenant, WIRE_VERSION, decode, encode,
};

use sim_cluster::{Io, MILLI, Nanos, Node, NodeFact, NodeInput, SECOND};

/// Time between two requests: while a change is pending, and while all is as wanted.
const AGAIN: Nanos = 20 * MILLI;
const WATCH: Nanos = 200 * MILLI;
/// Time before a confirmed drain that was lost is requested again: leaders have to remember it themselves.
const TIMEOUT: Nanos = 2 * SECOND;

/// An errand: drain a worker for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errand {
    /// The worker's device.
    pub gpu: GpuId,
    /// Time at which the drain begins.
    pub at: Nanos,
    /// Time at which the drain ends.
    pub until: Nanos,
}

/// The wanted state of a worker.
#[derive(Debug, Clone, Copy)]
struct Wish {
    gpu: GpuId,
    draining: bool,
    /// Time at which the worker was last in the wanted state; `None` if it was not yet.
    right: Option<Nanos>,
}

/// The administrator's process.
pub(crate) struct Administrator {
    subjects: Subjects,
    inbox: String,
    errands: Vec<Errand>,
    /// Workers met while an errand was due.
    drained: BTreeMap<Incarnation, Wish>,
    /// The last status of a leader: each worker's device, and true if the worker is drained.
    said: BTreeMap<Incarnation, (GpuId, bool)>,
    content: bool,
}

/// The inbox for answers.
#[must_use]
pub(crate) fn inbox(subjects: &Subjects) -> String {
    format!("{}.administrator", subjects.cluster_inbox())
}

impl Administrator {
    /// Makes an administrator with these errands.
    #[must_use]
    pub(crate) fn new(cluster: &Tenant, errands: Vec<Errand>) -> Self {
        let subjects = Subjects::new(cluster);
        Self {
            inbox: inbox(&subjects),
            subjects,
            errands,
            drained: BTreeMap::new(),
            said: BTreeMap::new(),
            content: false,
        }
    }

    fn due(&self, now: Nanos) -> impl Iterator<Item = GpuId> {
        let due = move |errand: &&Errand| (errand.at..errand.until).contains(&now);
        self.errands.iter().filter(due).map(|errand| errand.gpu)
    }

    /// True if a worker is in the wanted state. A worker that is gone is, once another has its device.
    fn is_right(&self, worker: Incarnation, wish: &Wish) -> bool {
        match self.said.get(&worker) {
            Some((_, draining)) => *draining == wish.draining,
            None => self.said.values().any(|(gpu, _)| *gpu == wish.gpu),
        }
    }

    /// Time of the next request.
    fn next(&self, now: Nanos) -> Nanos {
        let busy = !self.content && self.errands.iter().any(|errand| errand.at <= now);
        let every = if busy { AGAIN } else { WATCH };
        let begins = self.errands.iter().map(|errand| errand.at);
        let begins = begins.filter(|at| *at > now).min();
        begins.map_or(now + every, |at| at.min(now + every))
    }

    fn ask(&mut self, io: &mut Io) {
        let now = io.now;
        io.wake = Some(self.next(now));
        let due: Vec<GpuId> = self.due(now).collect();
        for wish in self.drained.values_mut() {
            let draining = due.contains(&wish.gpu);
            if draining != wish.draining {
                (wish.draining, wish.right) = (draining, None);
            }
        }
        let mut asked = false;
        for (worker, wish) in &self.drained {
            let patient = wish.right.is_some_and(|right| now < right + TIMEOUT);
            if self.is_right(*worker, wish) || patient {
                continue;
            }
            let drain = Drain {
                v: WIRE_VERSION,
                incarnation: *worker,
                draining: wish.draining,
            };
            let subject = self.subjects.admin(Admin::Drain);
            io.request(subject, self.inbox.clone(), encode(&drain));
            asked = true;
        }
        if !asked {
            let request = StatusRequest { v: WIRE_VERSION };
            let subject = self.subjects.admin(Admin::Status);
            io.request(subject, self.inbox.clone(), encode(&request));
        }
    }

    fn told(&mut self, io: &mut Io, status: &Status) {
        let now = io.now;
        let workers = status.workers.iter();
        self.said = workers
            .map(|worker| (worker.incarnation, (worker.gpu, worker.draining)))
            .collect();
        self.meet(now);
        let drained = self.drained.iter();
        let right = drained.filter(|(worker, wish)| self.is_right(**worker, wish));
        let right: Vec<_> = right.map(|(worker, _)| *worker).collect();
        for worker in &right {
            let wish = self.drained.get_mut(worker);
            wish.into_iter().for_each(|wish| wish.right = Some(now));
        }
        let over = self.errands.iter().all(|errand| errand.until <= now);
        let settled = self.drained.values().all(|wish| !wish.draining);
        let content = over && settled && right.len() == self.drained.len();
        if content != self.content {
            self.content = content;
            io.fact(if content {
                NodeFact::Finished
            } else {
                NodeFact::WentOn
            });
        }
    }

    /// Adds the workers of due errands, and forgets those that are gone. The successor of a drained worker
    /// is not drained by the same errand.
    fn meet(&mut self, now: Nanos) {
        let due: Vec<GpuId> = self.due(now).collect();
        let said = &self.said;
        self.drained.retain(|worker, wish| {
            let gone = !said.contains_key(worker) && said.values().any(|(gpu, _)| *gpu == wish.gpu);
            due.contains(&wish.gpu) || !gone
        });
        for (worker, (gpu, _)) in said {
            let taken = self.drained.values().any(|wish| wish.gpu == *gpu);
            if due.contains(gpu) && !taken {
                let wish = Wish {
                    gpu: *gpu,
                    draining: true,
                    right: None,
                };
                self.drained.insert(*worker, wish);
            }
        }
    }
}

impl Node for Administrator {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        match input {
            NodeInput::Started => {
                io.subscribe(self.inbox.clone());
                let first = self.errands.iter().map(|errand| errand.at).min();
                io.wake = first.map(|first| first.max(io.now));
            }
            NodeInput::Wake => self.ask(io),
            NodeInput::Message(packet) => {
                if let Ok(status) = decode::<Status>(&packet.bytes) {
                    self.told(io, &status);
                }
            }
            _ => {}
        }
    }

    fn state(&self) -> &'static str {
        "administrator"
    }
}
