//! Changes of an existing tenant: suspend, resume, remove, renew.

use admin::Administrator;
use admin::completion;
use admin::output;
use anyhow::Result;
use bus_schemas::Tenant;
use clap::Args;

/// The note if no leader answers.
pub(super) const UNLED: &str = "no leader answers; the next one will find the tenant";

/// `warploom tenant suspend`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant suspend train
  warploom tenant suspend train --json

What it was granted ends. Its programs wait and its sessions keep their memory, which may be swapped
out where that is allowed; nothing is lost. Programs that start meanwhile are refused
(E-TENANT-SUSPENDED). It stays suspended whoever leads, until `warploom tenant resume`.")]
pub struct SuspendArgs {
    /// The tenant
    #[arg(add = completion::tenants())]
    pub tenant: Tenant,
}

/// `warploom tenant resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant resume train")]
pub struct ResumeArgs {
    /// The tenant
    #[arg(add = completion::tenants())]
    pub tenant: Tenant,
}

/// `warploom tenant remove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant remove train
  warploom tenant remove train --force    its sessions are ended first

Its settings and its login go; what it used stays in the accounts (`warploom usage`). The login of a
broker that `warploom up` did not start is removed where that broker is configured.")]
pub struct RemoveArgs {
    /// The tenant
    #[arg(add = completion::tenants())]
    pub tenant: Tenant,
    /// Ends its sessions first; without it, a tenant with sessions is not removed
    #[arg(long)]
    pub force: bool,
}

/// `warploom tenant renew`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant renew chat
  warploom tenant renew chat && eval \"$(warploom env --tenant chat)\"

The old password opens nothing more. Programs of the tenant that run are disconnected: they cannot
come back, and their sessions end. The new password is printed nowhere: it is in the credentials
file, from where `warploom run` and `warploom env` take it.")]
pub struct RenewArgs {
    /// The tenant
    #[arg(add = completion::tenants())]
    pub tenant: Tenant,
}

pub(super) async fn suspend(tenant: &Tenant, by: &Administrator, json: bool) -> Result<()> {
    set(tenant, true, by, json).await
}

pub(super) async fn resume(tenant: &Tenant, by: &Administrator, json: bool) -> Result<()> {
    set(tenant, false, by, json).await
}

async fn set(tenant: &Tenant, on: bool, by: &Administrator, json: bool) -> Result<()> {
    let change = by.suspend(tenant, on).await?;
    if !change.applied {
        output::note(UNLED);
    }
    if json {
        return output::line(serde_json::json!({
            "tenant": tenant.as_str(),
            "suspended": change.settings.suspended,
            "settings": change.settings,
            "applied": change.applied,
        }));
    }
    match on {
        true => output::line(format_args!(
            "tenant {tenant} is suspended: what was granted ends, no more is until `warploom tenant resume {tenant}`"
        )),
        false => output::line(format_args!("tenant {tenant} goes on")),
    }
}

pub(super) async fn remove(args: &RemoveArgs, by: &Administrator, json: bool) -> Result<()> {
    let tenant = &args.tenant;
    let removed = by.remove_tenant(tenant, args.force).await?;
    if json {
        return output::line(serde_json::json!({
            "tenant": tenant.as_str(),
            "ended": removed.ended,
            "login": removed.login,
        }));
    }
    let sessions = match removed.ended {
        0 => String::new(),
        ended => format!(", {ended} of its sessions ended"),
    };
    let login = match removed.login {
        true => ", and so is its login",
        false => "",
    };
    output::line(format_args!("tenant {tenant} is removed{login}{sessions}"))
}

pub(super) async fn renew(tenant: &Tenant, by: &Administrator, json: bool) -> Result<()> {
    let renewed = by.renew_login(tenant).await?;
    let credentials = renewed.credentials.display().to_string();
    if json {
        return output::line(serde_json::json!({
            "tenant": tenant.as_str(),
            "user": renewed.user,
            "credentials": credentials,
        }));
    }
    output::line(format_args!(
        "tenant {tenant} has a new password: that of {} in {credentials}",
        renewed.user
    ))
}
