//! The interface's model of a tenant, and changes of a tenant.

use std::collections::HashMap;

use admin::memory::holdings;
use bus_schemas::{Allowance, Groups, Tenant, TenantSettings, TenantStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::settings::ChangeModel;
use crate::cluster::Moment;
use crate::problem::Problem;
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

/// The settings of a tenant. 0 means no limit, or the cluster's setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TenantSettingsModel {
    /// 0 (highest) to 4.
    priority: u8,
    /// Share within the priority, 1 to 1000.
    weight: u32,
    /// Maximum device memory on one device, bytes.
    quota: u64,
    /// Maximum number of open sessions.
    sessions: u32,
    /// Maximum charged work granted and not done, nanoseconds.
    outstanding_ns: u64,
    /// Maximum percentage of each device's time.
    cap: u8,
    /// Time within which 99 of 100 requests should complete, nanoseconds.
    slo_ns: u64,
    /// Groups of workers for its sessions; empty means every group that is not exclusive.
    groups: Vec<String>,
    /// Maximum device addresses of its sessions on one device, bytes.
    addresses: u64,
    /// Maximum size of its sessions' module images on one worker, bytes.
    modules: u64,
    /// Maximum of its sessions' staged bytes on one worker.
    staged: u64,
    /// True if the memory of its sessions may be swapped out.
    swap: bool,
    /// True if it is suspended.
    suspended: bool,
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

/// Changes of a tenant; an absent field stays unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TenantChangeModel {
    /// 0 (highest) to 4.
    #[schema(maximum = 4)]
    priority: Option<u8>,
    /// Share within the priority.
    #[schema(minimum = 1, maximum = 1000)]
    weight: Option<u32>,
    /// Device memory per device, bytes; 0 means the device's capacity.
    quota: Option<u64>,
    /// Maximum number of open sessions; 0 means the cluster's setting.
    sessions: Option<u32>,
    /// Charged work granted and not done, nanoseconds; 0 means no bound.
    outstanding_ns: Option<u64>,
    /// Percentage of each device's time; 0 means no cap.
    #[schema(maximum = 100)]
    cap: Option<u8>,
    /// The target for 99 of 100 requests, nanoseconds; 0 means none.
    slo_ns: Option<u64>,
    /// Groups of workers; empty means every group that is not exclusive.
    groups: Option<Vec<String>>,
    /// Device addresses per device, bytes; 0 means the cluster's setting.
    addresses: Option<u64>,
    /// Bytes of module images on a worker; 0 means the cluster's setting.
    modules: Option<u64>,
    /// Staged bytes on a worker; 0 means the cluster's setting.
    staged: Option<u64>,
    /// True to allow swapping of its memory.
    swap: Option<bool>,
    /// True to suspend the tenant.
    suspended: Option<bool>,
}

impl TenantChangeModel {
    /// Applies these changes to settings.
    pub(crate) fn over(self, mut settings: TenantSettings) -> Result<TenantSettings, Problem> {
        let invalid = |what: &str| Err(Problem::invalid(what));
        if self.priority.is_some_and(|priority| priority > 4) {
            return invalid("priority is 0 (highest) to 4");
        }
        if self
            .weight
            .is_some_and(|weight| !(1..=1000).contains(&weight))
        {
            return invalid("weight is 1 to 1000");
        }
        if self.cap.is_some_and(|cap| cap > 100) {
            return invalid("cap is 0 to 100 percent");
        }
        if let Some(names) = self.groups {
            let names = names.iter().map(|name| name.parse::<Tenant>());
            let names = names.collect::<Result<Vec<_>, _>>();
            let names = names.map_err(|error| Problem::invalid(format!("groups: {error}")))?;
            let groups = Groups::new(names);
            let Some(groups) = groups else {
                return invalid("these are too many groups");
            };
            settings.groups = groups;
        }
        let allowance = |bytes: u64| match bytes {
            0 => Allowance::NONE,
            bytes => Allowance::of(bytes),
        };
        let modules = self.modules.map(allowance);
        let staged = self.staged.map(allowance);
        settings.priority = self.priority.unwrap_or(settings.priority);
        settings.weight = self.weight.unwrap_or(settings.weight);
        settings.quota = self.quota.unwrap_or(settings.quota);
        settings.sessions = self.sessions.unwrap_or(settings.sessions);
        settings.outstanding_ns = self.outstanding_ns.unwrap_or(settings.outstanding_ns);
        settings.cap = self.cap.unwrap_or(settings.cap);
        settings.slo_ns = self.slo_ns.unwrap_or(settings.slo_ns);
        settings.addresses = self.addresses.unwrap_or(settings.addresses);
        settings.modules = modules.unwrap_or(settings.modules);
        settings.staged = staged.unwrap_or(settings.staged);
        settings.swap = self.swap.unwrap_or(settings.swap);
        settings.suspended = self.suspended.unwrap_or(settings.suspended);
        Ok(settings)
    }
}

impl From<&TenantSettings> for TenantSettingsModel {
    fn from(settings: &TenantSettings) -> Self {
        let bytes = |allowance: Allowance| match allowance.is_none() {
            true => 0,
            false => allowance.bytes(),
        };
        Self {
            priority: settings.priority,
            weight: settings.weight,
            quota: settings.quota,
            sessions: settings.sessions,
            outstanding_ns: settings.outstanding_ns,
            cap: settings.cap,
            slo_ns: settings.slo_ns,
            groups: settings.groups.names().map(str::to_owned).collect(),
            addresses: settings.addresses,
            modules: bytes(settings.modules),
            staged: bytes(settings.staged),
            swap: settings.swap,
            suspended: settings.suspended,
        }
    }
}

/// Each setting that differs, by its name in the interface.
pub(super) fn differences(before: &TenantSettings, after: &TenantSettings) -> Vec<ChangeModel> {
    let fields = |settings: &TenantSettings| {
        let model = serde_json::to_value(TenantSettingsModel::from(settings));
        let model = model.unwrap_or_default();
        let fields = model.as_object().cloned();
        fields.unwrap_or_default()
    };
    let (before, after) = (fields(before), fields(after));
    let differ = before
        .into_iter()
        .filter(|(key, value)| after.get(key) != Some(value));
    let change = differ.map(|(key, value)| ChangeModel {
        after: after.get(&key).map(ToString::to_string).unwrap_or_default(),
        before: value.to_string(),
        key,
    });
    change.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_and_what_differs_is_told() {
        let before = TenantSettings {
            cap: 40,
            ..TenantSettings::default()
        };
        let change: TenantChangeModel =
            serde_json::from_str(r#"{"priority":0,"groups":["batch"],"modules":1048576}"#).unwrap();
        let after = change.over(before.clone()).unwrap();
        assert_eq!((after.priority, after.cap, after.weight), (0, 40, 1));
        let keys: Vec<_> = differences(&before, &after)
            .into_iter()
            .map(|change| change.key)
            .collect();
        assert_eq!(keys, ["groups", "modules", "priority"]);
        assert!(differences(&after, &after).is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            r#"{"priority":5}"#,
            r#"{"weight":0}"#,
            r#"{"cap":101}"#,
            r#"{"groups":["No Name"]}"#,
        ] {
            let change: TenantChangeModel = serde_json::from_str(bad).unwrap();
            let refused = change.over(TenantSettings::default());
            assert_eq!(refused.unwrap_err().status().as_u16(), 422, "{bad}");
        }
        assert!(serde_json::from_str::<TenantChangeModel>(r#"{"prio":1}"#).is_err());
    }
}
