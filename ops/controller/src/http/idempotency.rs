//! Requests that run once even if sent again: `Idempotency-Key`.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::{Identity, Kept, Key, Share, digest};
use crate::cluster::Shared;
use crate::http::extract::{BODY, in_time};
use crate::problem::Problem;

/// The header that names a request.
const KEY: &str = "idempotency-key";
/// Maximum number of characters of a key.
const KEY_LENGTH: usize = 128;
/// Maximum size of a request or an answer, in bytes.
const MOST: usize = 256 << 10;
/// Maximum size of an answer that is stored, in bytes.
const KEPT: usize = 4 << 10;

/// Marks an answer with a secret, which is shown only once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecretAnswer;

/// Runs a request with a key once.
pub(crate) async fn once(State(cluster): State<Shared>, request: Request, next: Next) -> Response {
    let key = request.headers().get(KEY).cloned();
    match key {
        Some(key) if *request.method() == Method::POST => {
            let done = keyed(&cluster, &key, request, next).await;
            done.unwrap_or_else(IntoResponse::into_response)
        }
        _ => next.run(request).await,
    }
}

async fn keyed(
    cluster: &Shared,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let body = in_time(to_bytes(body, MOST), BODY).await?;
    let body =
        body.map_err(|_| Problem::too_large("a request with an Idempotency-Key is too large"))?;
    let who = parts.extensions.get::<Identity>();
    let key = Key {
        owner: who.map(Identity::share).unwrap_or_default(),
        name: name(key, who.map_or("", |identity| &identity.id))?,
    };
    let what = digest_of(&parts.method, &parts.uri.to_string(), &body);
    // Held until the request has ended.
    let underway = parts.extensions.get::<Arc<Share>>().cloned();
    let request = Request::from_parts(parts, Body::from(body));
    let cluster = Arc::clone(cluster);
    // The task runs to its end even if the sender has disconnected, for the sender will ask for the
    // answer. It includes the start: an entry that is begun and never done would be refused until
    // it expires.
    let done = tokio::spawn(async move {
        if let Some(kept) = cluster.access.begin(&key, &what).await? {
            return again(kept, &what);
        }
        let (mut parts, body) = next.run(request).await.into_parts();
        let bytes = to_bytes(body, MOST).await.unwrap_or_default();
        let answer = kept_of(
            parts.status,
            parts.extensions.remove::<SecretAnswer>(),
            &bytes,
        );
        cluster.access.answered(&key, &what, answer).await?;
        drop(underway);
        Ok(Response::from_parts(parts, Body::from(bytes)))
    });
    done.await
        .unwrap_or_else(|error| Err(Problem::internal(error.to_string())))
}

/// The name of the stored entry, a digest of the identity and the key.
fn name(key: &HeaderValue, who: &str) -> Result<String, Problem> {
    let text = key.to_str().unwrap_or_default();
    let fits = (1..=KEY_LENGTH).contains(&text.len());
    match fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(digest("once", &format!("{who} {text}"))),
        false => Err(Problem::malformed(format!(
            "Idempotency-Key is 1 to {KEY_LENGTH} printable characters without spaces"
        ))),
    }
}

fn digest_of(method: &Method, uri: &str, body: &Bytes) -> String {
    let body = blake3::hash(body);
    digest("request", &format!("{method} {uri} {body}"))
}

/// The part of an answer to store; `None` if the request may be retried.
fn kept_of(
    status: StatusCode,
    secret: Option<SecretAnswer>,
    body: &Bytes,
) -> Option<(u16, String)> {
    let passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    if passing {
        return None;
    }
    let text = match secret {
        None if body.len() <= KEPT => String::from_utf8_lossy(body).into_owned(),
        // Nothing was done: the request may be retried.
        None if !status.is_success() => return None,
        _ => String::new(),
    };
    Some((status.as_u16(), text))
}

/// Answers a request that was begun before.
fn again(kept: Kept, what: &str) -> Result<Response, Problem> {
    if kept.request != what {
        let why = "another request came with this Idempotency-Key: choose a new one";
        return Err(Problem::invalid(why));
    }
    let Some((status, body)) = kept.answer else {
        let why = "the request with this Idempotency-Key is being done: ask again in a moment";
        return Err(Problem::conflict(why));
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if body.is_empty() && status == StatusCode::CREATED {
        let why = "it was made, and its secret is told only once: remove it and make another";
        return Err(Problem::conflict(why));
    }
    if body.is_empty() && status == StatusCode::OK {
        return Err(Problem::conflict("it was done, and its answer is not kept"));
    }
    let kind = match status.is_success() {
        true => "application/json",
        false => "application/problem+json",
    };
    let replayed = HeaderName::from_static("idempotency-replayed");
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(replayed, HeaderValue::from_static("true"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_for_a_while_may_be_tried_again_and_secrets_are_not_kept() {
        let body = Bytes::from_static(b"{}");
        assert_eq!(kept_of(StatusCode::SERVICE_UNAVAILABLE, None, &body), None);
        assert_eq!(kept_of(StatusCode::TOO_MANY_REQUESTS, None, &body), None);
        let kept = kept_of(StatusCode::CONFLICT, None, &body);
        assert_eq!(kept, Some((409, "{}".into())));
        let kept = kept_of(StatusCode::CREATED, Some(SecretAnswer), &body);
        assert_eq!(kept, Some((201, String::new())));
        let long = Bytes::from(vec![b'x'; KEPT + 1]);
        assert_eq!(
            kept_of(StatusCode::OK, None, &long),
            Some((200, String::new()))
        );
        assert_eq!(kept_of(StatusCode::CONFLICT, None, &long), None);
    }

    #[test]
    fn a_key_is_of_one_request() {
        let kept = |request: &str, answer| Kept {
            request: request.into(),
            answer,
        };
        let done = Some((201, "{}".to_owned()));
        let status = |result: Result<Response, Problem>| match result {
            Ok(response) => response.status().as_u16(),
            Err(problem) => problem.status().as_u16(),
        };
        assert_eq!(status(again(kept("a", done.clone()), "a")), 201);
        assert_eq!(status(again(kept("a", done), "b")), 422);
        assert_eq!(status(again(kept("a", None), "a")), 409);
        let told = Some((201, String::new()));
        assert_eq!(status(again(kept("a", told), "a")), 409);
        let long = Some((200, String::new()));
        assert_eq!(status(again(kept("a", long), "a")), 409);
    }
}
