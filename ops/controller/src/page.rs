//! The web page. Its files are embedded in the program.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::problem::Problem;

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The routes of the page, with files read from a folder on each request, for development of the
/// page.
pub(crate) fn of_folder(folder: PathBuf) -> Router {
    let folder: Arc<Path> = folder.into();
    Router::new().fallback(get(move |request: Request| read(folder, request)))
}

/// The routes of the page.
pub(crate) fn router() -> Router {
    let mut router = Router::new();
    for asset in ASSETS {
        let tag = format!("\"{}\"", &blake3::hash(asset.bytes).to_hex()[..24]);
        let answer = move |request: Request| {
            let answer = serve(asset, &tag, &request);
            async move { answer }
        };
        router = router.route(asset.path, get(answer));
    }
    router
}

/// Reads a file of a folder.
async fn read(folder: Arc<Path>, request: Request) -> Result<Response, Problem> {
    let inside = match request.uri().path() {
        "/" => "index.html",
        path => path.trim_start_matches('/'),
    };
    let missing = || Problem::missing(format_args!("file {inside:?}"));
    let path = Path::new(inside);
    let below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let extension = path.extension().and_then(|it| it.to_str());
    let kind = KINDS.iter().find(|(known, _)| Some(*known) == extension);
    let (Some((_, kind)), true) = (kind, below) else {
        return Err(missing());
    };
    let bytes = tokio::fs::read(folder.join(path)).await;
    let bytes = bytes.map_err(|_| missing())?;
    Ok(([(header::CONTENT_TYPE, *kind)], bytes).into_response())
}

fn serve(asset: &'static Asset, tag: &str, request: &Request) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH);
    let tag = HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""));
    let mut response = match known == Some(&tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => asset.bytes.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(header::ETAG, tag);
    // Revalidated on each request, mostly with a 304: a new build shows at once.
    let no_cache = HeaderValue::from_static("no-cache");
    headers.insert(header::CACHE_CONTROL, no_cache);
    response
}
