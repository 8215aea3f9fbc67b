//! Tokens for people and machines.

use admin::calendar::{DAY_MS, now_ms};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bus_schemas::Tenant;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Operation, Role, Secret, TokenRecord};
use crate::cluster::{Cluster, Shared};
use crate::http::extract::{JsonBody, PathParams, QueryParams};
use crate::http::idempotency::SecretAnswer;
use crate::http::paging::{Page, Paged};
use crate::problem::Problem;

/// Default lifetime of a token, in days.
pub(crate) const DAYS: u32 = 30;
/// Maximum lifetime of a token, in days.
const MOST_DAYS: u32 = 366;
/// Maximum number of characters of a name.
const NAME: usize = 64;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TokenModel {
    /// Its id: 16 hexadecimal digits.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// Its role.
    pub(crate) role: Role,
    /// The tenant of a tenant-admin.
    pub(crate) tenant: Option<String>,
    /// The operations to which it is narrowed; null means all operations of its role.
    pub(crate) operations: Option<Vec<Operation>>,
    /// Creation time, milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// Expiry, milliseconds since 1970.
    pub(crate) expires_ms: u64,
}

impl TokenModel {
    fn of(id: String, record: TokenRecord) -> Self {
        Self {
            id,
            name: record.name,
            role: record.role,
            tenant: record.tenant.map(|tenant| tenant.to_string()),
            operations: record.operations,
            created_ms: record.created_ms,
            expires_ms: record.expires_ms,
        }
    }
}

/// A new token. This answer is the only one that shows its secret.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct MadeTokenModel {
    #[serde(flatten)]
    pub(crate) token: TokenModel,
    /// The value to send as `Authorization: Bearer`.
    pub(crate) secret: String,
}

/// A token to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTokenModel {
    /// Its name, 1 to 64 characters.
    #[schema(min_length = 1, max_length = 64)]
    pub(crate) name: String,
    /// Its role.
    pub(crate) role: Role,
    /// The tenant of a tenant-admin; other roles have none.
    #[serde(default)]
    pub(crate) tenant: Option<String>,
    /// The operations to which it is narrowed; null means all operations of its role.
    #[serde(default)]
    pub(crate) operations: Option<Vec<Operation>>,
    /// Lifetime in days, 1 to 366; the default is 30.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 366)]
    pub(crate) days: Option<u32>,
}

impl NewTokenModel {
    /// Creates the token.
    pub(crate) async fn make(
        self,
        access: &crate::access::AccessStore,
    ) -> Result<MadeTokenModel, Problem> {
        let (secret, record) = (Secret::random()?, self.record()?);
        let record = TokenRecord {
            digest: secret.digest(),
            ..record
        };
        access.add_token(&secret, &record).await?;
        Ok(MadeTokenModel {
            token: TokenModel::of(secret.id.clone(), record),
            secret: secret.shown(),
        })
    }

    /// The entry to store, without the secret.
    fn record(self) -> Result<TokenRecord, Problem> {
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > NAME || name.chars().any(char::is_control) {
            return Err(Problem::invalid(format!(
                "a token's name is 1 to {NAME} printable characters"
            )));
        }
        let tenant = self.tenant.as_deref().map(str::parse::<Tenant>);
        let tenant = tenant.transpose();
        let tenant = tenant.map_err(|error| Problem::invalid(format!("tenant: {error}")))?;
        let of_tenant = self.role == Role::TenantAdmin;
        if of_tenant != tenant.is_some() {
            let why =
                "a tenant-admin's token is of one tenant, and those of other roles are of none";
            return Err(Problem::invalid(why));
        }
        let days = self.days.unwrap_or(DAYS);
        if !(1..=MOST_DAYS).contains(&days) {
            return Err(Problem::invalid(format!(
                "a token lasts 1 to {MOST_DAYS} days, not {days}"
            )));
        }
        let created_ms = now_ms();
        Ok(TokenRecord {
            digest: String::new(),
            name: name.into(),
            role: self.role,
            tenant,
            operations: self.operations,
            created_ms,
            expires_ms: created_ms + u64::from(days) * DAY_MS,
        })
    }
}

/// Lists tokens, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(Page),
    extensions(("x-operation" = json!("tokens.read"))),
    responses((status = 200, body = Paged<TokenModel>)))]
pub(crate) async fn tokens(
    State(cluster): State<Shared>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<Paged<TokenModel>>, Problem> {
    let tokens = cluster.access.tokens().await?.into_iter();
    let tokens = tokens.map(|(id, record)| TokenModel::of(id, record));
    page.cut(tokens, |token| token.id.clone()).map(Json)
}

/// Creates a token. Only this answer shows its secret.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = NewTokenModel,
    extensions(("x-operation" = json!("tokens.write"))),
    responses((status = 201, body = MadeTokenModel)))]
pub(crate) async fn create_token(
    State(cluster): State<Shared>,
    JsonBody(token): JsonBody<NewTokenModel>,
) -> Result<Response, Problem> {
    let made = token.make(&cluster.access).await?;
    let mut response = (StatusCode::CREATED, Json(made)).into_response();
    response.extensions_mut().insert(SecretAnswer);
    Ok(response)
}

/// Revokes a token: it is refused within a second.
#[utoipa::path(delete, path = "/api/v1/tokens/{token}", tag = "tokens",
    params(("token" = String, Path, description = "its id")),
    extensions(("x-operation" = json!("tokens.write"))),
    responses((status = 204, description = "revoked")))]
pub(crate) async fn remove_token(
    State(cluster): State<Shared>,
    PathParams(token): PathParams<String>,
) -> Result<StatusCode, Problem> {
    revoke(&cluster, &token).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn revoke(cluster: &Cluster, token: &str) -> Result<(), Problem> {
    let is_id = token.len() == 16 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let missing = || Problem::missing(format_args!("token {token:?}"));
    if !is_id || !cluster.access.remove_token(token).await? {
        return Err(missing());
    }
    cluster.identities.forget();
    Ok(())
}
