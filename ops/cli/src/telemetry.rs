//! Logs, traces and metrics of this process, as the settings say.

use anyhow::{Result, anyhow};
use telemetry::{LogFormat, Role, Telemetry, TelemetrySettings, start_logs};

use crate::exit::UsageError;
use crate::settings::Settings;

/// Sends logs to stderr as the settings say.
///
/// # Errors
/// [`Usage`] when the filter or the format is none.
pub fn logs(settings: &Settings) -> Result<()> {
    let format: LogFormat = settings
        .text("log.format")
        .parse()
        .map_err(|error| UsageError(format!("log.format: {error}")))?;
    start_logs(settings.text("log.filter"), format)
        .map_err(|error| UsageError(format!("log.filter: {error}")).into())
}

/// Telemetry as the settings say; off unless an endpoint is set.
///
/// # Errors
/// When the endpoint is none.
pub fn telemetry(role: Role, settings: &Settings) -> Result<Telemetry> {
    let cluster = settings.text("cluster.name");
    let endpoint = settings.text("telemetry.otlp");
    let chosen = TelemetrySettings::from_environment(role, cluster, endpoint);
    Telemetry::start(&chosen).map_err(|error| anyhow!("E-CONFIG-VALUE: telemetry.otlp: {error}"))
}
