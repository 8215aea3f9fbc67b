//! Targets of tenants, as far as a leader can know them: tenants that certainly have work, and the grants
//! that are then allowed below them.

use bus_schemas::{ClusterSettings, Grant, Tenant, TenantSettings};

use super::{CheckResult, Violation};
use sim_cluster::{MILLI, Nanos};

/// One tick of the order.
const TICK: Nanos = 10 * MILLI;
/// Number of late ticks that are tolerated, because they are made up for.
const LATE: u64 = 2;

/// Targets above a grant, of tenants with work.
#[derive(Debug, Default)]
pub(super) struct Above {
    tightest: Option<u64>,
}

impl Above {
    /// The targets of higher priorities among tenants that have granted work outstanding.
    pub(super) fn of<'t>(priority: u8, working: impl Iterator<Item = &'t TenantSettings>) -> Self {
        let targets = working.filter(|tenant| tenant.slo_ns > 0 && tenant.priority < priority);
        Self {
            tightest: targets.map(|tenant| tenant.slo_ns).min(),
        }
    }

    /// The window that a grant has to fit.
    pub(super) fn window(&self, settings: &ClusterSettings) -> u64 {
        match (self.tightest, settings.slo_window_ns) {
            (None, _) | (_, 0) => settings.window_ns,
            (Some(_), small) => small.min(settings.window_ns),
        }
    }

    /// Checks that a grant was held back long enough if it costs more than the targets above it allow.
    /// `waited` is the time since the tenant's last grant on that worker, if known.
    pub(super) fn judge(
        &self,
        settings: &ClusterSettings,
        tenant: &Tenant,
        grant: &Grant,
        waited: Option<Nanos>,
    ) -> CheckResult {
        let (Some(target), Some(waited)) = (self.tightest, waited) else {
            return Ok(());
        };
        let limit = (target / 2).max(settings.quantum_ns);
        let ticks = u64::from(settings.slo_wait_ticks).saturating_sub(LATE);
        if grant.cost <= limit || waited >= ticks * TICK {
            return Ok(());
        }
        let cost = grant.cost;
        let what = format!(
            "{cost} ns of {tenant} after {waited} ns, ahead of a target that allows {limit}"
        );
        Err(Violation::new("I6", what))
    }
}
