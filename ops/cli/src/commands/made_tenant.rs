//! The tenant of a program that `run` or `submit` starts: found, or created if the cluster allows
//! that.

use admin::Administrator;
use admin::errors::UsageError;
use admin::output;
use admin::settings::Settings;
use admin::state_dir::state_dir;
use anyhow::{Context, Result};
use broker::{Broker, Credentials};
use bus_schemas::Tenant;

/// Creates the tenant if it is missing, gives it a login if the broker is local, and sets its
/// priority if one is given. With a tenant's own credentials, makes no request to the cluster.
///
/// # Errors
/// [`UsageError`] if the tenant does not exist and may not be created, or if these credentials may
/// not set a priority.
pub(super) async fn prepare(
    tenant: &Tenant,
    priority: Option<u8>,
    settings: &Settings,
    credentials: &mut Credentials,
) -> Result<()> {
    let open = credentials.cluster_user.is_none();
    if open && !credentials.tenants.is_empty() {
        if priority.is_some() {
            let why = "--priority needs an administrator's credentials; ask yours, or leave it out";
            return Err(UsageError(why.into()).into());
        }
        return Ok(());
    }
    let patience = settings.duration("command.deadline")?;
    let administrator = Administrator::patient(credentials, patience).await?;
    let found = administrator.tenant(tenant).await?;
    if found.is_none() {
        may_be_made(tenant, &administrator).await?;
    }
    // The login comes first: a tenant without one is of no use.
    if !open && credentials.tenant(tenant.as_str()).is_none() {
        give_login(tenant, settings, credentials)?;
    }
    let mut wanted = found.clone().unwrap_or_default();
    wanted.priority = priority.unwrap_or(wanted.priority);
    if found.as_ref() != Some(&wanted) {
        administrator.set_tenant(tenant, &wanted).await?;
        administrator
            .tenant_applies(tenant, &wanted, administrator.patience())
            .await?;
    }
    if found.is_none() {
        let priority = wanted.priority;
        output::note(format_args!(
            "tenant {tenant} was not there: it is made, with priority {priority} and no quota \
             (`warploom tenant set {tenant}` changes that)"
        ));
    }
    Ok(())
}

async fn may_be_made(tenant: &Tenant, administrator: &Administrator) -> Result<()> {
    if !administrator.chosen().await?.settings()?.tenant_create_only {
        return Ok(());
    }
    let why = format!(
        "there is no tenant {tenant}, and `tenant.create_only` has none made by the way: \
         `warploom tenant create {tenant}` makes it"
    );
    Err(UsageError(why).into())
}

/// Gives a tenant a login; possible only if the broker is local.
fn give_login(tenant: &Tenant, settings: &Settings, credentials: &mut Credentials) -> Result<()> {
    let ours = match settings.given("broker.url") {
        Some(_) => None,
        None => Broker::attach(&state_dir(settings).join("broker")).ok(),
    };
    let mut broker = ours.with_context(|| {
        UsageError(format!(
            "no login of tenant {tenant}; make it with `warploom tenant create {tenant}`"
        ))
    })?;
    let added = broker.add_tenant(tenant.as_str());
    added.context("giving the tenant a login")?;
    credentials.clone_from(broker.credentials());
    Ok(())
}
