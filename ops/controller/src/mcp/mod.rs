//! The Model Context Protocol (2025-06-18, streamable HTTP) over the same operations. Each is a
//! tool, called with the caller's own token. Tools that make changes exist only if an option allows
//! them.

mod tools;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::cluster::Shared;
use crate::http::extract::JsonBody;
use crate::http::gate::Peer;
use crate::problem::Problem;
use tools::Tool;

/// Supported versions of the protocol, the newest first.
const VERSIONS: [&str; 2] = ["2025-06-18", "2025-03-26"];
/// The header with the client's version.
const VERSION: &str = "mcp-protocol-version";
/// Maximum size of a message, in bytes.
const MESSAGE: usize = 256 << 10;
/// Maximum size of a tool's answer, in bytes.
const ANSWER: usize = 1 << 20;

/// Error codes of JSON-RPC.
const INVALID_REQUEST: i64 = -32_600;
const UNKNOWN_METHOD: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;

struct Endpoint {
    api: Router,
    tools: Vec<Tool>,
}

/// The route of the endpoint.
pub(crate) fn router(cluster: Shared, api: Router, document: &Value) -> Router {
    let endpoint = Endpoint {
        api,
        tools: tools::of(document, cluster.mcp_changes),
    };
    Router::new()
        .route(
            "/mcp",
            post(message).fallback(async || Problem::of_methods("POST")),
        )
        .layer(DefaultBodyLimit::max(MESSAGE))
        .with_state(Arc::new(endpoint))
}

/// The caller of a tool, with the credentials for the interface.
struct Caller {
    authorization: header::HeaderValue,
    host: Option<header::HeaderValue>,
    peer: Option<Peer>,
}

impl Caller {
    fn of(headers: &HeaderMap, peer: Option<Peer>) -> Result<Self, Problem> {
        let authorization = headers.get(header::AUTHORIZATION);
        Ok(Self {
            // A cookie is not accepted: a page of another origin could send it.
            authorization: authorization.cloned().ok_or_else(Problem::login)?,
            host: headers.get(header::HOST).cloned(),
            peer,
        })
    }

    fn request(&self, method: &Method, path: &str, body: Option<&Value>) -> Request {
        let bytes = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::new(bytes);
        *request.method_mut() = method.clone();
        // Every part of the path was encoded.
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, self.authorization.clone());
        if let Some(host) = &self.host {
            headers.insert(header::HOST, host.clone());
        }
        if body.is_some() {
            let json = header::HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
        }
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        request
    }
}

async fn message(
    State(endpoint): State<Arc<Endpoint>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().copied();
    let caller = Caller::of(headers, peer)?;
    admitted(headers)?;
    let me = caller.request(&Method::GET, "/api/v1/me", None);
    let me = endpoint.answer(me).await;
    if me.0 != StatusCode::OK {
        return Ok((me.0, Json(me.1)).into_response());
    }
    // Read after the login: the body of an unknown caller is not awaited.
    let JsonBody(message) = JsonBody::<Value>::from_request(request, &()).await?;
    let method = message["method"].as_str();
    let answers =
        method.is_none() && (message["result"].is_object() || message["error"].is_object());
    let id = message.get("id").filter(|_| !answers).cloned();
    let Some(id) = id else {
        // A notification, or an answer to no request; it gets no reply.
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    if !id.is_string() && !id.is_number() {
        let why = "an id is a text or a number";
        let error = json!({"code": INVALID_REQUEST, "message": why});
        return Ok(Json(json!({"jsonrpc": "2.0", "id": null, "error": error})).into_response());
    }
    let params = &message["params"];
    let done = match method {
        Some("initialize") => Ok(initialize(params)),
        Some("ping") => Ok(json!({})),
        Some("tools/list") => Ok(endpoint.list(&me.1)),
        Some("tools/call") => endpoint.call(&caller, params).await,
        Some(other) => Err((UNKNOWN_METHOD, format!("there is no method {other:?}"))),
        None => Err((INVALID_REQUEST, "a request names its method".into())),
    };
    let answer = match done {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    };
    Ok(Json(answer).into_response())
}

/// Checks the headers of a message. A page of another origin is refused, and so is a protocol
/// version that is not supported.
fn admitted(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |value: &header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let host = headers.get(header::HOST).map(text).unwrap_or_default();
    let origin = headers.get(header::ORIGIN).map(text);
    let origin = origin.filter(|it| it.split_once("://").is_none_or(|(_, at)| at != host));
    if let Some(origin) = origin {
        let why = format!("a page of {:?} may not call tools here", origin);
        return Err(Problem::forbidden(why));
    }
    let version = headers.get(VERSION).map(text);
    match version.filter(|it| !VERSIONS.contains(&it.as_str())) {
        None => Ok(()),
        Some(version) => Err(Problem::malformed(format!(
            "MCP-Protocol-Version {version:?} is not spoken: {}",
            VERSIONS.join(", ")
        ))),
    }
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str();
    let version = VERSIONS.iter().find(|version| Some(**version) == asked);
    json!({
        "protocolVersion": version.unwrap_or(&VERSIONS[0]),
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": {"name": "warploom", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "The operations of a Warploom cluster: tenants, workers, sessions, usage and the launch order.",
    })
}

impl Endpoint {
    /// The tools that the caller's role may use.
    fn list(&self, me: &Value) -> Value {
        let may = me["operations"].as_array();
        let allowed = |tool: &&Tool| {
            let operation = Value::from(tool.operation.as_str());
            tool.operation == "login" || may.is_some_and(|may| may.contains(&operation))
        };
        let tools = self.tools.iter().filter(allowed).map(Tool::listed);
        json!({"tools": tools.collect::<Vec<_>>()})
    }

    async fn call(&self, caller: &Caller, params: &Value) -> Result<Value, (i64, String)> {
        let name = params["name"].as_str().unwrap_or_default();
        let tool = self.tools.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| (INVALID_PARAMS, format!("there is no tool {name:?}")))?;
        let (path, body) = tool
            .request(&params["arguments"])
            .map_err(|why| (INVALID_PARAMS, why))?;
        let request = caller.request(&tool.method, &path, body.as_ref());
        let (status, answer) = self.answer(request).await;
        let text = match &answer {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut result = json!({
            "content": [{"type": "text", "text": text}],
            "isError": !status.is_success(),
        });
        if answer.is_object() && status.is_success() {
            result["structuredContent"] = answer;
        }
        Ok(result)
    }

    /// Sends a request to the interface, through its own gate.
    async fn answer(&self, request: Request) -> (StatusCode, Value) {
        let response = match self.api.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        let Ok(bytes) = to_bytes(response.into_body(), ANSWER).await else {
            let why = "the answer is longer than 1 MiB: ask for less, with limit or a filter";
            return (StatusCode::PAYLOAD_TOO_LARGE, why.into());
        };
        let value = serde_json::from_slice(&bytes);
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        (status, value.unwrap_or_else(|_| text()))
    }
}
