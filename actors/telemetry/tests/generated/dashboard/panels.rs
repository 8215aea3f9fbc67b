//! The panels, row by row.

use telemetry::catalogue::{self as table, Metric};

/// A panel: its title, the unit of its axis, and its queries with their legends.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: &'static str,
    pub(super) queries: Vec<(String, &'static str)>,
}

fn panel(
    title: &'static str,
    unit: &'static str,
    help: &'static str,
    queries: Vec<(String, &'static str)>,
) -> Panel {
    Panel {
        title,
        help,
        unit,
        queries,
    }
}

/// A metric's series of the chosen clusters.
fn of(metric: &Metric) -> String {
    format!("{}{{warploom_cluster=~\"$cluster\"}}", metric.prometheus())
}

/// Growth rate of a counter, summed by these labels.
fn rate(metric: &Metric, by: &str) -> String {
    format!("sum by ({by}) (rate({}[$__rate_interval]))", of(metric))
}

/// The 99th percentile of a histogram, by these labels.
fn p99(metric: &Metric, by: &str) -> String {
    quantile("0.99", metric, by)
}

/// A quantile of a histogram, by these labels.
fn quantile(part: &str, metric: &Metric, by: &str) -> String {
    let buckets = of(metric).replacen('{', "_bucket{", 1);
    let by = if by.is_empty() {
        "le".to_owned()
    } else {
        format!("{by}, le")
    };
    format!("histogram_quantile({part}, sum by ({by}) (rate({buckets}[$__rate_interval])))")
}

/// Sum by these labels; `max` below takes the maximum.
fn sum(metric: &Metric, by: &str) -> String {
    format!("sum by ({by}) ({})", of(metric))
}

fn max(metric: &Metric, by: &str) -> String {
    format!("max by ({by}) ({})", of(metric))
}

/// The cost of each tenant's last day, by currency. Without a price list it is the core credits.
fn cost() -> String {
    let used = |metric: &Metric| {
        let series = of(metric);
        format!("sum by ({BY_CLUSTER}, {BY_TENANT}) (increase({series}[1d]))")
    };
    let priced = |metric: &Metric, credit: &str| {
        let used = used(metric);
        let price =
            of(&table::PRICE).replacen('{', &format!("{{warploom_credit=\"{credit}\", "), 1);
        let by = "warploom_credit, warploom_currency";
        format!(
            "{used} * on ({BY_CLUSTER}) group_left ({by}) max by ({BY_CLUSTER}, {by}) ({price})"
        )
    };
    let (core, vram) = (
        priced(&table::CORE_CREDITS, "core"),
        priced(&table::VRAM_CREDITS, "vram"),
    );
    let (credits, prices) = (used(&table::CORE_CREDITS), of(&table::PRICE));
    let unpriced = format!("{credits} unless on ({BY_CLUSTER}) {prices}");
    format!("sum by ({BY_TENANT}, warploom_currency) ({core} or {vram} or {unpriced})")
}

const TENANT: &str = "{{warploom_tenant}}";
const GPU: &str = "gpu {{warploom_gpu}}";
const CLUSTER: &str = "{{warploom_cluster}}";
const BY_TENANT: &str = "warploom_tenant";
const BY_GPU: &str = "warploom_gpu";
const BY_CLUSTER: &str = "warploom_cluster";

/// The rows of panels.
pub(super) fn rows() -> Vec<(&'static str, Vec<Panel>)> {
    vec![
        ("Tenants", tenants()),
        ("Waits", waits()),
        ("Devices", devices()),
        ("Memory", memory()),
        ("Order", order()),
        ("Cluster and controller", controller()),
    ]
}

fn tenants() -> Vec<Panel> {
    let p99_of = format!(
        "max by ({BY_TENANT}) ({} or {})",
        of(&table::CLUSTER_P99),
        of(&table::SLO_P99)
    );
    let target = format!(
        "max by ({BY_TENANT}) ({} or {})",
        of(&table::CLUSTER_TARGET),
        of(&table::SLO_TARGET)
    );
    let attained = format!(
        "{} / {}",
        rate(&table::SLO_ATTAINED, BY_TENANT),
        rate(&table::SLO_REQUESTS, BY_TENANT)
    );
    vec![
        panel(
            "Requests: p99 and target",
            "s",
            "The 99th percentile of the last minute's requests, and the target that it is to stay below.",
            vec![(p99_of, TENANT), (target, "target of {{warploom_tenant}}")],
        ),
        panel(
            "Attainment",
            "percentunit",
            "The part of requests within their tenant's target.",
            vec![(attained, TENANT)],
        ),
        panel(
            "Queue",
            "short",
            "Ops queued and not granted.",
            vec![(max(&table::CLUSTER_QUEUED, BY_TENANT), TENANT)],
        ),
        panel(
            "Wait for a grant, p99",
            "s",
            "From an intent's arrival at the leader to the grant of its last op.",
            vec![(p99(&table::QUEUE_DURATION, BY_TENANT), TENANT)],
        ),
        panel(
            "Sessions",
            "short",
            "Open sessions.",
            vec![(max(&table::CLUSTER_SESSIONS, BY_TENANT), TENANT)],
        ),
        panel(
            "Launches a second",
            "ops",
            "Launches that ran.",
            vec![(rate(&table::LAUNCHES, BY_TENANT), TENANT)],
        ),
        panel(
            "Cost of the last day",
            "short",
            "Core and VRAM credits of 24 hours at the controller's prices; core credits where there is no price.",
            vec![(cost(), "{{warploom_tenant}} {{warploom_currency}}")],
        ),
    ]
}

fn waits() -> Vec<Panel> {
    let by_cause = format!("{BY_TENANT}, warploom_cause");
    let untraced = rate(&table::UNTRACED, &format!("{BY_CLUSTER}, warploom_reason"));
    let delays = format!(
        "sum by (warploom_by, {BY_TENANT}) (rate({}[$__rate_interval]))",
        of(&table::WAIT).replacen('{', "{warploom_by!=\"\", ", 1)
    );
    vec![
        panel(
            "Waits by cause",
            "short",
            "Seconds of waiting in a second: how many slices wait at a time, by what they wait for.",
            vec![(
                rate(&table::WAIT, &by_cause),
                "{{warploom_tenant}}: {{warploom_cause}}",
            )],
        ),
        panel(
            "Who delays whom",
            "short",
            "The part of the waits that a tenant's work caused, by the tenant that waited.",
            vec![(delays, "{{warploom_by}} delays {{warploom_tenant}}")],
        ),
        panel(
            "Age of the queue",
            "s",
            "Time for which the oldest op that is not granted has waited.",
            vec![(max(&table::QUEUE_AGE, BY_TENANT), TENANT)],
        ),
        panel(
            "Idle by cause",
            "percentunit",
            "The part of time in which nothing ran on a device. With program, empty and unknown no work was there.",
            vec![(
                rate(&table::IDLE, "warploom_gpu, warploom_cause"),
                "gpu {{warploom_gpu}}: {{warploom_cause}}",
            )],
        ),
        panel(
            "Requests: p50 and p99",
            "s",
            "Time of a program's requests, from the first op to the answer.",
            vec![
                (
                    quantile("0.5", &table::REQUEST_DURATION, BY_TENANT),
                    "p50 of {{warploom_tenant}}",
                ),
                (
                    p99(&table::REQUEST_DURATION, BY_TENANT),
                    "p99 of {{warploom_tenant}}",
                ),
            ],
        ),
        panel(
            "Requests untraced",
            "reqps",
            "Requests a second that are in no trace as a whole, by reason.",
            vec![(untraced, "{{warploom_cluster}}: {{warploom_reason}}")],
        ),
    ]
}

fn devices() -> Vec<Panel> {
    vec![
        panel(
            "GPU active",
            "percentunit",
            "The part of time with at least one launch running.",
            vec![(rate(&table::GPU_ACTIVE, BY_GPU), GPU)],
        ),
        panel(
            "Busy with more ready",
            "percentunit",
            "The part of time in which a launch was ready while the device was busy: high is a full device.",
            vec![(rate(&table::GPU_STARVATION, BY_GPU), GPU)],
        ),
        panel(
            "SMs busy, by tenant",
            "short",
            "Core credits a second. They add up to the device's.",
            vec![
                (rate(&table::CORE_CREDITS, BY_TENANT), TENANT),
                (
                    rate(&table::GPU_CREDITS, BY_CLUSTER),
                    "all of {{warploom_cluster}}",
                ),
            ],
        ),
        panel(
            "Time of a slice, p99",
            "s",
            "From a slice's start to its end on the device.",
            vec![(p99(&table::EXECUTE_DURATION, BY_TENANT), TENANT)],
        ),
    ]
}

fn memory() -> Vec<Panel> {
    let moved = rate(&table::SWAP_BYTES, "warploom_direction");
    let quota = format!(
        "max by ({BY_TENANT}, {BY_GPU}) ({} / {})",
        of(&table::VRAM_HELD),
        of(&table::VRAM_TOTAL)
    );
    // Each controller has these metrics.
    let held = max(
        &table::CLUSTER_HELD,
        &format!("{BY_CLUSTER}, {BY_GPU}, {BY_TENANT}"),
    );
    let capacity = max(&table::CLUSTER_CAPACITY, &format!("{BY_CLUSTER}, {BY_GPU}"));
    let device =
        format!("max by ({BY_GPU}) (sum by ({BY_CLUSTER}, {BY_GPU}) ({held}) / {capacity})");
    vec![
        panel(
            "Quota used",
            "percentunit",
            "What a tenant holds of its quota on a device, and all tenants of what the device has for them.",
            vec![
                (quota, "{{warploom_tenant}} on gpu {{warploom_gpu}}"),
                (device, "all on gpu {{warploom_gpu}}"),
            ],
        ),
        panel(
            "Memory held, by tenant",
            "bytes",
            "Bytes that sessions have allocated, swapped out or not.",
            vec![(sum(&table::VRAM_HELD, BY_TENANT), TENANT)],
        ),
        panel(
            "Memory on the device, by tenant",
            "bytes",
            "Bytes that a tenant is charged; what sharing saves is not charged.",
            vec![
                (sum(&table::VRAM_RESIDENT, BY_TENANT), TENANT),
                (sum(&table::VRAM_SAVED, BY_CLUSTER), "saved by sharing"),
            ],
        ),
        panel(
            "Memory swapped out, by tenant",
            "bytes",
            "Bytes of sessions that are on the host.",
            vec![(sum(&table::VRAM_SWAPPED, BY_TENANT), TENANT)],
        ),
        panel(
            "Memory moved",
            "Bps",
            "Bytes a second that went out of devices and came back.",
            vec![(format!("{moved} or vector(0)"), "{{warploom_direction}}")],
        ),
    ]
}

fn order() -> Vec<Panel> {
    let epoch = of(&table::CLUSTER_EPOCH);
    let changes =
        format!("max by ({BY_CLUSTER}) (max_over_time({epoch}[1h]) - min_over_time({epoch}[1h]))");
    let full = format!("{} / {}", of(&table::STORE_USED), of(&table::STORE_LIMIT));
    vec![
        panel(
            "Leader changes in an hour",
            "short",
            "How far the epoch grew.",
            vec![(changes, CLUSTER)],
        ),
        panel(
            "Epoch",
            "short",
            "Of the process that leads: 0 is no leader.",
            vec![(max(&table::EPOCH, BY_CLUSTER), CLUSTER)],
        ),
        panel(
            "Order lag",
            "short",
            "Inputs that the order was decided from and that are not recorded yet.",
            vec![(max(&table::RECORD_LAG, BY_CLUSTER), CLUSTER)],
        ),
        panel(
            "Granted and not done",
            "s",
            "Charged time on its way to each device, and the window that bounds it.",
            vec![
                (max(&table::OUTSTANDING, BY_GPU), GPU),
                (
                    max(&table::WINDOW, BY_GPU),
                    "window of gpu {{warploom_gpu}}",
                ),
            ],
        ),
        panel(
            "Grants a second",
            "ops",
            "Positions of the order.",
            vec![(rate(&table::GRANTS, BY_GPU), GPU)],
        ),
        panel(
            "Stores",
            "percentunit",
            "How full the broker's streams and buckets are.",
            vec![(
                format!("max by (warploom_store) ({full})"),
                "{{warploom_store}}",
            )],
        ),
        panel(
            "Replay",
            "short",
            "1 where the last verification found the order as recorded, 0 where it differed.",
            vec![(
                format!("min by ({BY_CLUSTER}) ({})", of(&table::ORDER_VERIFIED)),
                CLUSTER,
            )],
        ),
        panel(
            "Faults of Warploom",
            "short",
            "Checks that found an invariant violated: any value but 0 is a fault.",
            vec![(
                sum(&table::INVARIANT_VIOLATIONS, "warploom_invariant"),
                "{{warploom_invariant}}",
            )],
        ),
    ]
}

fn controller() -> Vec<Panel> {
    let lost = format!(
        "sum by ({BY_CLUSTER}) (increase({}[1h]))",
        of(&table::WORKERS_LOST)
    );
    vec![
        panel(
            "Workers lost in an hour",
            "short",
            "Workers that went without having said that they leave.",
            vec![(lost, CLUSTER)],
        ),
        panel(
            "Requests a second",
            "reqps",
            "Requests of the interface, by status.",
            vec![(
                rate(&table::API_REQUESTS, "warploom_status"),
                "{{warploom_status}}",
            )],
        ),
        panel(
            "Time to answer, p99",
            "s",
            "From a request's arrival to the beginning of its answer.",
            vec![(
                p99(&table::API_DURATION, "warploom_operation"),
                "{{warploom_operation}}",
            )],
        ),
        panel(
            "Streams",
            "short",
            "Streams of events that are open.",
            vec![(sum(&table::API_STREAMS, BY_CLUSTER), CLUSTER)],
        ),
        panel(
            "Workers",
            "short",
            "Workers that the leader has.",
            vec![(
                max(&table::CLUSTER_WORKERS, "warploom_state"),
                "{{warploom_state}}",
            )],
        ),
    ]
}
