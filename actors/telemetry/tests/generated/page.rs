//! The page of spans, events, attributes and metrics.

use std::fmt::Write as _;

use telemetry::Role;
use telemetry::catalogue::logs::LOGS;
use telemetry::catalogue::traces::{ATTRIBUTES, EVENTS, RESOURCE, SPANS};
use telemetry::catalogue::{METRICS, Metric};

const BEGINNING: &str = "\
# Signals

Every span, event, attribute, metric and log field, made from the tables in `actors/telemetry/src/catalogue` by
`just bless`: change them there. What they mean beyond a line is in [telemetry](telemetry.md); how Prometheus reads
metrics, in [prometheus](../howto/prometheus.md).

Names are those of OpenTelemetry's semantic conventions where it has one. Names of our own begin with `warploom.`.
";

const METRICS_BEGINNING: &str = "\
The first name is the one by which an OTLP collector gets a metric, with the attributes `warploom.tenant`,
`warploom.gpu` and so on. The second is the one on `/metrics`, with the labels `warploom_tenant`, `warploom_gpu` and so
on; there each series has the cluster as `warploom_cluster`, and `target_info` says what the process is. Both are read
from the same instruments.

A counter only grows while a process lives, and begins at zero with the next one. Histograms have buckets at 1, 2 and
5 of each power of ten from 10 µs to 100 s. Sessions and kernels are no label, for their number has no bound. One
metric has 2,000 series in a process at most; what is beyond them is in one with the label `otel_metric_overflow`. Of
`warploom.wait`, what is beyond the bounds is in series with `_other` as `by` or `tenant`, and sums stay exact.
";

const HARDWARE: &str = "\
Workers have these too, one series a device. The attributes are named in full: `hw.id` is the device's number in the
cluster, as text, `hw.type` is `gpu`, and `hw.model` its model. `hw.vendor` is `NVIDIA`, and absent for the CPU device.
`hw.gpu.task` is `general`. On `/metrics` they are `hw_id` and so on. The first two are counters that go up and down
in OTLP.

Utilization is measured over at least one second. It counts time with at least one launch running, however little
of the device the launch used. There is no metric of temperature, power or clocks.
";

const NVIDIA: &str = "\
With `metrics.dcgm=on`: gauges under the names and labels of NVIDIA's `dcgm-exporter`. `exported_namespace` is the
tenant, `exported_pod` the host of the session's process and `exported_container` its program, if its client reports
them. All are empty for what no session uses. Where that exporter sees one device, there is a series for each program
that shares it here. Their sum by `gpu` is the device's; nothing is counted twice. At most 256 programs of a device have
series of their own; the use of others counts for their tenant.

Utilization is measured over at least one second. Work counts when it ends. The CPU device has these metrics too.
Temperature, power, clocks and the like are not the hypervisor's to know: run NVIDIA's exporter beside it for these.
";

/// The page's text.
pub(crate) fn text() -> String {
    let mut text = BEGINNING.to_owned();
    traces(&mut text);
    // A write to a string does not fail.
    let _ = write!(text, "\n## Metrics\n\n{METRICS_BEGINNING}");
    section(&mut text, "Of the tracer", "", |it| {
        it.roles == [Role::Tracer]
    });
    section(&mut text, "Of workers", "", |it| {
        it.roles == [Role::Worker] && !it.is_nvidia() && !it.is_hardware()
    });
    section(&mut text, "Of leaders", "", |it| it.roles == [Role::Leader]);
    section(&mut text, "Of leaders and workers", "", |it| {
        it.roles.len() == 2
    });
    section(&mut text, "Of controllers", "", |it| {
        it.roles == [Role::Controller]
    });
    section(
        &mut text,
        "Of devices, by OpenTelemetry's conventions",
        HARDWARE,
        Metric::is_hardware,
    );
    section(&mut text, "Under NVIDIA's names", NVIDIA, Metric::is_nvidia);
    text
}

/// The spans, events and attributes.
fn traces(text: &mut String) {
    text.push_str(
        "\n## Spans\n\n| span | service | kind | from | to |\n| --- | --- | --- | --- | --- |\n",
    );
    for span in SPANS {
        let (name, role) = (span.name, span.role.service_name());
        let role = role.trim_start_matches("warploom-");
        let (kind, from, to) = (span.kind.name(), span.from, span.to);
        let _ = writeln!(text, "| `{name}` | {role} | {kind} | {from} | {to} |");
    }
    text.push_str("\n## Events\n\n| event | of | meaning |\n| --- | --- | --- |\n");
    for (name, span, help) in EVENTS {
        let _ = writeln!(text, "| `{name}` | `{span}` | {help} |");
    }
    text.push_str("\n## Attributes\n\n| attribute | on | meaning |\n| --- | --- | --- |\n");
    for attribute in ATTRIBUTES {
        let on: Vec<_> = attribute.on.iter().map(|on| format!("`{on}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            attribute.name,
            on.join(", "),
            attribute.help
        );
    }
    text.push_str(
        "\n## Attributes of the resource\n\n| attribute | of | meaning |\n| --- | --- | --- |\n",
    );
    for (name, of, help) in RESOURCE {
        let _ = writeln!(text, "| `{name}` | {of} | {help} |");
    }
    text.push_str("\n## Attributes of logs\n\n| attribute | meaning |\n| --- | --- |\n");
    for (name, help) in LOGS {
        let _ = writeln!(text, "| `{name}` | {help} |");
    }
}

fn section(text: &mut String, heading: &str, beginning: &str, of: impl Fn(&Metric) -> bool) {
    // A write to a string does not fail.
    let _ = writeln!(text, "\n### {heading}\n");
    if !beginning.is_empty() {
        let _ = writeln!(text, "{beginning}");
    }
    text.push_str("| metric | on `/metrics` | kind | unit | by | meaning |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for metric in METRICS.iter().filter(|metric| of(metric)) {
        let labels = match metric.is_nvidia() {
            true => "`gpu` …".to_owned(),
            false => metric.labels.join(", "),
        };
        let unit = match metric.unit {
            "" => String::new(),
            unit => format!("`{unit}`"),
        };
        let (name, shown, kind) = (metric.name, metric.prometheus(), metric.kind.name());
        let help = metric.help;
        let _ = writeln!(
            text,
            "| `{name}` | `{shown}` | {kind} | {unit} | {labels} | {help} |"
        );
    }
}
