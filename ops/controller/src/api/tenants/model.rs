//! The interface's model of a tenant.

use std::collections::HashMap;

use admin::memory::holdings;
use bus_schemas::{Tenant, TenantStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::settings::TenantSettingsModel;
use crate::cluster::Moment;
use crate::view::TenantRow;

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct TenantModel {
    /// Its name.
    pub(crate) name: String,
    /// The settings.
    settings: TenantSettingsModel,
    /// Open sessions.
    sessions: u64,
    /// Ops queued and not yet granted.
    queued: u64,
    /// Ops granted in this epoch.
    granted: u64,
    /// Performance of its requests; null if no request was done under this leader.
    attainment: Option<AttainmentModel>,
    /// Its memory on all devices together.
    memory: TenantMemoryModel,
}

/// Performance of a tenant's requests in the last minute.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct AttainmentModel {
    /// The target, nanoseconds; 0 means none.
    target_ns: u64,
    /// The 99th percentile, nanoseconds; null if there was no request.
    p99_ns: Option<u64>,
    /// The share of requests within the target; null without a target or without requests.
    attained: Option<f64>,
    /// Number of requests.
    requests: u64,
    /// Number of requests that took no longer than the target.
    within: u64,
    /// Seconds over which the requests are counted.
    counted_s: f64,
}

/// A tenant's memory on all devices together, bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub(crate) struct TenantMemoryModel {
    /// Bytes that its sessions have allocated.
    held: u64,
    /// Charged bytes of these: on a device, and not shared.
    resident: u64,
    /// Bytes of these that are swapped out.
    swapped: u64,
    /// Bytes of these that are saved because several allocations share one copy.
    saved: u64,
    /// Bytes that it may still allocate.
    free: u64,
    /// Maximum bytes that it may hold.
    total: u64,
    /// The part of the last second in which its launches ran, on the busiest device.
    busy: f64,
}

/// Counted figures of all tenants at one moment.
pub(crate) struct Figures {
    status: HashMap<Tenant, TenantStatus>,
    memory: HashMap<Tenant, TenantMemoryModel>,
}

impl Figures {
    /// The figures of a moment.
    pub(crate) fn of(moment: &Moment) -> Self {
        let tenants = moment.status.tenants.iter();
        let status = tenants.map(|tenant| (tenant.tenant.clone(), tenant.clone()));
        let mut memory: HashMap<Tenant, TenantMemoryModel> = HashMap::new();
        let said = moment
            .memory
            .iter()
            .filter_map(|device| device.said.as_ref());
        for (tenant, holding) in said.flat_map(holdings) {
            let sum = memory.entry(tenant).or_default();
            sum.held += holding.held;
            sum.resident += holding.resident;
            sum.swapped += holding.swapped;
            sum.saved += holding.saved;
            sum.free = sum.free.saturating_add(holding.free);
            sum.total = sum.total.saturating_add(holding.total);
            sum.busy = sum.busy.max(f64::from(holding.busy_ppm) / 1e6);
        }
        Self {
            status: status.collect(),
            memory,
        }
    }

    /// A tenant with its figures.
    pub(crate) fn model(&self, row: &TenantRow) -> TenantModel {
        let status = self.status.get(&row.name);
        let count = |of: fn(&TenantStatus) -> u64| status.map_or(0, of);
        TenantModel {
            name: row.name.to_string(),
            settings: (&row.settings).into(),
            sessions: count(|it| it.sessions),
            queued: count(|it| it.queued),
            granted: count(|it| it.granted),
            attainment: status.and_then(attainment),
            memory: self.memory.get(&row.name).cloned().unwrap_or_default(),
        }
    }
}

fn attainment(tenant: &TenantStatus) -> Option<AttainmentModel> {
    let counted = tenant.attainment.as_ref()?;
    let (target, any) = (tenant.settings.slo_ns, counted.requests > 0);
    let share = counted.within as f64 / counted.requests.max(1) as f64;
    Some(AttainmentModel {
        target_ns: target,
        p99_ns: any.then_some(counted.p99_ns),
        attained: (any && target > 0).then_some(share),
        requests: counted.requests,
        within: counted.within,
        counted_s: counted.counted_ns as f64 / 1e9,
    })
}
