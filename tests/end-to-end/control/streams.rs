//! Live data: streams of events that are cut repeatedly miss nothing and repeat nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use lab::demo::TenantPlan;
use reqwest::Response;
use serde_json::{Value, json};

use super::interface::{Interface, cluster, of_role};
use crate::cluster::{done, objects};
use crate::loaded::{SOON, plan};

/// Number of concurrent streams, and of cuts of each.
const STREAMS: u64 = 100;
const CUTS: u64 = 50;

/// A stream of events.
struct Events {
    response: Response,
    read: String,
}

/// An event: its id, its name and its data; missing fields are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    id: String,
    name: String,
    data: String,
}

impl Events {
    async fn begin(interface: &Interface, path: &str, last: &str) -> Self {
        let interface = match last {
            "" => interface.clone(),
            last => interface.with("last-event-id", last),
        };
        let response = interface.begin("GET", path, None).await;
        assert_eq!(
            response.status(),
            200,
            "{path} behind {last:?}: {response:?}"
        );
        Self {
            response,
            read: String::new(),
        }
    }

    /// The next event that has data, or only an id; `None` once the stream has ended.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((text, rest)) = self.read.split_once("\n\n") {
                let (text, rest) = (text.to_owned(), rest.to_owned());
                self.read = rest;
                if let Some(event) = parsed(&text) {
                    return Some(event);
                }
                continue;
            }
            let chunk = self.response.chunk().await;
            let chunk = chunk.unwrap_or_else(|error| panic!("{error:?}"))?;
            self.read += std::str::from_utf8(&chunk).expect("text");
        }
    }
}

fn parsed(text: &str) -> Option<Event> {
    let mut event = Event {
        id: String::new(),
        name: String::new(),
        data: String::new(),
    };
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => event.id = id.to_owned(),
            Some(("event", name)) => event.name = name.to_owned(),
            Some(("data", data)) => event.data = data.to_owned(),
            _ => {}
        }
    }
    (!event.id.is_empty() || !event.data.is_empty()).then_some(event)
}

/// Draws a pseudo-random number below a bound.
fn drawn(state: &mut u64, below: u64) -> u64 {
    // Knuth's linear congruence: any distribution will do.
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_the_order_that_are_cut_miss_nothing_and_tell_nothing_twice() {
    let mut loaded = cluster(&["chat", "train"], 2).await;
    let viewer = of_role(&loaded, "viewer", None);
    // One login may have only a part of the streams, and a cut stream counts until the controller
    // has noticed.
    let viewers: Vec<_> = (0..20).map(|_| of_role(&loaded, "viewer", None)).collect();
    // Each op at its own position, not many at that of a standing grant.
    done(&loaded, &["cluster", "set", "standing=off"]);
    // One stream that is never cut, from before there are any events.
    let mut whole = Events::begin(&viewer, "/api/v1/events/order", "").await;
    let streams: Vec<_> = (0..STREAMS)
        .map(|number| {
            let viewer = viewers[number as usize % viewers.len()].clone();
            let (tell, heard) = tokio::sync::oneshot::channel::<String>();
            let cut = tokio::spawn(cut_until(viewer, number, heard));
            (tell, cut)
        })
        .collect();
    // With pauses, so that a hundred streams can keep up in a debug build.
    let plans = ["chat", "train"].map(|tenant| TenantPlan {
        think_ms: 40,
        ..plan(tenant, "search", 1)
    });
    loaded.work(&plans).await;
    // Long enough for all cuts of every stream.
    let mut reference = Vec::new();
    let enough = tokio::time::Instant::now() + Duration::from_secs(12);
    while tokio::time::Instant::now() < enough || reference.len() < 12 * CUTS as usize {
        reference.push(whole.next().await.expect("it goes on").id);
    }
    let last = reference.last().expect("there are some").clone();

    let (tells, streams): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
    for tell in tells {
        tell.send(last.clone()).expect("it listens");
    }
    for (number, stream) in streams.into_iter().enumerate() {
        let (ids, cuts) = tokio::time::timeout(SOON, stream)
            .await
            .expect("soon")
            .expect("it ends");
        assert!(cuts >= CUTS, "stream {number} was cut {cuts} times");
        let first = reference
            .iter()
            .position(|id| *id == ids[0])
            .expect("it is one of them");
        let end = first + ids.len();
        assert_eq!(
            ids[..],
            reference[first..end.min(reference.len())],
            "stream {number}"
        );
        assert_eq!(ids.last(), Some(&last));
    }
    // These are the positions of the replayed record, each once.
    let shown = objects(&loaded, &["order", "show", "--limit", "0", "--json"]);
    let place = |row: &Value| format!("{}.{}", row["epoch"], row["global"]);
    let ended = shown.iter().filter(|row| !row["outcome"].is_null());
    let ended: BTreeMap<String, &Value> = ended.map(|row| (place(row), row)).collect();
    let mut told: Vec<&String> = reference.iter().collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), reference.len(), "each once");
    assert!(told.iter().all(|id| ended.contains_key(*id)));
    // For an id that is older than the kept ones, or that never existed, the answer says so, and
    // where to begin.
    let stranger = viewer.with("last-event-id", "0.99");
    let gone = stranger
        .get("/api/v1/events/order")
        .await
        .problem(410, "E-API-GONE");
    assert_eq!(gone.json()["oldest"], reference[0]);
    let nonsense = viewer.with("last-event-id", "yesterday");
    nonsense
        .get("/api/v1/events/order")
        .await
        .problem(400, "E-API-MALFORMED");
}

