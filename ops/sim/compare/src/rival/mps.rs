//! Free concurrency, as under NVIDIA's Multi-Process Service: every process has a hardware queue
//! of its own, and each queue's first kernel runs as soon as there is room. Where there is room
//! for one only, the queue that had least of the device goes first, for the blocks of all of them
//! would have shared it; a queue that was empty catches up with nothing.
//!
//! Source: NVIDIA, Multi-Process Service, release documentation (2024). The figure it is compared
//! with is of the evaluation of Strati, Ma, Klimovic: Orion, EuroSys 2024.

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

pub(super) struct Mps {
    streams: Streams,
    gap: Nanos,
    /// Device time each queue had, or would have had while it was empty.
    had: Vec<Nanos>,
    /// That of the queue served last: whoever comes begins there.
    least: Nanos,
}

impl Mps {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            streams: Streams::new(scenario),
            gap: scenario.gap,
            had: vec![0; scenario.tenants.len()],
            least: 0,
        }
    }
}

impl Rival for Mps {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        let tenant = launch.tenant as usize;
        if self.streams.queues[tenant].is_empty() {
            self.had[tenant] = self.had[tenant].max(self.least);
        }
        self.streams.push(launch);
    }

    fn next(&mut self, _now: Nanos, device: &Device) -> Option<Launch> {
        let queues = self.streams.queues.iter().enumerate();
        let ready = queues.filter(|(_, queue)| {
            let first = queue.front();
            first.is_some_and(|first| !device.runs(first.tenant))
        });
        let (tenant, _) = ready.min_by_key(|(tenant, _)| (self.had[*tenant], *tenant))?;
        let launch = self.streams.take(tenant)?;
        self.least = self.had[tenant].max(self.least);
        self.had[tenant] += launch.kernel.ns + self.gap;
        Some(launch)
    }
}
