//! What is bounded, one login cannot take: streams, requests at a time.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::faults::within_async;
use super::interface::{cluster, nobody, of_role};
use crate::cluster::objects;
use crate::loaded::{LoadedCluster, SOON};

/// Streams, and requests at a time, of one login.
const SHARE: usize = 128;

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
    // The tenant's other tokens have the same share, another tenant's have their own.
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
    let mut stalled = Vec::new();
    for _ in 0..SHARE {
        let mut stream = TcpStream::connect(host).await.expect("it listens");
        stream.write_all(begun.as_bytes()).await.expect("sent");
        stalled.push(stream);
    }
    let theirs = nobody(&loaded).with_token(&secret);
    within_async(SOON, async || {
        let answer = theirs.get("/api/v1/me").await;
        answer.status == 429 && answer.json()["code"] == "E-API-SHARE"
    })
    .await;
    let other = of_role(&loaded, "viewer", None);
    other.get("/api/v1/me").await.is(200);
    drop(stalled);
    within_async(SOON, async || theirs.get("/api/v1/me").await.status == 200).await;
}
