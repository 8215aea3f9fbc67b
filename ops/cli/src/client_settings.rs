//! The settings with which programs join the cluster.

use admin::credentials::credentials;
use admin::settings::Settings;
use admin::telemetry::telemetry;
use anyhow::Result;
use broker::Credentials;
use client_agent::Settings as ClientSettings;
use client_agent::telemetry::Role;

/// The settings with which a tenant's programs join the cluster.
///
/// # Errors
/// If there is no cluster or no login for the tenant.
pub fn client_settings(settings: &Settings, tenant: &str) -> Result<ClientSettings> {
    client_settings_of(&credentials(settings)?, settings, tenant)
}

/// As [`client_settings`], with the given credentials.
///
/// # Errors
/// If they have no login for the tenant.
pub fn client_settings_of(
    credentials: &Credentials,
    settings: &Settings,
    tenant: &str,
) -> Result<ClientSettings> {
    let mut joined = ClientSettings::new(&credentials.url, &credentials.cluster, tenant);
    joined.telemetry = telemetry(Role::Client, settings)?;
    joined.deadline = settings.duration("client.deadline")?;
    if credentials.cluster_user.is_none() && credentials.tenants.is_empty() {
        return Ok(joined);
    }
    let login = credentials.for_tenant(tenant)?.tenants.remove(0).login;
    Ok(joined.with_login(login.user, login.password))
}
