//! The leader's meters, updated periodically.

use std::collections::HashMap;
use std::time::Duration;

use bus_schemas::{GpuId, Incarnation, Tenant};
use scheduler_leader_core::Leader as Core;

use telemetry::{TargetReading, Telemetry};

/// Updates the meters.
#[derive(Default)]
pub(super) struct Metering {
    /// Grants and voids already counted, of this term.
    counted: HashMap<Incarnation, (GpuId, u64, u64)>,
    /// Requests already counted of each tenant, and how many of them were within its target.
    requests: HashMap<Tenant, (u64, u64)>,
    /// Lost workers already counted, of this term.
    lost: u64,
    /// True once the term's first grant was seen.
    first_grant: bool,
}

impl Metering {
    /// Begins or ends a term.
    pub(super) fn term(&mut self, telemetry: &Telemetry, core: &Core) {
        for (gpu, _, _) in self.counted.values() {
            telemetry.meters().gpu(*gpu).window(0, 0);
        }
        telemetry.meters().no_targets();
        *self = Self::default();
        let epoch = core.epoch().unwrap_or(0);
        telemetry.meters().leader().epoch(epoch);
    }

    /// True if the term's first grant is still to come.
    pub(super) fn waits(&self) -> bool {
        !self.first_grant
    }

    /// Measures the takeover at the term's first grant; returns its time then.
    pub(super) fn takeover(
        &mut self,
        telemetry: &Telemetry,
        core: &Core,
        now: u64,
    ) -> Option<Duration> {
        let granted = core
            .scheduler()?
            .workers()
            .iter()
            .any(|worker| worker.grants > 0);
        if !granted {
            return None;
        }
        self.first_grant = true;
        let time = Duration::from_nanos(now.saturating_sub(core.noticed_at()?));
        telemetry.meters().leader().takeover(time);
        Some(time)
    }

    /// Counts the changes since the last call.
    pub(super) fn count(&mut self, telemetry: &Telemetry, core: &Core) {
        let (Some(scheduler), Some(recorded)) = (core.scheduler(), core.recorded()) else {
            return;
        };
        let meters = telemetry.meters();
        meters.leader().recorded(scheduler.input(), recorded);
        let lost = core.workers_lost();
        meters.leader().lost(lost.saturating_sub(self.lost));
        self.lost = lost;
        let window = scheduler.settings().window_ns;
        for worker in scheduler.workers() {
            let gpu = meters.gpu(worker.gpu);
            let known = self.counted.entry(worker.incarnation);
            let (_, grants, voids) = known.or_insert((worker.gpu, 0, 0));
            gpu.window(window, worker.outstanding_ns.iter().sum());
            gpu.granted(worker.grants.saturating_sub(*grants));
            gpu.voided(worker.voids.saturating_sub(*voids));
            (*grants, *voids) = (worker.grants, worker.voids);
        }
        self.count_targets(telemetry, core);
    }

    fn count_targets(&mut self, telemetry: &Telemetry, core: &Core) {
        for (tenant, settings, attainment) in core.attainments() {
            if settings.slo_ns == 0 {
                continue;
            }
            let (requests, within) = (attainment.total_requests, attainment.total_within);
            let counted = self.requests.entry(tenant.clone()).or_default();
            // Under another target both counts begin anew.
            if requests < counted.0 {
                *counted = (0, 0);
            }
            let news = TargetReading {
                target_ns: settings.slo_ns,
                p99_ns: attainment.p99_ns,
                requests: requests - counted.0,
                within: within.saturating_sub(counted.1),
            };
            *counted = (requests, within);
            telemetry.meters().target(&tenant, news);
        }
    }
}
