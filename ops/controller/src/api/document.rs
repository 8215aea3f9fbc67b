//! The OpenAPI 3.1 document of the interface.

use axum::Extension;
use axum::http::{HeaderName, HeaderValue, header};

use std::sync::Arc;

/// The document, rendered once.
#[derive(Debug, Clone)]
pub(crate) struct Document(pub(crate) Arc<str>);

/// Returns the OpenAPI 3.1 document of the interface.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "document",
    extensions(("x-operation" = json!("public"))),
    responses((status = 200, description = "the document", body = Object)))]
pub(crate) async fn openapi(
    Extension(document): Extension<Document>,
) -> ([(HeaderName, HeaderValue); 1], String) {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], document.0.to_string())
}
