//! `warploom cluster`: shows and changes the cluster's settings.

use admin::Administrator;
use admin::calendar;
use admin::cluster_settings::{CLUSTER_SETTINGS, ClusterSetting, applied, in_force};
use admin::completion;
use admin::errors::UsageError;
use admin::output;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use clap::Subcommand;

use anyhow::{Context, Result};
use bus_schemas::ClusterSettings;

/// `warploom cluster`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom cluster show
  warploom cluster set window=4ms quantum=1ms")]
pub enum ClusterCommand {
    /// Shows each setting: its value, its source and its effect
    #[command(after_help = "\
Examples:
  warploom cluster show
  warploom cluster show --json")]
    Show,
    /// Changes settings, all of them together or none
    #[command(after_help = "\
Examples:
  warploom cluster set window=4ms quantum=1ms
  warploom cluster set floors=0,0,0,0,10     priority 4 is left a tenth of each GPU
  warploom cluster set learn=off
  warploom cluster set window=default")]
    Set {
        /// SETTING=VALUE, or SETTING=default; `warploom cluster show` lists the settings
        #[arg(required = true, value_name = "SETTING=VALUE", add = completion::cluster_settings())]
        changes: Vec<String>,
    },
}

/// Runs a cluster command.
///
/// # Errors
/// [`UsageError`] for invalid settings, [`admin::errors::Unreachable`] without a cluster.
pub async fn cluster(command: &ClusterCommand, settings: &Settings, json: bool) -> Result<()> {
    // Errors in the arguments are reported without a cluster.
    let changes = match command {
        ClusterCommand::Show => Vec::new(),
        ClusterCommand::Set { changes } => {
            let changes = changes.iter().map(|change| read(change));
            changes.collect::<Result<Vec<_>>>()?
        }
    };
    let administrator = Administrator::of(settings).await?;
    if !changes.is_empty() {
        administrator.change_cluster(&changes).await?;
        applied(&administrator).await?;
    }
    show(&administrator, json).await
}

fn read(change: &str) -> Result<(&'static ClusterSetting, Option<serde_json::Value>)> {
    let (key, text) = change
        .split_once('=')
        .with_context(|| UsageError(format!("{change:?} is not SETTING=VALUE")))?;
    let setting = ClusterSetting::named(key.trim())?;
    match text.trim() {
        "default" => Ok((setting, None)),
        text => Ok((setting, Some(setting.parse(text)?))),
    }
}

async fn show(administrator: &Administrator, json: bool) -> Result<()> {
    let chosen = administrator.chosen().await?;
    let settings = serde_json::to_value(chosen.settings()?)?;
    let orders_by = in_force(administrator).await?;
    let mut table = headed("setting | value | from | what it does");
    for setting in CLUSTER_SETTINGS {
        let value = setting.show(&settings[setting.field]);
        let from = match chosen.values.contains_key(setting.field) {
            true => format!(
                "set, revision {} of {} UTC",
                chosen.revision,
                calendar::moment(chosen.at_ms)
            ),
            false => "default".into(),
        };
        if json {
            let (key, source) = (setting.key, from);
            output::line(serde_json::json!({"key": key, "value": value, "source": source}))?;
            continue;
        }
        table.add_row([setting.key, &value, &from, setting.help]);
    }
    if json {
        return Ok(());
    }
    output::line(fitted(&table))?;
    let wanted: ClusterSettings = serde_json::from_value(settings)?;
    if wanted.learn && !orders_by.learn {
        output::line(
            "a profile is pinned: nothing is learned or settled (`warploom profile unpin`)",
        )?;
    } else if wanted.settle && !orders_by.settle {
        output::line("learn is off, and so is settle: the order depends on nothing measured")?;
    }
    Ok(())
}
