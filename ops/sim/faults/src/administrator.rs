//! An administrator: drains workers and undoes it, as `warploom worker drain` does, and asks again
//! until a leader says that it is so; also later, for a store may forget.

use std::collections::BTreeMap;

use bus_schemas::subject::{Admin, Subjects};
use bus_schemas::{
    Drain, GpuId, Incarnation, Status, StatusRequest, Tenant, WIRE_VERSION, decode, encode,
};

use sim_cluster::{Fact, Io, MILLI, Nanos, Node, NodeInput, SECOND};

/// Between two requests, while something is to become so, and while all is as it should be.
const AGAIN: Nanos = 20 * MILLI;
const WATCH: Nanos = 200 * MILLI;
/// What was so once, and is not any more, is asked for again only after so long: leaders are to know.
const TIMEOUT: Nanos = 2 * SECOND;

/// To drain a worker, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errand {
    /// The worker's device.
    pub gpu: GpuId,
    /// From when on.
    pub at: Nanos,
    /// Until when.
    pub until: Nanos,
}

/// What is wanted of a worker.
#[derive(Debug, Clone, Copy)]
struct Wish {
    gpu: GpuId,
    draining: bool,
    /// When it was so last, since it is wanted.
    right: Option<Nanos>,
}

/// The administrator's process.
pub(crate) struct Administrator {
    subjects: Subjects,
    inbox: String,
    errands: Vec<Errand>,
    /// Workers met while an errand was due.
    drained: BTreeMap<Incarnation, Wish>,
    /// What a leader last said: of each worker its device, and whether it is drained.
    said: BTreeMap<Incarnation, (GpuId, bool)>,
    content: bool,
}

/// Where answers go.
#[must_use]
pub(crate) fn inbox(subjects: &Subjects) -> String {
    format!("{}.administrator", subjects.cluster_inbox())
}

impl Administrator {
    /// With these errands.
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

    /// Whether a worker is as it is wanted. One that is gone is, once another has its device.
    fn is_right(&self, worker: Incarnation, wish: &Wish) -> bool {
        match self.said.get(&worker) {
            Some((_, draining)) => *draining == wish.draining,
            None => self.said.values().any(|(gpu, _)| *gpu == wish.gpu),
        }
    }

    /// When to ask next.
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
                Fact::Finished
            } else {
                Fact::WentOn
            });
        }
    }

    /// Takes in the workers that errands are about, and forgets those that are gone. Who takes the
    /// place of one that was drained is not drained by the same errand.
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
