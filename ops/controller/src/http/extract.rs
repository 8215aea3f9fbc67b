//! Extractors for requests, with this interface's errors.

use std::time::Duration;

use admin::calendar;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::Identity;
use crate::problem::Problem;

/// Maximum time to wait for a body.
pub(crate) const BODY: Duration = Duration::from_secs(30);

/// Awaits a body for a limited time.
///
/// # Errors
/// `E-API-SLOW` after the time limit.
pub(crate) async fn in_time<T>(
    body: impl Future<Output = T>,
    patience: Duration,
) -> Result<T, Problem> {
    let read = tokio::time::timeout(patience, body).await;
    read.map_err(|_| Problem::slow(patience))
}

/// The identity of the caller.
pub(crate) struct Who(pub(crate) Identity);

impl<S: Send + Sync> FromRequestParts<S> for Who {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The gate sets the identity. A path that lacks the gate is refused.
        let identity = parts.extensions.get::<Identity>();
        identity.cloned().map(Self).ok_or_else(Problem::login)
    }
}

/// The parameters of the query.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let query = query.map_err(|error| Problem::malformed(format!("query: {error}")))?;
        Ok(Self(query.0))
    }
}

/// Parses two parameters of the query, the start and the end of a stretch of time.
///
/// # Errors
/// `E-API-MALFORMED` with the name of the wrong one.
pub(crate) fn bounds(
    since: Option<&str>,
    until: Option<&str>,
) -> Result<[Option<u64>; 2], Problem> {
    let bounds = calendar::bounds(since, until);
    bounds.map_err(|(name, why)| Problem::malformed(format!("query: {name}: {why}")))
}

/// The parameters of the path; a malformed name is answered as missing.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        let path = path.map_err(|_| Problem::missing("such thing"))?;
        Ok(Self(path.0))
    }
}

/// The body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = in_time(Json::<Value>::from_request(request, state), BODY).await?;
        let Json(body) = body.map_err(refusal)?;
        // Serde would also accept a list of the fields in their order.
        if !body.is_object() {
            return Err(Problem::invalid("body: an object is expected"));
        }
        let body = serde_json::from_value(body);
        let body = body.map_err(|error| Problem::invalid(format!("body: {error}")))?;
        Ok(Self(body))
    }
}

fn refusal(error: JsonRejection) -> Problem {
    let why = format!("body: {}", error.body_text());
    match error {
        error if error.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Problem::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, "E-API-TYPE", why)
        }
        error if error.status() == StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large(why),
        _ => Problem::malformed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_come_to_its_end_is_given_up() {
        let soon = Duration::from_millis(5);
        assert_eq!(in_time(async { 7 }, soon).await.ok(), Some(7));
        let given_up = in_time(std::future::pending::<()>(), soon).await;
        let problem = given_up.expect_err("it never comes");
        assert_eq!(
            (problem.status().as_u16(), problem.code()),
            (408, "E-API-SLOW")
        );
    }
}
