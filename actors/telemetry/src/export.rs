//! The export of a process: finished spans through the SDK's batching threads over OTLP, and the
//! metrics of one registry for all readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use bus_schemas::Tenant;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};

use crate::collector::Collector;
use crate::context::{SpanId, TraceContext};
use crate::error::TelemetryError;
use crate::exposition::Exposition;
use crate::instruments;
use crate::meters::{Meters, gpu_attribute};
use crate::settings::TelemetrySettings;
use crate::span::{Span, SpanName};

/// Maximum time that dropping the exporters may wait for a collector.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exporters of a process, each with its thread.
#[derive(Debug)]
pub(crate) struct Export {
    spans: Option<BatchSpanProcessor>,
    metrics: Option<SdkMeterProvider>,
    page: Option<Exposition>,
    posts: bool,
    scope: InstrumentationScope,
    stopped: AtomicBool,
}

impl Drop for Export {
    fn drop(&mut self) {
        self.shutdown(Instant::now() + FAREWELL);
    }
}

impl Export {
    pub(crate) fn start(
        settings: &TelemetrySettings,
        instance: u64,
        meters: &Arc<Meters>,
    ) -> Result<Self, TelemetryError> {
        let resource = resource(settings, instance);
        let scope = InstrumentationScope::builder("warploom")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        let spans = settings.traces.as_deref();
        let spans = spans
            .map(|endpoint| span_processor(settings, endpoint, &resource))
            .transpose()?;
        if settings.nvidia_names {
            meters.share_devices();
        }
        let (metrics, page) = provider(settings, resource)?;
        if let Some(provider) = &metrics {
            let meter = provider.meter_with_scope(scope.clone());
            instruments::register(settings.role, &meter, meters);
        }
        Ok(Self {
            spans,
            metrics,
            page,
            posts: settings.metrics.is_some(),
            scope,
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn takes_spans(&self) -> bool {
        self.spans.is_some()
    }

    pub(crate) fn span(&self, span: &Span<'_>) {
        if let Some(processor) = &self.spans {
            processor.on_end(span_data(span, self.scope.clone()));
        }
    }

    pub(crate) fn posts_metrics(&self) -> bool {
        self.posts
    }

    /// Returns the metrics as a page, or the part of one tenant; `None` if the page is not enabled.
    pub(crate) fn page(&self, of: Option<&Tenant>) -> Option<String> {
        self.page.as_ref().map(|page| page.render(of))
    }

    /// The SDK logs errors through `tracing`; nothing more can be done about one.
    pub(crate) fn flush(&self) {
        if let Some(spans) = &self.spans {
            let _ = spans.force_flush();
        }
        if let Some(metrics) = &self.metrics {
            let _ = metrics.force_flush();
        }
    }

    pub(crate) fn shutdown(&self, deadline: Instant) {
        if self.stopped.swap(true, Ordering::Relaxed) {
            return;
        }
        let left = || deadline.saturating_duration_since(Instant::now());
        if let Some(spans) = &self.spans {
            let _ = spans.shutdown_with_timeout(left());
        }
        if let Some(metrics) = &self.metrics {
            let _ = metrics.shutdown_with_timeout(left().max(Duration::from_millis(1)));
        }
    }
}

fn resource(settings: &TelemetrySettings, instance: u64) -> Resource {
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
    let resource = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.namespace", "warploom"),
        KeyValue::new("service.instance.id", format!("{instance:016x}")),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("warploom.cluster", settings.cluster.clone()),
    ]);
    if named {
        return resource.build();
    }
    resource
        .with_service_name(settings.role.service_name())
        .build()
}

fn span_processor(
    settings: &TelemetrySettings,
    endpoint: &str,
    resource: &Resource,
) -> Result<BatchSpanProcessor, TelemetryError> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(collector(settings, endpoint)?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(settings.timeout)
        .build()
        .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
    let mut processor = BatchSpanProcessor::builder(exporter).build();
    processor.set_resource(resource);
    Ok(processor)
}

/// Creates the registry with its readers; `None` if it has no reader.
fn provider(
    settings: &TelemetrySettings,
    resource: Resource,
) -> Result<(Option<SdkMeterProvider>, Option<Exposition>), TelemetryError> {
    if settings.metrics.is_none() && !settings.page {
        return Ok((None, None));
    }
    let mut builder = SdkMeterProvider::builder().with_resource(resource);
    if let Some(endpoint) = &settings.metrics {
        let exporter = MetricExporter::builder()
            .with_http()
            .with_http_client(collector(settings, endpoint)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_timeout(settings.timeout)
            .build()
            .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        builder = builder.with_reader(PeriodicReader::builder(exporter).build());
    }
    let mut page = None;
    if settings.page {
        let (made, reader) = Exposition::new().map_err(TelemetryError::Exporter)?;
        builder = builder.with_reader(reader);
        page = Some(made);
    }
    Ok((Some(builder.build()), page))
}

fn collector(settings: &TelemetrySettings, endpoint: &str) -> Result<Collector, TelemetryError> {
    let certificate = settings.certificate.as_deref();
    Collector::new(endpoint, certificate, settings.timeout).map_err(|reason| {
        TelemetryError::Endpoint {
            // A login in the URL must not reach the error.
            endpoint: match endpoint.rsplit_once('@') {
                Some((_, host)) => format!("…@{host}"),
                None => endpoint.to_owned(),
            },
            reason,
        }
    })
}

fn span_data(span: &Span<'_>, scope: InstrumentationScope) -> SpanData {
    // Both instants are moved by the same distance, so the duration is the monotonic one.
    let (wall, now) = (SystemTime::now(), Instant::now());
    let at = |instant: Instant| wall - now.saturating_duration_since(instant);
    let span_kind = match span.name {
        SpanName::Request => SpanKind::Client,
        SpanName::Queue | SpanName::Execute | SpanName::Swap => SpanKind::Server,
    };
    SpanData {
        span_context: span_context(span.context),
        parent_span_id: span
            .parent
            .map_or(opentelemetry::SpanId::INVALID, otel_span),
        parent_span_is_remote: span.parent.is_some(),
        span_kind,
        name: span.name.as_str().into(),
        start_time: at(span.start),
        end_time: at(span.end.max(span.start)),
        attributes: attributes(span),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span
            .error
            .map_or(Status::Unset, |code| Status::error(code.to_owned())),
        instrumentation_scope: scope,
    }
}

fn span_context(context: TraceContext) -> SpanContext {
    let trace = opentelemetry::TraceId::from_bytes(context.trace.0);
    let flags = TraceFlags::default().with_sampled(context.sampled);
    SpanContext::new(
        trace,
        otel_span(context.span),
        flags,
        false,
        TraceState::NONE,
    )
}

fn otel_span(span: SpanId) -> opentelemetry::SpanId {
    opentelemetry::SpanId::from_bytes(span.0)
}

fn attributes(span: &Span<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("warploom.tenant", span.tenant.to_owned()),
        KeyValue::new("warploom.session", span.session.to_string()),
    ];
    attributes.extend(span.gpu.map(gpu_attribute));
    let numbers = [
        ("warploom.epoch", span.epoch),
        ("warploom.position", span.position),
        ("warploom.ops", span.ops),
        ("warploom.launches", span.launches),
        ("warploom.device_ns", span.device_ns),
    ];
    let set = numbers.into_iter().filter(|(_, value)| *value != 0);
    attributes.extend(set.map(|(name, value)| {
        // OTLP has no unsigned integers.
        KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX))
    }));
    attributes
}
