//! The metrics of one process, always kept; [`super::instruments`] exports them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bus_schemas::{Epoch, GpuId, Incarnation, InputNumber, Tenant, Usage};
use opentelemetry::KeyValue;

use super::histogram::Histogram;
use super::instruments::Durations;

/// What tenants used: totals that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Launches run.
    pub launches: u64,
    /// SM-nanoseconds.
    pub sm_ns: u64,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// Byte-milliseconds resident.
    pub byte_ms: u64,
}

impl Totals {
    /// Core credits: SMs busy times seconds.
    #[must_use]
    pub fn core_credits(&self) -> f64 {
        self.sm_ns as f64 / 1e9
    }

    /// VRAM credits: GiB resident times seconds.
    #[must_use]
    pub fn vram_credits(&self) -> f64 {
        self.byte_ms as f64 / f64::from(1 << 30) / 1e3
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.launches, other.launches),
            (&mut self.sm_ns, other.sm_ns),
            (&mut self.device_ns, other.device_ns),
            (&mut self.byte_ms, other.byte_ms),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }
}

/// One incarnation's last [`Usage`], by tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct GpuUsage {
    pub(super) gpu: GpuId,
    pub(super) elapsed_ns: u64,
    pub(super) active_ns: u64,
    pub(super) starved_ns: u64,
    pub(super) tenants: BTreeMap<Tenant, Totals>,
}

/// One process's metrics. Recording takes a short lock that nothing else holds for long.
#[derive(Debug, Default)]
pub struct Meters {
    tenants: Mutex<BTreeMap<Tenant, Arc<TenantMeters>>>,
    gpus: Mutex<BTreeMap<GpuId, Arc<GpuMeters>>>,
    usage: Mutex<BTreeMap<Incarnation, GpuUsage>>,
    targets: Mutex<BTreeMap<Tenant, TargetReading>>,
    leader: LeaderMeters,
    durations: Arc<OnceLock<Durations>>,
}

/// A tenant's target and how it is met, as its leader counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetReading {
    /// The target, nanoseconds; 0 where this process does not lead, or there is none.
    pub target_ns: u64,
    /// The 99th percentile of the last minute's requests, nanoseconds.
    pub p99_ns: u64,
    /// Requests counted by this process.
    pub requests: u64,
    /// Of those, such as took no longer than the target.
    pub within: u64,
}

/// Durations of one kind: kept here, and exported where there is an exporter.
#[derive(Debug, Default)]
struct Times(Mutex<Histogram>);

impl Times {
    fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        lock(&self.0).record(nanos);
    }
}

/// The times of one tenant, nanoseconds.
#[derive(Debug)]
pub struct TenantMeters {
    tenant: KeyValue,
    request: Times,
    queue: Times,
    execute: Times,
    durations: Arc<OnceLock<Durations>>,
}

impl TenantMeters {
    /// A request was answered.
    pub fn request(&self, time: Duration) {
        self.request.record(time);
        if let Some(durations) = self.durations.get() {
            durations
                .request
                .record(time.as_secs_f64(), std::slice::from_ref(&self.tenant));
        }
    }

    /// An intent's last op was granted, `time` after it came.
    pub fn queue(&self, time: Duration) {
        self.queue.record(time);
        if let Some(durations) = self.durations.get() {
            durations
                .queue
                .record(time.as_secs_f64(), std::slice::from_ref(&self.tenant));
        }
    }

    /// A slice is done, `time` after its first op started.
    pub fn execute(&self, gpu: GpuId, time: Duration) {
        self.execute.record(time);
        if let Some(durations) = self.durations.get() {
            let attributes = [self.tenant.clone(), gpu_attribute(gpu)];
            durations.execute.record(time.as_secs_f64(), &attributes);
        }
    }

    /// Request times so far.
    #[must_use]
    pub fn requests(&self) -> Histogram {
        lock(&self.request.0).clone()
    }

    /// Queue times so far.
    #[must_use]
    pub fn queues(&self) -> Histogram {
        lock(&self.queue.0).clone()
    }

    /// Execution times so far.
    #[must_use]
    pub fn executions(&self) -> Histogram {
        lock(&self.execute.0).clone()
    }
}

/// One GPU as the leader sees it.
#[derive(Debug, Default)]
pub struct GpuMeters {
    window_ns: AtomicU64,
    outstanding_ns: AtomicU64,
    granted: AtomicU64,
    voids: AtomicU64,
}

impl GpuMeters {
    /// The window in force, and the charged work granted and not done, nanoseconds.
    pub fn window(&self, window_ns: u64, outstanding_ns: u64) {
        self.window_ns.store(window_ns, Relaxed);
        self.outstanding_ns.store(outstanding_ns, Relaxed);
    }

    /// Grants were made.
    pub fn granted(&self, grants: u64) {
        self.granted.fetch_add(grants, Relaxed);
    }

    /// Positions were void.
    pub fn voided(&self, positions: u64) {
        self.voids.fetch_add(positions, Relaxed);
    }

    /// Window, outstanding (nanoseconds), grants and voids.
    #[must_use]
    pub fn read(&self) -> [u64; 4] {
        [
            &self.window_ns,
            &self.outstanding_ns,
            &self.granted,
            &self.voids,
        ]
        .map(|value| value.load(Relaxed))
    }
}

/// What only a leader knows.
#[derive(Debug, Default)]
pub struct LeaderMeters {
    takeover: Times,
    epoch: AtomicU64,
    record_lag: AtomicU64,
    durations: Arc<OnceLock<Durations>>,
}

