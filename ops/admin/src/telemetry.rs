//! Logs, traces and metrics of this process, according to the settings.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use telemetry::{
    LogFormat, MetricsServer, Role, Telemetry, TelemetryError, TelemetrySettings, start_logs,
};

use crate::errors::{ErrorCode, UsageError};
use crate::settings::Settings;

/// Time that the end of a process waits for the collector of logs.
const FAREWELL: Duration = Duration::from_secs(2);

/// Sends logs to stderr and to the collector, according to the settings.
///
/// # Errors
/// [`UsageError`] if the filter or the format is invalid, `E-CONFIG-VALUE` if the endpoint is.
pub fn logs(role: Role, settings: &Settings) -> Result<()> {
    let format: LogFormat = settings
        .text("log.format")
        .parse()
        .map_err(|error| UsageError(format!("log.format: {error}")))?;
    let (cluster, endpoint) = (
        settings.text("cluster.name"),
        settings.text("telemetry.otlp"),
    );
    let export = TelemetrySettings::from_environment(role, cluster, endpoint);
    start_logs(settings.text("log.filter"), format, &export).map_err(|error| match error {
        TelemetryError::Logs(why) => UsageError(format!("log.filter: {why}")).into(),
        error => anyhow!(ErrorCode::ConfigValue.usage(format!("telemetry.otlp: {error}"))),
    })
}

/// Sends the logs that are left to the collector, at the end of a process.
pub fn end_logs() {
    telemetry::end_logs(FAREWELL);
}

/// Telemetry according to the settings; off unless an endpoint is set, or metrics are served here.
///
/// # Errors
/// `E-CONFIG-VALUE` if the endpoint is invalid.
pub fn telemetry(role: Role, settings: &Settings) -> Result<Telemetry> {
    let cluster = settings.text("cluster.name");
    let endpoint = settings.text("telemetry.otlp");
    let chosen = TelemetrySettings {
        page: match role {
            Role::Leader => settings.given("leader.metrics").is_some(),
            Role::Worker => settings.given("worker.metrics").is_some(),
            // Its own listener serves them at a path.
            Role::Controller => true,
            Role::Tracer => settings.given("tracer.metrics").is_some(),
            Role::Client => false,
        },
        requests: match settings.text("telemetry.requests") {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        },
        nvidia_names: settings.text("metrics.dcgm") == "on",
        ..TelemetrySettings::from_environment(role, cluster, endpoint)
    };
    Telemetry::start(&chosen)
        .map_err(|error| anyhow!(ErrorCode::ConfigValue.usage(format!("telemetry.otlp: {error}"))))
}

/// Serves metrics at the address of the setting, if it has one, until the result is dropped.
///
/// # Errors
/// If the setting is no address, or if it could be reached from other hosts and that is not
/// allowed; also if listening fails.
pub fn metrics(
    key: &str,
    settings: &Settings,
    telemetry: &Telemetry,
) -> Result<Option<MetricsServer>> {
    let Some(text) = settings.given(key) else {
        return Ok(None);
    };
    let address = metrics_address(key, text, settings.text("metrics.public") == "on")?;
    let server = MetricsServer::start(telemetry.clone(), address);
    let server = server
        .with_context(|| ErrorCode::MetricsListen.failed(format!("{key}: listening on {text}")))?;
    tracing::info!(address = %server.address(), "metrics can be read");
    Ok(Some(server))
}

fn metrics_address(key: &str, text: &str, public: bool) -> Result<SocketAddr> {
    let address: SocketAddr = text.parse().map_err(|_| {
        ErrorCode::ConfigValue.usage(format!(
            "{key} = {text:?} is not ADDRESS:PORT, such as 127.0.0.1:9464"
        ))
    })?;
    if !address.ip().is_loopback() && !public {
        bail!(ErrorCode::ConfigValue.usage(format!(
            "{key} = {text}: others than this host could read the names of tenants and \
             what they do: set metrics.public=on if they may, or listen on 127.0.0.1"
        )));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errors::{Class, class};

    #[test]
    fn an_endpoint_that_is_none_is_an_error_of_the_caller() {
        let flags = [("telemetry.otlp".to_owned(), "ftp://h".to_owned())];
        let settings = Settings::resolve(None, |_| None, &flags).unwrap();
        let refused = telemetry(Role::Worker, &settings).err().unwrap();
        assert_eq!(class(&refused), Class::Usage, "{refused:#}");
        let refused = logs(Role::Worker, &settings).unwrap_err();
        assert_eq!(class(&refused), Class::Usage, "{refused:#}");
    }

    #[test]
    fn metrics_are_told_to_this_host_unless_it_is_asked_for_otherwise() {
        let address = |text, public| metrics_address("worker.metrics", text, public);
        assert!(address("127.0.0.1:9464", false).is_ok());
        assert!(address("[::1]:9464", false).is_ok());
        for open in ["0.0.0.0:9464", "[::]:9464", "192.0.2.1:9464"] {
            let refused = address(open, false).unwrap_err();
            assert_eq!(class(&refused), Class::Usage, "{refused:#}");
            assert!(refused.to_string().contains("metrics.public"), "{refused}");
            assert!(address(open, true).is_ok(), "{open}");
        }
        for wrong in ["9464", "localhost:9464", "127.0.0.1", "127.0.0.1:65536"] {
            assert_eq!(class(&address(wrong, true).unwrap_err()), Class::Usage);
        }
    }
}
