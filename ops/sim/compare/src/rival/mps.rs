//! Free concurrency, as under NVIDIA's Multi-Process Service. Every process has a hardware queue of its
//! own, and each queue's first kernel runs as soon as there is room. If there is room for only one, the
//! queue with the least device time goes first, because the blocks of all queues would have shared the
//! device. A queue that was empty does not catch up.
//!
//! Source: NVIDIA, Multi-Process Service, release documentation (2024). Its published figure is from the
//! evaluation of Strati, Ma, Klimovic: Orion, EuroSys 2024.

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

pub(super) struct Mps {
    streams: Streams,
    gap: Nanos,
    /// Device time of each queue, or the time that it would have had while it was empty.
    had: Vec<Nanos>,
    /// Device time of the queue served last; a newcomer begins there.
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
