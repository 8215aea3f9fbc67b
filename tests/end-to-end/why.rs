//! `warploom why` compared with other sources: the spans that the tracer exports, the metered usage, the exported
//! order.

mod changes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_cluster::{Receiver, within};

use crate::loaded::{LoadedCluster, SOON, plan};
use crate::order::Tool;
use changes::{SECOND, moment, number};

/// Fraction of a span's time that may be lost between two actors.
const NEAR: f64 = 0.05;

/// Minimum number of positions that are compared with spans.
const POSITIONS: usize = 300;

/// A session's id and one of its positions.
type Place = (String, u64);

/// The place of a row of `why`.
fn place(row: &Value) -> Place {
    let session = row["session"].as_str().expect("a session");
    (session.to_owned(), number(row, "position"))
}

/// Received spans of slices, in queues and on devices.
#[derive(Default)]
struct Spans {
    /// The request of each position's first op, and the time at which the position began on the
    /// device.
    begun: BTreeMap<Place, (String, u64)>,
    /// Times at which the leader heard of ops of each request.
    heard: BTreeMap<String, Vec<u64>>,
}

impl Spans {
    fn new(received: &[Value]) -> Self {
        let mut spans = Self::default();
        for span in received.iter().filter(|row| row["kind"] == "span") {
            let request = span["trace"].as_str().expect("a trace").to_owned();
            let start = number(span, "start");
            let of = &span["attributes"];
            if span["name"] == "queue" {
                spans.heard.entry(request).or_default().push(start);
            } else if let Some(position) = of["warploom.position"].as_u64()
                && span["name"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("gpu "))
            {
                let session = of["warploom.session"].as_str().expect("a session");
                let place = (session.to_owned(), position);
                spans.begun.insert(place, (request, start));
            }
        }
        spans
    }

    /// Time from the leader's first knowledge of a row's first op to the row's begin on the device.
    fn waited(&self, row: &Value) -> Option<u64> {
        let (request, begun) = self.begun.get(&place(row))?;
        // Of its request's intents, it is the one that came when the position was announced, apart
        // from the difference between the clocks of two processes.
        let announced = number(row, "announced_ns");
        let heard = self.heard.get(request)?.iter();
        let heard = heard.min_by_key(|heard| heard.abs_diff(announced))?;
        Some(begun.saturating_sub(*heard))
    }

    /// Number of these rows with spans, in words.
    fn counts(&self, rows: &[Value]) -> String {
        let begun = rows.iter().filter_map(|row| self.begun.get(&place(row)));
        let (mut executed, mut queued) = (0, 0);
        for (request, _) in begun {
            executed += 1;
            queued += usize::from(self.heard.contains_key(request));
        }
        let intents: usize = self.heard.values().map(Vec::len).sum();
        format!(
            "{} positions told, {executed} with their execute span, {queued} of these with queue spans of their \
             request; received: {} execute spans, {intents} queue spans of {} requests",
            rows.len(),
            self.begun.len(),
            self.heard.len()
        )
    }
}

/// The spans of these rows.
async fn spans_of(rows: &[Value], receiver: &Receiver) -> Spans {
    let mut spans = Spans::default();
    let has_all = |spans: &Spans| rows.iter().all(|row| spans.waited(row).is_some());
    let all = within(SOON, || {
        spans = Spans::new(&receiver.received());
        has_all(&spans).then_some(())
    });
    if all.await.is_none() {
        println!("spans are missing: {}", spans.counts(rows));
    }
    spans
}

#[tokio::test]
async fn waits_add_up_to_what_spans_measure_and_name_whose_doing_they_were() {
    let receiver = Receiver::start(0, None);
    let plans = [plan("urgent", "search", 0), plan("patient", "train", 3)];
    let settings = [("telemetry.otlp", &*receiver.endpoint())];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let tool = Tool::of(&loaded);
    tool.well(&["cluster", "set", "standing=false"]);
    loaded.work(&plans).await;
    let each = || tool.json(&["why", "--each"]);
    within(SOON, || (each().len() > POSITIONS).then_some(()))
        .await
        .expect("positions");
    loaded.demo.stop().await.expect("stopped");
    let rows = each();
    let spans = spans_of(&rows, &receiver).await;
    adds_up(&rows);
    is_as_measured(&rows, &spans);
    names_who(&tool);
    devices_add_up(&tool, &rows);
    asked_by_name(&tool, &rows);
    asked_by_time(&tool, &rows);
}

