//! Logs: `tracing` events on stderr, and over OTLP where an endpoint is set.
//!
//! An event has the ids of a trace if it is logged [`in_span`].
//!
//! Events about a tenant carry the fields `tenant` and `session`. None carries payload, kernel
//! images, arguments, credentials or tokens: those types do not implement `Display`, and events
//! never use `?` on a message.

use std::io::{IsTerminal, stderr};

use std::sync::OnceLock;
use std::time::Duration;

use bus_schemas::TraceContext;
use opentelemetry::trace::{SpanContext, TraceContextExt as _, TraceFlags, TraceState};
use opentelemetry::{Context, SpanId, TraceId};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::logs::SdkLoggerProvider;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::error::TelemetryError;
use crate::export::{collector, resource};
use crate::settings::TelemetrySettings;

/// Beginnings of targets with events of the export itself. To export them would make more of them.
const OWN: [&str; 4] = ["opentelemetry", "telemetry", "reqwest", "hyper"];
/// The export of this process's logs.
static EXPORT: OnceLock<SdkLoggerProvider> = OnceLock::new();

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people; coloured if stderr is a terminal.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, TelemetryError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(TelemetryError::Logs(format!(
                "{other:?} is neither text nor json"
            ))),
        }
    }
}

/// Sends the logs of the whole process to stderr from now on, and to the collector of `export` if it has an endpoint
/// for logs. `filter` is a level (error, warn, info, debug, trace) or a `tracing` filter such as `warn,actors=debug`.
/// The variable `WARPLOOM_LOG` overrides it if set.
///
/// # Errors
/// The filter is invalid, the process's logs are set up already, or as [`crate::Telemetry::start`].
pub fn start_logs(
    filter: &str,
    format: LogFormat,
    export: &TelemetrySettings,
) -> Result<(), TelemetryError> {
    let variable = std::env::var("WARPLOOM_LOG").ok();
    let chosen = variable.as_deref().filter(|text| !text.is_empty());
    let filter = chosen.unwrap_or(filter);
    let colours = stderr().is_terminal();
    let provider = provider(export)?;
    let subscriber = subscriber(filter, format, (colours, stderr), provider.as_ref())?;
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| TelemetryError::Logs(error.to_string()))?;
    if let Some(provider) = provider {
        // Set once: a process's logs are set up once.
        let _ = EXPORT.set(provider);
    }
    Ok(())
}

/// Sends the logs that are left to the collector, at the end of a process. Blocks for `limit` at most.
pub fn end_logs(limit: Duration) {
    if let Some(provider) = EXPORT.get() {
        // The collector may be gone; stderr has the logs.
        let _ = provider.shutdown_with_timeout(limit);
    }
}

/// Calls `log` such that its events have the ids of a span.
pub fn in_span<T>(span: TraceContext, log: impl FnOnce() -> T) -> T {
    let context = SpanContext::new(
        TraceId::from_bytes(span.trace.0),
        SpanId::from_bytes(span.span.0),
        if span.sampled {
            TraceFlags::SAMPLED
        } else {
            TraceFlags::default()
        },
        true,
        TraceState::NONE,
    );
    let _attached = Context::new().with_remote_span_context(context).attach();
    log()
}

/// Creates the export of logs; `None` if no endpoint is set.
fn provider(settings: &TelemetrySettings) -> Result<Option<SdkLoggerProvider>, TelemetryError> {
    let Some(endpoint) = &settings.logs else {
        return Ok(None);
    };
    let exporter = LogExporter::builder()
        .with_http()
        .with_http_client(collector(settings, endpoint)?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(settings.timeout)
        .build()
        .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
    let provider = SdkLoggerProvider::builder()
        .with_resource(resource(settings))
        .with_batch_exporter(exporter)
        .build();
    Ok(Some(provider))
}

fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    (colours, writer): (bool, W),
    provider: Option<&SdkLoggerProvider>,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let parsed = |text: &str| {
        EnvFilter::try_new(text)
            .map_err(|error| TelemetryError::Logs(format!("filter {filter:?}: {error}")))
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(writer);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let exported = provider.map(|provider| {
        let others = filter_fn(|event| !OWN.iter().any(|own| event.target().starts_with(own)));
        let bridge = OpenTelemetryTracingBridge::new(provider);
        Ok::<_, TelemetryError>(bridge.with_filter(parsed(filter)?.and(others)))
    });
    let subscriber = Registry::default()
        .with(lines.with_filter(parsed(filter)?))
        .with(exported.transpose()?);
    Ok(Box::new(subscriber))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: LogFormat) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let output = (false, move || writer.clone());
        let subscriber = subscriber(filter, format, output, None);
        tracing::subscriber::with_default(subscriber.expect("a filter"), || {
            tracing::info!(
                tenant = "chat",
                session = "0000000001000001",
                "session opened"
            );
            tracing::debug!("detail");
        });
        let bytes = lines.0.lock().expect("no panic").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_filter_decides_what_is_written() {
        assert_eq!(logged("warn", LogFormat::Text), "");
        let info = logged("info", LogFormat::Text);
        assert!(
            info.contains("session opened") && info.contains("tenant=\"chat\""),
            "{info}"
        );
        assert!(!info.contains("detail"));
        assert!(logged("telemetry=debug", LogFormat::Text).contains("detail"));
    }

    #[test]
    fn json_is_one_object_a_line() {
        let text = logged("debug", LogFormat::Json);
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        }
        assert!(text.contains(r#""tenant":"chat""#) && text.contains(r#""level":"INFO""#));
    }

    #[test]
    fn what_is_no_filter_or_format_is_said() {
        let error = subscriber("a=b=c", LogFormat::Text, (false, stderr), None).err();
        assert!(error.is_some_and(|error| error.to_string().contains("a=b=c")));
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
