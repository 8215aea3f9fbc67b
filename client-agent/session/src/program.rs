//! Settings of a program that uses the drop-in libraries: the cluster and the tenant, from the
//! environment, which `warploom run` sets.

use std::ffi::OsString;
use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use bus::parse_duration;
use bus_schemas::{BrokerUrl, Tenant};
use toml::Table;

use crate::version;

/// The settings for access to the cluster.
#[derive(Clone)]
pub struct ProgramSettings {
    /// The broker; several URLs are separated by commas.
    pub url: BrokerUrl,
    /// User and password; `None` if the broker requires no login.
    pub login: Option<(String, String)>,
    /// The cluster's name.
    pub cluster: Tenant,
    /// The tenant of the program.
    pub tenant: Tenant,
    /// Number of virtual devices that the program sees.
    pub devices: usize,
    /// Time limit for connecting, and then for opening sessions.
    pub opening: Duration,
    /// Time that a session waits for a silent peer.
    pub deadline: Duration,
}

/// Defaults of these settings.
const OPENING: Duration = Duration::from_millis(2_400);
const DEADLINE: Duration = Duration::from_secs(30);

/// The variable that controls if the memory of this process's sessions may be swapped out.
const SWAP_VARIABLE: &str = "WARPLOOM_CLIENT_SWAP";

/// True if the memory of this process's sessions may be swapped out, which is the default.
pub(crate) fn swaps() -> bool {
    static PINNED: OnceLock<bool> = OnceLock::new();
    !*PINNED.get_or_init(|| std::env::var(SWAP_VARIABLE).is_ok_and(|said| said == "off"))
}

/// Maximum number of virtual devices of one process.
const DEVICES: usize = bus_schemas::limits::DEVICES as usize;

impl ProgramSettings {
    /// Reads the variables.
    ///
    /// # Errors
    /// The missing or wrong setting, and how to fix it.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let text = |name: &str| -> Result<Option<String>, String> {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
                return Ok(None);
            };
            let value = value.into_string();
            value.map(Some).map_err(|_| format!("{name} is not UTF-8"))
        };
        let name = |variable: &str, value: String| {
            let parsed = value.parse::<Tenant>();
            parsed.map_err(|error| format!("{variable}: {error}"))
        };
        let file = match text("WARPLOOM_BROKER_CREDENTIALS")? {
            Some(path) => credentials(&path)?,
            None => Table::new(),
        };
        let url = text("WARPLOOM_BROKER_URL")?.or_else(|| word(&file, "url"));
        let url = url.ok_or(
            "no cluster is named: start the program with `warploom run`, or set \
             WARPLOOM_BROKER_CREDENTIALS or WARPLOOM_BROKER_URL",
        )?;
        let cluster = text("WARPLOOM_CLUSTER_NAME")?.or_else(|| word(&file, "cluster"));
        let logins = logins(&file);
        let tenant = match (text("WARPLOOM_TENANT")?, &logins[..]) {
            (Some(tenant), _) => tenant,
            (None, [only]) => word(only, "name").unwrap_or_else(|| "default".into()),
            (None, _) => "default".into(),
        };
        let login = logins
            .iter()
            .find(|login| word(login, "name").as_ref() == Some(&tenant));
        let field = |key: &str| login.and_then(|login| word(login, key));
        let user = text("WARPLOOM_USER")?.or_else(|| field("user"));
        let password = text("WARPLOOM_PASSWORD")?.or_else(|| field("password"));
        let devices = text("WARPLOOM_DEVICES")?.map_or(Ok(1), |text| devices(&text))?;
        if let Some(said) = text(version::SETTING)?
            && version::version(said.as_ref()).is_none()
        {
            let name = version::SETTING;
            return Err(format!(
                "{name} is a version from 11.0 on, such as 12.4, not `{said}`"
            ));
        }
        if let Some(said) = text(SWAP_VARIABLE)?
            && !["on", "off"].contains(&said.as_str())
        {
            return Err(format!("{SWAP_VARIABLE} is on or off, not `{said}`"));
        }
        let time_or = |name: &str, usual| match text(name)? {
            None => Ok(usual),
            Some(text) => time(name, &text),
        };
        Ok(Self {
            opening: time_or("WARPLOOM_CLIENT_OPENING", OPENING)?,
            deadline: time_or("WARPLOOM_CLIENT_DEADLINE", DEADLINE)?,
            url: url.into(),
            login: user.map(|user| (user, password.unwrap_or_default())),
            cluster: name(
                "WARPLOOM_CLUSTER_NAME",
                cluster.unwrap_or_else(|| "local".into()),
            )?,
            tenant: name("WARPLOOM_TENANT", tenant)?,
            devices,
        })
    }
}

