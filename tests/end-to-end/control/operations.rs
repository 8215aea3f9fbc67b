//! Every operation of the interface, each at least once, against a real cluster.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::TempDir;

use super::interface::{Answer, Interface, cluster, nobody, of_role};
use crate::cluster::{done, objects};
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::compile;
use crate::swap::Holder;

/// A client that records the operations that it calls.
struct Noting {
    interface: Interface,
    called: Mutex<BTreeSet<String>>,
}

impl Noting {
    fn new(interface: Interface) -> Self {
        Self {
            interface,
            called: Mutex::default(),
        }
    }

    /// Calls an operation in the document's notation; `name` replaces its `{}`.
    async fn call(&self, method: &str, operation: &str, name: &str, body: Option<Value>) -> Answer {
        let (path, query) = operation.split_once('?').unwrap_or((operation, ""));
        let noted = format!("{method} /api/v1{path}");
        self.called.lock().expect("it is ours").insert(noted);
        let path = match path.split_once('{') {
            Some((before, rest)) => {
                let (_, after) = rest.split_once('}').expect("it ends");
                format!("{before}{name}{after}")
            }
            None => path.to_owned(),
        };
        let asked = format!("/api/v1{path}?{query}");
        self.interface.ask(method, &asked, body.as_ref()).await
    }

    async fn get(&self, operation: &str, name: &str) -> Value {
        self.call("GET", operation, name, None).await.is(200).json()
    }
}

