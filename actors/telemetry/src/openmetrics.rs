//! Metrics in the format OpenMetrics 1.0, with exemplars. The library's exporter has neither.
//!
//! The format: <https://github.com/prometheus/OpenMetrics>, the specification's section 3.

use std::fmt::Write as _;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use crate::catalogue::REQUEST_DURATION;
use crate::meters::Meters;

/// Content type of a page in this format.
pub const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The media types of the two formats.
const TYPES: [&str; 2] = ["application/openmetrics-text", "text/plain"];
/// The label that names a tenant.
const TENANT: &str = "warploom_tenant";

/// True if a request's `Accept` prefers this format to the text format.
pub(crate) fn is_preferred(accept: &str) -> bool {
    let [ours, text] = TYPES.map(|name| {
        let ranges = accept.split(',').map(str::trim);
        let weights = ranges.filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next()?.eq_ignore_ascii_case(name);
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            is_it.then(|| weight.map_or(Some(1.0), |it| it.parse::<f64>().ok()))?
        });
        weights.fold(0.0, f64::max)
    });
    ours > 0.0 && ours >= text
}

/// Writes the page.
pub(crate) fn text(families: &[MetricFamily], meters: &Meters) -> String {
    let mut page = String::new();
    for family in families {
        write_family(&mut page, family, meters);
    }
    page.push_str("# EOF\n");
    page
}

/// Writes a family. A write to a string does not fail.
fn write_family(page: &mut String, family: &MetricFamily, meters: &Meters) {
    let (name, kind) = match family.get_field_type() {
        MetricType::COUNTER => (family.name().trim_end_matches("_total"), "counter"),
        MetricType::HISTOGRAM => (family.name(), "histogram"),
        // It describes the process.
        _ if family.name() == "target_info" => ("target", "info"),
        _ => (family.name(), "gauge"),
    };
    let _ = writeln!(page, "# TYPE {name} {kind}");
    let _ = writeln!(page, "# HELP {name} {}", escaped(family.help()));
    let has_exemplars = family.name() == REQUEST_DURATION.prometheus();
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match kind {
            "counter" => {
                let value = metric.get_counter().get_value();
                line(page, &format!("{name}_total"), labels, None, value);
            }
            "histogram" => {
                let exemplars = has_exemplars.then_some(meters);
                write_histogram(page, name, metric, exemplars);
            }
            _ => line(
                page,
                family.name(),
                labels,
                None,
                metric.get_gauge().get_value(),
            ),
        }
    }
}

fn write_histogram(page: &mut String, name: &str, metric: &Metric, meters: Option<&Meters>) {
    let (labels, histogram) = (metric.get_label(), metric.get_histogram());
    let tenant = labels.iter().find(|label| label.name() == TENANT);
    let tenant = tenant.map_or("", |label| label.value());
    let bucket = format!("{name}_bucket");
    let count = histogram.get_sample_count();
    let bounded = histogram.get_bucket().iter();
    let bounded = bounded.map(|it| (it.upper_bound(), it.cumulative_count()));
    let bounded = bounded.filter(|(bound, _)| bound.is_finite());
    for (bound, count) in bounded.chain([(f64::INFINITY, count)]) {
        line(page, &bucket, labels, Some(bound), count as f64);
        let bound = bound.is_finite().then_some(bound);
        if let Some((seconds, exemplar)) = meters.and_then(|it| it.tracer().exemplar(tenant, bound))
        {
            // The exemplar is on the line of its bucket.
            page.pop();
            let at = exemplar.at as f64 / 1e9;
            let (trace, span) = (exemplar.trace, exemplar.span);
            let _ = writeln!(
                page,
                " # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {seconds} {at:.3}"
            );
        }
    }
    line(page, &format!("{name}_count"), labels, None, count as f64);
    line(
        page,
        &format!("{name}_sum"),
        labels,
        None,
        histogram.get_sample_sum(),
    );
}

/// Writes a sample.
fn line(page: &mut String, name: &str, labels: &[LabelPair], bound: Option<f64>, value: f64) {
    page.push_str(name);
    let pairs = labels
        .iter()
        .map(|it| (it.name().to_owned(), escaped(it.value())));
    let bound = bound.map(|it| ("le".to_owned(), number(it)));
    let pairs: Vec<_> = pairs
        .chain(bound)
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    if !pairs.is_empty() {
        let _ = write!(page, "{{{}}}", pairs.join(","));
    }
    let _ = writeln!(page, " {value}");
}

/// A boundary in the format's canonical form.
fn number(bound: f64) -> String {
    match bound {
        _ if bound.is_infinite() => "+Inf".to_owned(),
        _ if bound.fract() == 0.0 => format!("{bound:.1}"),
        _ => bound.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_that_prometheus_prefers_is_told() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, preferred) in [
            (prometheus, true),
            ("application/openmetrics-text", true),
            (
                "Application/OpenMetrics-Text; q=0.5, text/plain;q=0.5",
                true,
            ),
            ("text/plain, application/openmetrics-text;q=0.9", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
            ("text/plain;version=0.0.4", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(is_preferred(accept), preferred, "{accept}");
        }
    }

    #[test]
    fn numbers_and_texts_are_as_the_format_wants_them() {
        let numbers = [1e-5, 0.5, 1.0, 100.0, f64::INFINITY].map(number);
        assert_eq!(numbers, ["0.00001", "0.5", "1.0", "100.0", "+Inf"]);
        assert_eq!(escaped("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
    }
}
