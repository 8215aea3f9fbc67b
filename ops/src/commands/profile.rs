//! `warploom profile`: what kernels are estimated to cost.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bus_schemas::ProfileStatus;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;

use crate::admin::Administrator;
use crate::calendar;
use crate::cli::ProfileCommand;
use crate::commands::credentials;
use crate::exit::Unreachable;
use crate::output;
use crate::profiles::ProfileVersion;
use crate::settings::Settings;

/// Digits of a hash that people see.
const DIGITS: usize = 12;
/// How long the leader may take to order by a pinned version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a profile command.
///
/// # Errors
/// [`crate::exit::Usage`] where there is no such version, [`Unreachable`] without a cluster.
pub async fn profile(command: &ProfileCommand, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::connect(&credentials(settings)?).await?;
    match command {
        ProfileCommand::List => list(&administrator, json).await,
        ProfileCommand::Show { name } => show(&administrator, name.as_deref(), json).await,
        ProfileCommand::Pin { name } => {
            let version = administrator.profile_version(name.as_deref()).await?;
            administrator.pin(&version).await?;
            let done = |status: &ProfileStatus| status.pinned && status.hash == version.hash;
            applied(&administrator, done).await?;
            say(&version, "pinned", json)
        }
        ProfileCommand::Unpin => {
            let Some(version) = administrator.pinned().await? else {
                return output::line("no profile is pinned");
            };
            let learns = administrator.chosen().await?.settings()?.learn;
            administrator.unpin().await?;
            applied(&administrator, |status| !status.pinned || !learns).await?;
            say(&version, "unpinned", json)?;
            if !learns && !json {
                output::line("the cluster's setting learn is off: still nothing is learned")?;
            }
            Ok(())
        }
    }
}

/// Waits until the leader says that it is so; without a leader, the next one will read it.
async fn applied(
    administrator: &Administrator,
    done: impl Fn(&ProfileStatus) -> bool,
) -> Result<()> {
    let begun = Instant::now();
    loop {
        let Ok(status) = administrator.status(Duration::from_secs(1)).await else {
            output::note("no leader answers; the next one will read it");
            return Ok(());
        };
        if status.profile.as_ref().is_none_or(&done) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!(Unreachable(format!(
                "the leader orders by another profile after {PATIENCE:?}"
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn say(version: &ProfileVersion, what: &str, json: bool) -> Result<()> {
    let (number, hash) = (version.version, version.hash.to_string());
    if json {
        return output::line(serde_json::json!({"version": number, "hash": hash, "now": what}));
    }
    let (hash, kernels) = (&hash[..DIGITS], version.entries.len());
    output::line(format_args!(
        "profile version {number} ({hash}, {kernels} kernels) is {what}"
    ))
}

async fn list(administrator: &Administrator, json: bool) -> Result<()> {
    let versions = administrator.profile_versions().await?;
    let pinned = administrator.pinned().await?;
    let status = administrator.status(Duration::from_secs(1)).await.ok();
    let in_force = status.and_then(|status| status.profile);
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "version",
        "hash",
        "kernels",
        "changed",
        "epoch",
        "published (UTC)",
        "state",
    ]);
    let kept = |pin: &ProfileVersion| versions.iter().any(|version| version.hash == pin.hash);
    // One that is pinned is shown although its turn to be forgotten has come.
    let beyond = pinned.iter().filter(|pin| !kept(pin));
    let mut before: Option<&ProfileVersion> = None;
    for version in beyond.chain(&versions) {
        let changed = before.map_or(version.entries.len(), |before| {
            let differs = |entry: &&_| before.entries.binary_search(entry).is_err();
            version.entries.iter().filter(differs).count()
        });
        before = Some(version);
        let mut state = Vec::new();
        if in_force.as_ref().is_some_and(|it| it.hash == version.hash) {
            state.push("in force");
        }
        if pinned.as_ref().is_some_and(|pin| pin.hash == version.hash) {
            state.push("pinned");
        }
        let (number, hash) = (version.version, version.hash.to_string());
        if json {
            output::line(serde_json::json!({
                "version": number,
                "hash": hash,
                "kernels": version.entries.len(),
                "changed": changed,
                "epoch": version.epoch,
                "published_ms": version.at_ms,
                "state": state,
            }))?;
            continue;
        }
        table.add_row([
            number.to_string(),
            hash[..DIGITS].to_owned(),
            version.entries.len().to_string(),
            changed.to_string(),
            version.epoch.to_string(),
            calendar::moment(version.at_ms),
            state.join(", "),
        ]);
    }
    match json {
        true => Ok(()),
        false => output::line(table),
    }
}

async fn show(administrator: &Administrator, name: Option<&str>, json: bool) -> Result<()> {
    let name = match name {
        Some(name) => Some(name.to_owned()),
        None => administrator
            .pinned()
            .await?
            .map(|pin| pin.hash.to_string()),
    };
    let version = administrator.profile_version(name.as_deref()).await?;
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(["kernel", "estimate us"]);
    for (key, ns) in &version.entries {
        if json {
            output::line(serde_json::json!({"kernel": key.to_string(), "estimate_ns": ns}))?;
            continue;
        }
        table.add_row([key.to_string(), format!("{:.1}", *ns as f64 / 1e3)]);
    }
    match json {
        true => Ok(()),
        false => output::line(table),
    }
}
