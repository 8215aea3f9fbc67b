//! Orion-like: the urgent job's kernels go to the device at once, on a stream of high priority. A
//! best-effort kernel goes if there is no urgent one. It may also go beside one, if one of the two is bound
//! by memory and the other by arithmetic. For that, the best-effort work on the device must stay short: at
//! most 2.5 % of the urgent job's request.
//!
//! Source: Strati, Ma, Klimovic: Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications,
//! EuroSys 2024. On a serial device the rule about profiles never applies.

use super::api::{Rival, Streams};
use crate::device::{Device, Launch};
use crate::scenario::Scenario;
use crate::workload::Kernel;
use sim_cluster::Nanos;

/// Maximum best-effort work on the device, as a fraction of an urgent request.
const DURATION: f64 = 0.025;

pub(super) struct Orion {
    streams: Streams,
    threshold: u64,
}

impl Orion {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let streams = Streams::new(scenario);
        let tenants = scenario.tenants.iter().zip(&streams.urgent);
        let urgent = tenants.filter(|(_, urgent)| **urgent);
        let request = urgent
            .map(|(tenant, _)| tenant.model.alone(scenario.gap))
            .min();
        Self {
            streams,
            threshold: (request.unwrap_or(0) as f64 * DURATION) as u64,
        }
    }

    fn may(&self, launch: &Launch, device: &Device) -> bool {
        let mut urgent = device
            .running()
            .filter(|it| self.streams.is_urgent(it.tenant));
        let Some(beside) = urgent.next() else {
            return true;
        };
        let efforts = device
            .running()
            .filter(|it| !self.streams.is_urgent(it.tenant));
        let under_way: u64 = efforts.map(|it| it.kernel.ns).sum();
        is_memory_bound(&launch.kernel) != is_memory_bound(&beside.kernel)
            && under_way + launch.kernel.ns <= self.threshold
    }
}

fn is_memory_bound(kernel: &Kernel) -> bool {
    kernel.memory > kernel.compute
}

impl Rival for Orion {
    fn launched(&mut self, _now: Nanos, launch: Launch) {
        self.streams.push(launch);
    }

    fn next(&mut self, _now: Nanos, device: &Device) -> Option<Launch> {
        let urgent = |launch: &Launch| self.streams.is_urgent(launch.tenant);
        let effort = |launch: &Launch| !urgent(launch) && self.may(launch, device);
        let first = self.streams.in_turn(device, urgent);
        let tenant = first.or_else(|| self.streams.in_turn(device, effort))?;
        self.streams.take(tenant)
    }
}
