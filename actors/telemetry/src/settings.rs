//! The settings of telemetry. The endpoint comes from a setting or from OpenTelemetry's environment
//! variables.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::resource::ResourceSettings;

/// The role of a process in the cluster, which also names its service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A leader or a candidate.
    Leader,
    /// A GPU worker.
    Worker,
    /// A client.
    Client,
    /// A controller.
    Controller,
    /// A tracer.
    Tracer,
}

impl Role {
    /// Returns the process's `service.name`, unless its environment sets another.
    #[must_use]
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Leader => "warploom-leader",
            Self::Worker => "warploom-worker",
            Self::Client => "warploom-client",
            Self::Controller => "warploom-controller",
            Self::Tracer => "warploom-tracer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.service_name())
    }
}

/// Settings of a process's telemetry. Without an endpoint no data leaves the process.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    /// The role of the process.
    pub role: Role,
    /// The cluster's name, a resource attribute.
    pub cluster: String,
    /// The full URL to which spans are posted; `None` disables spans.
    pub traces: Option<String>,
    /// The full URL to which metrics are posted; `None` disables this export of metrics.
    pub metrics: Option<String>,
    /// The full URL to which logs are posted; `None` disables this export of logs.
    pub logs: Option<String>,
    /// True if Prometheus can read metrics as a page.
    pub page: bool,
    /// True if a worker also exports its device under the names of NVIDIA's exporter.
    pub nvidia_names: bool,
    /// A PEM file with the certificates that the collector's is checked against; by default those
    /// of the system.
    pub certificate: Option<PathBuf>,
    /// Headers of posts of spans: `OTEL_EXPORTER_OTLP_HEADERS`. The SDK reads those of metrics itself.
    pub headers: Vec<(String, String)>,
    /// Attributes of the process that its environment sets.
    pub resource: ResourceSettings,
    /// True if programs are to report their requests to a tracer; `None`: if an endpoint for spans is set.
    pub requests: Option<bool>,
    /// Share of requests that are traced, 0 to 1: of those without a parent if the parent is obeyed, else of all.
    pub sample: f64,
    /// True if the parent of a request decides on it, where there is one: the sampler is `parentbased_…`.
    pub obeys_parent: bool,
    /// Maximum time for one post with all its retries.
    pub timeout: Duration,
}

impl TelemetrySettings {
    /// Settings with which no data leaves the process.
    #[must_use]
    pub fn off(role: Role, cluster: &str) -> Self {
        Self {
            role,
            cluster: cluster.to_owned(),
            traces: None,
            metrics: None,
            logs: None,
            page: false,
            nvidia_names: false,
            certificate: None,
            headers: Vec::new(),
            resource: ResourceSettings::default(),
            requests: None,
            sample: 1.0,
            obeys_parent: true,
            timeout: Duration::from_secs(3),
        }
    }

    /// Resolves the setting `endpoint` (the base URL of a collector; empty is unset) over the
    /// environment: `OTEL_EXPORTER_OTLP_[TRACES_|METRICS_|LOGS_]ENDPOINT`,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_TRACES_SAMPLER[_ARG]`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`, `OTEL_SDK_DISABLED`.
    #[must_use]
    pub fn from_environment(role: Role, cluster: &str, endpoint: &str) -> Self {
        Self::resolve(role, cluster, endpoint, |name| std::env::var(name).ok())
    }

    fn resolve(
        role: Role,
        cluster: &str,
        endpoint: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let text = |name| variable(name).unwrap_or_default();
        let off = Self {
            // The page has them too, and is there without an export.
            resource: ResourceSettings::new(
                &text("OTEL_RESOURCE_ATTRIBUTES"),
                &text("OTEL_SERVICE_NAME"),
            ),
            ..Self::off(role, cluster)
        };
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return off;
        }
        let set = Some(endpoint.to_owned()).filter(|endpoint| !endpoint.is_empty());
        let signal = |name: &str, path: &str| {
            let below = |base: String| format!("{}/v1/{path}", base.trim_end_matches('/'));
            set.clone().map(below).or_else(|| {
                variable(name).or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT").map(below))
            })
        };
        let number = |name| variable(name).and_then(|value| value.parse::<f64>().ok());
        let sampler = variable("OTEL_TRACES_SAMPLER").unwrap_or_default();
        let ratio = || number("OTEL_TRACES_SAMPLER_ARG").unwrap_or(1.0);
        let (obeys_parent, sample) = match &*sampler {
            "always_on" => (false, 1.0),
            "always_off" => (false, 0.0),
            "traceidratio" => (false, ratio()),
            "parentbased_always_off" => (true, 0.0),
            "parentbased_traceidratio" => (true, ratio()),
            // The default of the specification, `parentbased_always_on`.
            _ => (true, 1.0),
        };
        let millis = variable("OTEL_EXPORTER_OTLP_TIMEOUT").and_then(|value| value.parse().ok());
        Self {
            traces: signal("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "traces"),
            metrics: signal("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "metrics"),
            logs: signal("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "logs"),
            headers: variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
                .or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"))
                .map_or_else(Vec::new, |text| headers(&text)),
            certificate: variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from),
            sample: sample.clamp(0.0, 1.0),
            obeys_parent,
            timeout: millis.map_or(off.timeout, Duration::from_millis),
            ..off
        }
    }

    /// True if no data leaves the process.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.traces.is_none()
            && self.metrics.is_none()
            && self.logs.is_none()
            && !self.page
            && self.requests != Some(true)
    }
}

