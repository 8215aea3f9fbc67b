//! Metrics in Prometheus's format: the same instruments as for OTLP, by the library's exporter.
//!
//! The library writes the text format 0.0.4. `openmetrics` writes the other format.

use std::collections::HashSet;

use bus_schemas::Tenant;
use opentelemetry::Key;
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, Registry, TextEncoder};

/// Content type of a page of metrics.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The process attribute that is also a label of each series, because one Prometheus may read
/// several clusters.
const CLUSTER: &str = "warploom.cluster";

/// The label that names a tenant.
const TENANT: &str = "warploom_tenant";

/// The page of a process's metrics.
#[derive(Debug)]
pub(crate) struct Exposition(Registry);

impl Exposition {
    /// Creates the page and the reader that fills it.
    pub(crate) fn new() -> Result<(Self, PrometheusExporter), String> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .with_resource_selector(HashSet::from([Key::from_static_str(CLUSTER)]))
            .scope_info_enabled(false)
            .build();
        let exporter = exporter.map_err(|error| error.to_string())?;
        Ok((Self(registry), exporter))
    }

    /// The current metrics.
    pub(crate) fn families(&self) -> Vec<MetricFamily> {
        let mut families = self.0.gather();
        for family in &mut families {
            // The library appends a unit that the name already has; OpenTelemetry's rules forbid
            // that.
            if let Some(stem) = family.name().strip_suffix("_bytes_bytes_total") {
                let name = format!("{stem}_bytes_total");
                family.set_name(name);
            }
        }
        families
    }

    /// Renders the current page, or its part of one tenant.
    pub(crate) fn render(&self, of: Option<&Tenant>) -> String {
        let mut families = self.families();
        if let Some(tenant) = of {
            for family in &mut families {
                let series = family.take_metric().into_iter();
                family.set_metric(series.filter(|it| is_of(it, tenant)).collect());
            }
        }
        families.retain(|family| !family.get_metric().is_empty());
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::warn!(%error, "metrics cannot be written");
            text.clear();
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// True if a series belongs to the tenant.
fn is_of(series: &prometheus::proto::Metric, tenant: &Tenant) -> bool {
    let labels = series.get_label().iter();
    let mut tenants = labels.filter(|label| label.name() == TENANT);
    tenants.any(|label| label.value() == tenant.as_str())
}