/// A text of a table.
fn word(table: &Table, key: &str) -> Option<String> {
    table.get(key)?.as_str().map(str::to_owned)
}

/// The tenants' logins in a credentials file.
fn logins(file: &Table) -> Vec<&Table> {
    let logins = file.get("tenants").and_then(|tenants| tenants.as_array());
    let logins = logins.into_iter().flatten();
    logins.filter_map(|login| login.as_table()).collect()
}

fn devices(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    let count = count.filter(|count| (1..=DEVICES).contains(count));
    count.ok_or_else(|| format!("WARPLOOM_DEVICES is 1 to {DEVICES}, not `{text}`"))
}

fn time(name: &str, text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("{name} is a time such as 30s or 500ms, not `{text}`"))
}

fn credentials(path: &str) -> Result<Table, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("WARPLOOM_BROKER_CREDENTIALS: {path}: {error}"))?;
    // Its message names the error, never the text.
    let parsed = text.parse::<Table>();
    parsed.map_err(|error| {
        let why = error.message();
        format!("WARPLOOM_BROKER_CREDENTIALS: {path}: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: &[(&str, &str)]) -> Result<ProgramSettings, String> {
        let find = |name: &str| rows.iter().find(|row| row.0 == name);
        ProgramSettings::read(|name| find(name).map(|row| row.1.into()))
    }

    #[test]
    fn variables_name_the_cluster() {
        let settings = read(&[
            ("WARPLOOM_BROKER_URL", "nats://127.0.0.1:4222"),
            ("WARPLOOM_TENANT", "research"),
            ("WARPLOOM_USER", "someone"),
            ("WARPLOOM_DEVICES", "2"),
            ("WARPLOOM_CLIENT_DEADLINE", "1500ms"),
        ]);
        let settings = settings.expect("they are right");
        assert_eq!(settings.tenant.as_str(), "research");
        assert_eq!(settings.cluster.as_str(), "local");
        assert_eq!(settings.login, Some(("someone".into(), String::new())));
        assert_eq!(settings.devices, 2);
        assert_eq!(settings.deadline, Duration::from_millis(1_500));
        assert_eq!(settings.opening, OPENING);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_variable() {
        let url = ("WARPLOOM_BROKER_URL", "nats://127.0.0.1:4222");
        let errors = [
            read(&[]),
            read(&[url, ("WARPLOOM_DEVICES", "none")]),
            read(&[url, ("WARPLOOM_TENANT", "Not A Name")]),
            read(&[url, ("WARPLOOM_CLIENT_DEADLINE", "soon")]),
            read(&[url, ("WARPLOOM_CLIENT_DRIVER_VERSION", "10.2")]),
            read(&[url, ("WARPLOOM_CLIENT_SWAP", "never")]),
            read(&[("WARPLOOM_BROKER_CREDENTIALS", "/nowhere/at/all")]),
        ];
        let names = [
            "warploom run",
            "WARPLOOM_DEVICES",
            "WARPLOOM_TENANT",
            "WARPLOOM_CLIENT_DEADLINE",
            "WARPLOOM_CLIENT_DRIVER_VERSION",
            "WARPLOOM_CLIENT_SWAP",
            "/nowhere/at/all",
        ];
        for (error, name) in errors.into_iter().zip(names) {
            let error = error.err().expect("it is wrong");
            assert!(error.contains(name), "{error}");
        }
    }
}
