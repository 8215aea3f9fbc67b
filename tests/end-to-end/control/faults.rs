//! A controller with failures of the broker, the controller itself, a token, or its client.

use std::time::{Duration, Instant};

use reqwest::Response;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::interface::{Interface, cluster, of_role};
use crate::cluster::{administrator, done, objects};
use crate::loaded::{SOON, plan};

/// Reads a stream until it has this many events with data, or ends. Returns the text, whole events
/// only, and true if the stream ended.
async fn read(response: &mut Response, events: usize, patience: Duration) -> (String, bool) {
    let mut text = String::new();
    let reads = async {
        // A piece of the answer may end in the middle of an event.
        while text.matches("\ndata: ").count() < events || !text.ends_with("\n\n") {
            match response.chunk().await {
                Ok(Some(chunk)) => text += std::str::from_utf8(&chunk).expect("text"),
                Ok(None) | Err(_) => return true,
            }
        }
        false
    };
    let ended = tokio::time::timeout(patience, reads).await;
    (text, ended.expect("it is told in time"))
}

/// The id of the last event in a text.
fn last_id(text: &str) -> String {
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.next_back().expect("an event").to_owned()
}

#[tokio::test]
async fn streams_and_lists_go_on_when_the_broker_comes_back() {
    let mut loaded = cluster(&["chat", "train"], 1).await;
    done(&loaded, &["cluster", "set", "standing=off"]);
    let plans = ["chat", "train"].map(|tenant| plan(tenant, "search", 1));
    loaded.work(&plans).await;
    let operator = of_role(&loaded, "operator", None);
    let order = "/api/v1/events/order";
    let mut positions = operator.begin("GET", order, None).await;
    let (before, _) = read(&mut positions, 50, SOON).await;
    let mut state = operator.begin("GET", "/api/v1/events/state", None).await;
    read(&mut state, 2, SOON).await;
    loaded.demo.cluster.broker.kill().expect("it dies");
    // Nothing hangs in the meantime: a client is told that the broker does not answer.
    let asked = Instant::now();
    let alone = operator.get("/api/v1/cluster").await;
    assert!(asked.elapsed() < SOON / 2, "{alone:?}");
    assert!([401, 503].contains(&alone.status), "{alone:?}");
    loaded.demo.cluster.broker.restart().expect("it is back");
    loaded.progress(20, SOON).await;
    // The same stream goes on, and a new one that begins after its last event misses nothing.
    let (after, ended) = read(&mut positions, 50, SOON).await;
    assert!(!ended, "{after}");
    let behind = operator.with("last-event-id", &last_id(&before));
    let mut again = behind.begin("GET", order, None).await;
    assert_eq!(again.status(), 200);
    let (heard, _) = read(&mut again, 50, SOON).await;
    let ids = |text: &str| {
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    let both = ids(&after).len().min(ids(&heard).len());
    assert!(both >= 50);
    assert_eq!(ids(&after)[..both], ids(&heard)[..both]);
    // Changes of tenants also go on.
    let made = operator
        .send("POST", "/api/v1/tenants", json!({"name": "late"}))
        .await;
    made.is(201);
    let told = async {
        loop {
            let (text, ended) = read(&mut state, 1, SOON).await;
            assert!(!ended, "{text}");
            if text.contains("\"late\"") {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, told).await.expect("it is told");
    loaded.settle().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_token_that_began_it() {
    let loaded = cluster(&["chat"], 1).await;
    let made = objects(&loaded, &["controller", "token", "create", "ci", "--json"]).remove(0);
    let secret = made["secret"].as_str().expect("a secret");
    let theirs = super::interface::nobody(&loaded).with_token(secret);
    let mut status = theirs.begin("GET", "/api/v1/events/status", None).await;
    let (_, ended) = read(&mut status, 2, SOON).await;
    assert!(!ended);
    let id = made["id"].as_str().expect("an id");
    done(&loaded, &["controller", "token", "revoke", id]);
    let (_, ended) = read(&mut status, 1_000, Duration::from_secs(30)).await;
    assert!(ended, "whoever was revoked hears no more");
}

#[tokio::test]
async fn what_was_asked_is_done_once_though_its_sender_left_and_a_controller_died() {
    let mut loaded = cluster(&["chat"], 1).await;
    let operator = of_role(&loaded, "operator", None);
    let body = json!({"name": "batch", "priority": 3});
    for round in 0..10 {
        let key = operator.with("idempotency-key", &format!("round-{round}"));
        // The client leaves at once, or a little later.
        let sent = key.send("POST", "/api/v1/tenants", body.clone());
        drop(tokio::time::timeout(Duration::from_millis(round), sent).await);
        let answer = answered(&key, &body).await;
        assert_eq!(answer.0, 201, "{answer:?}");
        operator
            .ask("DELETE", "/api/v1/tenants/batch", None)
            .await
            .is(200);
        // A repeated request is not executed again.
        assert_eq!(answered(&key, &body).await, answer);
        assert_eq!(operator.get("/api/v1/tenants/batch").await.status, 404);
    }
    // A dead controller is restarted, and the next one has the same knowledge.
    loaded.demo.cluster.controllers[0]
        .role
        .kill()
        .expect("it dies");
    let patience = Instant::now();
    while objects(&loaded, &["controller", "token", "list", "--json"]).is_empty()
        || !loaded.demo.cluster.controllers[0].role.is_running()
    {
        loaded.demo.cluster.tend();
        assert!(patience.elapsed() < SOON, "it is not started again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let url = loaded
        .wait("a link to a controller that listens", SOON, |loaded| {
            let output = administrator(loaded, &["controller", "link", "--json"]);
            let text = String::from_utf8(output.stdout).ok()?;
            let said: serde_json::Value = serde_json::from_str(&text).ok()?;
            let link = said["link"].as_str()?;
            let url = link.split("/login").next()?.to_owned();
            // Its process runs before it listens.
            let host = url.strip_prefix("http://")?;
            std::net::TcpStream::connect(host).ok()?;
            Some(url)
        })
        .await;
    let there = operator.at(&url);
    there.get("/api/v1/tenants/chat").await.is(200);
}

/// The answer to a request that may still be running.
async fn answered(key: &Interface, body: &serde_json::Value) -> (u16, String) {
    let asked = Instant::now();
    loop {
        let answer = key.send("POST", "/api/v1/tenants", body.clone()).await;
        if !(answer.status == 409 && answer.text.contains("is being done")) {
            return (answer.status, answer.text);
        }
        assert!(asked.elapsed() < SOON, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A client that begins to send a file and stalls holds the only place for a replay, but only for a
/// while.
#[tokio::test]
async fn a_file_that_does_not_come_holds_the_others_up_for_a_while_only() {
    let loaded = cluster(&["chat"], 1).await;
    let made = objects(
        &loaded,
        &[
            "controller",
            "token",
            "create",
            "ci",
            "--role",
            "auditor",
            "--json",
        ],
    )
    .remove(0);
    let secret = made["secret"].as_str().expect("a secret");
    let url = &loaded.demo.cluster.controllers[0].said.url;
    let host = url.strip_prefix("http://").expect("on this host");
    let viewer = super::interface::nobody(&loaded).with_token(secret);
    let verified = async || {
        viewer
            .ask("POST", "/api/v1/order/verify", None)
            .await
            .status
    };
    let mut stalled = half_a_file(host, secret).await;
    let until = Instant::now() + SOON;
    while verified().await != 429 {
        assert!(Instant::now() < until, "the place is never taken");
        // It came while the other's replay had the place, and was refused.
        if stalled.try_read(&mut [0; 64]).is_ok() {
            stalled = half_a_file(host, secret).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Another login waits for its turn.
    let other = of_role(&loaded, "operator", None);
    let turn = tokio::spawn(async move { other.ask("POST", "/api/v1/order/verify", None).await });
    let mut answer = String::new();
    let read = stalled.read_to_string(&mut answer);
    tokio::time::timeout(SOON, read)
        .await
        .expect("it is given up")
        .expect("it is answered");
    assert!(
        answer.starts_with("HTTP/1.1 408") && answer.contains("E-API-SLOW"),
        "{answer}"
    );
    turn.await.expect("it is answered").is(200);
    within_async(SOON, async || verified().await == 200).await;
}

/// Repeats a check until it holds.
pub(super) async fn within_async(patience: Duration, mut is: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + patience;
    while !is().await {
        assert!(Instant::now() < until, "it is never so");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Begins to send a file and stalls.
async fn half_a_file(host: &str, secret: &str) -> TcpStream {
    let mut stalled = TcpStream::connect(host).await.expect("it listens");
    let begun = format!(
        "POST /api/v1/order/compare HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\
         content-length: 9\r\n\r\nhalf"
    );
    stalled.write_all(begun.as_bytes()).await.expect("sent");
    stalled
}
