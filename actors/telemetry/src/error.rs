//! The errors of the telemetry's setup.

/// The reason that telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The endpoint is not one that we can send to.
    #[error("cannot send telemetry to {endpoint:?}: {reason}")]
    Endpoint {
        /// The endpoint as set.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// The exporter refused its settings.
    #[error("cannot set up the OTLP exporter: {0}")]
    Exporter(String),
    /// The log filter is invalid, or logs are set up already.
    #[error("cannot set up logs: {0}")]
    Logs(String),
}
