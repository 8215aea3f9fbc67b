//! Errors of the interface: problem documents (RFC 9457) with Warploom's codes.

use std::time::Duration;

use admin::errors::{self, Class};
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bus_schemas::Failure;
use serde::Serialize;
use utoipa::ToSchema;

/// The code of an operation that is busy for other callers.
pub(crate) const BUSY: &str = "E-API-BUSY";

/// A problem document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`; problems are distinguished by their code.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// A stable code; docs/reference/errors.md lists them.
    code: Box<str>,
    /// The error, and its remedy.
    detail: String,
    /// The oldest event still available, for `E-API-GONE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<String>,
    /// Seconds until a retry makes sense, for `E-API-RATE`, `E-API-BUSY` and `E-API-SHARE`.
    #[serde(skip)]
    after_s: Option<u64>,
}

impl Problem {
    /// A problem with a status, a code and a description.
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

    /// The caller is not logged in.
    pub(crate) fn login() -> Self {
        let how = "send a token (Authorization: Bearer wl_...) or log in; `warploom controller link` prints a link";
        Self::of(StatusCode::UNAUTHORIZED, "E-API-LOGIN", how)
    }

    /// The role does not allow the operation.
    pub(crate) fn forbidden(why: impl Into<String>) -> Self {
        Self::of(StatusCode::FORBIDDEN, "E-API-ROLE", why)
    }

    /// The resource does not exist, or the caller may not see it.
    pub(crate) fn missing(what: impl std::fmt::Display) -> Self {
        let why = format!("there is no {what}");
        Self::of(StatusCode::NOT_FOUND, "E-API-MISSING", why)
    }

    /// The resource already exists, or its state does not allow the operation.
    pub(crate) fn conflict(why: impl Into<String>) -> Self {
        Self::of(StatusCode::CONFLICT, "E-API-CONFLICT", why)
    }

    /// The resource has changed: its ETag is not the one in `If-Match`.
    pub(crate) fn changed() -> Self {
        let why = "it was changed meanwhile: read it again, and send its new ETag";
        Self::of(StatusCode::PRECONDITION_FAILED, "E-API-CHANGED", why)
    }

    /// Concurrent changes of the same resource prevented this one.
    pub(crate) fn contended() -> Self {
        Self::busy("a change of the same")
    }

    /// The rest of a body did not arrive in time.
    pub(crate) fn slow(patience: Duration) -> Self {
        let why = format!("the body did not come to its end within {patience:?}: send it again");
        Self::of(StatusCode::REQUEST_TIMEOUT, "E-API-SLOW", why)
    }

    /// The path does not support this method, only the listed ones.
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

    /// The body is too large.
    pub(crate) fn too_large(why: impl Into<String>) -> Self {
        Self::of(StatusCode::PAYLOAD_TOO_LARGE, "E-API-SIZE", why)
    }

    /// The request is malformed.
    pub(crate) fn malformed(why: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, "E-API-MALFORMED", why)
    }

    /// The request is well-formed, but its values are invalid.
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY, "E-API-VALUE", why)
    }

    /// The caller sent too many requests.
    pub(crate) fn rate(after_s: u64) -> Self {
        let why = format!("too many requests: ask again in {after_s} s");
        Self {
            after_s: Some(after_s),
            ..Self::of(StatusCode::TOO_MANY_REQUESTS, "E-API-RATE", why)
        }
    }

    /// Too many costly operations are in progress.
    pub(crate) fn busy(what: &str) -> Self {
        let why = format!("{what} is being done for another request: ask again in a moment");
        Self {
            after_s: Some(2),
            ..Self::of(StatusCode::TOO_MANY_REQUESTS, BUSY, why)
        }
    }

    /// The login has reached its limit of a bounded resource.
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

    /// The events after the client's last one are not available any more.
    pub(crate) fn gone(oldest: Option<String>) -> Self {
        let why = "what came behind that is not kept any more: begin anew, without Last-Event-ID";
        Self {
            oldest,
            ..Self::of(StatusCode::GONE, "E-API-GONE", why)
        }
    }

    /// An internal error.
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

    /// The description.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let status = match (errors::class(&error), error.downcast_ref::<Failure>()) {
            (Class::Unreachable, _) => StatusCode::SERVICE_UNAVAILABLE,
            (Class::Usage, _) => StatusCode::UNPROCESSABLE_ENTITY,
            (Class::Failed, Some(Failure { code, detail, .. })) => {
                return Self::of(StatusCode::CONFLICT, code.name(), detail.clone());
            }
            (Class::Failed, None) => StatusCode::CONFLICT,
        };
        let code = errors::code(&error).unwrap_or("E-API-FAILED");
        Self::of(status, code, without(code, &format!("{error:#}")))
    }
}

/// The text of an error without its code, which has a field of its own. Contexts of the error may
/// stand before the code.
fn without(code: &str, text: &str) -> String {
    let parts = text.split(": ").filter(|part| *part != code);
    parts.collect::<Vec<_>>().join(": ")
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
    use admin::errors::{ErrorCode, Unreachable, UsageError};

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
                "E-USAGE",
            ),
            (ErrorCode::Replay.failed("x").into(), 409, "E-REPLAY"),
            (anyhow::anyhow!("E-M: x"), 409, "E-API-FAILED"),
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

    #[test]
    fn a_detail_does_not_repeat_the_code_wherever_it_stands() {
        let usage = || anyhow::anyhow!(UsageError("--x: none".into()));
        let replay = ErrorCode::Replay.failed("a block");
        let twice = anyhow::Error::new(replay).context(ErrorCode::Replay.failed("the record"));
        for (error, code, detail) in [
            (usage(), "E-USAGE", "--x: none"),
            (
                usage().context("the query"),
                "E-USAGE",
                "the query: --x: none",
            ),
            (twice, "E-REPLAY", "the record: a block"),
            // A code of another error stays.
            (
                usage().context(ErrorCode::Replay.failed("x")),
                "E-REPLAY",
                "x: E-USAGE: --x: none",
            ),
            (anyhow::anyhow!("E-M: x"), "E-API-FAILED", "E-M: x"),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.code(), problem.detail()), (code, detail));
        }
    }
}
