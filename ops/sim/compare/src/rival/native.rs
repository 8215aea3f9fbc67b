//! FIFO of all streams: a device that is shared without any scheduler. Launches begin in the order in which
//! they were called, across all programs.
//!
//! Source: Amert, Otterness, Yang, Anderson, Smith: GPU Scheduling on the NVIDIA TX2: Hidden Details
//! Revealed, RTSS 2017 (one queue of kernels for the execution engine, served in order).

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::Nanos;

pub(super) struct Native {
    streams: Streams,
}

impl Native {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            streams: Streams::new(scenario),
        }
    }
}

impl Rival for Native {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        self.streams.push(launch);
    }

    fn next(&mut self, _now: Nanos, device: &Device) -> Option<Launch> {
        let firsts = self.streams.queues.iter().filter_map(|queue| queue.front());
        let first = firsts.min_by_key(|launch| (launch.ready, launch.tenant))?;
        // In order: a launch that cannot begin yet holds up the later ones.
        let tenant = (!device.runs(first.tenant)).then_some(first.tenant)?;
        self.streams.take(tenant as usize)
    }
}
