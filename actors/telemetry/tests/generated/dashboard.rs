//! The dashboard for Grafana.

use serde_json::{Value, json};
use telemetry::catalogue::{self as table, Metric};

/// A panel: its title, the unit of its axis, and its queries with their legends.
struct Panel {
    title: &'static str,
    help: &'static str,
    unit: &'static str,
    queries: Vec<(String, &'static str)>,
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
    let buckets = of(metric).replacen('{', "_bucket{", 1);
    let by = if by.is_empty() {
        "le".to_owned()
    } else {
        format!("{by}, le")
    };
    format!("histogram_quantile(0.99, sum by ({by}) (rate({buckets}[$__rate_interval])))")
}

/// Sum by these labels; `max` below takes the maximum.
fn sum(metric: &Metric, by: &str) -> String {
    format!("sum by ({by}) ({})", of(metric))
}

fn max(metric: &Metric, by: &str) -> String {
    format!("max by ({by}) ({})", of(metric))
}

const TENANT: &str = "{{warploom_tenant}}";
const GPU: &str = "gpu {{warploom_gpu}}";
const CLUSTER: &str = "{{warploom_cluster}}";
const BY_TENANT: &str = "warploom_tenant";
const BY_GPU: &str = "warploom_gpu";
const BY_CLUSTER: &str = "warploom_cluster";

/// The rows of panels.
fn rows() -> Vec<(&'static str, Vec<Panel>)> {
    vec![
        ("Tenants", tenants()),
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
    vec![
        panel(
            "Memory held, by tenant",
            "bytes",
            "Bytes that sessions have allocated, swapped out or not.",
            vec![(sum(&table::VRAM_HELD, BY_TENANT), TENANT)],
        ),
        panel(
            "Memory on the device, by tenant",
            "bytes",
            "Bytes that a tenant is charged; what sharing saves is charged to nobody.",
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

/// All queries.
pub(crate) fn queries() -> Vec<String> {
    let rows = rows().into_iter().flat_map(|(_, panels)| panels);
    let queries = rows.flat_map(|panel| panel.queries);
    queries.map(|(query, _)| query).collect()
}

/// The dashboard's text.
pub(crate) fn text() -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, row) in rows() {
        let id = panels.len() + 1;
        let place = json!({"x": 0, "y": y, "w": 24, "h": 1});
        panels.push(
            json!({"id": id, "type": "row", "title": title, "gridPos": place,
            "collapsed": false, "panels": []}),
        );
        y += 1;
        for (index, panel) in row.iter().enumerate() {
            let place = json!({"x": index % 3 * 8, "y": y + index / 3 * 8, "w": 8, "h": 8});
            panels.push(shown(panel, panels.len() + 1, place));
        }
        y += row.len().div_ceil(3) * 8;
    }
    let dashboard = json!({
        "uid": "warploom",
        "title": "Warploom",
        "description": "Made by `just bless` from actors/telemetry/tests/generated/dashboard.rs.",
        "tags": ["warploom"],
        "schemaVersion": 39,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "panels": panels,
    });
    // A JSON value always serializes.
    serde_json::to_string_pretty(&dashboard).unwrap_or_default() + "\n"
}

fn variables() -> Value {
    json!([
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "cluster", "label": "Cluster", "type": "query", "datasource": source(),
            "definition": "label_values(target_info, warploom_cluster)",
            "query": {"query": "label_values(target_info, warploom_cluster)", "refId": "cluster"},
            "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1,
            "current": {"text": "All", "value": "$__all"},
        },
    ])
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${source}"})
}

fn shown(panel: &Panel, id: usize, place: Value) -> Value {
    let targets = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((query, legend), name)| {
            json!({"refId": name.to_string(), "datasource": source(), "expr": query,
            "legendFormat": legend, "range": true})
        });
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": source(),
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets.collect::<Vec<_>>(),
    })
}