/// Reads `name=value,name=value`, with percent-encoded values. Parts of another form are left out.
fn headers(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim());
        let value = value.decode_utf8().ok()?.into_owned();
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value))
    };
    text.split(',').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(endpoint: &str, environment: &[(&str, &str)]) -> TelemetrySettings {
        TelemetrySettings::resolve(Role::Leader, "test", endpoint, |name| {
            let found = environment.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn urls(settings: &TelemetrySettings) -> (Option<&str>, Option<&str>) {
        (settings.traces.as_deref(), settings.metrics.as_deref())
    }

    #[test]
    fn off_unless_something_is_set() {
        assert!(resolve("", &[]).is_off());
        assert!(resolve("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).is_off());
        assert!(resolve("http://a:1", &[("OTEL_SDK_DISABLED", "true")]).is_off());
    }

    #[test]
    fn attributes_of_the_process_are_read_and_stay_without_an_export() {
        let given = [
            ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20b"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_SDK_DISABLED", "true"),
        ];
        let expected = ResourceSettings::new("team=a%20b", "mine");
        assert_eq!(resolve("http://a:1", &given[..2]).resource, expected);
        let disabled = resolve("http://a:1", &given);
        assert!(disabled.is_off());
        assert_eq!(disabled.resource, expected);
        assert_eq!(resolve("", &[]).resource, ResourceSettings::default());
    }

    #[test]
    fn the_setting_goes_over_the_environment() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:2/x");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:3/verbatim");
        let both = (Some("http://a:1/v1/traces"), Some("http://a:1/v1/metrics"));
        assert_eq!(urls(&resolve("http://a:1/", &[general, traces])), both);
        let below = (
            Some("http://b:2/x/v1/traces"),
            Some("http://b:2/x/v1/metrics"),
        );
        assert_eq!(urls(&resolve("", &[general])), below);
        let one = (Some("http://c:3/verbatim"), None);
        assert_eq!(urls(&resolve("", &[traces])), one);
    }

    #[test]
    fn the_sampler_the_timeout_and_the_certificate_are_read() {
        let ratio = [
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/collector.pem"),
        ];
        let settings = resolve("http://a:1", &ratio);
        assert_eq!((settings.sample, settings.timeout.as_millis()), (0.25, 250));
        assert!(settings.obeys_parent);
        let token = [(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20x, , a = b,=c",
        )];
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = resolve("http://a:1", &token).headers;
        assert_eq!(headers, [pair("authorization", "Bearer x"), pair("a", "b")]);
        let certificate = settings.certificate.expect("it is set");
        assert_eq!(certificate, PathBuf::from("/etc/collector.pem"));
        let samplers = [
            ("", (true, 1.0)),
            ("something", (true, 1.0)),
            ("always_on", (false, 1.0)),
            ("always_off", (false, 0.0)),
            ("traceidratio", (false, 0.5)),
            ("parentbased_always_on", (true, 1.0)),
            ("parentbased_always_off", (true, 0.0)),
            ("parentbased_traceidratio", (true, 0.5)),
        ];
        for (name, expected) in samplers {
            let argument = ("OTEL_TRACES_SAMPLER_ARG", "0.5");
            let chosen = resolve("http://a:1", &[("OTEL_TRACES_SAMPLER", name), argument]);
            assert_eq!((chosen.obeys_parent, chosen.sample), expected, "{name}");
        }
    }
}
