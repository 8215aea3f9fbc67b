//! Tenants: their settings, their resources and their performance.

mod model;
mod settings;

use admin::admission;
use admin::calendar::now_ms;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bus_schemas::{Tenant, TenantSettings};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::identity::visible;
use crate::api::settings::{ChangeModel, DryRun};
use crate::cluster::{Cluster, Shared};
use crate::http::etag;
use crate::http::extract::{JsonBody, PathParams, QueryParams, Who};
use crate::http::paging::{Page, Paged};
use crate::problem::Problem;
use crate::view::TenantRow;
pub(crate) use model::{Figures, TenantModel};
pub(crate) use settings::{TenantChangeModel, TenantSettingsModel};

/// A tenant and its ETag.
type Tagged = ([(HeaderName, HeaderValue); 1], Json<TenantModel>);

fn tagged(row: &TenantRow, figures: &Figures) -> Tagged {
    let tag = [(header::ETAG, etag::of_revision(row.revision))];
    (tag, Json(figures.model(row)))
}

/// A tenant that exists and that the caller may see.
fn known(cluster: &Cluster, who: &Who, name: &str) -> Result<TenantRow, Problem> {
    let missing = || Problem::missing(format_args!("tenant {name:?}"));
    let tenant: Tenant = name.parse().map_err(|_| missing())?;
    visible(&who.0, &tenant).map_err(|_| missing())?;
    cluster.view.tenant(&tenant).ok_or_else(missing)
}

/// Lists tenants.
#[utoipa::path(get, path = "/api/v1/tenants", tag = "tenants", params(Page),
    extensions(("x-operation" = json!("tenants.read"))),
    responses((status = 200, body = Paged<TenantModel>)))]
pub(crate) async fn tenants(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<Paged<TenantModel>>, Problem> {
    let (limit, after) = (page.limit()?, page.after.as_deref().unwrap_or_default());
    let rows = cluster
        .view
        .tenants(after, limit + 1, |tenant| who.0.sees(tenant));
    let figures = Figures::of(&cluster.moment().await?);
    let models = rows.iter().map(|row| figures.model(row));
    page.cut(models, |tenant| tenant.name.clone()).map(Json)
}

/// Shows a tenant.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant}", tag = "tenants",
    params(("tenant" = String, Path, description = "its name")),
    extensions(("x-operation" = json!("tenants.read"))),
    responses((status = 200, body = TenantModel)))]
pub(crate) async fn tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
) -> Result<Tagged, Problem> {
    let row = known(&cluster, &who, &name)?;
    let figures = Figures::of(&cluster.moment().await?);
    Ok(tagged(&row, &figures))
}

/// A tenant to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct NewTenantModel {
    /// Its name: 1 to 32 of a-z, 0-9 and '-', a letter first.
    name: String,
    /// The settings that differ from the defaults.
    #[serde(flatten)]
    settings: TenantChangeModel,
}

/// The changes of a dry run, and the leader's verdict on all targets.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct TenantWhatIfModel {
    /// The settings that differ.
    changes: Vec<ChangeModel>,
    /// The verdicts on the targets; null without a leader.
    #[schema(value_type = Option<Vec<Object>>)]
    admission: Option<serde_json::Value>,
}

async fn what_if(
    cluster: &Cluster,
    tenant: &Tenant,
    before: &TenantSettings,
    after: &TenantSettings,
) -> TenantWhatIfModel {
    let targets = admission::ask(&cluster.administrator, tenant, after).await;
    TenantWhatIfModel {
        changes: settings::differences(before, after),
        admission: targets.map(|targets| admission::as_json(&targets)),
    }
}

/// Waits until the next caller sees the change and the leader applies it. Without a leader, the
/// next leader will apply it.
async fn applied(cluster: &Cluster, tenant: &Tenant, settings: &TenantSettings) {
    cluster.view.knows(tenant, Some(settings)).await;
    let administrator = &cluster.administrator;
    let applied = administrator.tenant_applies(tenant, settings, administrator.glance());
    if let Err(error) = applied.await {
        tracing::info!(%tenant, "no leader orders by it yet: {error:#}");
    }
    cluster.changed().await;
}

