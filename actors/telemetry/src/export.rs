//! The export of a process's metrics: one registry for all readers.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use bus_schemas::Tenant;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::TelemetryResourceDetector;

use crate::collector::Collector;
use crate::error::TelemetryError;
use crate::exposition::Exposition;
use crate::instruments;
use crate::meters::Meters;
use crate::openmetrics;
use crate::settings::TelemetrySettings;

/// Maximum time that dropping the exporters may wait for a collector.
const FAREWELL: Duration = Duration::from_secs(2);

/// The exporters of a process, each with its thread.
#[derive(Debug)]
pub(crate) struct Export {
    metrics: Option<SdkMeterProvider>,
    page: Option<Exposition>,
    posts: bool,
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
        meters: &Arc<Meters>,
    ) -> Result<Self, TelemetryError> {
        let resource = resource(settings);
        if settings.nvidia_names {
            meters.share_devices();
        }
        let (metrics, page) = provider(settings, resource)?;
        if let Some(provider) = &metrics {
            let meter = provider.meter_with_scope(scope());
            instruments::register(settings.role, &meter, meters);
        }
        Ok(Self {
            metrics,
            page,
            posts: settings.metrics.is_some(),
            stopped: AtomicBool::new(false),
        })
    }

    pub(crate) fn posts_metrics(&self) -> bool {
        self.posts
    }

    /// Returns the metrics as a page, or the part of one tenant; `None` if the page is not enabled.
    pub(crate) fn page(&self, of: Option<&Tenant>) -> Option<String> {
        self.page.as_ref().map(|page| page.render(of))
    }

    /// Returns the metrics in the format OpenMetrics.
    pub(crate) fn openmetrics(&self, meters: &Meters) -> Option<String> {
        self.page
            .as_ref()
            .map(|page| openmetrics::text(&page.families(), meters))
    }

    /// The SDK logs errors through `tracing`; nothing more can be done about one.
    pub(crate) fn flush(&self) {
        if let Some(metrics) = &self.metrics {
            let _ = metrics.force_flush();
        }
    }

    pub(crate) fn shutdown(&self, deadline: Instant) {
        if self.stopped.swap(true, Ordering::Relaxed) {
            return;
        }
        let left = || deadline.saturating_duration_since(Instant::now());
        if let Some(metrics) = &self.metrics {
            let _ = metrics.shutdown_with_timeout(left().max(Duration::from_millis(1)));
        }
    }
}

/// Returns a number of this process that tells instances of a service apart.
fn instance() -> u64 {
    static INSTANCE: OnceLock<u64> = OnceLock::new();
    *INSTANCE.get_or_init(|| {
        // The standard library keys its hash maps from the system's random numbers.
        let since_epoch = SystemTime::UNIX_EPOCH.elapsed();
        let nanos = since_epoch.map_or(0, |elapsed| elapsed.as_nanos());
        RandomState::new().hash_one((std::process::id(), nanos))
    })
}

/// Returns the name of this host; empty if it is unknown.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.unwrap_or_default().trim().to_owned()
}

/// The instrumentation scope of all metrics.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("warploom")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// The attributes of this process. Those of its environment win over ours.
pub(crate) fn resource(settings: &TelemetrySettings) -> Resource {
    let given = settings.resource.own();
    let given = given.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_service_name(settings.role.service_name())
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.namespace", "warploom"),
            KeyValue::new("service.instance.id", format!("{:016x}", instance())),
            KeyValue::new("host.name", host_name()),
            KeyValue::new("process.pid", i64::from(std::process::id())),
            KeyValue::new("warploom.cluster", settings.cluster.clone()),
        ])
        .with_attributes(given)
        .build()
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

/// The connection to the collector at an endpoint.
pub(crate) fn collector(
    settings: &TelemetrySettings,
    endpoint: &str,
) -> Result<Collector, TelemetryError> {
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
