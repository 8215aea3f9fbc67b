//! The metrics of one process, which are always kept; `instruments` exports them.

mod controller;
mod hardware;
mod leader;
mod shared;
mod tenant;
mod times;
mod tracer;
mod usage;

pub use controller::{
    ClusterReading, ControllerMeters, Price, TenantMemoryReading, TenantReading, Verified,
};
pub use leader::{GpuMeters, LeaderMeters};
pub use shared::DeviceIdentity;
pub use tenant::{QueueAge, TenantMeters};
pub use tracer::{Exemplar, TracerMeters, Untraced};
pub use usage::{MemoryReading, TargetReading, UsageTotals};

pub(crate) use hardware::Hardware;
pub(crate) use shared::{Holder, Share, SharedDevice};
pub(crate) use tenant::{gpu_attribute, tenant_attribute};
pub(crate) use times::{Durations, boundaries};
pub(crate) use usage::GpuUsage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use bus_schemas::{
    ClientProcess, GpuId, Incarnation, MoveTotals, SessionId, StoreStatus, Tenant, Usage,
};

use crate::histogram::Histogram;
use times::lock;

/// One process's metrics. Recording takes a short lock that nothing else holds for long.
#[derive(Debug, Default)]
pub struct Meters {
    tenants: Mutex<BTreeMap<Tenant, Arc<TenantMeters>>>,
    gpus: Mutex<BTreeMap<GpuId, Arc<GpuMeters>>>,
    usage: Mutex<BTreeMap<Incarnation, GpuUsage>>,
    targets: Mutex<BTreeMap<Tenant, TargetReading>>,
    memory: Mutex<BTreeMap<GpuId, BTreeMap<Tenant, MemoryReading>>>,
    moves: Mutex<BTreeMap<GpuId, BTreeMap<Tenant, MoveTotals>>>,
    stores: Mutex<Vec<StoreStatus>>,
    leader: LeaderMeters,
    controller: ControllerMeters,
    tracer: TracerMeters,
    /// Whole devices.
    hardware: Mutex<BTreeMap<GpuId, Hardware>>,
    /// Devices by holder, if they are exported under NVIDIA's names.
    shared: OnceLock<Mutex<BTreeMap<GpuId, SharedDevice>>>,
    durations: Arc<OnceLock<Durations>>,
}

