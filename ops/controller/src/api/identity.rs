//! Logins: the one-time link, the current identity, and the logout.

use admin::calendar::now_ms;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bus_schemas::Tenant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Identity, LOGIN, Means, Operation, Role, Scope, Secret};
use crate::cluster::Shared;
use crate::http::extract::Who;
use crate::http::gate::{cookie_name, peer, secret};
use crate::problem::Problem;

/// The current identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct IdentityModel {
    /// The name of the token or login.
    name: String,
    /// Its role.
    role: Role,
    /// The tenant of a tenant-admin.
    tenant: Option<String>,
    /// The word that a browser sends as X-CSRF-Token with changes; null for tokens, which need
    /// none.
    csrf: Option<String>,
    /// Expiry, milliseconds since 1970.
    expires_ms: u64,
    /// The cluster.
    cluster: String,
    /// The operations that it may do.
    operations: Vec<Operation>,
}

/// Shows the caller's identity and permissions.
#[utoipa::path(get, path = "/api/v1/me", tag = "logins",
    extensions(("x-operation" = json!("login"))),
    responses((status = 200, body = IdentityModel)))]
pub(crate) async fn me(State(cluster): State<Shared>, Who(identity): Who) -> Json<IdentityModel> {
    Json(IdentityModel {
        role: identity.role,
        tenant: identity.tenant.as_ref().map(ToString::to_string),
        csrf: (identity.means == Means::Cookie).then(|| identity.csrf.clone()),
        expires_ms: identity.expires_ms,
        cluster: cluster.administrator.subjects().cluster().to_string(),
        operations: identity.operations(),
        name: identity.name,
    })
}

/// Ends the login of a browser. A token ends when it is removed.
#[utoipa::path(post, path = "/api/v1/logout", tag = "logins",
    extensions(("x-operation" = json!("login"))),
    responses((status = 204, description = "logged out")))]
pub(crate) async fn logout(
    State(cluster): State<Shared>,
    Who(identity): Who,
    request: Request,
) -> Result<Response, Problem> {
    if identity.means == Means::Token {
        let why = "this is a token: remove it (DELETE /api/v1/tokens/ID) to end it";
        return Err(Problem::conflict(why));
    }
    let secret = secret(&request, cluster.secure);
    let name = cookie_name(request.headers(), request.uri(), cluster.secure);
    drop(request);
    if let Some((secret, _)) = secret {
        cluster.access.log_out(&secret).await?;
        cluster.identities.forget();
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &cookie(&name, "", 0, cluster.secure));
    Ok(response)
}

/// A one-time link.
#[derive(Debug, Deserialize)]
pub(crate) struct Link {
    once: String,
}

/// Logs a browser in by a one-time link and redirects it to the page, so that no address keeps the
/// secret.
pub(crate) async fn login(
    State(cluster): State<Shared>,
    link: Result<Query<Link>, QueryRejection>,
    request: Request,
) -> Response {
    let name = cookie_name(request.headers(), request.uri(), cluster.secure);
    let peer = peer(&request);
    drop(request);
    match redeem(&cluster, link.ok().map(|link| link.0.once), &peer).await {
        Ok(secret) => {
            let cookie = cookie(&name, &secret.shown(), LOGIN.as_secs(), cluster.secure);
            let mut response = Redirect::to("/").into_response();
            set_cookie(&mut response, &cookie);
            response
        }
        // A person reads this: the page says what to do.
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            Redirect::to("/?link=used").into_response()
        }
        Err(problem) => problem.into_response(),
    }
}

async fn redeem(cluster: &Shared, once: Option<String>, peer: &str) -> Result<Secret, Problem> {
    let link = once.as_deref().and_then(Secret::read);
    let there = match &link {
        Some(link) => {
            let _place = cluster.lookups.acquire().await;
            cluster.access.redeem(link).await?
        }
        None => false,
    };
    if there {
        return cluster.access.log_in("link").await;
    }
    // Only failures are counted: a valid link is not refused because of other clients of the same
    // address.
    let counted = cluster.strangers.take(peer, now_ms());
    counted.map_err(Problem::rate)?;
    Err(Problem::login())
}

fn cookie(name: &str, value: &str, seconds: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}")
}

fn set_cookie(response: &mut Response, cookie: &str) {
    let headers: &mut HeaderMap = response.headers_mut();
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(header::SET_COOKIE, cookie);
    }
}

/// A tenant-admin sees only its own tenant; everything else appears missing.
pub(crate) fn visible(identity: &Identity, tenant: &Tenant) -> Result<(), Problem> {
    match identity.sees(tenant) {
        true => Ok(()),
        false => Err(Problem::missing(format_args!("tenant {tenant}"))),
    }
}

/// The tenant that a query names. Without an operation on all tenants, it is the caller's own one.
///
/// # Errors
/// `E-API-MALFORMED` if it is no name, `E-API-MISSING` if the caller does not see it.
pub(crate) fn asked_tenant(
    identity: &Identity,
    operation: Operation,
    name: Option<&str>,
) -> Result<Option<Tenant>, Problem> {
    let tenant = name.map(str::parse::<Tenant>).transpose();
    let tenant = tenant.map_err(|error| Problem::malformed(format!("query: tenant: {error}")))?;
    if let Some(tenant) = &tenant {
        visible(identity, tenant)?;
    }
    Ok(match identity.scope(operation) {
        Scope::All => tenant,
        _ => identity.tenant.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_for_no_script_and_no_other_site() {
        let shown = cookie("__Host-wl", "x", 60, true);
        for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Secure", "Max-Age=60"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(!cookie("wl-1", "x", 60, false).contains("Secure"));
    }
}
