//! All routes: the operations with their document, the login, and the page.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router, middleware};
use serde_json::{Map, Value, json};
use utoipa::openapi::{Info, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::document::Document;
use crate::api::{
    cluster, document, events, failures, groups, identity, metrics, order, profiles, sessions,
    settings, tenants, tokens, usage, why, workers,
};
use crate::cluster::Shared;
use crate::http::etag;
use crate::http::gate::{Gate, gate, guard};
use crate::http::idempotency::once;
use crate::http::rules::Rules;
use crate::problem::Problem;
use crate::{mcp, page};

/// Maximum size of a body, except for files, in bytes.
const BODY: usize = 256 << 10;

/// Every operation with its document.
fn operations() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(beginning())
        .routes(routes!(identity::me))
        .routes(routes!(identity::logout))
        .routes(routes!(cluster::cluster))
        .routes(routes!(cluster::hold))
        .routes(routes!(metrics::metrics))
        .routes(routes!(tenants::tenants, tenants::create_tenant))
        .routes(routes!(
            tenants::tenant,
            tenants::change_tenant,
            tenants::remove_tenant
        ))
        .routes(routes!(tenants::suspend_tenant))
        .routes(routes!(tenants::resume_tenant))
        .routes(routes!(tenants::renew_login))
        .routes(routes!(sessions::sessions))
        .routes(routes!(sessions::session, sessions::end_session))
        .routes(routes!(failures::failures))
        .routes(routes!(why::why_tenant))
        .routes(routes!(why::why_session))
        .routes(routes!(why::why_device))
        .routes(routes!(why::why_position))
        .routes(routes!(workers::workers))
        .routes(routes!(workers::worker))
        .routes(routes!(workers::drain))
        .routes(routes!(groups::groups))
        .routes(routes!(settings::settings, settings::change_settings))
        .routes(routes!(profiles::profiles))
        .routes(routes!(profiles::pin))
        .routes(routes!(usage::usage))
        .routes(routes!(usage::usage_csv))
        .routes(routes!(usage::usage_focus))
        .routes(routes!(order::order))
        .routes(routes!(order::verify))
        .routes(routes!(order::export))
        .routes(routes!(order::file::compare))
        .routes(routes!(events::order::order_events))
        .routes(routes!(events::state::state_events))
        .routes(routes!(events::status::status_events))
        .routes(routes!(tokens::tokens, tokens::create_token))
        .routes(routes!(tokens::remove_token))
        .routes(routes!(document::openapi))
}

fn beginning() -> OpenApi {
    let mut info = Info::new("Warploom", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Every operation of a Warploom cluster. `x-operation` names what a role must be allowed; \
         docs/reference/api.md has the table, the codes of problems and examples."
            .into(),
    );
    OpenApiBuilder::new().info(info).build()
}

/// The document as JSON, with the parts common to all operations.
pub(crate) fn document() -> Value {
    let (_, document) = operations().split_for_parts();
    completed(&document)
}

fn completed(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    let problem = |description: &str| {
        let schema = json!({"$ref": "#/components/schemas/Problem"});
        let content = json!({"application/problem+json": {"schema": schema}});
        json!({"description": description, "content": content})
    };
    let paths = document["paths"].as_object_mut();
    let methods = paths
        .into_iter()
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
        .flat_map(|methods| methods.iter_mut());
    for (method, operation) in methods {
        if operation["x-operation"] == "public" {
            continue;
        }
        operation["security"] = json!([{"token": []}, {"cookie": []}]);
        let mut common = vec![
            ("401", "not logged in"),
            ("403", "the role does not allow it"),
            (
                "429",
                "too many requests; Retry-After says when to ask again",
            ),
            ("default", "anything else that is wrong"),
        ];
        if method == "post" {
            common.push(("409", "it is in a state that does not allow it"));
            let key = json!({
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "The request is done once, however often it is sent with this key.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
            });
            match operation["parameters"].as_array_mut() {
                Some(parameters) => parameters.push(key),
                None => operation["parameters"] = json!([key]),
            }
        }
        for (status, description) in common {
            if operation["responses"][status].is_null() {
                operation["responses"][status] = problem(description);
            }
        }
    }
    let schemes = json!({
        "token": {"type": "http", "scheme": "bearer", "description": "wl_...: `warploom controller token create`"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "wl",
            "description": "Of a browser that used a one-time link; changes need X-CSRF-Token as well."},
    });
    document["components"]["securitySchemes"] = schemes;
    joined(&mut document);
    ranged(&mut document);
    document
}

