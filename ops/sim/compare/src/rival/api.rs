//! The trait of rivals, and the streams that most of them keep.

use std::collections::VecDeque;

use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// A scheduler of one device.
pub(crate) trait Rival {
    /// Notes that a program called for a launch.
    fn launched(&mut self, now: Nanos, launch: Launch);
    /// Notes that a kernel which began at `began` has ended.
    fn ended(&mut self, _now: Nanos, _launch: &Launch, _began: Nanos) {}
    /// Returns the launch to begin now, if any; the device has room. Never returns a launch of a tenant
    /// with a running one.
    fn next(&mut self, now: Nanos, device: &Device) -> Option<Launch>;
    /// Time at which it may have a launch to begin without another event.
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

/// Launches that were called and have not begun, by tenant, and the tenant in turn.
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

    /// True if an urgent launch was called and has not begun.
    pub(super) fn urgent_waits(&self) -> bool {
        let mut queues = self.queues.iter().zip(&self.urgent);
        queues.any(|(queue, urgent)| *urgent && !queue.is_empty())
    }

    /// The next tenant in turn with a first launch that may begin, as `may` decides.
    pub(super) fn in_turn(&self, device: &Device, may: impl Fn(&Launch) -> bool) -> Option<usize> {
        let count = self.queues.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let mut ready = turns.filter(|tenant| {
            let first = self.queues[*tenant].front();
            first.is_some_and(|first| !device.runs(first.tenant) && may(first))
        });
        ready.next()
    }

    /// Takes a tenant's first launch. The turn goes to the next tenant.
    pub(super) fn take(&mut self, tenant: usize) -> Option<Launch> {
        self.turn = (tenant + 1) % self.queues.len();
        self.queues[tenant].pop_front()
    }
}