/// Follows the order with repeated cuts until it has the last position; returns the ids and the
/// number of cuts.
async fn cut_until(
    interface: Interface,
    number: u64,
    mut heard: tokio::sync::oneshot::Receiver<String>,
) -> (Vec<String>, u64) {
    let (mut ids, mut seed, mut cuts) = (Vec::<String>::new(), number, 0);
    let mut last: Option<String> = None;
    loop {
        let from = ids.last().cloned().unwrap_or_default();
        let mut events = Events::begin(&interface, "/api/v1/events/order", &from).await;
        // So short that all cuts come before the end, then as long as it takes.
        let pieces = if cuts < CUTS {
            1 + drawn(&mut seed, 12)
        } else {
            u64::MAX
        };
        for _ in 0..pieces {
            last = last.or_else(|| heard.try_recv().ok());
            // It may have been received already.
            let end = last
                .as_ref()
                .and_then(|last| ids.iter().rposition(|id| id == last));
            if let Some(end) = end {
                ids.truncate(end + 1);
                return (ids, cuts);
            }
            ids.push(events.next().await.expect("it goes on").id);
        }
        cuts += 1;
    }
}

/// A program that has a device for itself runs under one grant all the time. Clients that ask for
/// it are told its progress, and at last its end; a tenant's administrator only of the own tenant.
#[tokio::test]
async fn a_standing_grant_is_told_of_while_it_runs() {
    let mut loaded = cluster(&["chat", "train"], 1).await;
    let path = "/api/v1/events/order?standing=true";
    let mut all = Events::begin(&of_role(&loaded, "viewer", None), path, "").await;
    let other = of_role(&loaded, "tenant-admin", Some("train"));
    let mut other = Events::begin(&other, path, "").await;
    loaded.work(&[plan("chat", "search", 1)]).await;
    let mut told = Vec::<(u64, u64, u64)>::new();
    while told.len() < 4 {
        let event = tokio::time::timeout(SOON, all.next()).await.expect("soon");
        let event = event.expect("it goes on");
        if event.name != "standing" {
            assert!(event.name == "position" && !event.id.is_empty());
            continue;
        }
        assert_eq!(event.id, "", "whoever goes on does so behind a position");
        let grants: Vec<Value> = serde_json::from_str(&event.data).expect("a list");
        let [grant] = &grants[..] else {
            continue;
        };
        let is = (&grant["tenant"], &grant["kind"], &grant["outcome"]);
        assert_eq!(is, (&json!("chat"), &json!("standing"), &Value::Null));
        let [position, last, ns] = ["position", "last", "measured_ns"].map(|it| &grant[it]);
        let number = |it: &Value| it.as_u64().expect("a number");
        told.push((number(position), number(last), number(ns)));
    }
    let (first, last) = (told[0], told[3]);
    assert_eq!(first.0, last.0, "it is one grant: {told:?}");
    assert!(told.is_sorted() && first.1 < last.1 && first.2 < last.2);
    // The opening of another session ends it.
    loaded.work(&[plan("train", "search", 1)]).await;
    let ended = loop {
        let event = tokio::time::timeout(SOON, all.next()).await.expect("soon");
        let event = event.expect("it goes on");
        let position: Value = serde_json::from_str(&event.data).expect("an object");
        if event.name == "position" && position["position"] == first.0 {
            break position;
        }
    };
    assert_eq!(ended["kind"], "standing");
    assert!(ended["measured_ns"].as_u64() >= Some(last.2));
    // The administrator of train was told nothing of chat's.
    let event = tokio::time::timeout(SOON, other.next())
        .await
        .expect("soon");
    assert!(!event.expect("it goes on").data.contains("chat"));
}

#[tokio::test]
async fn changes_of_tenants_and_settings_are_told_once_each_also_after_a_cut() {
    let loaded = cluster(&["chat"], 1).await;
    let operator = of_role(&loaded, "operator", None);
    let path = "/api/v1/events/state";
    let mut events = Events::begin(&operator, path, "").await;
    let first = events.next().await.expect("what there is comes first");
    assert_eq!(
        (&*first.name, first.data.contains("chat")),
        ("tenant", true)
    );
    let tenant = "/api/v1/tenants/chat";
    operator
        .send("PATCH", tenant, json!({"weight": 2}))
        .await
        .is(200);
    let changed = events.next().await.expect("a change");
    assert!(changed.data.contains("\"weight\":2"), "{changed:?}");
    drop(events);
    // Changes while no client listens are reported in their final state.
    for weight in 3..=5 {
        operator
            .send("PATCH", tenant, json!({ "weight": weight }))
            .await
            .is(200);
    }
    operator
        .send("POST", "/api/v1/tenants", json!({"name": "batch"}))
        .await
        .is(201);
    operator
        .ask("DELETE", "/api/v1/tenants/batch", None)
        .await
        .is(200);
    let settings = json!({"changes": {"window": "4ms"}});
    operator
        .send("PATCH", "/api/v1/settings", settings)
        .await
        .is(200);
    let mut events = Events::begin(&operator, path, &changed.id).await;
    let mut told = Vec::new();
    while told.len() < 3 {
        let event = events.next().await.expect("a change");
        // A leader publishes profiles at any time.
        if event.name != "profile" {
            told.push(event);
        }
    }
    let weight = serde_json::from_str::<Value>(&told[0].data).expect("JSON");
    assert_eq!(weight["settings"]["weight"], 5);
    assert_eq!(told[1].data, r#"{"name":"batch","settings":null}"#);
    assert_eq!(told[2].name, "settings");
    let ids: Vec<u64> = told
        .iter()
        .map(|event| event.id.parse().expect("a number"))
        .collect();
    assert!(ids.is_sorted() && ids[0] > changed.id.parse().expect("a number"));
    let ahead = operator.with("last-event-id", "999999999");
    ahead.get(path).await.problem(410, "E-API-GONE");
}