/// The operations in the document.
async fn documented(interface: &Interface) -> BTreeSet<String> {
    let document = interface.get("/api/v1/openapi.json").await.is(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths").iter();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

#[tokio::test]
async fn every_operation_does_what_it_says() {
    let mut loaded = cluster(&["chat", "guest"], 1).await;
    let operator = Noting::new(of_role(&loaded, "operator", None));
    tenants(&operator, &loaded).await;
    settings(&operator, &loaded).await;
    sessions(&operator, &loaded).await;
    work(&operator, &mut loaded).await;
    others(&operator, &loaded).await;
    let called = operator.called.lock().expect("it is ours").clone();
    let documented = documented(&operator.interface).await;
    assert!(documented.contains("GET /metrics"), "{documented:?}");
    let operations = documented.iter().filter(|it| *it != "GET /metrics");
    let documented: BTreeSet<_> = operations.cloned().collect();
    assert_eq!(called, documented, "each is called, and no other is there");
}

#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn tenants(operator: &Noting, loaded: &LoadedCluster) {
    let new = json!({"name": "batch", "priority": 3, "quota": 1_048_576});
    let (list, one) = ("/tenants", "/tenants/{tenant}");
    let tried = operator
        .call("POST", "/tenants?dry_run=true", "", Some(new.clone()))
        .await;
    let keys = tried.is(200).json()["changes"].clone();
    assert_eq!(keys.as_array().map(Vec::len), Some(2), "{keys}");
    assert_eq!(operator.call("GET", one, "batch", None).await.status, 404);
    let made = operator.call("POST", list, "", Some(new.clone())).await;
    let made = made.is(201);
    assert_eq!(made.json()["settings"]["priority"], 3);
    let again = operator.call("POST", list, "", Some(new)).await;
    again.problem(409, "E-API-CONFLICT");
    // The command line sees the same, and the tenant has a login.
    let listed = objects(loaded, &["tenant", "list", "--json"]);
    let batch = listed.iter().find(|row| row["tenant"] == "batch");
    assert_eq!(batch.expect("it is listed")["settings"]["priority"], 3);
    let login = operator.call("POST", "/tenants/{tenant}/login", "batch", None);
    assert!(login.await.is(200).json()["user"].is_string());
    let shown = operator.call("GET", one, "batch", None).await.is(200);
    let tag = shown.header("etag");
    assert_eq!(tag, made.header("etag"));
    let changed = operator.interface.with("if-match", &tag);
    let changed = changed
        .send("PATCH", "/api/v1/tenants/batch", json!({"weight": 7}))
        .await;
    assert_eq!(changed.is(200).json()["settings"]["weight"], 7);
    let late = operator.interface.with("if-match", &tag);
    let late = late
        .send("PATCH", "/api/v1/tenants/batch", json!({"weight": 8}))
        .await;
    late.problem(412, "E-API-CHANGED");
    // A misspelt dry run is refused, not executed.
    let misspelt = "/tenants/{tenant}?dry-run=true";
    let refused = operator
        .call("PATCH", misspelt, "batch", Some(json!({"weight": 9})))
        .await;
    refused.problem(400, "E-API-MALFORMED");
    assert_eq!(operator.get(one, "batch").await["settings"]["weight"], 7);
    // A request without a revision changes the current state, despite concurrent changes.
    let several = (1..=4_u64).map(|weight| {
        let interface = operator.interface.clone();
        tokio::spawn(async move {
            for at in 0..8 {
                let change = json!({"weight": weight * 100 + at});
                interface
                    .send("PATCH", "/api/v1/tenants/batch", change)
                    .await
                    .is(200);
            }
        })
    });
    for one in several.collect::<Vec<_>>() {
        one.await.expect("each was made");
    }
    let tried = operator
        .call(
            "PATCH",
            "/tenants/{tenant}?dry_run=true",
            "batch",
            Some(json!({"cap": 50})),
        )
        .await;
    let tried = tried.is(200).json();
    assert_eq!(
        tried["changes"],
        json!([{"key": "cap", "before": "0", "after": "50"}])
    );
    assert!(tried["admission"].is_array(), "{tried}");
    for (verb, on) in [("suspend", true), ("resume", false)] {
        let path = format!("/tenants/{{tenant}}/{verb}");
        let done = operator.call("POST", &path, "batch", None).await.is(200);
        assert_eq!(done.json()["settings"]["suspended"], on);
    }
    let page = operator.get("/tenants?limit=1", "").await;
    assert_eq!(
        (&page["items"][0]["name"], &page["next"]),
        (&"batch".into(), &"batch".into())
    );
    let rest = operator.get("/tenants?limit=2&after=batch", "").await;
    assert_eq!(
        (&rest["items"][1]["name"], &rest["next"]),
        (&"guest".into(), &Value::Null)
    );
    let gone = operator.call("DELETE", one, "batch", None).await.is(200);
    assert_eq!(gone.json(), json!({"ended": 0, "login": true}));
    assert_eq!(operator.call("GET", one, "batch", None).await.status, 404);
    assert!(!done(loaded, &["tenant", "list"]).contains("batch"));
}

async fn settings(operator: &Noting, loaded: &LoadedCluster) {
    let change = json!({"changes": {"window": "4ms", "quantum": "1ms"}});
    let tried = operator
        .call("PATCH", "/settings?dry_run=true", "", Some(change.clone()))
        .await;
    let tried = tried.is(200).json();
    assert_eq!(tried["applied"], false);
    let window = |shown: &Value| {
        let items = shown["items"].as_array().expect("settings");
        let window = items.iter().find(|item| item["key"] == "window");
        window.expect("it is there")["value"].clone()
    };
    assert_eq!(window(&operator.get("/settings", "").await), "2ms");
    let made = operator.call("PATCH", "/settings", "", Some(change)).await;
    let made = made.is(200).json();
    assert_eq!(
        (&made["changes"], &made["applied"]),
        (&tried["changes"], &true.into())
    );
    let shown = done(loaded, &["cluster", "show", "--json"]);
    assert!(shown.contains("4ms"), "{shown}");
    for (bad, status) in [
        (json!({"changes": {"window": "never"}}), 422),
        (json!({"changes": {"windows": "4ms"}}), 422),
        (json!({"changes": {"quantum": "9s"}}), 422),
        (json!({"change": {}}), 422),
    ] {
        let refused = operator.call("PATCH", "/settings", "", Some(bad)).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
    let back = json!({"changes": {"window": null, "quantum": null}});
    operator
        .call("PATCH", "/settings", "", Some(back))
        .await
        .is(200);
    assert_eq!(window(&operator.get("/settings", "").await), "2ms");
}

async fn sessions(operator: &Noting, loaded: &LoadedCluster) {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let mut holder = Holder::start(loaded, "guest", dir.path(), &program);
    assert_eq!(holder.does("take 10 1"), "0");
    // The leader hears of the end a moment after the program.
    let until = Instant::now() + SOON;
    let own = loop {
        let listed = operator.get("/sessions?tenant=guest", "").await;
        let own = listed["items"][0].clone();
        if own["waits"] == "program" || Instant::now() > until {
            break own;
        }
    };
    assert_eq!(own["process"]["pid"], holder.pid(), "{own}");
    assert_eq!(
        (&own["waits"], &own["tenant"]),
        (&"program".into(), &"guest".into())
    );
    let id = own["id"].as_str().expect("an id");
    let failures = operator.get("/failures?tenant=guest", "").await;
    assert_eq!(failures["items"], json!([]));
    let why = operator.get("/sessions/{session}/why", id).await;
    assert_eq!(
        (&why["waits_for"], &why["tenant"]),
        (&"program".into(), &"guest".into())
    );
    let one = "/sessions/{session}";
    assert_eq!(operator.get(one, id).await["id"], id);
    let workers = operator.get("/workers", "").await;
    assert_eq!(workers["items"][0]["sessions"], 1);
    assert!(workers["items"][0]["memory"]["held"].as_u64() >= Some(10 << 20));
    let tenant = operator.get("/tenants/{tenant}", "guest").await;
    assert!(
        tenant["memory"]["held"].as_u64() >= Some(10 << 20),
        "{tenant}"
    );
    operator.call("DELETE", one, id, None).await.is(204);
    assert_eq!(operator.call("GET", one, id, None).await.status, 404);
    assert_eq!(holder.may("turn 1 2"), None, "its next call fails");
    assert_eq!(holder.0.ends().1, Some(1));
}

#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn work(operator: &Noting, loaded: &mut LoadedCluster) {
    // Each op at its own position, not many at that of a standing grant.
    done(loaded, &["cluster", "set", "standing=off"]);
    loaded.work(&[plan("chat", "search", 1)]).await;
    loaded.progress(30, SOON).await;
    let held = operator.call("PUT", "/order/hold", "", Some(json!({"held": true})));
    assert_eq!(held.await.is(200).json()["held"], true);
    assert_eq!(operator.get("/cluster", "").await["held"], true);
    let held = operator.call("PUT", "/order/hold", "", Some(json!({"held": false})));
    assert_eq!(held.await.is(200).json()["held"], false);
    loaded.progress(60, SOON).await;
    let newest = operator.get("/order?limit=20&tenant=chat", "").await;
    let items = newest["items"].as_array().expect("positions");
    assert_eq!(items.len(), 20, "{newest}");
    assert!(
        items.iter().all(|item| item["tenant"] == "chat"),
        "{newest}"
    );
    // Paged back to the beginning, the order is the same as the command line's.
    let shown = objects(loaded, &["order", "show", "--limit", "0", "--json"]);
    let (mut after, mut read) = ("0.0".to_owned(), Vec::new());
    while read.len() < 50 {
        let page = operator
            .get(&format!("/order?limit=7&after={after}"), "")
            .await;
        let items = page["items"].as_array().expect("positions").clone();
        after = items.last().expect("there are more")["id"]
            .as_str()
            .expect("an id")
            .into();
        read.extend(items);
    }
    for (item, row) in read.iter().zip(&shown) {
        let id = format!("{}.{}", row["epoch"], row["global"]);
        assert_eq!(item["id"], id);
        for field in [
            "gpu", "position", "tenant", "ordinal", "kind", "first", "last",
        ] {
            assert_eq!(item[field], row[field], "{field} of {id}");
        }
    }
    let place = items[0]["id"].as_str().expect("an id");
    let why = operator.get("/order/{position}/why", place).await;
    assert_eq!(
        (&why["id"], &why["waits"]),
        (&items[0]["id"], &items[0]["waits"])
    );
    // A recent answer from the record is repeated for a while.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let why = operator.get("/tenants/{tenant}/why", "chat").await;
    assert!(why["positions"].as_u64() >= Some(50), "{why}");
    let why = operator.get("/devices/{gpu}/why", "0").await;
    assert!(why["days"][0]["busy_ns"].as_u64() > Some(0), "{why}");
    let verified = operator
        .call("POST", "/order/verify", "", None)
        .await
        .is(200)
        .json();
    assert_eq!(
        (&verified["ok"], &verified["skipped"]),
        (&true.into(), &0.into())
    );
    let export = operator
        .call("GET", "/order/export?format=jsonl", "", None)
        .await
        .is(200);
    assert!(export.text.lines().count() >= 50);
    let compare = operator.call("POST", "/order/compare", "", None).await;
    assert_eq!(compare.status, 422, "nothing is no file: {compare:?}");
    let file = compared(operator, export.text).await;
    assert!(file["gpus"][0]["same"].as_u64() >= Some(50), "{file}");
    let usage = operator.get("/usage?by=tenant,kernel", "").await;
    let launches = usage["total"]["launches"].as_u64().expect("a number");
    assert!(launches > 0, "{usage}");
    for path in ["/usage.csv", "/usage.focus.csv"] {
        let file = operator.call("GET", path, "", None).await.is(200);
        assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
        assert!(file.text.contains("chat"), "{}", file.text);
    }
}

/// Compares the order with an export.
async fn compared(operator: &Noting, file: String) -> Value {
    let sent = operator
        .interface
        .with("content-type", "application/octet-stream");
    sent.ask_bytes("POST", "/api/v1/order/compare", file)
        .await
        .is(200)
        .json()
}

#[expect(clippy::too_many_lines, reason = "steps that share state")]
async fn others(operator: &Noting, loaded: &LoadedCluster) {
    let me = operator.get("/me", "").await;
    assert_eq!(
        (&me["role"], &me["csrf"]),
        (&"operator".into(), &Value::Null)
    );
    let out = operator.call("POST", "/logout", "", None).await;
    out.problem(409, "E-API-CONFLICT");
    let worker = operator.get("/workers", "").await["items"][0]["id"].clone();
    let worker = worker.as_str().expect("an id");
    assert_eq!(
        operator.get("/workers/{worker}", worker).await["state"],
        "live"
    );
    let groups = operator.get("/groups", "").await;
    assert_eq!(groups["items"][0]["workers"], json!([worker]));
    for (undo, state) in [(false, "draining"), (true, "live")] {
        let body = Some(json!({ "undo": undo }));
        let drained = operator
            .call("POST", "/workers/{worker}/drain", worker, body)
            .await;
        assert_eq!(drained.is(200).json()["state"], state);
    }
    let profiles = operator.get("/profiles", "").await;
    let newest = profiles["items"]
        .as_array()
        .and_then(|items| items.last().cloned());
    let hash = newest.map_or(Value::Null, |newest| newest["hash"].clone());
    let body = Some(json!({ "hash": hash }));
    let pinned = operator
        .call("PUT", "/profiles/pinned", "", body)
        .await
        .is(200);
    assert_eq!(pinned.json()["pinned"], hash);
    let unpinned = operator
        .call("PUT", "/profiles/pinned", "", Some(json!({"hash": null})))
        .await;
    assert_eq!(unpinned.is(200).json()["pinned"], Value::Null);
    let body = Some(json!({"name": "ci", "role": "viewer", "days": 1}));
    let made = operator
        .call("POST", "/tokens", "", body)
        .await
        .is(201)
        .json();
    let secret = made["secret"].as_str().expect("a secret");
    let theirs = nobody(loaded).with_token(secret);
    theirs.get("/api/v1/cluster").await.is(200);
    let listed = operator.get("/tokens", "").await.to_string();
    assert!(listed.contains("\"ci\"") && !listed.contains(secret));
    let id = made["id"].as_str().expect("an id");
    operator
        .call("DELETE", "/tokens/{token}", id, None)
        .await
        .is(204);
    theirs
        .get("/api/v1/cluster")
        .await
        .problem(401, "E-API-LOGIN");
    for events in ["/events/order", "/events/state", "/events/status"] {
        operator
            .called
            .lock()
            .expect("it is ours")
            .insert(format!("GET /api/v1{events}"));
        let path = format!("/api/v1{events}");
        let mut response = operator.interface.begin("GET", &path, None).await;
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let first = response.chunk().await.expect("it comes").expect("a word");
        assert!(first.starts_with(b"retry: 1000\n"), "{first:?}");
    }
    operator.get("/openapi.json", "").await;
}