/// Checks that the stages of each position follow one another, and that the causes add up to its
/// wait.
fn adds_up(rows: &[Value]) {
    for row in rows {
        let stages = [
            "announced",
            "granted",
            "accepted",
            "begun",
            "started",
            "ended",
        ];
        let stages = stages.map(|stage| number(row, &format!("{stage}_ns")));
        assert!(stages.is_sorted(), "{row}");
        let waits = row["waits"].as_array().expect("waits");
        let sum: u64 = waits.iter().map(|wait| number(wait, "ns")).sum();
        assert_eq!(sum, number(row, "waited_ns"), "{row}");
        assert_eq!(stages[4] - stages[0], sum, "{row}");
    }
}

/// Checks the sum of all waits against the spans of slices: from the leader's knowledge
/// of a position's first op to the position's begin on the device.
fn is_as_measured(rows: &[Value], spans: &Spans) {
    let (mut told, mut measured, mut compared) = (0.0, 0.0, 0);
    for row in rows {
        let Some(waited) = spans.waited(row) else {
            continue;
        };
        told += number(row, "waited_ns") as f64;
        measured += waited as f64;
        compared += 1;
    }
    let counts = spans.counts(rows);
    assert!(
        compared * 10 > rows.len() * 9,
        "{compared} compared: {counts}"
    );
    let ratio = told / measured;
    let found = format!(
        "told {told:.0} ns, measured {measured:.0} ns: {ratio:.4}; {compared} compared: {counts}"
    );
    println!("{found}");
    assert!((ratio - 1.0).abs() < NEAR, "{found}");
}

/// The patient tenant waits for the urgent one's priority; the urgent one never for the other's.
fn names_who(tool: &Tool) {
    let rows = tool.json(&["why"]);
    let of = |tenant: &str| rows.iter().find(|row| row["tenant"] == tenant).expect("it");
    let waits = |tenant: &str, cause: &str, whose: &str| {
        let waits = of(tenant)["waits"].as_array().expect("waits").iter();
        let mut found = waits.filter(|wait| wait["cause"] == cause && wait["of"] == whose);
        found.next().map_or(0, |wait| number(wait, "ns"))
    };
    assert!(
        waits("patient", "priority", "urgent") > 0,
        "{}",
        of("patient")
    );
    assert_eq!(
        waits("urgent", "priority", "patient"),
        0,
        "{}",
        of("urgent")
    );
    assert_eq!(waits("urgent", "share", "patient"), 0, "{}", of("urgent"));
}

/// Busy and idle time add up to the time from the first grant to the last end, and busy time is at
/// least the metered time.
fn devices_add_up(tool: &Tool, rows: &[Value]) {
    let days = tool.json(&["why", "gpu:0"]);
    let sum = |key: &str| days.iter().map(|day| number(day, key)).sum::<u64>();
    let (busy, idle) = (sum("busy_ns"), sum("idle_ns"));
    for day in &days {
        let causes = day["idle"].as_array().expect("causes");
        let sum: u64 = causes.iter().map(|cause| number(cause, "ns")).sum();
        assert_eq!(sum, number(day, "idle_ns"), "{day}");
    }
    let first = rows
        .iter()
        .map(|row| number(row, "granted_ns"))
        .min()
        .unwrap();
    let last = rows
        .iter()
        .map(|row| number(row, "ended_ns"))
        .max()
        .unwrap();
    assert!(
        busy + idle >= last - first,
        "{busy} {idle} of {}",
        last - first
    );
    let metered: u64 = rows.iter().map(|row| number(row, "measured_ns")).sum();
    assert!(
        busy as f64 > metered as f64 * 0.97,
        "{busy} busy, {metered} metered"
    );
}

/// Queries one position by each of its names, a session, and missing objects.
fn asked_by_name(tool: &Tool, rows: &[Value]) {
    let row = &rows[rows.len() / 2];
    let session = row["session"].as_str().expect("a session");
    let names = [
        format!("{}/{}", row["epoch"], row["global"]),
        format!("0:{}", row["position"]),
        format!("{session}@{}", row["first"]),
    ];
    for name in names {
        assert_eq!(tool.json(&["why", &name])[0], *row, "{name}");
        let text = tool.well(&["why", &name]);
        assert!(
            text.contains("waited ") && text.contains("that is"),
            "{text}"
        );
    }
    let told = &tool.json(&["why", session])[0];
    let of: Vec<_> = rows
        .iter()
        .filter(|row| row["session"] == session)
        .collect();
    assert_eq!(number(told, "positions"), of.len() as u64);
    let waited: u64 = of.iter().map(|row| number(row, "waited_ns")).sum();
    assert_eq!(number(told, "waited_ns"), waited);
    for nothing in ["99/1", "0000000000000001", "gpu:7"] {
        tool.fails(&["why", nothing], "E-WHY");
    }
    tool.well(&["order", "export", "--out", "run.record"]);
    let again = tool.json(&["why", "--record", "run.record", "--each"]);
    assert_eq!(again, rows, "a file tells the same");
}

