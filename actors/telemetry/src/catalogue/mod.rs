//! All metrics: the only table of names, units, meanings and labels. Instruments,
//! `docs/reference/signals.md` and `ops/grafana/warploom.json` are made from it. [`traces`] has spans and their
//! attributes, [`logs`] has those of logs.

pub mod logs;
pub mod traces;

use crate::settings::Role;
use traces::{HW_ID, HW_TYPE};

/// Attribute of the hardware metrics: the model of the device.
pub const HW_MODEL: &str = "hw.model";
/// Attribute of the hardware metrics: the vendor of the device.
pub const HW_VENDOR: &str = "hw.vendor";
/// Attribute of the utilization of a device: the kind of its work.
pub const HW_GPU_TASK: &str = "hw.gpu.task";

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A total that only grows while a process lives.
    Counter,
    /// A current value.
    Gauge,
    /// A current value that may be summed over its series, which Prometheus knows as a gauge.
    UpDownCounter,
    /// A distribution of values.
    Histogram,
}

impl Kind {
    /// The kind's name in Prometheus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge | Self::UpDownCounter => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The metric's name in OTLP.
    pub name: &'static str,
    /// The metric's kind.
    pub kind: Kind,
    /// The metric's unit in UCUM.
    pub unit: &'static str,
    /// The quantity counted, as a sentence without its full stop.
    pub help: &'static str,
    /// Labels of its series: `tenant` is the attribute `warploom.tenant`. A label with a dot is an attribute by its
    /// whole name.
    pub labels: &'static [&'static str],
    /// Roles that export the metric.
    pub roles: &'static [Role],
}

