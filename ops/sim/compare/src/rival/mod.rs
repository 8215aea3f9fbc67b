//! Other schedulers, one file each. All see the same programs and drive the same device; none
//! pays for a bus, and none for its own processor time.

mod mps;
mod native;
mod orion;
mod tgs;
mod time_slicing;
mod xsched;

use std::collections::VecDeque;

use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// Who decides what runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Warploom: the real cores, over a bus.
    Ours,
    /// The order in which launches were called.
    Native,
    /// Contexts take turns.
    TimeSlicing,
    /// Everybody's first kernel, freely.
    Mps,
    /// Rate control of who is not in production.
    Tgs,
    /// By profile and duration.
    Orion,
    /// Launches held back while something more urgent runs.
    XSched,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Native,
        Self::TimeSlicing,
        Self::Mps,
        Self::Tgs,
        Self::Orion,
        Self::XSched,
    ];

    /// Its name in tables, plots and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "warploom",
            Self::Native => "native FIFO",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "MPS-like",
            Self::Tgs => "TGS-like",
            Self::Orion => "Orion-like",
            Self::XSched => "XSched-like",
        }
    }

    /// The model of it; none of ourselves.
    pub(crate) fn rival(self, scenario: &Scenario) -> Option<Box<dyn Rival>> {
        Some(match self {
            Self::Ours => return None,
            Self::Native => Box::new(native::Native::new(scenario)),
            Self::TimeSlicing => Box::new(time_slicing::TimeSlicing::new(scenario)),
            Self::Mps => Box::new(mps::Mps::new(scenario)),
            Self::Tgs => Box::new(tgs::Tgs::new(scenario)),
            Self::Orion => Box::new(orion::Orion::new(scenario)),
            Self::XSched => Box::new(xsched::XSched::new(scenario)),
        })
    }
}

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
struct Streams {
    queues: Vec<VecDeque<Launch>>,
    urgent: Vec<bool>,
    turn: usize,
}

impl Streams {
    fn new(scenario: &Scenario) -> Self {
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

    fn push(&mut self, launch: Launch) {
        self.queues[launch.tenant as usize].push_back(launch);
    }

    fn is_urgent(&self, tenant: u32) -> bool {
        self.urgent[tenant as usize]
    }

    /// Whether something urgent was called and has not begun.
    fn urgent_waits(&self) -> bool {
        let mut queues = self.queues.iter().zip(&self.urgent);
        queues.any(|(queue, urgent)| *urgent && !queue.is_empty())
    }

    /// The next tenant in turn whose first launch may begin, by what `may` says of it.
    fn in_turn(&self, device: &Device, may: impl Fn(&Launch) -> bool) -> Option<usize> {
        let count = self.queues.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let mut ready = turns.filter(|tenant| {
            let first = self.queues[*tenant].front();
            first.is_some_and(|first| !device.runs(first.tenant) && may(first))
        });
        ready.next()
    }

    /// Takes a tenant's first launch; the turn goes to the one behind it.
    fn take(&mut self, tenant: usize) -> Option<Launch> {
        self.turn = (tenant + 1) % self.queues.len();
        self.queues[tenant].pop_front()
    }
}