/// Creates a tenant, with a login of its own if `up` started the broker.
#[utoipa::path(post, path = "/api/v1/tenants", tag = "tenants", params(DryRun),
    request_body = NewTenantModel, extensions(("x-operation" = json!("tenants.write"))),
    responses((status = 201, body = TenantModel), (status = 200, body = TenantWhatIfModel)))]
pub(crate) async fn create_tenant(
    State(cluster): State<Shared>,
    QueryParams(DryRun { dry_run }): QueryParams<DryRun>,
    JsonBody(new): JsonBody<NewTenantModel>,
) -> Result<Response, Problem> {
    let name = new.name.parse::<Tenant>();
    let name = name.map_err(|error| Problem::invalid(format!("name: {error}")))?;
    let usual = TenantSettings::default();
    let settings = new.settings.over(usual.clone())?;
    let exists = || Problem::conflict(format!("tenant {name} exists: change it with PATCH"));
    if cluster.view.tenant(&name).is_some() {
        return Err(exists());
    }
    if dry_run {
        let what_if = what_if(&cluster, &name, &usual, &settings).await;
        return Ok(Json(what_if).into_response());
    }
    let over = cluster.view.gone(&name);
    let made = cluster.administrator.replace_tenant(&name, &settings, over);
    made.await?.ok_or_else(exists)?;
    cluster.administrator.give_login(&name).await?;
    applied(&cluster, &name, &settings).await;
    let row = cluster.view.tenant(&name).ok_or_else(Problem::changed)?;
    let figures = Figures::of(&cluster.moment().await?);
    Ok((StatusCode::CREATED, tagged(&row, &figures)).into_response())
}

/// Changes a tenant, or reports what would change.
#[utoipa::path(patch, path = "/api/v1/tenants/{tenant}", tag = "tenants", params(DryRun,
    ("tenant" = String, Path, description = "its name")), request_body = TenantChangeModel,
    extensions(("x-operation" = json!("tenants.write"))),
    responses((status = 200, body = inline(ChangedTenantModel))))]
pub(crate) async fn change_tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
    QueryParams(DryRun { dry_run }): QueryParams<DryRun>,
    headers: HeaderMap,
    JsonBody(change): JsonBody<TenantChangeModel>,
) -> Result<Response, Problem> {
    for _ in 0..etag::TRIES {
        let row = known(&cluster, &who, &name)?;
        etag::matches(&headers, row.revision)?;
        let settings = change.clone().over(row.settings.clone())?;
        if dry_run {
            let what_if = what_if(&cluster, &row.name, &row.settings, &settings).await;
            return Ok(Json(what_if).into_response());
        }
        if let Some(tagged) = set(&cluster, &row, settings).await? {
            return Ok(tagged.into_response());
        }
        if headers.contains_key(header::IF_MATCH) {
            return Err(Problem::changed());
        }
        cluster.view.passes(&row).await;
    }
    Err(Problem::contended())
}

/// A tenant; for a dry run, the changes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it stands for two answers in the document")]
pub(crate) enum ChangedTenantModel {
    /// The tenant.
    Changed(TenantModel),
    /// The changes of a dry run.
    WhatIf(TenantWhatIfModel),
}

/// Writes the settings of a tenant. Returns `None` if the tenant was changed concurrently.
async fn set(
    cluster: &Cluster,
    row: &TenantRow,
    settings: TenantSettings,
) -> Result<Option<Tagged>, Problem> {
    let administrator = &cluster.administrator;
    if settings != row.settings {
        let made = administrator.replace_tenant(&row.name, &settings, row.revision);
        if made.await?.is_none() {
            return Ok(None);
        }
        applied(cluster, &row.name, &settings).await;
    }
    let row = cluster.view.tenant(&row.name);
    let row = row.ok_or_else(Problem::changed)?;
    let figures = Figures::of(&cluster.moment().await?);
    Ok(Some(tagged(&row, &figures)))
}

