//! Explanations of waits and idle time, over HTTP. The numbers are those of `warploom why`, and add
//! up; a tenant-admin sees no name of another tenant.

use std::time::Duration;

use serde_json::Value;

use super::interface::{Answer, Interface, of_role};
use crate::cluster::{done, objects};
use crate::loaded::{LoadedCluster, SOON, plan};

/// Time for which an answer is cached.
const KEPT: Duration = Duration::from_secs(4);
/// A tenant that waits for no other; the tenant-admin of the other must not learn its name.
const RIVAL: &str = "rival";

/// Two tenants on one device, one with a higher priority, both finished with their work.
async fn worked() -> (LoadedCluster, String) {
    let plans = [plan("chat", "search", 3), plan(RIVAL, "search", 1)];
    let mut loaded = LoadedCluster::made(1, 1, &plans, |options| options.controllers = 1).await;
    // Each op at its own position, not many at that of a standing grant.
    done(&loaded, &["cluster", "set", "standing=off"]);
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let mut events = admin.begin("GET", "/api/v1/events/order", None).await;
    loaded.work(&plans).await;
    loaded.progress(80, SOON).await;
    let mut heard = String::new();
    while heard.matches("event: position").count() < 20 {
        let chunk = events.chunk().await.expect("it comes").expect("more");
        heard += std::str::from_utf8(&chunk).expect("text");
    }
    for tenant in &mut loaded.demo.tenants {
        tenant.kill().expect("it dies");
    }
    let gone = |status: &bus_schemas::Status| status.workers.iter().all(|it| it.sessions == 0);
    loaded.until("both have gone", gone).await;
    tokio::time::sleep(KEPT).await;
    (loaded, heard)
}

fn ns(value: &Value, key: &str) -> u64 {
    let ns = value[key].as_u64();
    ns.unwrap_or_else(|| panic!("{key} of {value}"))
}

/// Checks that the waits add up to the total.
#[track_caller]
fn adds_up(value: &Value, waits: &str, whole: &str) {
    let waits = value[waits].as_array().expect("waits");
    let sum: u64 = waits.iter().map(|wait| ns(wait, "ns")).sum();
    assert_eq!(sum, ns(value, whole), "{value}");
}

/// Checks that an answer has the same values as the command line.
#[track_caller]
fn same(answer: &Value, said: &Value, keys: &[&str]) {
    for key in keys {
        assert_eq!(answer[key], said[key], "{key}: {answer} and {said}");
    }
}

const SUMS: [&str; 9] = [
    "positions",
    "untimed",
    "kernels",
    "ran_ns",
    "waited_ns",
    "waited_p50_ns",
    "waited_p99_ns",
    "waited_max_ns",
    "waits",
];

