//! Failed sessions over HTTP: each role gets the faults of the tenants that it may see.

use std::process::Command;

use bus_schemas::TenantSettings;
use serde_json::{Value, json};
use test_cluster::TempDir;

use super::interface::{Interface, of_role};
use crate::loaded::{LoadedCluster, SOON};
use crate::run::{WARPLOOM, compile};

/// Waits for the failure of chat's session; other callers' lists must be empty.
async fn failure(viewer: &Interface) -> Value {
    loop {
        let failures = viewer.get("/api/v1/failures").await.is(200).json();
        let items = failures["items"].as_array().expect("items");
        if let [failure] = &items[..] {
            return failure.clone();
        }
        assert!(items.is_empty(), "one session failed: {failures}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// The failures that a new stream of statuses lists.
async fn told(who: &Interface) -> Value {
    let mut response = who.begin("GET", "/api/v1/events/status", None).await;
    let mut heard = String::new();
    loop {
        let chunk = response.chunk().await.expect("it comes").expect("more");
        heard += std::str::from_utf8(&chunk).expect("text");
        let mut events = heard
            .split_inclusive("\n\n")
            .filter(|event| event.ends_with("\n\n"));
        let listed = events.find_map(|event| event.strip_prefix("event: failures\ndata: "));
        if let Some(data) = listed {
            return serde_json::from_str(data).expect("JSON");
        }
    }
}

/// The next failure that a stream of statuses tells.
async fn next(response: &mut reqwest::Response) -> Value {
    let mut heard = String::new();
    loop {
        let chunk = response.chunk().await.expect("it comes").expect("more");
        heard += std::str::from_utf8(&chunk).expect("text");
        let mut events = heard
            .split_inclusive("\n\n")
            .filter(|event| event.ends_with("\n\n"));
        let told = events.find_map(|event| event.strip_prefix("event: failure\ndata: "));
        if let Some(data) = told {
            return serde_json::from_str(data).expect("JSON");
        }
    }
}

#[tokio::test]
async fn a_kernels_fault_is_listed_and_told_to_those_who_may_see_its_tenant() {
    let mut loaded = LoadedCluster::made(1, 1, &[], |options| options.controllers = 1).await;
    for tenant in ["chat", "other"] {
        loaded.guest(tenant, &TenantSettings::default()).await;
    }
    let viewer = of_role(&loaded, "viewer", None);
    assert_eq!(told(&viewer).await, json!([]), "no session has failed");
    let mut events = viewer.begin("GET", "/api/v1/events/status", None).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "past");
    let mut command = Command::new(WARPLOOM);
    let credentials = loaded.demo.cluster.credentials();
    command
        .env("WARPLOOM_BROKER_CREDENTIALS", credentials)
        .args(["run", "--tenant", "chat", "--"])
        .arg(program)
        .arg("past");
    let output = command.output().expect("it runs");
    let address = String::from_utf8_lossy(&output.stdout).trim().to_owned();

    let listed = tokio::time::timeout(SOON, failure(&viewer)).await;
    let listed = listed.expect("it is listed");
    let kernel = &listed["kernel"];
    assert_eq!(
        (&listed["tenant"], &listed["code"], &listed["gpu"]),
        (&json!("chat"), &json!("E-KERNEL-ADDRESS"), &json!(0))
    );
    for (key, value) in [
        ("kind", json!("illegal address")),
        ("name", json!("saxpy")),
        ("file", json!("src/saxpy.cu")),
        ("line", json!(12)),
        ("ptx_line", json!(18)),
        ("block", json!([0, 0, 0])),
        ("thread", json!([37, 0, 0])),
        ("access", json!("read of 4 bytes")),
        (
            "detail",
            json!(format!(
                "right at the end of an allocation of 4096 bytes at {address}"
            )),
        ),
    ] {
        assert_eq!(kernel[key], value, "{key} of {listed}");
    }
    let at = listed["at_ms"].as_u64().expect("a time");
    let age = admin::calendar::now_ms().abs_diff(at);
    assert!(age < SOON.as_millis() as u64, "{age} ms ago");

    // It is told as it comes, and a stream that begins later lists it.
    let heard = tokio::time::timeout(SOON, next(&mut events)).await;
    assert_eq!(heard.expect("it is told"), listed);
    assert_eq!(told(&viewer).await, json!([listed]));
    let own = of_role(&loaded, "tenant-admin", Some("chat"));
    assert_eq!(told(&own).await, json!([listed]));
    let other = of_role(&loaded, "tenant-admin", Some("other"));
    assert_eq!(told(&other).await, json!([]));
    let none = other.get("/api/v1/failures").await.is(200).json();
    assert_eq!(none, json!({"items": []}));
    let refused = other.get("/api/v1/failures?tenant=chat").await.status;
    assert_eq!(refused, 404);
    let found = own.get("/api/v1/failures?tenant=chat&limit=1").await;
    assert_eq!(found.is(200).json()["items"], json!([listed]));
}