/// Suspends a tenant, or resumes it.
async fn suspended(cluster: &Cluster, who: &Who, name: &str, on: bool) -> Result<Tagged, Problem> {
    let row = known(cluster, who, name)?;
    let change = cluster.administrator.suspend(&row.name, on).await?;
    cluster.view.knows(&row.name, Some(&change.settings)).await;
    cluster.changed().await;
    let row = known(cluster, who, name)?;
    Ok(tagged(&row, &Figures::of(&cluster.moment().await?)))
}

/// Suspends a tenant: it gets no new sessions, and its open sessions are granted nothing more.
#[utoipa::path(post, path = "/api/v1/tenants/{tenant}/suspend", tag = "tenants",
    params(("tenant" = String, Path, description = "its name")),
    extensions(("x-operation" = json!("tenants.write"))),
    responses((status = 200, body = TenantModel)))]
pub(crate) async fn suspend_tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
) -> Result<Tagged, Problem> {
    suspended(&cluster, &who, &name, true).await
}

/// Resumes a suspended tenant: its sessions continue.
#[utoipa::path(post, path = "/api/v1/tenants/{tenant}/resume", tag = "tenants",
    params(("tenant" = String, Path, description = "its name")),
    extensions(("x-operation" = json!("tenants.write"))),
    responses((status = 200, body = TenantModel)))]
pub(crate) async fn resume_tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
) -> Result<Tagged, Problem> {
    suspended(&cluster, &who, &name, false).await
}

/// The choice to end sessions that prevent the removal.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Force {
    /// Ends the tenant's sessions first.
    #[serde(default)]
    force: bool,
}

/// The result of removing a tenant.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct RemovedTenantModel {
    /// Number of its sessions that were ended.
    ended: u64,
    /// True if its login was removed; false if `up` did not start the broker.
    login: bool,
}

/// Removes a tenant, and its login if `up` started the broker. Its past usage stays in the
/// accounts.
#[utoipa::path(delete, path = "/api/v1/tenants/{tenant}", tag = "tenants", params(Force,
    ("tenant" = String, Path, description = "its name")),
    extensions(("x-operation" = json!("tenants.write"))),
    responses((status = 200, body = RemovedTenantModel)))]
pub(crate) async fn remove_tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
    QueryParams(Force { force }): QueryParams<Force>,
    headers: HeaderMap,
) -> Result<Json<RemovedTenantModel>, Problem> {
    let row = known(&cluster, &who, &name)?;
    etag::matches(&headers, row.revision)?;
    let removed = cluster
        .administrator
        .remove_tenant(&row.name, force)
        .await?;
    cluster.view.knows(&row.name, None).await;
    cluster.changed().await;
    Ok(Json(RemovedTenantModel {
        ended: removed.ended as u64,
        login: removed.login,
    }))
}

/// A renewed login.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct RenewedLoginModel {
    /// Its user name, as before.
    user: String,
    /// The file on the broker's host with the new password.
    credentials: String,
}

/// Gives a tenant's login a new password. The old password stops working, and connections that used
/// it are closed.
#[utoipa::path(post, path = "/api/v1/tenants/{tenant}/login", tag = "tenants",
    params(("tenant" = String, Path, description = "its name")),
    extensions(("x-operation" = json!("tenants.login"))),
    responses((status = 200, body = RenewedLoginModel)))]
pub(crate) async fn renew_login(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
) -> Result<Json<RenewedLoginModel>, Problem> {
    let row = known(&cluster, &who, &name)?;
    let counted = cluster.renewals.take(&who.0.share(), now_ms());
    counted.map_err(Problem::rate)?;
    let renewed = cluster.administrator.renew_login(&row.name).await?;
    Ok(Json(RenewedLoginModel {
        user: renewed.user,
        credentials: renewed.credentials.display().to_string(),
    }))
}
