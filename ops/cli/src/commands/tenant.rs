//! `warploom tenant`: create, set, list; suspend, resume, remove, renew.

mod changes;
mod options;

use admin::Administrator;
use admin::admission;
use admin::completion;
use admin::errors::UsageError;
use admin::output;
use admin::settings::Settings;
use admin::table::{fitted, headed};
use admin::target::duration;
use admin::tenant_settings::{SettingKind, TENANT_SETTINGS};
use anyhow::{Result, bail};
use bus_schemas::{Admission, TenantSettings};
use clap::{Args, Subcommand};

/// `warploom tenant`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom tenant create chat --priority 0 --slo 20ms
  warploom tenant set train --priority 4 --quota 8GiB
  warploom tenant list
  warploom tenant suspend train           grants it nothing more until `resume`
  warploom tenant renew chat              a new password
  warploom tenant remove train --force    with the sessions that it has")]
pub enum TenantCommand {
    /// Creates a tenant, with its own login on a broker that `up` started
    Create(TenantSetArgs),
    /// Changes a tenant's settings
    Set(TenantSetArgs),
    /// Lists tenants
    #[command(after_help = "\
Examples:
  warploom tenant list
  warploom tenant list --json")]
    List,
    /// Stops granting a tenant's work and opening sessions for it, until it is resumed
    Suspend(changes::SuspendArgs),
    /// Resumes a suspended tenant
    Resume(changes::ResumeArgs),
    /// Removes a tenant, and its login on a broker that `up` started
    Remove(changes::RemoveArgs),
    /// Gives a tenant a new password on a broker that `up` started
    Renew(changes::RenewArgs),
}

/// `warploom tenant create` and `set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant create chat --priority 0
  warploom tenant set train --priority 4 --weight 2 --quota 8GiB
  warploom tenant set train --group batch --group spare")]
pub struct TenantSetArgs {
    /// The tenant: 1 to 32 of a-z, 0-9, '-', starting with a letter
    #[arg(add = completion::tenants())]
    pub tenant: bus_schemas::Tenant,
    /// The settings.
    #[command(flatten)]
    options: options::SettingOptions,
    /// Changes nothing (exit code 1) if the change means that a target cannot be met; without it,
    /// that is a warning
    #[arg(long)]
    pub strict: bool,
}

/// Runs a tenant command.
///
/// # Errors
/// [`UsageError`] for invalid settings, [`admin::errors::Unreachable`] without a cluster.
pub async fn tenant(command: &TenantCommand, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
    match command {
        TenantCommand::Create(args) => create(args, &administrator, json).await,
        TenantCommand::Set(args) => {
            let Some(current) = administrator.tenant(&args.tenant).await? else {
                bail!(UsageError(format!(
                    "there is no tenant {}; create it first",
                    args.tenant
                )));
            };
            let changed = args.options.over(current.clone())?;
            let targets = admission::ask(&administrator, &args.tenant, &changed).await;
            if args.strict {
                let before = admission::ask(&administrator, &args.tenant, &current).await;
                admission::refuse(&before.unwrap_or_default(), targets.as_deref())?;
            }
            let set = |settings| args.options.over(settings);
            let set = administrator.change_tenant(&args.tenant, set).await?;
            applied(args, &set, &administrator).await?;
            print_one(args, &set, targets.as_deref(), json)
        }
        TenantCommand::List => list(&administrator, json).await,
        TenantCommand::Suspend(args) => changes::suspend(&args.tenant, &administrator, json).await,
        TenantCommand::Resume(args) => changes::resume(&args.tenant, &administrator, json).await,
        TenantCommand::Remove(args) => changes::remove(args, &administrator, json).await,
        TenantCommand::Renew(args) => changes::renew(&args.tenant, &administrator, json).await,
    }
}

async fn create(args: &TenantSetArgs, administrator: &Administrator, json: bool) -> Result<()> {
    if administrator.tenant(&args.tenant).await?.is_some() {
        bail!(UsageError(format!(
            "tenant {} exists; change it with `tenant set`",
            args.tenant
        )));
    }
    let made = args.options.over(TenantSettings::default())?;
    let targets = admission::ask(administrator, &args.tenant, &made).await;
    if args.strict {
        admission::refuse(&[], targets.as_deref())?;
    }
    administrator.set_tenant(&args.tenant, &made).await?;
    administrator.give_login(&args.tenant).await?;
    applied(args, &made, administrator).await?;
    print_one(args, &made, targets.as_deref(), json)
}

/// Waits until the leader has the settings, so that later commands find the tenant as it was set.
/// Without a leader, the next one reads them.
async fn applied(
    args: &TenantSetArgs,
    settings: &TenantSettings,
    administrator: &Administrator,
) -> Result<()> {
    if !administrator.tenant_heard(&args.tenant, settings).await? {
        output::note(changes::UNLED);
    }
    Ok(())
}

/// Prints a tenant's new settings, and the leader's verdict on targets; without a leader, only the
/// settings.
fn print_one(
    args: &TenantSetArgs,
    settings: &TenantSettings,
    targets: Option<&[Admission]>,
    json: bool,
) -> Result<()> {
    let tenant = args.tenant.as_str();
    if json {
        let mut said = serde_json::json!({"tenant": tenant, "settings": settings});
        if let Some(targets) = targets {
            said["admission"] = admission::as_json(targets);
        }
        return output::line(said);
    }
    let (priority, weight) = (settings.priority, settings.weight);
    let target = match settings.slo_ns {
        0 => String::new(),
        target => format!(", target {}", duration(target)),
    };
    output::line(format_args!(
        "tenant {tenant}: priority {priority}, weight {weight}{target}"
    ))?;
    admission::tell(&args.tenant, targets.unwrap_or_default())
}

async fn list(administrator: &Administrator, json: bool) -> Result<()> {
    let tenants = administrator.tenants().await?;
    let cluster = administrator.chosen().await?.settings()?;
    if json {
        for (tenant, settings) in tenants {
            let (tenant, limits) = (tenant.as_str(), settings.limits(&cluster));
            output::line(serde_json::json!({
                "tenant": tenant,
                "settings": settings,
                "limits": limits,
                "suspended": settings.suspended,
            }))?;
        }
        return Ok(());
    }
    let columns = TENANT_SETTINGS.iter();
    let columns: Vec<_> = columns
        .filter(|setting| setting.kind != SettingKind::State)
        .collect();
    let mut head = vec!["tenant"];
    head.extend(columns.iter().map(|setting| setting.option));
    let mut table = headed(&head.join(" | "));
    for (tenant, settings) in tenants {
        let limits = settings.limits(&cluster);
        let shown = columns
            .iter()
            .map(|setting| setting.show(&settings, &limits));
        table.add_row(std::iter::once(named(&tenant, &settings)).chain(shown));
    }
    output::line(fitted(&table))
}

/// A tenant's name for people, marked if it is suspended.
pub(super) fn named(tenant: &bus_schemas::Tenant, settings: &TenantSettings) -> String {
    match settings.suspended {
        true => format!("{tenant} (suspended)"),
        false => tenant.to_string(),
    }
}

/// A limit for people; no limit is `none` everywhere.
pub(super) fn limit(value: u64, shown: impl Fn(u64) -> String) -> String {
    match value {
        0 => "none".into(),
        value => shown(value),
    }
}
