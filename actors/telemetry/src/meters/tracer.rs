//! A tracer's measurements: waits by cause, idle time, and the durations of requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bus_schemas::{GpuId, SpanId, Tenant, TraceId};

use super::tenant_attribute;
use super::times::{Durations, boundaries, lock};

/// Maximum number of series of waits that name the tenant behind a wait.
const BY_TENANT: usize = 1_024;
/// Maximum number of series of waits of named tenants.
const WAITS: usize = 1_900;
/// Maximum number of exemplars.
const EXEMPLARS: usize = 32_768;
/// Stands for tenants beyond the bounds. No tenant has such a name.
const OTHER: &str = "_other";

/// Tenant, cause, and the tenant behind the wait; that one is empty if there is none.
type Wait = (String, &'static str, String);

/// A request that stands for those of its bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// Its trace.
    pub trace: TraceId,
    /// Its span.
    pub span: SpanId,
    /// Its end, nanoseconds since 1970.
    pub at: u64,
}

/// The reason why a request is in no trace, or a part of it is in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untraced {
    /// Its program did not report it: it had too many.
    Client,
    /// The record has nothing of it, or its session is another tenant's.
    Unknown,
    /// Its tenant had more than its share of those under way.
    Crowded,
    /// The collector refused it, or took none for a long time.
    Refused,
    /// The broker dropped its report, by the bounds of the stream.
    Expired,
}

impl Untraced {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Client,
        Self::Unknown,
        Self::Crowded,
        Self::Refused,
        Self::Expired,
    ];

    /// Returns its name in attributes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Unknown => "unknown",
            Self::Crowded => "crowded",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}

/// Measurements that only a tracer makes.
#[derive(Debug, Default)]
pub struct TracerMeters {
    /// Nanoseconds.
    waits: Mutex<Waits>,
    idle: Mutex<BTreeMap<(GpuId, &'static str), u64>>,
    /// By reason, in the order of [`Untraced::ALL`].
    untraced: [AtomicU64; Untraced::ALL.len()],
    /// By tenant and number of the bucket, each with its duration in seconds.
    exemplars: Mutex<BTreeMap<(Tenant, usize), (f64, Exemplar)>>,
    durations: Arc<OnceLock<Durations>>,
}

#[derive(Debug, Default)]
struct Waits {
    sums: BTreeMap<Wait, u64>,
    /// Number of series that name the tenant behind a wait.
    by_tenant: usize,
}

impl Waits {
    /// Adds a wait to its series, or to one that stands for several. The sum of all stays exact.
    fn add(&mut self, tenant: &str, cause: &'static str, by: &str, ns: u64) {
        let mut key = (tenant.to_owned(), cause, by.to_owned());
        if !by.is_empty() && !self.sums.contains_key(&key) && self.by_tenant >= BY_TENANT {
            OTHER.clone_into(&mut key.2);
        }
        if !self.sums.contains_key(&key) && self.sums.len() >= WAITS {
            key = (OTHER.to_owned(), cause, String::new());
        }
        let is_named = !key.2.is_empty() && key.2 != OTHER;
        let sum = self.sums.entry(key).or_insert_with(|| {
            self.by_tenant += usize::from(is_named);
            0
        });
        *sum = sum.saturating_add(ns);
    }
}

impl TracerMeters {
    pub(super) fn new(durations: Arc<OnceLock<Durations>>) -> Self {
        Self {
            durations,
            ..Self::default()
        }
    }

    /// Adds a wait of a tenant, and the tenant behind it.
    pub fn waited(&self, tenant: &Tenant, cause: &'static str, by: Option<&Tenant>, ns: u64) {
        let by = by.map_or("", Tenant::as_str);
        lock(&self.waits).add(tenant.as_str(), cause, by, ns);
    }

    /// Sets the idle time of a device by a cause, nanoseconds since this process started.
    pub fn idle(&self, gpu: GpuId, cause: &'static str, ns: u64) {
        lock(&self.idle).insert((gpu, cause), ns);
    }

    /// Counts requests that are not traced.
    pub fn untraced(&self, reason: Untraced, requests: u64) {
        self.untraced[reason as usize].fetch_add(requests, Relaxed);
    }

