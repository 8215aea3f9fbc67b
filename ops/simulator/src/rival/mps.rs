//! Free concurrency, as under NVIDIA's Multi-Process Service: every process has a hardware queue
//! of its own, and each queue's first kernel runs as soon as there is room. Where there is room
//! for one only, the queues take turns.
//!
//! Source: NVIDIA, Multi-Process Service, release documentation (2024). The figure it is compared
//! with is of the evaluation of Strati, Ma, Klimovic: Orion, EuroSys 2024.

use super::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use crate::time::Nanos;

pub(super) struct Mps {
    streams: Streams,
}

impl Mps {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            streams: Streams::new(scenario),
        }
    }
}

impl Rival for Mps {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        self.streams.push(launch);
    }

    fn next(&mut self, _now: Nanos, device: &Device) -> Option<Launch> {
        let tenant = self.streams.in_turn(device, |_| true)?;
        self.streams.take(tenant)
    }
}
