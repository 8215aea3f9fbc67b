//! Warploom's own telemetry: spans, metrics, logs.
//!
//! A process has one [`Telemetry`], made by its role at start-up and cloned into its actors.
//! Metrics are always kept in process ([`Meters`]) for `warploom status` and the demo. Their export over OTLP
//! is off unless an endpoint is set. The spans of all roles are exported by the tracer ([`SpanExport`]).
//! Exporters run on threads of their own, so a collector that is slow or gone does not block an
//! actor. Neither does a reader of the metrics page ([`MetricsServer`]). All metrics are in one
//! table ([`catalogue::METRICS`]).

pub mod catalogue;
mod collector;
mod error;
mod export;
mod exposition;
mod histogram;
mod instruments;
mod logs;
mod meters;
mod openmetrics;
mod resource;
mod scrape;
mod settings;
mod spans;
mod trail;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::TelemetryError;
pub use exposition::METRICS_TYPE;
pub use histogram::Histogram;
pub use logs::{LogFormat, end_logs, in_span, start_logs};
pub use meters::{
    ClusterReading, ControllerMeters, DeviceIdentity, Exemplar, GpuMeters, LeaderMeters,
    MemoryReading, Meters, Price, QueueAge, TargetReading, TenantMemoryReading, TenantMeters,
    TenantReading, TenantSnapshot, TracerMeters, Untraced, UsageTotals, Verified,
};
pub use openmetrics::OPENMETRICS_TYPE;
pub use resource::ResourceSettings;
pub use scrape::{MetricsServer, names_this_host};
pub use settings::{Role, TelemetrySettings};
pub use spans::{Attribute, Attributes, FinishedSpan, SendError, SpanEvent, SpanExport};
pub use trail::{Trail, TrailMark};

use bus_schemas::Tenant;
use export::Export;

/// A process's telemetry. Cloning is cheap, and all clones share it. Dropping the last clone sends
/// pending data, as [`Telemetry::shutdown`] does.
#[derive(Debug, Clone)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    // Dropped before the meters, because its last export reads them.
    export: Option<Export>,
    meters: Arc<Meters>,
    /// True if the cluster's requests are traced.
    traces: bool,
}

impl Telemetry {
    /// Keeps metrics in process only: no spans, no export, no threads.
    #[must_use]
    pub fn off() -> Self {
        Self(Arc::new(Inner {
            meters: Arc::new(Meters::new()),
            export: None,
            traces: false,
        }))
    }

    /// Starts telemetry by the settings; the same as [`Telemetry::off`] if no endpoint is set.
    ///
    /// # Errors
    /// An endpoint that is neither `http://…` nor `https://…`, certificates that cannot be read, or
    /// settings that the exporter refuses. An absent collector is no error: data that cannot be
    /// sent is dropped, and logged as a warning.
    pub fn start(settings: &TelemetrySettings) -> Result<Self, TelemetryError> {
        if settings.is_off() {
            return Ok(Self::off());
        }
        if let Some(why) = settings.resource.discarded() {
            tracing::warn!(why, "OTEL_RESOURCE_ATTRIBUTES is discarded");
        }
        let meters = Arc::new(Meters::new());
        let export = Export::start(settings, &meters)?;
        Ok(Self(Arc::new(Inner {
            meters,
            traces: settings.requests.unwrap_or(settings.traces.is_some()),
            export: Some(export),
        })))
    }

    /// Returns the process's metrics.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// True if programs are to report their requests: by the setting, or else if an endpoint for spans is set.
    #[must_use]
    pub fn tracing(&self) -> bool {
        self.0.traces
    }

    /// True if metrics are posted to a collector periodically.
    #[must_use]
    pub fn posts_metrics(&self) -> bool {
        self.0.export.as_ref().is_some_and(Export::posts_metrics)
    }

    /// Returns the current metrics in Prometheus's format ([`METRICS_TYPE`]); `None` if that is not
    /// enabled.
    #[must_use]
    pub fn exposition(&self) -> Option<String> {
        self.0.export.as_ref()?.page(None)
    }

    /// Returns the current metrics in the format OpenMetrics ([`OPENMETRICS_TYPE`]), with exemplars; `None` as
    /// [`Telemetry::exposition`].
    #[must_use]
    pub fn openmetrics(&self) -> Option<String> {
        self.0.export.as_ref()?.openmetrics(&self.0.meters)
    }

    /// Returns the metrics of one tenant: only the series with its name.
    #[must_use]
    pub fn exposition_of(&self, tenant: &Tenant) -> Option<String> {
        self.0.export.as_ref()?.page(Some(tenant))
    }

    /// Sends pending data and stops the exporters, at the end of a process. Blocks for at most
    /// about `limit`. Metrics are still kept afterwards, spans are not.
    pub fn shutdown(&self, limit: Duration) {
        if let Some(export) = &self.0.export {
            let deadline = Instant::now() + limit;
            export.shutdown(deadline);
        }
    }

    /// Sends pending data now; blocks until it is sent or given up.
    pub fn flush(&self) {
        if let Some(export) = &self.0.export {
            export.flush();
        }
    }
}
