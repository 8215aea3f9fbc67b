//! `warploom smi`: shows a tenant's devices as `nvidia-smi` shows those of a machine. Inside
//! `warploom run` it is also found as `nvidia-smi`, if there is no other.

mod args;
mod fields;
mod query;
mod summary;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use admin::credentials::credentials;
use admin::output;
use admin::settings::Settings;
use anyhow::{Context, Result};
use broker::Credentials;
use bus::{BusSettings, random_id};
use bus_schemas::{Tenant, TenantDevice};
use nvml::{AskError, DeviceState, StatusClient, Viewer};

use admin::errors::{Unreachable, UsageError};
pub use args::{SmiArgs, SmiCommand};
use fields::Format;
use view::Shown;

/// Variable with the number of devices that a program sees; `warploom run` sets it.
const DEVICES: &str = "WARPLOOM_DEVICES";

/// Prints the devices.
///
/// # Errors
/// [`UsageError`] for unknown fields and devices; [`Unreachable`] if no leader answers.
pub async fn smi(args: &SmiArgs, settings: &Settings, json: bool) -> Result<()> {
    let format = checked(args)?;
    let mut connection = Connection::new(&args.tenant, settings).await?;
    let (seconds, mut looks) = match args.command {
        Some(SmiCommand::Pmon { count, delay }) => (Some(delay), count),
        None => (args.repeat, None),
    };
    if args.command.is_some() && !json {
        output::line(summary::PROCESS_HEAD)?;
    }
    loop {
        let shown = shown(args, connection.devices().await?)?;
        let text = match &args.command {
            Some(SmiCommand::Pmon { .. }) if !json => summary::processes(&shown),
            _ => text(args, &shown, format, json)?,
        };
        if !text.is_empty() {
            output::line(text)?;
        }
        looks = looks.map(|left| left.saturating_sub(1));
        match seconds {
            Some(seconds) if looks != Some(0) => {
                let pause = Duration::try_from_secs_f64(seconds.max(0.1));
                tokio::time::sleep(pause.unwrap_or(Duration::MAX)).await;
            }
            _ => return Ok(()),
        }
    }
}

/// Refuses invalid arguments before any request.
fn checked(args: &SmiArgs) -> Result<Format, UsageError> {
    let others = args.list || args.query || args.xml || args.repeat.is_some();
    let fields = !args.query_gpu.is_empty() || !args.query_compute_apps.is_empty();
    if args.command.is_some() && (others || fields) {
        let why = "pmon goes with --tenant, --id and --program only";
        return Err(UsageError(why.into()));
    }
    if args.xml && !args.query {
        return Err(UsageError("-x is a form of -q: write -q -x".into()));
    }
    if !args.format.is_empty() && !fields {
        let why = "--format is of --query-gpu and --query-compute-apps, and there is neither";
        return Err(UsageError(why.into()));
    }
    fields::check(&args.query_gpu, &args.query_compute_apps, &args.format)
}

/// The requested devices, numbered.
fn shown(args: &SmiArgs, devices: Vec<DeviceState>) -> Result<Vec<Shown>, UsageError> {
    let shown = match args.program {
        true => {
            let count = std::env::var(DEVICES).ok();
            let most = count.and_then(|count| count.parse().ok()).unwrap_or(1);
            view::of_program(devices, &Viewer::here(), most)
        }
        false => view::all(devices),
    };
    view::chosen(shown, &args.id)
}

fn text(args: &SmiArgs, shown: &[Shown], format: Format, json: bool) -> Result<String, UsageError> {
    Ok(match args {
        _ if json => summary::as_json(&args.tenant, shown).to_string(),
        args if !args.query_gpu.is_empty() => fields::device_lines(&args.query_gpu, shown, format)?,
        args if !args.query_compute_apps.is_empty() => {
            fields::process_lines(&args.query_compute_apps, shown, format)?
        }
        args if args.list => summary::list(shown),
        args if args.xml => query::xml(shown),
        args if args.query => query::sections(shown),
        _ => summary::tables(&args.tenant, shown),
    })
}

/// A connection with the tenant's login.
pub(super) struct Connection {
    client: StatusClient,
    patience: Duration,
}

impl Connection {
    async fn new(tenant: &Tenant, settings: &Settings) -> Result<Self> {
        Self::by(&credentials(settings)?, tenant, settings).await
    }

    /// Connects with these credentials, which have a login of the tenant.
    pub(super) async fn by(
        credentials: &Credentials,
        tenant: &Tenant,
        settings: &Settings,
    ) -> Result<Self> {
        let subjects = credentials.subjects()?;
        let open = credentials.cluster_user.is_none() && credentials.tenants.is_empty();
        let login = match open {
            true => None,
            false => {
                let own = credentials.for_tenant(tenant.as_str())?;
                let login = own
                    .tenants
                    .into_iter()
                    .next()
                    .context("the tenant's login")?;
                Some((login.login.user, login.login.password))
            }
        };
        let patience = settings.duration("command.deadline")?;
        let wanted = BusSettings {
            login,
            name: format!("smi-{:016x}", random_id()),
            inbox: subjects.tenant_inbox(tenant),
            pulse: Some(subjects.term(tenant)),
            patience: Some(patience),
            ..BusSettings::new(&credentials.url)
        };
        let connected = bus::connect_once(&wanted).await;
        let (client, _) = connected
            .map_err(|error| Unreachable(format!("{error}; is `warploom up` running?")))?;
        Ok(Self {
            client: StatusClient::new(client, subjects, tenant.clone()),
            patience,
        })
    }

    /// The devices that the tenant's sessions may be placed on.
    pub(super) async fn devices(&mut self) -> Result<Vec<DeviceState>> {
        let asked = self.client.ask(self.patience).await;
        asked.map_err(|error| match error {
            AskError::NoLeader => Unreachable(error.to_string()).into(),
            error => error.into(),
        })
    }

    /// The devices that the tenant's sessions may be placed on, without their workers' reports.
    /// There are none if the leader has no place for a session.
    pub(super) async fn listed(&self, patience: Duration) -> Result<Vec<TenantDevice>> {
        match self.client.listed(patience).await {
            Err(AskError::Refused(_)) => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }
}
