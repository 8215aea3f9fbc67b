//! Logs: `tracing` events on stderr.
//!
//! Events about a tenant carry the fields `tenant` and `session`. None carries payload, kernel
//! images, arguments, credentials or tokens: those types do not implement `Display`, and events
//! never use `?` on a message.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::error::TelemetryError;

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

/// Sends the logs of the whole process to stderr from now on. `filter` is a level (error, warn,
/// info, debug, trace) or a `tracing` filter such as `warn,actors=debug`. The variable
/// `WARPLOOM_LOG` overrides it if set.
///
/// # Errors
/// The filter is invalid, or the process's logs are set up already.
pub fn start_logs(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let variable = std::env::var("WARPLOOM_LOG").ok();
    let chosen = variable.as_deref().filter(|text| !text.is_empty());
    let colours = stderr().is_terminal();
    let subscriber = subscriber(chosen.unwrap_or(filter), format, colours, stderr)?;
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| TelemetryError::Logs(error.to_string()))
}

fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    colours: bool,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| TelemetryError::Logs(format!("filter {filter:?}: {error}")))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
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
        let subscriber = subscriber(filter, format, false, move || writer.clone());
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
        let error = subscriber("a=b=c", LogFormat::Text, false, stderr).err();
        assert!(error.is_some_and(|error| error.to_string().contains("a=b=c")));
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
