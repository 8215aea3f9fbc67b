//! `warploom profile`: the estimated costs of kernels.

use clap::Subcommand;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use admin::Administrator;
use admin::calendar;
use admin::completion;
use admin::output;
use admin::profiles::{Changes, ProfileVersion, applied};
use admin::settings::Settings;
use admin::table::{fitted, headed};
use anyhow::Result;
use bus_schemas::{KernelKey, KernelRecord, ProfileStatus};
use serde_json::{Value, json};

use admin::usage::kernel_text;

/// `warploom profile`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom profile list
  warploom profile show 12
  warploom profile pin            the newest version; nothing measured changes the order until unpin")]
pub enum ProfileCommand {
    /// Lists the kept versions, at most the last 64
    #[command(after_help = "\
Examples:
  warploom profile list")]
    List,
    /// Shows a version's kernels
    #[command(after_help = "\
Examples:
  warploom profile show
  warploom profile show 12")]
    Show {
        /// Its number or the beginning of its hash (default: the one in force)
        #[arg(value_name = "VERSION", add = completion::profiles())]
        name: Option<String>,
    },
    /// Orders by a version from now on, regardless of new measurements
    #[command(after_help = "\
Examples:
  warploom profile pin         the newest version
  warploom profile pin 12")]
    Pin {
        /// Its number or the beginning of its hash (default: the newest)
        #[arg(value_name = "VERSION", add = completion::profiles())]
        name: Option<String>,
    },
    /// Learns from measurements again
    #[command(after_help = "\
Examples:
  warploom profile unpin")]
    Unpin,
}

/// Digits of a hash that are shown.
const DIGITS: usize = 12;

/// Runs a profile command.
///
/// # Errors
/// [`admin::errors::UsageError`] if there is no such version, [`admin::errors::Unreachable`] without a
/// cluster.
pub async fn profile(command: &ProfileCommand, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
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

/// Microseconds, as tables show them.
fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

/// The name of a kernel key; `None` if no worker reported it.
fn what(records: &BTreeMap<KernelKey, KernelRecord>, key: KernelKey) -> Option<String> {
    let record = records.get(&key)?;
    record.name.as_ref().map(kernel_text)
}

async fn list(administrator: &Administrator, json: bool) -> Result<()> {
    let versions = administrator.profile_versions().await?;
    let records = administrator.kernel_records().await?;
    let pinned = administrator.pinned().await?;
    let status = administrator.status(administrator.glance()).await.ok();
    let in_force = status.and_then(|status| status.profile);
    let mut table = headed(
        "version | hash | kernels | new | changed | changed most, us | epoch | \
         published (UTC) | state",
    );
    let kept = |pin: &ProfileVersion| versions.iter().any(|version| version.hash == pin.hash);
    // A pinned version is shown even if it has dropped out of the kept ones.
    let beyond = pinned.iter().filter(|pin| !kept(pin));
    let mut before: Option<&ProfileVersion> = None;
    for version in beyond.chain(&versions) {
        let changes = before.map(|before| version.since(before));
        before = Some(version);
        let mut state = Vec::new();
        if in_force.as_ref().is_some_and(|it| it.hash == version.hash) {
            state.push("in force");
        }
        if pinned.as_ref().is_some_and(|pin| pin.hash == version.hash) {
            state.push("pinned");
        }
        let most = changes.and_then(|changes| changes.most);
        let (number, hash) = (version.version, version.hash.to_string());
        if json {
            output::line(json!({
                "version": number,
                "hash": hash,
                "kernels": version.entries.len(),
                "new": changes.map(|changes| changes.new),
                "changed": changes.map(|changes| changes.changed),
                "changed_most": most.map(|(key, (before, after))| json!({
                    "kernel": key.to_string(),
                    "what": what(&records, key),
                    "before_ns": before,
                    "estimate_ns": after,
                })),
                "epoch": version.epoch,
                "published_ms": version.at_ms,
                "state": state,
            }))?;
            continue;
        }
        let count = |of: fn(Changes) -> u64| {
            let changes = changes.map(|changes| of(changes).to_string());
            changes.unwrap_or_default()
        };
        let most = most.map(|(key, (before, after))| {
            let what = what(&records, key).unwrap_or_else(|| key.to_string());
            format!("{what}: {} to {}", us(before), us(after))
        });
        table.add_row([
            number.to_string(),
            hash[..DIGITS].to_owned(),
            version.entries.len().to_string(),
            count(|changes| changes.new),
            count(|changes| changes.changed),
            most.unwrap_or_default(),
            version.epoch.to_string(),
            calendar::moment(version.at_ms),
            state.join(", "),
        ]);
    }
    match json {
        true => Ok(()),
        false => output::line(fitted(&table)),
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
    let records = administrator.kernel_records().await?;
    // Kernels that took the most device time come first, those without a measurement last.
    let mut rows = version.entries;
    rows.sort_by_key(|(key, _)| {
        let took = records.get(key).map_or(0, |record| record.device_ns);
        (Reverse(took), *key)
    });
    if json {
        let rows = rows.into_iter();
        return rows
            .map(|(key, ns)| row(key, ns, records.get(&key)))
            .try_for_each(output::line);
    }
    let mut table = headed(
        "kernel | what | module | launches> | estimate us> | mean> | median> | p95> | \
         longest>",
    );
    for (key, ns) in rows {
        let record = records.get(&key).filter(|record| record.launches > 0);
        let known = |of: &dyn Fn(&KernelRecord) -> Option<String>| {
            let known = record.and_then(of);
            known.unwrap_or_default()
        };
        table.add_row([
            key.to_string(),
            what(&records, key).unwrap_or_default(),
            known(&|it| Some(module(it)?[..DIGITS].to_owned())),
            known(&|it| Some(it.launches.to_string())),
            us(ns),
            known(&|it| it.mean_ns().map(us)),
            known(&|it| it.percentile_ns(50).map(us)),
            known(&|it| it.percentile_ns(95).map(us)),
            known(&|it| Some(us(it.most_ns))),
        ]);
    }
    output::line(fitted(&table))
}

/// The image that contains a kernel, if a worker reported it.
fn module(record: &KernelRecord) -> Option<String> {
    let module = record.name.as_ref()?.module?;
    Some(module.to_string())
}

/// A kernel of a version as JSON; unknown values are null.
fn row(key: KernelKey, estimate: u64, record: Option<&KernelRecord>) -> Value {
    let record = record.filter(|record| record.launches > 0);
    let name = record.and_then(|record| record.name.as_ref());
    json!({
        "kernel": key.to_string(),
        "function": name.map(|name| &name.function),
        "grid": name.map(|name| name.grid_dim),
        "block": name.map(|name| name.block_dim),
        "shared_bytes": name.map(|name| name.shared_bytes),
        "module": record.and_then(module),
        "estimate_ns": estimate,
        "launches": record.map(|it| it.launches),
        "mean_ns": record.and_then(KernelRecord::mean_ns),
        "median_ns": record.and_then(|it| it.percentile_ns(50)),
        "p95_ns": record.and_then(|it| it.percentile_ns(95)),
        "least_ns": record.map(|it| it.least_ns),
        "most_ns": record.map(|it| it.most_ns),
    })
}