impl Metric {
    /// Returns the name on `/metrics` by OpenTelemetry's rules: with the unit in words, and
    /// `_total` at the end of a counter.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut name = self.name.replace('.', "_");
        let unit = match self.unit {
            "s" => "_seconds",
            "By" => "_bytes",
            "1" => "_ratio",
            _ => "",
        };
        if !name.ends_with(unit) {
            name.push_str(unit);
        }
        if self.kind == Kind::Counter {
            name.push_str("_total");
        }
        name
    }

    /// Returns the name of a label on `/metrics`.
    #[must_use]
    pub fn prometheus_label(&self, label: &str) -> String {
        match () {
            () if self.is_nvidia() => label.to_owned(),
            () if label.contains('.') => label.replace('.', "_"),
            () => format!("warploom_{label}"),
        }
    }

    /// True if the metric is one of OpenTelemetry's conventions for hardware.
    #[must_use]
    pub fn is_hardware(&self) -> bool {
        self.name.starts_with("hw.")
    }

    /// True if the metric is one of NVIDIA's exporter, under its name there.
    #[must_use]
    pub fn is_nvidia(&self) -> bool {
        self.name.starts_with("DCGM_")
    }
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal in $unit:literal by [$($label:tt)*] of [$($role:ident)*],
       $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $constant: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: $unit,
                help: $help,
                labels: &[$($label),*],
                roles: &[$(Role::$role),*],
            };
        )*

        /// All metrics.
        pub static METRICS: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    REQUEST_DURATION: Histogram "warploom.request.duration" in "s" by ["tenant"] of [Tracer],
        "time of a request of a program, from its first op to the answer";
    WAIT: Counter "warploom.wait" in "s" by ["tenant" "cause" "by"] of [Tracer],
        "time for which the tenant's work waited, by cause and by the tenant behind it";
    IDLE: Counter "warploom.idle" in "s" by ["gpu" "cause"] of [Tracer],
        "time in which nothing ran on the device, by cause";
    UNTRACED: Counter "warploom.requests.untraced" in "{request}" by ["reason"] of [Tracer],
        "requests that are in no trace as a whole, by reason: client, unknown, crowded, refused or expired";

    EXECUTE_DURATION: Histogram "warploom.execute.duration" in "s" by ["tenant" "gpu"] of [Worker],
        "from a slice's start to its end";
    LAUNCHES: Counter "warploom.launches" in "{launch}" by ["tenant" "gpu"] of [Worker],
        "launches run";
    CORE_CREDITS: Counter "warploom.core.credits" in "{SM}.s" by ["tenant" "gpu"] of [Worker],
        "core credits: SMs busy times seconds";
    VRAM_CREDITS: Counter "warploom.vram.credits" in "GiBy.s" by ["tenant" "gpu"] of [Worker],
        "VRAM credits: GiB resident times seconds";
    VRAM_TOTAL: Gauge "warploom.vram.total" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes that the tenant may hold there";
    VRAM_HELD: Gauge "warploom.vram.held" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes that its sessions have allocated";
    VRAM_RESIDENT: Gauge "warploom.vram.resident" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes on the device that it is charged; what is shared is split among its sharers";
    VRAM_FREE: Gauge "warploom.vram.free" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes that it may still allocate";
    VRAM_SWAPPED: Gauge "warploom.vram.swapped" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes of its sessions that are swapped out";
    SWAP_DURATION: Histogram "warploom.swap.duration" in "s" by ["tenant" "gpu" "direction"] of [Worker],
        "move of a session's memory, out or in";
    SWAP_BYTES: Counter "warploom.swap.bytes" in "By" by ["tenant" "gpu" "direction"] of [Worker],
        "bytes moved by these";
    SWAP_WAITED: Counter "warploom.swap.waited" in "s" by ["tenant" "gpu"] of [Worker],
        "time that its sessions waited for their memory";
    SWAP_CREDITS: Counter "warploom.swap.credits" in "GiBy.s" by ["tenant" "gpu"] of [Worker],
        "swapped credits: GiB swapped out times seconds";
    SAVED_CREDITS: Counter "warploom.saved.credits" in "GiBy.s" by ["tenant" "gpu"] of [Worker],
        "saved credits: GiB saved by sharing times seconds";
    COPIES_UNSENT: Counter "warploom.copies.unsent" in "By" by ["tenant" "gpu"] of [Worker],
        "bytes of copies that it need not send";
    VRAM_SAVED: Gauge "warploom.vram.saved" in "By" by ["gpu"] of [Worker],
        "bytes saved by sharing";
    GPU_ACTIVE: Counter "warploom.gpu.active" in "s" by ["gpu"] of [Worker],
        "time with at least one launch running";
    GPU_STARVATION: Counter "warploom.gpu.starvation" in "s" by ["gpu"] of [Worker],
        "time busy with more ready";
    GPU_CREDITS: Counter "warploom.gpu.credits" in "{SM}.s" by ["gpu"] of [Worker],
        "core credits of the whole device: the sum of all tenants'";

    HW_MEMORY_LIMIT: UpDownCounter "hw.gpu.memory.limit" in "By"
        by [HW_ID HW_TYPE HW_MODEL HW_VENDOR] of [Worker],
        "bytes of the device that sessions may have together";
    HW_MEMORY_USAGE: UpDownCounter "hw.gpu.memory.usage" in "By"
        by [HW_ID HW_TYPE HW_MODEL HW_VENDOR] of [Worker],
        "bytes of the device that sessions have; what is shared counts once";
    HW_MEMORY_UTILIZATION: Gauge "hw.gpu.memory.utilization" in "1"
        by [HW_ID HW_TYPE HW_MODEL HW_VENDOR] of [Worker],
        "the part of the limit that is in use, 0 to 1";
    HW_UTILIZATION: Gauge "hw.gpu.utilization" in "1"
        by [HW_ID HW_TYPE HW_MODEL HW_VENDOR HW_GPU_TASK] of [Worker],
        "the part of the time in which launches ran, 0 to 1";

    QUEUE_DURATION: Histogram "warploom.queue.duration" in "s" by ["tenant"] of [Leader],
        "from an intent's arrival to its last op's grant";
    QUEUE_AGE: Gauge "warploom.queue.age" in "s" by ["tenant"] of [Leader],
        "time for which the tenant's oldest op that is not granted waits; 0 if none does";
    WINDOW: Gauge "warploom.window" in "s" by ["gpu"] of [Leader],
        "the window in force; 0 unless leading";
    OUTSTANDING: Gauge "warploom.outstanding" in "s" by ["gpu"] of [Leader],
        "charged time granted and not reported done";
    GRANTS: Counter "warploom.grants" in "{grant}" by ["gpu"] of [Leader],
        "grants that this process made";
    VOIDS: Counter "warploom.voids" in "{position}" by ["gpu"] of [Leader],
        "positions reported to it at which nothing ran";
    EPOCH: Gauge "warploom.epoch" in "{epoch}" by [] of [Leader],
        "the epoch that this process leads, else 0";
    TAKEOVER_DURATION: Histogram "warploom.takeover.duration" in "s" by [] of [Leader],
        "from no leader noticed to the term's first grant";
    WORKERS_LOST: Counter "warploom.workers.lost" in "{worker}" by [] of [Leader],
        "workers that this process declared lost and that had not said that they leave";
    SLO_TARGET: Gauge "warploom.slo.target" in "s" by ["tenant"] of [Leader],
        "the tenant's target for 99 of 100 requests";
    SLO_P99: Gauge "warploom.slo.p99" in "s" by ["tenant"] of [Leader],
        "99th percentile of its last minute's requests";
    SLO_REQUESTS: Counter "warploom.slo.requests" in "{request}" by ["tenant"] of [Leader],
        "requests done with a target";
    SLO_ATTAINED: Counter "warploom.slo.attained" in "{request}" by ["tenant"] of [Leader],
        "those of them within the target";
    RECORD_LAG: Gauge "warploom.record.lag" in "{input}" by [] of [Leader],
        "inputs applied and not yet recorded";
    STORE_USED: Gauge "warploom.store.used" in "By" by ["store"] of [Leader],
        "bytes in a stream or bucket of the broker";
    STORE_LIMIT: Gauge "warploom.store.limit" in "By" by ["store"] of [Leader],
        "bytes that it may hold";
    STORE_ALARM: Gauge "warploom.store.alarm" in "{alarm}" by ["store"] of [Leader],
        "1 where it is 80 % full or failed, else 0";

    INVARIANT_VIOLATIONS: Counter "warploom.invariant.violations" in "{violation}" by ["invariant"] of [Leader Worker],
        "checks that found an invariant violated: any value but 0 is a fault of Warploom";

    API_REQUESTS: Counter "warploom.api.requests" in "{request}" by ["operation" "status"] of [Controller],
        "requests answered, by what a role must be allowed and by HTTP status";
    API_DURATION: Histogram "warploom.api.duration" in "s" by ["operation"] of [Controller],
        "from a request's arrival to the beginning of its answer";
    API_STREAMS: Gauge "warploom.api.streams" in "{stream}" by [] of [Controller],
        "streams of events that are open";
    CLUSTER_LEADING: Gauge "warploom.cluster.leading" in "{leader}" by [] of [Controller],
        "1 where a leader answers, else 0";
    CLUSTER_EPOCH: Gauge "warploom.cluster.epoch" in "{epoch}" by [] of [Controller],
        "the leader's epoch: it grows with each change of leader";
    CLUSTER_WORKERS: Gauge "warploom.cluster.workers" in "{worker}" by ["state"] of [Controller],
        "workers that the leader has, by state: live, or draining, which get no new sessions";
    CLUSTER_SESSIONS: Gauge "warploom.cluster.sessions" in "{session}" by ["tenant"] of [Controller],
        "open sessions";
    CLUSTER_QUEUED: Gauge "warploom.cluster.queued" in "{op}" by ["tenant"] of [Controller],
        "ops queued and not granted";
    CLUSTER_P99: Gauge "warploom.cluster.p99" in "s" by ["tenant"] of [Controller],
        "99th percentile of the last minute's requests; absent where there were none";
    CLUSTER_TARGET: Gauge "warploom.cluster.target" in "s" by ["tenant"] of [Controller],
        "the target; absent without one";
    CLUSTER_ATTAINMENT: Gauge "warploom.cluster.attainment" in "1" by ["tenant"] of [Controller],
        "the part of the last minute's requests within the target, 0 to 1; absent without either";
    CLUSTER_HELD: Gauge "warploom.cluster.held" in "By" by ["tenant" "gpu"] of [Controller],
        "bytes that the tenant's sessions have allocated";
    CLUSTER_RESIDENT: Gauge "warploom.cluster.resident" in "By" by ["tenant" "gpu"] of [Controller],
        "bytes on the device that it is charged";
    CLUSTER_SWAPPED: Gauge "warploom.cluster.swapped" in "By" by ["tenant" "gpu"] of [Controller],
        "bytes of its sessions that are swapped out";
    CLUSTER_SAVED: Gauge "warploom.cluster.saved" in "By" by ["tenant" "gpu"] of [Controller],
        "bytes that it holds on the device and is not charged, because they are shared";
    CLUSTER_CAPACITY: Gauge "warploom.cluster.capacity" in "By" by ["gpu"] of [Controller],
        "bytes that all sessions on the device may hold together";
    PRICE: Gauge "warploom.price" in "{currency}" by ["credit" "currency"] of [Controller],
        "the price of a credit; absent without a price list";
    ORDER_VERIFIED: Gauge "warploom.order.verified" in "{verification}" by [] of [Controller],
        "1 where the last verification of this controller found the order as recorded, 0 where it differed; \
         absent before the first";
    ORDER_VERIFIED_TIME: Gauge "warploom.order.verified.time" in "s" by [] of [Controller],
        "when that was, seconds since 1970";

    DCGM_UTIL: Gauge "DCGM_FI_DEV_GPU_UTIL" in ""
        by ["gpu" "UUID" "device" "modelName" "Hostname" "exported_namespace" "exported_pod" "exported_container"]
        of [Worker], "percent of the time in which launches ran, split by their device time";
    DCGM_USED: Gauge "DCGM_FI_DEV_FB_USED" in ""
        by ["gpu" "UUID" "device" "modelName" "Hostname" "exported_namespace" "exported_pod" "exported_container"]
        of [Worker], "MiB of the device that are charged";
    DCGM_FREE: Gauge "DCGM_FI_DEV_FB_FREE" in ""
        by ["gpu" "UUID" "device" "modelName" "Hostname"]
        of [Worker], "MiB of the device that are free";
    DCGM_SM_ACTIVE: Gauge "DCGM_FI_PROF_SM_ACTIVE" in ""
        by ["gpu" "UUID" "device" "modelName" "Hostname" "exported_namespace" "exported_pod" "exported_container"]
        of [Worker], "part of the device's SMs that were busy, 0 to 1";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_has_a_name_of_its_own_and_prometheus_knows_it_by_opentelemetrys_rules() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.prometheus()).collect();
        assert_eq!(names.len(), METRICS.len());
        for (metric, name) in [
            (&REQUEST_DURATION, "warploom_request_duration_seconds"),
            (&SWAP_BYTES, "warploom_swap_bytes_total"),
            (&VRAM_HELD, "warploom_vram_held_bytes"),
            (&LAUNCHES, "warploom_launches_total"),
            (&DCGM_UTIL, "DCGM_FI_DEV_GPU_UTIL"),
            (&HW_MEMORY_USAGE, "hw_gpu_memory_usage_bytes"),
            (&HW_UTILIZATION, "hw_gpu_utilization_ratio"),
        ] {
            assert_eq!(metric.prometheus(), name);
        }
    }
}