/// One tenant's row in a table.
#[derive(Debug, Clone)]
pub struct TenantSnapshot {
    /// The tenant.
    pub tenant: Tenant,
    /// Request times, nanoseconds.
    pub requests: Histogram,
    /// Queue times, nanoseconds.
    pub queues: Histogram,
    /// Execution times, nanoseconds.
    pub executions: Histogram,
    /// Usage of the tenant over all known incarnations.
    pub totals: UsageTotals,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let durations = Arc::<OnceLock<Durations>>::default();
        Self {
            leader: LeaderMeters::new(durations.clone()),
            controller: ControllerMeters::new(durations.clone()),
            tracer: TracerMeters::new(durations.clone()),
            durations,
            ..Self::default()
        }
    }

    /// Exports times too from now on.
    pub(crate) fn export_durations(&self, durations: Durations) {
        // Set once, when the process's exporter starts.
        let _ = self.durations.set(durations);
    }

    /// Returns a tenant's meters; a session asks once and keeps them.
    #[must_use]
    pub fn tenant(&self, tenant: &Tenant) -> Arc<TenantMeters> {
        let mut tenants = lock(&self.tenants);
        if let Some(meters) = tenants.get(tenant) {
            return meters.clone();
        }
        let meters = Arc::new(TenantMeters::new(tenant, self.durations.clone()));
        tenants.insert(tenant.clone(), meters.clone());
        meters
    }

    /// Returns a GPU's meters; a leader asks once and keeps them.
    #[must_use]
    pub fn gpu(&self, gpu: GpuId) -> Arc<GpuMeters> {
        lock(&self.gpus).entry(gpu).or_default().clone()
    }

    /// Sets how a tenant's target is met now. Requests are added to those counted before.
    pub fn target(&self, tenant: &Tenant, news: TargetReading) {
        let mut targets = lock(&self.targets);
        let reading = targets.entry(tenant.clone()).or_default();
        *reading = TargetReading {
            requests: reading.requests.saturating_add(news.requests),
            within: reading.within.saturating_add(news.within),
            ..news
        };
    }

    /// Notes that this process does not lead any more: another one counts the targets.
    pub fn no_targets(&self) {
        for reading in lock(&self.targets).values_mut() {
            (reading.target_ns, reading.p99_ns) = (0, 0);
        }
    }

    /// Sets the state of the streams and buckets in the broker; empty if this process does not
    /// lead.
    pub fn stores(&self, stores: &[StoreStatus]) {
        *lock(&self.stores) = stores.to_vec();
    }

    pub(crate) fn each_store(&self, see: impl FnMut(&StoreStatus)) {
        lock(&self.stores).iter().for_each(see);
    }

    pub(crate) fn each_target(&self, mut see: impl FnMut(&Tenant, &TargetReading)) {
        let targets = lock(&self.targets);
        targets
            .iter()
            .for_each(|(tenant, reading)| see(tenant, reading));
    }

    /// Returns the measurements of a leader.
    #[must_use]
    pub fn leader(&self) -> &LeaderMeters {
        &self.leader
    }

    /// Returns the measurements of a controller.
    #[must_use]
    pub fn controller(&self) -> &ControllerMeters {
        &self.controller
    }

    /// Returns the measurements of a tracer.
    #[must_use]
    pub fn tracer(&self) -> &TracerMeters {
        &self.tracer
    }

    pub(crate) fn each_tenant(&self, see: impl FnMut(&Arc<TenantMeters>)) {
        lock(&self.tenants).values().for_each(see);
    }

    /// Takes in a device's usage, with its identity.
    pub fn device(&self, identity: &DeviceIdentity, usage: &Usage) {
        let mut devices = lock(&self.hardware);
        devices
            .entry(identity.gpu)
            .or_default()
            .take(identity, usage);
    }

    pub(crate) fn each_hardware(&self, see: impl FnMut(&Hardware)) {
        lock(&self.hardware).values().for_each(see);
    }

    /// Keeps devices by holder from now on.
    pub(crate) fn share_devices(&self) {
        let _ = self.shared.set(Mutex::default());
    }

    /// True if devices are kept by holder; else [`Meters::shared_device`] need not be called.
    #[must_use]
    pub fn shares_devices(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Takes in a device's usage, with its identity and the client processes of its sessions.
    pub fn shared_device(
        &self,
        identity: &DeviceIdentity,
        usage: &Usage,
        process: impl Fn(SessionId) -> Option<ClientProcess>,
    ) {
        if let Some(shared) = self.shared.get() {
            let mut shared = lock(shared);
            let device = shared.entry(identity.gpu).or_default();
            device.take(identity, usage, process);
        }
    }

    pub(crate) fn each_shared(&self, see: impl FnMut(&SharedDevice)) {
        if let Some(shared) = self.shared.get() {
            lock(shared).values().for_each(see);
        }
    }

    /// Takes in a worker's usage. The numbers are totals since its incarnation began, so the same
    /// usage may be taken in repeatedly. A usage older than the last one is ignored.
    pub fn usage(&self, gpu: GpuId, usage: &Usage) {
        let mut tenants = BTreeMap::<Tenant, UsageTotals>::new();
        for row in &usage.sessions {
            tenants
                .entry(row.tenant.clone())
                .or_default()
                .add(&UsageTotals {
                    launches: row.launches,
                    sm_ns: row.sm_ns,
                    device_ns: row.device_ns,
                    byte_ms: row.byte_ms,
                });
        }
        let mut all = lock(&self.usage);
        let entry = all.entry(usage.incarnation).or_default();
        if usage.elapsed_ns >= entry.elapsed_ns {
            *entry = GpuUsage {
                gpu,
                elapsed_ns: usage.elapsed_ns,
                active_ns: usage.active_ns,
                starved_ns: usage.starved_ns,
                sm_ns: usage.sm_ns,
                saved: usage.saved,
                tenants,
            };
        }
    }

    /// Sets the current memory of the tenants that have sessions on a worker's device.
    pub fn memory(&self, gpu: GpuId, tenants: BTreeMap<Tenant, MemoryReading>) {
        lock(&self.memory).insert(gpu, tenants);
    }

    /// Sets the moves of tenants' memory on a worker's device since the worker's start.
    pub fn moves(&self, gpu: GpuId, tenants: BTreeMap<Tenant, MoveTotals>) {
        lock(&self.moves).insert(gpu, tenants);
    }

    pub(crate) fn each_moves(&self, mut see: impl FnMut(&Tenant, GpuId, &MoveTotals)) {
        for (gpu, tenants) in &*lock(&self.moves) {
            for (tenant, moves) in tenants {
                see(tenant, *gpu, moves);
            }
        }
    }

    pub(crate) fn each_memory(&self, mut see: impl FnMut(&Tenant, GpuId, MemoryReading)) {
        for (gpu, tenants) in &*lock(&self.memory) {
            for (tenant, reading) in tenants {
                see(tenant, *gpu, *reading);
            }
        }
    }

    /// Returns GPU active and starvation over all known incarnations, as shares of their wall time.
    #[must_use]
    pub fn shares(&self) -> (f64, f64) {
        let (mut elapsed, mut active, mut starved) = (0.0, 0.0, 0.0);
        for usage in lock(&self.usage).values() {
            elapsed += usage.elapsed_ns as f64;
            active += usage.active_ns as f64;
            starved += usage.starved_ns as f64;
        }
        if elapsed == 0.0 {
            return (0.0, 0.0);
        }
        (active / elapsed, starved / elapsed)
    }

    /// Returns all known tenants by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantSnapshot> {
        let mut totals = BTreeMap::<Tenant, UsageTotals>::new();
        for usage in lock(&self.usage).values() {
            for (tenant, used) in &usage.tenants {
                totals.entry(tenant.clone()).or_default().add(used);
            }
        }
        for tenant in lock(&self.tenants).keys() {
            totals.entry(tenant.clone()).or_default();
        }
        let snapshot = |(tenant, totals): (Tenant, UsageTotals)| {
            let meters = self.tenant(&tenant);
            TenantSnapshot {
                requests: meters.requests(),
                queues: meters.queues(),
                executions: meters.executions(),
                tenant,
                totals,
            }
        };
        totals.into_iter().map(snapshot).collect()
    }

    pub(crate) fn each_gpu(&self, mut see: impl FnMut(GpuId, [u64; 4])) {
        let gpus = lock(&self.gpus);
        gpus.iter()
            .for_each(|(gpu, meters)| see(*gpu, meters.read()));
    }

    pub(crate) fn each_usage(&self, see: impl FnMut(&GpuUsage)) {
        lock(&self.usage).values().for_each(see);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bus_schemas::{UsageRow, WIRE_VERSION};

    use super::*;

    fn usage(incarnation: u64, elapsed_ns: u64, rows: &[(&str, u64)]) -> Usage {
        let row = |(index, (tenant, n)): (usize, &(&str, u64))| UsageRow {
            tenant: tenant.parse().expect("a name"),
            session: SessionId(index as u64),
            launches: *n,
            sm_ns: n * 1_000_000_000,
            device_ns: n * 1_000,
            byte_ms: n << 30,
            resident: 0,
        };
        Usage {
            v: WIRE_VERSION,
            incarnation: Incarnation(incarnation),
            sms: 4,
            elapsed_ns,
            active_ns: elapsed_ns / 2,
            starved_ns: elapsed_ns / 4,
            sm_ns: 0,
            saved: 0,
            sessions: rows.iter().enumerate().map(row).collect(),
        }
    }

    #[test]
    fn usage_is_absolute_and_adds_up_over_sessions_and_incarnations() {
        let meters = Meters::new();
        let newer = usage(1, 100, &[("a", 5), ("b", 1), ("a", 2)]);
        meters.usage(0, &newer);
        meters.usage(0, &newer);
        meters.usage(0, &usage(1, 50, &[("a", 1)]));
        meters.usage(1, &usage(2, 300, &[("a", 3)]));
        let tenants = meters.tenants();
        let launches: Vec<_> = tenants.iter().map(|it| it.totals.launches).collect();
        assert_eq!(launches, [10, 1]);
        assert_eq!(tenants[0].totals.core_credits(), 10.0);
        assert!((tenants[0].totals.vram_credits() - 0.01).abs() < 1e-12);
        assert_eq!(meters.shares(), (0.5, 0.25));
    }

    #[test]
    fn times_are_kept_by_tenant() {
        let meters = Meters::new();
        let name: Tenant = "chat".parse().expect("a name");
        let chat = meters.tenant(&name);
        chat.request(Duration::from_millis(3));
        meters.tenant(&name).queue(Duration::from_micros(7));
        chat.execute(0, Duration::from_micros(70));
        let snapshot = &meters.tenants()[0];
        assert_eq!(snapshot.requests.max(), 3_000_000);
        assert_eq!(snapshot.queues.max(), 7_000);
        assert_eq!(snapshot.executions.max(), 70_000);
        meters.gpu(3).window(10, 4);
        meters.gpu(3).granted(2);
        meters.gpu(3).voided(1);
        assert_eq!(meters.gpu(3).read(), [10, 4, 2, 1]);
        meters.leader().recorded(9, 4);
        meters.leader().epoch(2);
        meters.leader().takeover(Duration::from_millis(5));
        meters.leader().lost(1);
        assert_eq!(meters.leader().read(), [2, 5, 1]);
        assert_eq!(meters.leader().takeovers().count(), 1);
    }
}
