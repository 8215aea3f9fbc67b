//! Targets of tenants, as a leader could know them: who certainly has work, and what may then be
//! granted below.

use bus_schemas::{ClusterSettings, Grant, Tenant, TenantSettings};

use super::{CheckResult, Violation};
use sim_cluster::{MILLI, Nanos};

/// One tick of the order.
const TICK: Nanos = 10 * MILLI;
/// Ticks that come late are made up for, by so many.
const LATE: u64 = 2;

/// The targets above one grant whose tenants have work.
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

    /// The window a grant has to fit.
    pub(super) fn window(&self, settings: &ClusterSettings) -> u64 {
        match (self.tightest, settings.slo_window_ns) {
            (None, _) | (_, 0) => settings.window_ns,
            (Some(_), small) => small.min(settings.window_ns),
        }
    }

    /// What costs more than any request could let ahead was set aside for as long as is stated.
    /// `waited` is the time since its session's tenant was last granted anything there, if known.
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
