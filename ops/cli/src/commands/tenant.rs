//! `warploom tenant`: create, set, list; suspend, resume, remove, renew.

mod changes;

use admin::Administrator;
use admin::admission;
use admin::completion;
use admin::errors::UsageError;
use admin::output;
use admin::settings::{Settings, parse_bytes};
use admin::table::{fitted, headed, size};
use admin::target::{duration, parse_target};
use anyhow::{Context, Result, bail};
use bus_schemas::{Admission, Allowance, Groups, TenantSettings};
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
    /// 0 (highest) to 4; a new tenant has 2
    #[arg(long)]
    pub priority: Option<u8>,
    /// Share within the priority, 1 to 1000; a new tenant has 1
    #[arg(long)]
    pub weight: Option<u32>,
    /// Device memory per device, such as 4GiB; 0 is the device's capacity
    #[arg(long)]
    pub quota: Option<String>,
    /// Maximum number of open sessions; 0 is the cluster's `tenant.sessions`
    #[arg(long)]
    pub sessions: Option<u32>,
    /// Device address space of its sessions per device, such as 16TiB; 0 is the cluster's
    /// `tenant.addresses`
    #[arg(long, value_name = "SIZE")]
    pub addresses: Option<String>,
    /// Maximum size of its sessions' module images on a worker, such as 8GiB; 0 is the cluster's
    /// `tenant.modules`
    #[arg(long, value_name = "SIZE")]
    pub modules: Option<String>,
    /// Maximum size of its sessions' staged data on a worker, such as 8GiB; 0 is the cluster's
    /// `tenant.staged`
    #[arg(long, value_name = "SIZE")]
    pub staged: Option<String>,
    /// Maximum work that is granted and not done, in milliseconds; 0 is no bound
    #[arg(long, value_name = "MS")]
    pub outstanding: Option<u64>,
    /// Maximum percentage of each device's time that the tenant may use; 0 is no cap
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub cap: Option<u8>,
    /// Group of workers for its sessions; may be repeated to allow several groups
    #[arg(long = "group", value_name = "NAME", add = completion::groups())]
    pub groups: Vec<bus_schemas::Tenant>,
    /// Lets its sessions go to any group that is not exclusive, the default of a new tenant
    #[arg(long, conflicts_with = "groups")]
    pub no_group: bool,
    /// Target time for 99 of 100 requests, such as 20ms (units us, ms, s); `none` removes it. Lower
    /// priorities make room for it (docs/howto/slo.md)
    #[arg(long, value_name = "TARGET")]
    pub slo: Option<String>,
    /// Swapping of its sessions' memory: on or off; a new tenant has on
    #[arg(long, value_name = "on|off", value_parser = ["on", "off"])]
    pub swap: Option<String>,
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
            let changed = changed(current.clone(), args)?;
            let targets = admission::ask(&administrator, &args.tenant, &changed).await;
            if args.strict {
                let before = admission::ask(&administrator, &args.tenant, &current).await;
                admission::refuse(&before.unwrap_or_default(), targets.as_deref())?;
            }
            let set = |settings| self::changed(settings, args);
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
    let made = changed(TenantSettings::default(), args)?;
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

fn changed(mut settings: TenantSettings, args: &TenantSetArgs) -> Result<TenantSettings> {
    settings.priority = args.priority.unwrap_or(settings.priority);
    settings.weight = args.weight.unwrap_or(settings.weight);
    settings.sessions = args.sessions.unwrap_or(settings.sessions);
    let sizes = [
        ("quota", &args.quota, &mut settings.quota),
        ("addresses", &args.addresses, &mut settings.addresses),
    ];
    let read = |name, text: &String| {
        parse_bytes(text)
            .with_context(|| UsageError(format!("{name} {text:?} is no size such as 4GiB")))
    };
    for (name, text, setting) in sizes {
        if let Some(text) = text {
            *setting = read(name, text)?;
        }
    }
    let allowances = [
        ("modules", &args.modules, &mut settings.modules),
        ("staged", &args.staged, &mut settings.staged),
    ];
    for (name, text, setting) in allowances {
        if let Some(text) = text {
            *setting = match read(name, text)? {
                0 => Allowance::NONE,
                bytes => Allowance::of(bytes),
            };
        }
    }
    if let Some(ms) = args.outstanding {
        settings.outstanding_ns = ms.saturating_mul(1_000_000);
    }
    settings.cap = args.cap.unwrap_or(settings.cap);
    if args.no_group || !args.groups.is_empty() {
        let groups = Groups::new(args.groups.iter().cloned());
        settings.groups = groups.with_context(|| UsageError("these are too many groups".into()))?;
    }
    if let Some(text) = &args.swap {
        settings.swap = text == "on";
    }
    if let Some(text) = &args.slo {
        settings.slo_ns = parse_target(text)?;
    }
    Ok(settings)
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
    let mut table = headed(
        "tenant | priority | weight | quota | sessions | addresses | modules | staged | \
         outstanding | cap | target | swap | groups",
    );
    for (tenant, settings) in tenants {
        let limits = settings.limits(&cluster);
        table.add_row([
            named(&tenant, &settings),
            settings.priority.to_string(),
            settings.weight.to_string(),
            limit(settings.quota, size),
            limits.sessions.to_string(),
            size(limits.addresses),
            size(limits.modules),
            size(limits.staged),
            limit(settings.outstanding_ns, |ns| {
                format!("{} ms", ns / 1_000_000)
            }),
            limit(settings.cap.into(), |cap| format!("{cap} %")),
            limit(settings.slo_ns, duration),
            if settings.swap { "on" } else { "off" }.into(),
            match settings.groups.is_empty() {
                true => "any".into(),
                false => settings.groups.names().collect::<Vec<_>>().join(" "),
            },
        ]);
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
