//! ETags: the revision for stored data, a hash of the content for other answers.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Maximum size of an answer that gets an ETag of its content, in bytes.
const MOST: usize = 4 << 20;

/// Maximum number of attempts at a change without a revision, while others change the same entry.
pub(crate) const TRIES: usize = 32;

/// The ETag of a revision.
pub(crate) fn of_revision(revision: u64) -> HeaderValue {
    // Digits and quotes are a header's value.
    HeaderValue::from_str(&format!("\"{revision}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Checks that a change may be made to this revision.
///
/// # Errors
/// `E-API-CHANGED` if `If-Match` names another one.
pub(crate) fn matches(headers: &HeaderMap, revision: u64) -> Result<(), Problem> {
    let Some(wanted) = headers.get(header::IF_MATCH) else {
        return Ok(());
    };
    let own = of_revision(revision);
    let wanted = wanted.to_str().unwrap_or_default();
    let mut wanted = wanted.split(',').map(str::trim);
    match wanted.any(|it| it == "*" || it.as_bytes() == own.as_bytes()) {
        true => Ok(()),
        false => Err(Problem::changed()),
    }
}

/// Adds an ETag to answers of reads, and answers 304 to a client that has the same content.
pub(crate) async fn tag(request: Request, next: Next) -> Response {
    let reads = *request.method() == Method::GET;
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    let json = response.headers().get(header::CONTENT_TYPE);
    let json = json.is_some_and(|kind| kind == "application/json");
    if !reads || response.status() != StatusCode::OK || !json {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, MOST).await else {
        return Problem::internal("the answer is too large").into_response();
    };
    let looks = format!("\"{}\"", &blake3::hash(&bytes).to_hex()[..24]);
    let looks = HeaderValue::from_str(&looks).ok();
    // Stored data already has the ETag of its revision, which a change can name.
    if let Some(tag) = &looks {
        let entry = parts.headers.entry(header::ETAG);
        entry.or_insert_with(|| tag.clone());
    }
    let own = parts.headers.get(header::ETAG);
    let same = own == looks.as_ref() && known.is_some() && known == looks;
    match same {
        true => (StatusCode::NOT_MODIFIED, parts.headers).into_response(),
        false => Response::from_parts(parts, Body::from(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_to_the_revision_that_was_seen() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_MATCH, value.parse().unwrap());
            matches(&headers, 7).is_ok()
        };
        assert!(matches(&HeaderMap::new(), 7).is_ok());
        assert!(with("\"7\"") && with("*") && with("\"6\", \"7\""));
        assert!(!with("\"6\"") && !with("7") && !with("W/\"7\""));
    }
}