#[tokio::test]
async fn the_interface_tells_why_as_the_command_line_does_and_to_each_what_they_may_know() {
    let (loaded, heard) = worked().await;
    let viewer = of_role(&loaded, "viewer", None);
    let admin = of_role(&loaded, "tenant-admin", Some("chat"));
    let waited = tenants(&loaded, &viewer).await;
    let others = waited["waits"].as_array().expect("waits");
    let others = others.iter().filter(|wait| wait["of"] == RIVAL);
    assert!(others.count() > 0, "chat waited for the other: {waited}");
    device(&loaded, &viewer).await;
    let place = positions(&loaded, &viewer).await;
    let sessions = sessions(&loaded, &viewer).await;
    // In all answers, a tenant-admin learns no name of another tenant.
    assert!(
        heard.contains(r#""cause":"#) && !heard.contains(RIVAL),
        "{heard}"
    );
    let mut hidden = false;
    for path in [
        "/tenants/chat/why".to_owned(),
        format!("/sessions/{}/why", sessions.0),
        format!("/order/{place}/why"),
        "/order?limit=1000".into(),
    ] {
        let answer = admin.get(&format!("/api/v1{path}")).await.is(200);
        assert!(!answer.text.contains(RIVAL), "{path}: {}", answer.text);
        hidden |= answer.text.contains(r#""cause":"priority","of":null"#);
        if !path.contains('?') {
            adds_up(&answer.json(), "waits", "waited_ns");
        }
    }
    assert!(hidden, "of whom chat waited for is not said");
    strangers(&admin, &viewer, &sessions.1).await;
}

/// Checks each tenant's waits; returns those of chat.
async fn tenants(loaded: &LoadedCluster, viewer: &Interface) -> Value {
    let said = objects(loaded, &["why", "--json"]);
    for tenant in ["chat", RIVAL] {
        let answer = viewer.get(&format!("/api/v1/tenants/{tenant}/why")).await;
        let answer = answer.is(200).json();
        let said = said.iter().find(|it| it["tenant"] == tenant);
        same(&answer, said.expect("it is told"), &SUMS);
        adds_up(&answer, "waits", "waited_ns");
        assert!(ns(&answer, "positions") >= 20, "{answer}");
    }
    let chat = viewer.get("/api/v1/tenants/chat/why").await.is(200).json();
    // All of it ran in the last day, and none of it in the hour that ended a day ago.
    let path = "/api/v1/tenants/chat/why?since=";
    let day = viewer.get(&format!("{path}24h")).await.is(200).json();
    same(&day, &chat, &SUMS);
    let hour = viewer.get(&format!("{path}25h&until=24h")).await.is(200);
    assert_eq!(ns(&hour.json(), "positions"), 0);
    viewer.get(&format!("{path}yesterday")).await.is(400);
    viewer.get(&format!("{path}1h&until=2h")).await.is(400);
    chat
}

/// The device's days.
async fn device(loaded: &LoadedCluster, viewer: &Interface) {
    let before = objects(loaded, &["why", "gpu:0", "--json"]);
    tokio::time::sleep(KEPT).await;
    let answer = viewer.get("/api/v1/devices/0/why").await.is(200).json();
    let after = objects(loaded, &["why", "gpu:0", "--json"]);
    let days = answer["days"].as_array().expect("days");
    // The device is idle in the meantime, too.
    assert!(before.len() <= days.len() && days.len() <= after.len());
    for ((before, day), after) in before.iter().zip(days).zip(&after) {
        same(day, before, &["day", "busy_ns"]);
        adds_up(day, "idle", "idle_ns");
        let between = ns(before, "idle_ns")..=ns(after, "idle_ns");
        assert!(between.contains(&ns(day, "idle_ns")), "{day}");
    }
    assert!(days.iter().any(|day| ns(day, "busy_ns") > 0), "{answer}");
}

/// Checks each position; returns one of chat's that waited for the other tenant.
async fn positions(loaded: &LoadedCluster, viewer: &Interface) -> String {
    let said = objects(loaded, &["why", "gpu:0", "--each", "--json"]);
    let mut found = None;
    for row in said.iter().filter(|row| row["tenant"] == "chat").take(40) {
        let place = format!("{}.{}", row["epoch"], row["global"]);
        let answer = viewer.get(&format!("/api/v1/order/{place}/why")).await;
        let answer = answer.is(200).json();
        let keys = [
            "gpu",
            "position",
            "tenant",
            "session",
            "first",
            "last",
            "measured_ns",
        ];
        same(&answer, row, &keys);
        same(&answer, row, &["waited_ns", "waits"]);
        let times = &answer["times"];
        let stages = ["announced_ns", "granted_ns", "accepted_ns", "begun_ns"];
        same(times, row, &stages);
        same(times, row, &["started_ns", "ended_ns"]);
        adds_up(&answer, "waits", "waited_ns");
        let waits = answer["waits"].as_array().expect("waits");
        if waits.iter().any(|wait| wait["cause"] == "priority") {
            found = Some(place);
        }
    }
    // The list has the same, without the times.
    let list = viewer.get("/api/v1/order?limit=1000").await.is(200).json();
    let items = list["items"].as_array().expect("positions");
    let timed = items.iter().filter(|item| !item["waited_ns"].is_null());
    let timed: Vec<_> = timed
        .inspect(|item| adds_up(item, "waits", "waited_ns"))
        .collect();
    assert!(timed.len() >= 40 && timed[0]["announced_ns"].is_null());
    found.expect("one of them waited for the other")
}

/// Checks each tenant's session, which has ended; returns both.
async fn sessions(loaded: &LoadedCluster, viewer: &Interface) -> (String, String) {
    let order = objects(loaded, &["order", "show", "--limit", "0", "--json"]);
    let session = |tenant: &str| {
        let row = order.iter().find(|row| row["tenant"] == tenant);
        let session = row.expect("it ran")["session"].as_str();
        session.expect("an id").to_owned()
    };
    let both = (session("chat"), session(RIVAL));
    for session in [&both.0, &both.1] {
        let answer = viewer.get(&format!("/api/v1/sessions/{session}/why")).await;
        let answer = answer.is(200).json();
        let said = objects(loaded, &["why", session, "--json"]);
        same(&answer, &said[0], &SUMS);
        same(&answer, &said[0], &["session", "waits_for"]);
        adds_up(&answer, "waits", "waited_ns");
    }
    both
}

/// Checks that another tenant's objects give the same answers as missing ones.
async fn strangers(admin: &Interface, viewer: &Interface, theirs: &str) {
    let list = viewer.get(&format!("/api/v1/order?tenant={RIVAL}")).await;
    let place = list.is(200).json()["items"][0]["id"].clone();
    let place = place.as_str().expect("an id");
    let nobodys = "99.7";
    for (path, other, none) in [
        (format!("/tenants/{RIVAL}/why"), RIVAL, "nobody"),
        (
            format!("/sessions/{theirs}/why"),
            theirs,
            "00000000000000ff",
        ),
        (format!("/order/{place}/why"), place, nobodys),
    ] {
        let answer = admin.get(&format!("/api/v1{path}")).await;
        let missing = path.replace(other, none);
        let missing = admin.get(&format!("/api/v1{missing}")).await;
        let words = |answer: Answer, name: &str| {
            let answer = answer.problem(404, "E-API-MISSING");
            answer.json()["detail"].to_string().replace(name, "-")
        };
        assert_eq!(words(answer, other), words(missing, none), "{path}");
    }
    // Devices belong to no tenant.
    admin
        .get("/api/v1/devices/0/why")
        .await
        .problem(403, "E-API-ROLE");
    viewer
        .get("/api/v1/devices/9/why")
        .await
        .problem(404, "E-API-MISSING");
}