impl LeaderMeters {
    /// A reign's first grant was made, `time` after the candidate noticed there was no leader.
    pub fn takeover(&self, time: Duration) {
        self.takeover.record(time);
        if let Some(durations) = self.durations.get() {
            durations.takeover.record(time.as_secs_f64(), &[]);
        }
    }

    /// The epoch this process leads; 0 while it does not.
    pub fn epoch(&self, epoch: Epoch) {
        self.epoch.store(epoch, Relaxed);
    }

    /// Inputs applied and inputs recorded.
    pub fn recorded(&self, applied: InputNumber, recorded: InputNumber) {
        self.record_lag
            .store(applied.saturating_sub(recorded), Relaxed);
    }

    /// Takeover times so far.
    #[must_use]
    pub fn takeovers(&self) -> Histogram {
        lock(&self.takeover.0).clone()
    }

    /// Epoch led and record lag.
    #[must_use]
    pub fn read(&self) -> [u64; 2] {
        [&self.epoch, &self.record_lag].map(|value| value.load(Relaxed))
    }
}

/// One tenant's line in a table.
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
    /// What it used, all incarnations heard of.
    pub totals: Totals,
}

impl Meters {
    pub(super) fn new() -> Self {
        let durations = Arc::<OnceLock<Durations>>::default();
        Self {
            leader: LeaderMeters {
                durations: durations.clone(),
                ..LeaderMeters::default()
            },
            durations,
            ..Self::default()
        }
    }

    /// From now on times are exported too.
    pub(super) fn export_durations(&self, durations: Durations) {
        // Set once, by the start of the process's exporter.
        let _ = self.durations.set(durations);
    }

    /// A tenant's meters; a session asks once and keeps them.
    #[must_use]
    pub fn tenant(&self, tenant: &Tenant) -> Arc<TenantMeters> {
        let mut tenants = lock(&self.tenants);
        if let Some(meters) = tenants.get(tenant) {
            return meters.clone();
        }
        let meters = Arc::new(TenantMeters {
            tenant: KeyValue::new("warploom.tenant", tenant.as_str().to_owned()),
            request: Times::default(),
            queue: Times::default(),
            execute: Times::default(),
            durations: self.durations.clone(),
        });
        tenants.insert(tenant.clone(), meters.clone());
        meters
    }

    /// A GPU's meters; a leader asks once and keeps them.
    #[must_use]
    pub fn gpu(&self, gpu: GpuId) -> Arc<GpuMeters> {
        lock(&self.gpus).entry(gpu).or_default().clone()
    }

    /// A tenant's target is met like this, as of now. Requests are added to those counted before.
    pub fn target(&self, tenant: &Tenant, news: TargetReading) {
        let mut targets = lock(&self.targets);
        let reading = targets.entry(tenant.clone()).or_default();
        *reading = TargetReading {
            requests: reading.requests.saturating_add(news.requests),
            within: reading.within.saturating_add(news.within),
            ..news
        };
    }

    /// This process does not lead any more: targets are another's to count.
    pub fn no_targets(&self) {
        for reading in lock(&self.targets).values_mut() {
            (reading.target_ns, reading.p99_ns) = (0, 0);
        }
    }

    pub(super) fn each_target(&self, mut see: impl FnMut(&Tenant, &TargetReading)) {
        let targets = lock(&self.targets);
        targets
            .iter()
            .for_each(|(tenant, reading)| see(tenant, reading));
    }

    /// What only a leader knows.
    #[must_use]
    pub fn leader(&self) -> &LeaderMeters {
        &self.leader
    }

    /// Takes in a worker's usage. Its numbers are totals since its incarnation began, so it may
    /// come any number of times; an older one than was seen is ignored.
    pub fn usage(&self, gpu: GpuId, usage: &Usage) {
        let mut tenants = BTreeMap::<Tenant, Totals>::new();
        for row in &usage.sessions {
            tenants.entry(row.tenant.clone()).or_default().add(&Totals {
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
                tenants,
            };
        }
    }

    /// GPU active and starvation over all incarnations heard of: shares of their wall time.
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

    /// Every tenant known, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<TenantSnapshot> {
        let mut totals = BTreeMap::<Tenant, Totals>::new();
        for usage in lock(&self.usage).values() {
            for (tenant, used) in &usage.tenants {
                totals.entry(tenant.clone()).or_default().add(used);
            }
        }
        for tenant in lock(&self.tenants).keys() {
            totals.entry(tenant.clone()).or_default();
        }
        let snapshot = |(tenant, totals): (Tenant, Totals)| {
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

    pub(super) fn each_gpu(&self, mut see: impl FnMut(GpuId, [u64; 4])) {
        let gpus = lock(&self.gpus);
        gpus.iter()
            .for_each(|(gpu, meters)| see(*gpu, meters.read()));
    }

    pub(super) fn each_usage(&self, see: impl FnMut(&GpuUsage)) {
        lock(&self.usage).values().for_each(see);
    }
}

/// The attribute that names a GPU.
pub(super) fn gpu_attribute(gpu: GpuId) -> KeyValue {
    KeyValue::new("warploom.gpu", i64::from(gpu))
}

/// A counter that was half written when its writer panicked is still a counter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bus_schemas::{SessionId, UsageRow, WIRE_VERSION};

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
        assert_eq!(meters.leader().read(), [2, 5]);
        assert_eq!(meters.leader().takeovers().count(), 1);
    }
}
