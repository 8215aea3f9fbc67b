//! XSched-like launch gating: each queue has at most a few commands on the device. While an urgent queue
//! has commands, no command of another is launched. Commands that are already on the device still run,
//! because the device's own queues know no priority.
//!
//! Source: Shen, Han, Liu, Chen, Chen: XSched: Preemptive Scheduling for Diverse XPUs, OSDI 2025. This is
//! the first level of its hardware model, which every device supports. Commands in flight are bounded by a
//! threshold, taken to be 8 here.

use std::collections::VecDeque;

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

/// Maximum number of a queue's commands on the device.
const IN_FLIGHT: usize = 8;

pub(super) struct XSched {
    streams: Streams,
    /// Launches on the device that have not begun, by tenant.
    launched: Vec<VecDeque<Launch>>,
    /// Number of launches on the device, begun or not.
    in_flight: Vec<usize>,
    turn: usize,
}

impl XSched {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let count = scenario.tenants.len();
        Self {
            streams: Streams::new(scenario),
            launched: vec![VecDeque::new(); count],
            in_flight: vec![0; count],
            turn: 0,
        }
    }

    /// Puts the launches that the gate admits on the device.
    fn open_gates(&mut self) {
        let queues = 0..self.streams.queues.len();
        let urgent = |tenant: usize| self.streams.urgent[tenant];
        let busy = queues
            .clone()
            .any(|tenant| urgent(tenant) && self.in_flight[tenant] > 0)
            || self.streams.urgent_waits();
        for tenant in queues {
            if busy && !self.streams.urgent[tenant] {
                continue;
            }
            while self.in_flight[tenant] < IN_FLIGHT {
                let Some(launch) = self.streams.queues[tenant].pop_front() else {
                    break;
                };
                self.in_flight[tenant] += 1;
                self.launched[tenant].push_back(launch);
            }
        }
    }
}

impl Rival for XSched {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        self.streams.push(launch);
        self.open_gates();
    }

    fn ended(&mut self, _now: Nanos, launch: &Launch, _began: Nanos) {
        self.in_flight[launch.tenant as usize] -= 1;
        self.open_gates();
    }

    fn next(&mut self, _now: Nanos, device: &Device) -> Option<Launch> {
        let count = self.launched.len();
        let mut turns = (0..count).map(|step| (self.turn + step) % count);
        let tenant = turns.find(|tenant| {
            let first = self.launched[*tenant].front();
            first.is_some_and(|first| !device.runs(first.tenant))
        })?;
        self.turn = (tenant + 1) % count;
        self.launched[tenant].pop_front()
    }
}