/// Asks for each second of the run. A second has the positions that waited or ran in it; the seconds of a
/// device come to all of its time.
fn asked_by_time(tool: &Tool, rows: &[Value]) {
    let all = |key: &'static str| rows.iter().map(move |row| number(row, key) / SECOND);
    let first = all("announced_ns").min().expect("a position");
    let last = all("ended_ns").max().expect("a position");
    let days = |time: &[&str]| {
        // The record may begin in the first second.
        let rows = tool.json(&[&["why", "gpu:0"], time].concat()).into_iter();
        rows.filter(|row| row.get("record").is_none())
            .collect::<Vec<_>>()
    };
    let (mut busy, mut idle) = (0, 0);
    for second in first..=last {
        let (since, until) = (moment(second), moment(second + 1));
        let time = ["--since", &since, "--until", &until];
        for tenant in ["urgent", "patient"] {
            let then = rows.iter().filter(|row| {
                let began = number(row, "announced_ns") < (second + 1) * SECOND;
                let ended = number(row, "ended_ns") >= second * SECOND;
                row["tenant"] == tenant && began && ended
            });
            let waited: Vec<u64> = then.map(|row| number(row, "waited_ns")).collect();
            let asked = [&["why", "--tenant", tenant], &time[..]].concat();
            if waited.is_empty() {
                // Changes of that second are told all the same.
                let (code, said) = tool.run(&asked);
                let only_changes = code == Some(0) && !said.contains("positions");
                assert!(only_changes || said.contains("E-WHY"), "{said}");
                continue;
            }
            let told = &tool.json(&asked)[0];
            assert_eq!(number(told, "positions"), waited.len() as u64, "{since}");
            assert_eq!(
                number(told, "waited_ns"),
                waited.iter().sum::<u64>(),
                "{since}"
            );
        }
        for day in days(&time) {
            let whole = number(&day, "busy_ns") + number(&day, "idle_ns");
            assert!(whole <= SECOND, "{since}: {day}");
            busy += number(&day, "busy_ns");
            idle += number(&day, "idle_ns");
        }
    }
    let (since, until) = (moment(first), moment(last + 1));
    let days = days(&["--since", &since, "--until", &until]);
    let sum = |key: &str| days.iter().map(|day| number(day, key)).sum::<u64>();
    assert_eq!((sum("busy_ns"), sum("idle_ns")), (busy, idle));
    let whole = tool.json(&["why", "gpu:0"]);
    let ran: u64 = whole.iter().map(|day| number(day, "busy_ns")).sum();
    assert_eq!(ran, busy, "nothing ran before or after");
    for wrong in [
        &["--since", &until, "--until", &since][..],
        &["--since", "yesterday"],
        &["1/1", "--since", "1h"],
        &["gpu:0", "--tenant", "urgent"],
    ] {
        let (code, said) = tool.run(&[&["why"], wrong].concat());
        assert_eq!(code, Some(2), "{said}");
    }
}