/// Replaces the format of unsigned numbers, which is too narrow, by their range.
fn ranged(value: &mut Value) {
    let most = match value["format"].as_str() {
        Some("int32") => Some(u64::from(u32::MAX)),
        Some("int64") => Some(u64::MAX),
        _ => None,
    };
    if let (Some(most), true, Some(schema)) = (most, value["minimum"] == 0, value.as_object_mut()) {
        schema.remove("format");
        schema.entry("maximum").or_insert_with(|| most.into());
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(ranged),
        Value::Array(items) => items.iter_mut().for_each(ranged),
        _ => {}
    }
}

/// Merges schemas with flattened fields into one object: a part that forbids other fields would
/// forbid the fields of the other parts.
fn joined(document: &mut Value) {
    let schemas = document["components"]["schemas"].clone();
    let all = document["components"]["schemas"].as_object_mut();
    for schema in all.into_iter().flat_map(|all| all.values_mut()) {
        let Some(parts) = schema["allOf"].as_array() else {
            continue;
        };
        let mut whole = schema.clone();
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for part in parts {
            let name = part["$ref"].as_str().and_then(|it| it.rsplit('/').next());
            let part = name.map_or(part, |name| &schemas[name]);
            let fields = part["properties"].as_object().cloned();
            properties.extend(fields.unwrap_or_default());
            required.extend(part["required"].as_array().cloned().unwrap_or_default());
            if part["additionalProperties"] == false {
                whole["additionalProperties"] = false.into();
            }
        }
        if let Some(whole) = whole.as_object_mut() {
            whole.remove("allOf");
        }
        whole["type"] = "object".into();
        whole["properties"] = properties.into();
        whole["required"] = required.into();
        *schema = whole;
    }
}

/// All routes of the controller.
pub(crate) fn router(cluster: Shared) -> Router {
    let (routes, document) = operations().split_for_parts();
    let document = completed(&document);
    let rules = Arc::new(Rules::of(&document));
    let text = Document(document.to_string().into());
    let gate_of = Gate {
        cluster: Arc::clone(&cluster),
        rules,
    };
    let api = routes
        .layer(DefaultBodyLimit::max(BODY))
        .route_layer(middleware::from_fn(etag::tag))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&cluster), once))
        .route_layer(middleware::from_fn_with_state(gate_of, gate))
        .layer(Extension(text));
    let api = api.with_state(Arc::clone(&cluster));
    // During development of the page, unknown paths are looked up among its files.
    let page = match cluster.page.clone() {
        Some(folder) => page::of_folder(folder),
        None => page::router().fallback(nothing),
    };
    let mcp = mcp::router(Arc::clone(&cluster), api.clone(), &document);
    Router::new()
        // A HEAD request, such as a check of the link, does not consume it.
        .route("/login", get(identity::login).head(only_get))
        .with_state(Arc::clone(&cluster))
        .merge(api)
        .merge(mcp)
        .merge(page)
        .layer(middleware::from_fn_with_state(cluster, guard))
}

async fn only_get() -> Response {
    Problem::of_methods("GET")
}

async fn nothing() -> Problem {
    Problem::missing("such path: GET /api/v1/openapi.json lists all")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Operation;

    /// The committed document; `WARPLOOM_BLESS=1` rewrites it.
    const COMMITTED: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/openapi.json"
    );

    #[test]
    fn the_committed_document_is_that_of_the_code() {
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        if std::env::var_os("WARPLOOM_BLESS").is_some() {
            std::fs::write(COMMITTED, &text).unwrap();
        }
        let committed = std::fs::read_to_string(COMMITTED).unwrap();
        assert!(
            committed == text,
            "docs/reference/openapi.json differs: WARPLOOM_BLESS=1 cargo test -p controller"
        );
    }

    #[test]
    fn every_operation_says_what_it_needs_and_none_is_left_over() {
        let document = document();
        let (mut needed, paths) = (Vec::new(), document["paths"].as_object().unwrap());
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().unwrap() {
                let needs = operation["x-operation"].as_str();
                let needs = needs.unwrap_or_else(|| panic!("{method} {path}"));
                needed.push(needs.to_owned());
                assert!(operation["operationId"].is_string() && operation["summary"].is_string());
            }
        }
        for operation in Operation::ALL {
            let name = operation.name();
            assert!(needed.iter().any(|it| it == name), "{name} is of no use");
        }
        let text = document.to_string();
        assert!(!text.contains("allOf"), "objects are whole");
        for name in Operation::ALL.iter().map(|it| it.name()) {
            assert!(text.contains(&format!("\"{name}\"")));
        }
    }
}
