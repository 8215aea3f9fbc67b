//! Errors as the interface answers them: problem documents (RFC 9457) with our codes.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bus_schemas::Failure;
use serde::Serialize;
use utoipa::ToSchema;
use warploom_cli::exit::{Unreachable, UsageError};

/// The code of what is done for others now.
pub(crate) const BUSY: &str = "E-API-BUSY";

/// A problem document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the code tells problems apart.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// A stable code; docs/reference/errors.md lists them.
    code: Box<str>,
    /// What is wrong, and what to do.
    detail: String,
    /// Where events begin that are still there, of `E-API-GONE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<String>,
    /// In how many seconds to ask again, of `E-API-RATE`, `E-API-BUSY` and `E-API-SHARE`.
    #[serde(skip)]
    after_s: Option<u64>,
}

impl Problem {
    /// Of a status, a code and what is wrong.
    pub(crate) fn of(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            code: code.into(),
            detail: detail.into(),
            oldest: None,
            after_s: None,
        }
    }

    /// Nobody is logged in.
    pub(crate) fn login() -> Self {
        let how = "send a token (Authorization: Bearer wl_...) or log in; `warploom controller link` prints a link";
        Self::of(StatusCode::UNAUTHORIZED, "E-API-LOGIN", how)
    }

    /// The role does not allow it.
    pub(crate) fn forbidden(why: impl Into<String>) -> Self {
        Self::of(StatusCode::FORBIDDEN, "E-API-ROLE", why)
    }

    /// There is no such thing, or not for who asks.
    pub(crate) fn missing(what: impl std::fmt::Display) -> Self {
        let why = format!("there is no {what}");
        Self::of(StatusCode::NOT_FOUND, "E-API-MISSING", why)
    }

    /// It is there already, or is in a state that does not allow it.
    pub(crate) fn conflict(why: impl Into<String>) -> Self {
        Self::of(StatusCode::CONFLICT, "E-API-CONFLICT", why)
    }

    /// It is another one by now than the one that `If-Match` names.
    pub(crate) fn changed() -> Self {
        let why = "somebody changed it meanwhile: read it again, and send its new ETag";
        Self::of(StatusCode::PRECONDITION_FAILED, "E-API-CHANGED", why)
    }

    /// Others changed the same again and again.
    pub(crate) fn contended() -> Self {
        Self::busy("a change of the same")
    }

    /// The rest of a body did not come.
    pub(crate) fn slow(patience: Duration) -> Self {
        let why = format!("the body did not come to its end within {patience:?}: send it again");
        Self::of(StatusCode::REQUEST_TIMEOUT, "E-API-SLOW", why)
    }

    /// A path has not this method, but these.
    pub(crate) fn method(methods: &str) -> Self {
        let why = format!("this path has only {methods}");
        Self::of(StatusCode::METHOD_NOT_ALLOWED, "E-API-METHOD", why)
    }

    /// As [`Self::method`], with the header that lists them.
    pub(crate) fn of_methods(methods: &str) -> Response {
        let mut response = Self::method(methods).into_response();
        if let Ok(methods) = HeaderValue::from_str(methods) {
            response.headers_mut().insert(header::ALLOW, methods);
        }
        response
    }

    /// A body is too large.
    pub(crate) fn too_large(why: impl Into<String>) -> Self {
        Self::of(StatusCode::PAYLOAD_TOO_LARGE, "E-API-SIZE", why)
    }

    /// The request is not understood.
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "E-API-MALFORMED", why)
    }

    /// It is understood and makes no sense.
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY, "E-API-VALUE", why)
    }

    /// Too many requests.
    pub(crate) fn rate(after_s: u64) -> Self {
        let why = format!("too many requests: ask again in {after_s} s");
        Self {
            after_s: Some(after_s),
            ..Self::of(StatusCode::TOO_MANY_REQUESTS, "E-API-RATE", why)
        }
    }

    /// Too much of what is costly at a time.
    pub(crate) fn busy(what: &str) -> Self {
        let why = format!("{what} is being done for somebody else: ask again in a moment");
        Self {
            after_s: Some(2),
            ..Self::of(StatusCode::TOO_MANY_REQUESTS, BUSY, why)
        }
    }

    /// The login has its share of what is bounded.
    pub(crate) fn share(what: impl std::fmt::Display) -> Self {
        Self {
            after_s: Some(10),
            ..Self::of(
                StatusCode::TOO_MANY_REQUESTS,
                "E-API-SHARE",
                format!("this login has its share: {what}"),
            )
        }
    }

    /// Events that somebody wants to go on from are not kept any more.
    pub(crate) fn gone(oldest: Option<String>) -> Self {
        let why = "what came behind that is not kept any more: begin anew, without Last-Event-ID";
        Self {
            oldest,
            ..Self::of(StatusCode::GONE, "E-API-GONE", why)
        }
    }

    /// Our own fault.
    pub(crate) fn internal(why: impl Into<String>) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, "E-API-INTERNAL", why)
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The code.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// What is wrong.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

/// The code that a text of ours begins with, and the rest.
fn code(text: &str) -> Option<(&str, &str)> {
    let (code, rest) = text.split_once(": ")?;
    let is_code = code.starts_with("E-")
        && code
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    is_code.then_some((code, rest))
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let text = format!("{error:#}");
        let (code, detail) = code(&text).unwrap_or(("E-API-FAILED", &text));
        let has = |is: fn(&(dyn std::error::Error + 'static)) -> bool| error.chain().any(is);
        let status = if error.is::<Unreachable>() || has(|it| it.is::<Unreachable>()) {
            StatusCode::SERVICE_UNAVAILABLE
        } else if error.is::<UsageError>() || has(|it| it.is::<UsageError>()) {
            StatusCode::UNPROCESSABLE_ENTITY
        } else if let Some(failure) = error.downcast_ref::<Failure>() {
            return Self::of(
                StatusCode::CONFLICT,
                failure.code.name(),
                failure.detail.clone(),
            );
        } else {
            StatusCode::CONFLICT
        };
        Self::of(status, code, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let after = self.after_s;
        let mut response = (self.status(), Json(self)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(after) = after {
            headers.insert(header::RETRY_AFTER, after.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_ours_keeps_its_code_and_who_is_to_blame() {
        for (error, status, code) in [
            (
                anyhow::anyhow!(Unreachable("x".into())),
                503,
                "E-CLUSTER-UNREACHABLE",
            ),
            (
                anyhow::anyhow!(UsageError("x".into())).context("y"),
                422,
                "E-API-FAILED",
            ),
            (anyhow::anyhow!("E-REPLAY: x"), 409, "E-REPLAY"),
            (anyhow::anyhow!("x: y"), 409, "E-API-FAILED"),
        ] {
            let problem = Problem::from(error);
            assert_eq!(
                (problem.status, &*problem.code),
                (status, code),
                "{problem:?}"
            );
        }
    }
}