    /// Notes the duration of a request. A traced one is its bucket's exemplar from now on.
    pub fn request(&self, tenant: &Tenant, time: Duration, exemplar: Option<Exemplar>) {
        let seconds = time.as_secs_f64();
        if let Some(durations) = self.durations.get() {
            durations
                .request
                .record(seconds, &[tenant_attribute(tenant)]);
        }
        let Some(exemplar) = exemplar else {
            return;
        };
        let bucket = boundaries().partition_point(|bound| *bound < seconds);
        let mut exemplars = lock(&self.exemplars);
        let key = (tenant.clone(), bucket);
        if exemplars.len() < EXEMPLARS || exemplars.contains_key(&key) {
            exemplars.insert(key, (seconds, exemplar));
        }
    }

    /// Returns the exemplar of a bucket, with its duration in seconds. `None` stands for the bucket without a bound.
    pub(crate) fn exemplar(&self, tenant: &str, bound: Option<f64>) -> Option<(f64, Exemplar)> {
        let tenant: Tenant = tenant.parse().ok()?;
        let bounds = boundaries();
        let bucket = bound.map_or(bounds.len(), |it| {
            bounds.partition_point(|other| *other < it)
        });
        lock(&self.exemplars).get(&(tenant, bucket)).copied()
    }

    pub(crate) fn each_wait(&self, mut see: impl FnMut([&str; 3], u64)) {
        for ((tenant, cause, by), ns) in &lock(&self.waits).sums {
            see([tenant, cause, by], *ns);
        }
    }

    pub(crate) fn each_idle(&self, mut see: impl FnMut(GpuId, &'static str, u64)) {
        for ((gpu, cause), ns) in &*lock(&self.idle) {
            see(*gpu, cause, *ns);
        }
    }

    pub(crate) fn each_untraced(&self, mut see: impl FnMut(&'static str, u64)) {
        for (reason, requests) in Untraced::ALL.iter().zip(&self.untraced) {
            see(reason.name(), requests.load(Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_waits_are_bounded_and_their_sum_is_exact() {
        let meters = TracerMeters::default();
        let name = |number: u32| -> Tenant { format!("t{number}").parse().expect("a name") };
        let mut total = 0;
        for one in 0..300 {
            for other in 0..40 {
                for cause in ["share", "device"] {
                    meters.waited(&name(one), cause, Some(&name(other)), 3);
                    meters.waited(&name(one), "bus", None, 1);
                    total += 4;
                }
            }
        }
        let (mut series, mut sum, mut named) = (0, 0, 0);
        meters.each_wait(|[tenant, _, by], ns| {
            series += 1;
            sum += ns;
            named += usize::from(!by.is_empty() && by != OTHER);
            assert!(tenant == OTHER || tenant.starts_with('t'));
        });
        assert_eq!((sum, named), (total, BY_TENANT));
        assert!((WAITS..2_000).contains(&series), "{series}");
        assert!(OTHER.parse::<Tenant>().is_err());
    }

    #[test]
    fn each_reason_has_a_count_of_its_own_from_the_start() {
        let meters = TracerMeters::default();
        for (times, reason) in (1..).zip(Untraced::ALL) {
            meters.untraced(reason, times);
            meters.untraced(reason, 10);
        }
        let mut counts = Vec::new();
        meters.each_untraced(|reason, requests| counts.push((reason, requests)));
        let wanted = [
            ("client", 11),
            ("unknown", 12),
            ("crowded", 13),
            ("refused", 14),
            ("expired", 15),
        ];
        assert_eq!(counts, wanted);
    }

    #[test]
    fn an_exemplar_is_found_by_the_bound_of_its_bucket() {
        let (meters, chat) = (TracerMeters::default(), "chat".parse().expect("a name"));
        let exemplar = |at| Exemplar {
            trace: TraceId([1; 16]),
            span: SpanId([2; 8]),
            at,
        };
        for (ms, at) in [(3, 1), (5, 2), (200_000, 3)] {
            meters.request(&chat, Duration::from_millis(ms), Some(exemplar(at)));
        }
        meters.request(&chat, Duration::from_millis(1), None);
        let found = |bound| meters.exemplar("chat", bound).map(|(_, it)| it.at);
        assert_eq!(found(Some(0.001)), None);
        assert_eq!(found(Some(0.005)), Some(2), "the newest, with its bound");
        assert_eq!((found(Some(100.0)), found(None)), (None, Some(3)));
    }
}
