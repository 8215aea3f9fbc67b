//! Time-slicing: contexts take turns of a fixed length, as processes that share a device without MPS do. A
//! context with nothing to run gives its turn away at once. A context that had nothing and now has work
//! gets the next turn, which begins when the running kernel has ended. That is better for it than is
//! documented, as is the assumed cost of a change of contexts. Kernels are not interrupted: a turn ends
//! with the kernel that is running when its time is up.
//!
//! Source: NVIDIA, Time-Slicing GPUs in Kubernetes, GPU Operator documentation (2024), and the default time
//! slice of `nvidia-smi compute-policy`, about 2 ms.

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use sim_cluster::{MICRO, MILLI, Nanos};

const SLICE: Nanos = 2 * MILLI;
const SWITCH: Nanos = 20 * MICRO;

pub(super) struct TimeSlicing {
    streams: Streams,
    /// The tenant in turn, and the beginning and end of its turn.
    turn: Option<(usize, Nanos, Nanos)>,
    /// A tenant that had nothing to run and now has work; it gets the next turn.
    woken: Option<usize>,
    at: Nanos,
}

impl TimeSlicing {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            streams: Streams::new(scenario),
            turn: None,
            woken: None,
            at: 0,
        }
    }
}

impl Rival for TimeSlicing {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        let tenant = launch.tenant as usize;
        let owner = self.turn.map(|(owner, ..)| owner);
        if self.streams.queues[tenant].is_empty() && owner != Some(tenant) {
            self.woken = Some(tenant);
        }
        self.streams.push(launch);
    }

    fn next(&mut self, now: Nanos, device: &Device) -> Option<Launch> {
        self.at = now;
        // One context at a time, even if the device could run more.
        if device.running().next().is_some() {
            return None;
        }
        let queues = &self.streams.queues;
        let has_work = |tenant: usize| !queues[tenant].is_empty();
        let woken = self.woken.take().filter(|tenant| has_work(*tenant));
        let owner = self
            .turn
            .filter(|(owner, _, until)| woken.is_none() && *until > now && has_work(*owner));
        let (owner, from) = match owner {
            Some((owner, from, _)) => (owner, from),
            None => {
                let next = woken.or_else(|| self.streams.in_turn(device, |_| true))?;
                let same = self.turn.is_none_or(|(owner, ..)| owner == next);
                let from = if same { now } else { now + SWITCH };
                self.turn = Some((next, from, from + SLICE));
                (next, from)
            }
        };
        if from > now {
            return None;
        }
        self.streams.take(owner)
    }

    fn wake(&self) -> Option<Nanos> {
        self.turn
            .map(|(_, from, _)| from)
            .filter(|from| *from > self.at)
    }
}
