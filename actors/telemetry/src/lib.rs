//! Warploom's own telemetry: spans, metrics, logs.
//!
//! A process has one [`Telemetry`], made by its role at start-up and cloned into its actors.
//! Metrics are always kept in process ([`Meters`]) for `warploom status` and the demo. Spans, and
//! the export of both over OTLP, are off unless an endpoint is set; a span then costs one branch.
//! Exporters run on threads of their own, so a collector that is slow or gone does not block an
//! actor. Neither does a reader of the metrics page ([`MetricsServer`]). All metrics are in one
//! table ([`catalogue::METRICS`]).

pub mod catalogue;
mod collector;
mod context;
mod error;
mod export;
mod exposition;
mod histogram;
mod instruments;
mod logs;
mod meters;
mod scrape;
mod settings;
mod span;
mod trail;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use context::{SpanId, TRACEPARENT, TraceContext, TraceId};
pub use error::TelemetryError;
pub use exposition::METRICS_TYPE;
pub use histogram::Histogram;
pub use logs::{LogFormat, start_logs};
pub use meters::{
    ClusterReading, ControllerMeters, DeviceIdentity, GpuMeters, LeaderMeters, MemoryReading,
    Meters, TargetReading, TenantMemoryReading, TenantMeters, TenantReading, TenantSnapshot,
    UsageTotals, Verified,
};
pub use scrape::{MetricsServer, names_this_host};
pub use settings::{Role, TelemetrySettings};
pub use span::{Span, SpanName};
pub use trail::{Trail, TrailMark};

use bus_schemas::Tenant;
use context::Ids;
use export::Export;

/// A process's telemetry. Cloning is cheap, and all clones share it. Dropping the last clone sends
/// pending data, as [`Telemetry::shutdown`] does.
#[derive(Debug, Clone)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ids: Ids,
    // Dropped before the meters, because its last export reads them.
    export: Option<Export>,
    meters: Arc<Meters>,
    /// A trace is sampled if the upper half of its id is below this.
    sampled_below: u128,
}

impl Telemetry {
    /// Keeps metrics in process only: no spans, no export, no threads.
    #[must_use]
    pub fn off() -> Self {
        Self(Arc::new(Inner {
            ids: Ids::new(),
            meters: Arc::new(Meters::new()),
            export: None,
            sampled_below: 0,
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
        let ids = Ids::new();
        let meters = Arc::new(Meters::new());
        let export = Export::start(settings, ids.instance(), &meters)?;
        let ratio = settings.sample.clamp(0.0, 1.0);
        Ok(Self(Arc::new(Inner {
            ids,
            meters,
            sampled_below: (ratio * (u64::MAX as f64)) as u128 + u128::from(ratio >= 1.0),
            export: Some(export),
        })))
    }

    /// Returns the process's metrics.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// True if spans are exported.
    #[must_use]
    pub fn tracing(&self) -> bool {
        self.0.export.as_ref().is_some_and(Export::takes_spans)
    }

    /// Returns the context of a new request: a child of `parent` if the program is itself traced,
    /// else the root of a new trace. `None` if spans are off or the trace is not sampled; then
    /// there is no context to send.
    #[must_use]
    pub fn request(&self, parent: Option<TraceContext>) -> Option<TraceContext> {
        if !self.tracing() {
            return None;
        }
        if let Some(parent) = parent {
            return parent.sampled.then(|| self.child(parent));
        }
        let root = self.0.ids.root();
        let draw = u128::from_be_bytes(root.trace.0) & u128::from(u64::MAX);
        (draw < self.0.sampled_below).then_some(root)
    }

    /// Returns the context of a new span under `parent`.
    #[must_use]
    pub fn child(&self, parent: TraceContext) -> TraceContext {
        TraceContext {
            span: self.0.ids.span(),
            ..parent
        }
    }

    /// Hands over a finished span. Never blocks: the span is dropped if the exporter's queue is
    /// full.
    pub fn finish(&self, span: &Span<'_>) {
        if let Some(export) = &self.0.export {
            export.span(span);
        }
    }

    /// Hands over a finished span without children, and draws its id.
    pub fn finish_child(&self, parent: TraceContext, span: Span<'_>) {
        if self.tracing() {
            let context = self.child(parent);
            self.finish(&Span {
                context,
                parent: Some(parent.span),
                ..span
            });
        }
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
