//! The Model Context Protocol: programs see the operations as tools, read-only unless more is
//! allowed, and never beyond their token's rights.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::interface::{Interface, nobody, of_role};
use crate::loaded::{LoadedCluster, plan};

async fn call(interface: &Interface, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = interface.send("POST", "/mcp", message).await.is(200).json();
    assert_eq!(
        (&answer["jsonrpc"], &answer["id"]),
        (&"2.0".into(), &7.into())
    );
    answer
}

async fn names(interface: &Interface) -> Vec<String> {
    let listed = call(interface, "tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().expect("tools");
    let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
    tools.iter().map(name).collect()
}

async fn cluster(mcp: &str) -> LoadedCluster {
    let plans = [plan("chat", "search", 1), plan("other", "search", 1)];
    LoadedCluster::made(1, 1, &plans, |options| {
        options.controllers = 1;
        options.settings.push(("controller.mcp".into(), mcp.into()));
    })
    .await
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn programs_read_with_their_token_and_no_more() {
    let loaded = cluster("reads").await;
    let (operator, admin) = (
        of_role(&loaded, "operator", None),
        of_role(&loaded, "tenant-admin", Some("chat")),
    );
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begun = call(&operator, "initialize", params).await;
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    operator.send("POST", "/mcp", notice).await.is(202);
    // Messages outside the protocol are refused, and unsolicited answers are ignored.
    let ping = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    for (name, value, status, code) in [
        ("origin", "https://evil.example", 403, "E-API-ROLE"),
        ("mcp-protocol-version", "1999", 400, "E-API-MALFORMED"),
    ] {
        let refused = operator
            .with(name, value)
            .send("POST", "/mcp", ping(7.into()))
            .await;
        refused.problem(status, code);
    }
    let fits = operator.with("mcp-protocol-version", "2025-06-18");
    fits.send("POST", "/mcp", ping(7.into())).await.is(200);
    let refused = operator
        .send("POST", "/mcp", ping(json!({})))
        .await
        .is(200)
        .json();
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&Value::Null, &json!(-32_600))
    );
    let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
    operator.send("POST", "/mcp", answer).await.is(202);
    operator.get("/mcp").await.problem(405, "E-API-METHOD");
    let (all, own) = (names(&operator).await, names(&admin).await);
    assert!(
        all.contains(&"tenants".into()) && !all.contains(&"create_tenant".into()),
        "{all:?}"
    );
    assert!(
        own.len() < all.len() && !own.contains(&"settings".into()),
        "{own:?}"
    );
    let asked = json!({"name": "tenants", "arguments": {"limit": 5}});
    let told = call(&operator, "tools/call", asked.clone()).await["result"].clone();
    assert_eq!(told["isError"], false);
    assert_eq!(
        told["structuredContent"]["items"].as_array().map(Vec::len),
        Some(2)
    );
    let told = call(&admin, "tools/call", asked).await["result"].clone();
    assert_eq!(
        told["structuredContent"]["items"].as_array().map(Vec::len),
        Some(1)
    );
    // Objects that they may not see appear not to exist, and cannot be reached by a crooked name.
    for tenant in ["other", "../settings", "chat?x=1"] {
        let asked = json!({"name": "tenant", "arguments": {"tenant": tenant}});
        let told = call(&admin, "tools/call", asked).await["result"].clone();
        assert_eq!(told["isError"], true, "{told}");
        assert!(
            told["content"][0]["text"]
                .as_str()
                .expect("a text")
                .contains("E-API-MISSING")
        );
    }
    let asked = json!({"name": "settings", "arguments": {}});
    assert_eq!(
        call(&admin, "tools/call", asked).await["result"]["isError"],
        true
    );
    for (method, params, code) in [
        (
            "tools/call",
            json!({"name": "create_tenant", "arguments": {}}),
            -32_602,
        ),
        (
            "tools/call",
            json!({"name": "tenants", "arguments": {"no": 1}}),
            -32_602,
        ),
        ("no/such", json!({}), -32_601),
    ] {
        assert_eq!(call(&operator, method, params).await["error"]["code"], code);
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let anybody = nobody(&loaded);
    anybody
        .send("POST", "/mcp", message)
        .await
        .problem(401, "E-API-LOGIN");
}

#[tokio::test]
async fn where_it_is_allowed_they_change_what_their_role_may() {
    let loaded = cluster("changes").await;
    let (operator, viewer) = (
        of_role(&loaded, "operator", None),
        of_role(&loaded, "viewer", None),
    );
    assert!(names(&operator).await.contains(&"create_tenant".into()));
    assert!(!names(&viewer).await.contains(&"create_tenant".into()));
    let asked =
        json!({"name": "create_tenant", "arguments": {"body": {"name": "batch", "priority": 3}}});
    let told = call(&viewer, "tools/call", asked.clone()).await["result"].clone();
    assert_eq!(told["isError"], true, "{told}");
    let told = call(&operator, "tools/call", asked).await["result"].clone();
    assert_eq!(
        told["structuredContent"]["settings"]["priority"], 3,
        "{told}"
    );
    viewer.get("/api/v1/tenants/batch").await.is(200);
}

/// The body of a message without a login is not waited for.
#[tokio::test]
async fn a_stranger_is_refused_before_their_message_is_there() {
    let loaded = cluster("reads").await;
    let url = &loaded.demo.cluster.controllers[0].said.url;
    let host = url.strip_prefix("http://").expect("on this host");
    let stranger = format!("Bearer wl_{}_{}", "0".repeat(16), "0".repeat(64));
    let begun = format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\nauthorization: {stranger}\r\n\
         content-type: application/json\r\ncontent-length: 9\r\n\r\nhalf"
    );
    let mut stalled = TcpStream::connect(host).await.expect("it listens");
    stalled.write_all(begun.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 12];
    stalled.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 401");
}