/// The causes of a busy device's idle time are an administrator's actions, for as long as these
/// last.
#[tokio::test]
async fn a_device_is_idle_for_what_kept_its_work_back() {
    let plans = [plan("train", "train", 2)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let tool = Tool::of(&loaded);
    tool.well(&["cluster", "set", "standing=false"]);
    loaded.work(&plans).await;
    let busy = Duration::from_millis(700);
    let kept = Duration::from_millis(1_500);
    let steps = [
        (
            "hold",
            ["order", "hold"].as_slice(),
            ["order", "release"].as_slice(),
        ),
        (
            "suspended",
            &["tenant", "suspend", "train"],
            &["tenant", "resume", "train"],
        ),
        (
            "cap",
            &["tenant", "set", "train", "--cap", "1"],
            &["tenant", "set", "train", "--cap", "0"],
        ),
    ];
    let mut lasted = BTreeMap::new();
    assert!(tool.well(&["status", "--check"]).starts_with("healthy\n"));
    for (cause, begin, end) in steps {
        tokio::time::sleep(busy).await;
        let asked = Instant::now();
        tool.well(begin);
        let since = Instant::now();
        if cause == "hold" {
            tool.fails(
                &["status", "--check"],
                "E-CLUSTER-UNHEALTHY: degraded: all grants are held",
            );
        }
        tokio::time::sleep(kept).await;
        let least = since.elapsed();
        tool.well(end);
        lasted.insert(cause, (least, asked.elapsed()));
    }
    tokio::time::sleep(busy).await;
    loaded.demo.stop().await.expect("stopped");
    changes::are_told(&tool);
    let days = tool.json(&["why", "gpu:0"]);
    let rows = tool.json(&["why"]);
    let of = rows
        .iter()
        .find(|row| row["tenant"] == "train")
        .expect("it");
    for (cause, (least, most)) in lasted {
        let idle = days.iter().flat_map(|day| day["idle"].as_array().unwrap());
        let idle = idle
            .filter(|it| it["cause"] == cause)
            .map(|it| number(it, "ns"));
        let idle = Duration::from_nanos(idle.sum());
        // Work granted before runs to its end; a cap leaves it a hundredth. New work must arrive
        // first.
        let near = least.mul_f64(0.6)..most.mul_f64(1.2);
        assert!(
            near.contains(&idle),
            "{cause}: {idle:?} of {least:?} to {most:?}: {days:?}"
        );
        let waits = of["waits"].as_array().expect("waits");
        assert!(
            waits.iter().any(|wait| wait["cause"] == cause),
            "{cause}: {of}"
        );
    }
}

/// Time for which a lone session is kept back.
const KEPT_BACK: Duration = Duration::from_secs(2);

/// A session that runs alone has one grant all the time; it is explained while it runs.
#[tokio::test]
async fn what_runs_without_waiting_for_grants_is_explained_while_it_does() {
    let plans = [plan("search", "search", 2)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let tool = Tool::of(&loaded);
    loaded.work(&plans).await;
    let session = tool.json(&["session", "list"])[0]["id"].clone();
    let session = session.as_str().expect("a session").to_owned();
    let told = || tool.json(&["why", &session]).remove(0);
    let kernels = |told: &Value| number(told, "kernels");
    within(SOON, || (kernels(&told()) > 0).then_some(()))
        .await
        .expect("kernels");
    let before = told();
    let more = within(SOON, || {
        Some(told()).filter(|it| kernels(it) > kernels(&before))
    });
    let more = more.await.expect("more of them");
    let kinds = tool.json(&["why", &session, "--each"]);
    let standing = kinds
        .iter()
        .find(|row| row["kind"] == "standing")
        .expect("it");
    assert!(
        standing["outcome"].is_null(),
        "it has not ended: {standing}"
    );
    assert!(number(standing, "measured_ns") > 0 && number(&more, "ran_ns") > 0);
    let waits = standing["waits"].as_array().expect("waits").iter();
    let sum: u64 = waits.map(|wait| number(wait, "ns")).sum();
    assert_eq!(sum, number(standing, "waited_ns"));
    let place = format!("{}/{}", standing["epoch"], standing["global"]);
    assert!(tool.well(&["why", &place]).contains("not ended yet"));
    // The cause that keeps its grant back is the cause of its wait, although its launches are
    // granted before they come.
    for (keep, go_on, cause) in [
        (
            ["order", "hold"].as_slice(),
            ["order", "release"].as_slice(),
            "hold",
        ),
        (
            &["tenant", "suspend", "search"],
            &["tenant", "resume", "search"],
            "suspended",
        ),
    ] {
        tool.well(keep);
        tokio::time::sleep(KEPT_BACK).await;
        tool.well(go_on);
        let waited = within(SOON, || {
            let told = told();
            let waits = told["waits"].as_array().expect("waits").iter();
            let ns = waits
                .filter(|wait| wait["cause"] == cause)
                .map(|wait| number(wait, "ns"));
            Some(ns.sum::<u64>()).filter(|ns| *ns > 0)
        });
        let waited = Duration::from_nanos(waited.await.expect(cause));
        let near = KEPT_BACK.mul_f64(0.8)..KEPT_BACK.mul_f64(1.6);
        assert!(near.contains(&waited), "{cause}: {waited:?}");
    }
    loaded.demo.stop().await.expect("stopped");
}
