//! One login cannot exhaust bounded resources: streams, concurrent requests, kept answers.

use std::time::Instant;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::faults::within_async;
use super::interface::{cluster, nobody, of_role};
use crate::cluster::objects;
use crate::loaded::{LoadedCluster, SOON};

/// Maximum number of streams and of concurrent requests of one login.
const SHARE: usize = 128;
/// Number of concurrent requests with a key.
const AT_ONCE: usize = 16;

#[tokio::test]
async fn a_login_takes_its_share_of_streams_and_no_more() {
    let loaded = cluster(&["chat", "train"], 1).await;
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let again = of_role(&loaded, "tenant-admin", Some("chat"));
    let path = "/api/v1/events/status";
    let mut open = Vec::new();
    for _ in 0..SHARE {
        let stream = admin.begin("GET", path, None).await;
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    let refused = admin.get(path).await.problem(429, "E-API-SHARE");
    assert!(refused.header("retry-after").parse::<u64>().is_ok());
    // The tenant's other tokens share the same quota; another tenant's tokens have their own.
    again.get(path).await.problem(429, "E-API-SHARE");
    for other in [
        of_role(&loaded, "tenant-admin", Some("train")),
        of_role(&loaded, "viewer", None),
    ] {
        assert_eq!(other.begin("GET", path, None).await.status(), 200);
    }
    drop(open);
    within_async(SOON, async || {
        again.begin("GET", path, None).await.status() == 200
    })
    .await;
}

/// Each renewed login makes the broker reload its settings.
#[tokio::test]
async fn a_login_has_its_broker_read_its_settings_now_and_then_only() {
    let loaded = cluster(&["chat", "train"], 1).await;
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let renewed = (0..20).map(|_| admin.ask("POST", "/api/v1/tenants/chat/login", None));
    let answers = futures_util::future::join_all(renewed).await;
    let refused = answers.into_iter().filter(|answer| answer.status == 429);
    let refused: Vec<_> = refused.collect();
    assert!(refused.len() >= 10, "{refused:?}");
    for answer in refused {
        answer.problem(429, "E-API-RATE");
    }
    let other = of_role(&loaded, "tenant-admin", Some("train"));
    let renewed = other.ask("POST", "/api/v1/tenants/train/login", None);
    renewed.await.is(200);
}

/// The secret of a new token.
fn secret(loaded: &LoadedCluster, role: &str) -> String {
    let arguments = [
        "controller",
        "token",
        "create",
        "ci",
        "--role",
        role,
        "--json",
    ];
    let made = objects(loaded, &arguments).remove(0);
    made["secret"].as_str().expect("a secret").to_owned()
}

#[tokio::test]
async fn a_login_whose_bodies_do_not_come_keeps_no_other_out() {
    let loaded = cluster(&["chat"], 1).await;
    let secret = secret(&loaded, "operator");
    let url = &loaded.demo.cluster.controllers[0].said.url;
    let host = url.strip_prefix("http://").expect("on this host");
    let begun = format!(
        "POST /api/v1/tenants HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\
         content-type: application/json\r\ncontent-length: 9\r\n\r\nhalf"
    );
    let stall = async || {
        let mut stream = TcpStream::connect(host).await.expect("it listens");
        stream.write_all(begun.as_bytes()).await.expect("sent");
        stream
    };
    let mut stalled = Vec::new();
    for _ in 0..SHARE {
        stalled.push(stall().await);
    }
    let theirs = nobody(&loaded).with_token(&secret);
    within_async(SOON, async || {
        let answer = theirs.get("/api/v1/me").await;
        if answer.status == 200 {
            // The check itself took a place, so one of the stalled requests may have been refused.
            stalled.push(stall().await);
        }
        answer.status == 429 && answer.json()["code"] == "E-API-SHARE"
    })
    .await;
    let other = of_role(&loaded, "viewer", None);
    other.get("/api/v1/me").await.is(200);
    drop(stalled);
    within_async(SOON, async || theirs.get("/api/v1/me").await.status == 200).await;
}

#[tokio::test]
async fn keys_of_one_login_fill_no_store_of_others() {
    let loaded = cluster(&["chat"], 1).await;
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let began = Instant::now();
    // Each is refused, because a token cannot be logged out; at last there are too many.
    let flood = async |number: usize| {
        for round in 0.. {
            let key = admin.with("idempotency-key", &format!("{number}-{round}"));
            let answer = key.ask("POST", "/api/v1/logout", None).await;
            if answer.status == 429 {
                answer.problem(429, "E-API-SHARE");
                return;
            }
            answer.problem(409, "E-API-CONFLICT");
            assert!(began.elapsed() < SOON, "{round} keys of each are kept");
        }
    };
    futures_util::future::join_all((0..AT_ONCE).map(flood)).await;
    // Other clients create tokens, logins and keys as before.
    let operator = of_role(&loaded, "operator", None);
    let key = operator.with("idempotency-key", "mine");
    let body = json!({"name": "batch"});
    key.send("POST", "/api/v1/tenants", body.clone())
        .await
        .is(201);
    let replayed = key.send("POST", "/api/v1/tenants", body).await.is(201);
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    // Refusals are kept for seconds: then the login has room again.
    within_async(SOON, async || {
        let key = admin.with("idempotency-key", "later");
        key.ask("POST", "/api/v1/logout", None).await.status == 409
    })
    .await;
}
