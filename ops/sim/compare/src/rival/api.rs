//! The trait of rivals, and the streams that most of them keep.

use std::collections::VecDeque;

use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// A scheduler of one device.
pub(crate) trait Rival {
    /// A program called for a launch.
    fn launched(&mut self, now: Nanos, launch: Launch);
    /// A kernel has ended that was begun at `began`.
    fn ended(&mut self, _now: Nanos, _launch: &Launch, _began: Nanos) {}
    /// The device has room: what begins now, if anything does. Never a kernel of a tenant that
    /// has one running.
    fn next(&mut self, now: Nanos, device: &Device) -> Option<Launch>;
    /// When it may have something to begin although nothing happened.
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

/// Launches called and not begun, by tenant, and whose turn it is.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) queues: Vec<VecDeque<Launch>>,
    pub(super) urgent: Vec<bool>,
    pub(super) turn: usize,
}

impl Streams {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let highest = scenario.tenants.iter().map(|tenant| tenant.priority).min();
        let urgent = |priority: u8| Some(priority) == highest;
        Self {
            queues: scenario.tenants.iter().map(|_| VecDeque::new()).collect(),
            urgent: scenario
                .tenants
                .iter()
                .map(|tenant| urgent(tenant.priority))
                .collect(),
            turn: 0,
        }
    }

    pub(super) fn push(&mut self, launch: Launch) {
        self.queues[launch.tenant as usize].push_back(launch);
    }

    pub(super) fn is_urgent(&self, tenant: u32) -> bool {
        self.urgent[tenant as usize]
    }

    /// Whether something urgent was called and has not begun.
    pub(super) fn urgent_waits(&self) -> bool {
        let mut queues = self.queues.iter().zip(&self.urgent);
        queues.any(|(queue, urgent)| *urgent && !queue.is_empty())
    }

    /// The next tenant in turn whose first launch may begin, by what `may` says of it.
    pub(super) fn in_turn(&self, device: &Device, may: impl Fn(&Launch) -> bool) -> Option<usize> {
        let count = self.queues.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let mut ready = turns.filter(|tenant| {
            let first = self.queues[*tenant].front();
            first.is_some_and(|first| !device.runs(first.tenant) && may(first))
        });
        ready.next()
    }

    /// Takes a tenant's first launch; the turn goes to the one behind it.
    pub(super) fn take(&mut self, tenant: usize) -> Option<Launch> {
        self.turn = (tenant + 1) % self.queues.len();
        self.queues[tenant].pop_front()
    }
}
