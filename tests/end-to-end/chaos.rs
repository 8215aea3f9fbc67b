//! A short run of `warploom chaos`: its output, and that every promise held.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use test_cluster::TempDir;

use crate::run::{text, warploom};

const NONE: [&str; 7] = [
    "chaos_lost",
    "chaos_duplicated",
    "chaos_reordered",
    "chaos_wrong",
    "chaos_hung",
    "chaos_failed",
    "chaos_skipped",
];

/// One run at a time: each keeps two processors busy by itself, which its time limits assume.
static TURN: Mutex<()> = Mutex::new(());

/// Runs chaos with these arguments; returns its metrics and its exit code.
fn chaos(dir: &Path, arguments: &[&str]) -> (Metrics, Option<i32>) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = warploom(dir)
        // Belongs to a cluster that it must leave alone.
        .env("WARPLOOM_BROKER_URL", "nats://127.0.0.1:9")
        .env("WARPLOOM_BROKER_CREDENTIALS", "/nowhere/credentials.toml")
        .args(["chaos", "--json"])
        .args(arguments)
        .output()
        .expect("the binary runs");
    let (out, err) = text(&output);
    let objects = out.lines().map(serde_json::from_str);
    let metrics = objects
        .collect::<Result<_, _>>()
        .expect("one object a line");
    let said = format!("{out}\n{err}");
    (Metrics { metrics, said }, output.status.code())
}

/// The metrics of a run.
struct Metrics {
    metrics: Vec<Value>,
    said: String,
}

impl Metrics {
    fn metric(&self, name: &str) -> &Value {
        let mut found = self.metrics.iter().filter(|it| it["metric"] == name);
        let metric = found.next();
        metric.unwrap_or_else(|| panic!("no {name}: {}", self.said))
    }

    fn value(&self, name: &str) -> f64 {
        let value = self.metric(name)["value"].as_f64();
        value.unwrap_or_else(|| panic!("no value of {name}: {}", self.said))
    }

    /// A value of a metric's configuration.
    fn said_of(&self, name: &str, key: &str) -> u64 {
        let said = self.metric(name)["config"][key].as_u64();
        said.unwrap_or_else(|| panic!("no {key} of {name}: {}", self.said))
    }

    /// Checks that the exit code is 1 exactly if a goal is missed, and that the reason is printed.
    fn is_told_by(&self, code: Option<i32>) {
        let missed = |it: &&Value| it["config"]["goal_met"] == false;
        let missed: Vec<&Value> = self.metrics.iter().filter(missed).collect();
        let said = &self.said;
        assert_eq!(code, Some(i32::from(!missed.is_empty())), "{said}");
        for metric in missed {
            let name = metric["metric"].as_str().expect("a name");
            assert!(said.contains(&format!("{name} is ")), "{said}");
        }
    }

    fn no_promise_is_broken(&self, kills: f64, ops: f64) {
        let said = &self.said;
        assert_eq!(self.value("chaos_kills"), kills, "{said}");
        assert!(self.value("chaos_ops") >= ops, "{said}");
        for name in NONE {
            assert_eq!(self.value(name), 0.0, "{name}: {said}");
        }
        assert_eq!(self.value("chaos_checker"), 1.0, "{said}");
        // A run this short has few positions, so the share of those that died with leaders means
        // little.
        assert!(self.value("chaos_adopted_share") <= 0.1, "{said}");
    }
}

#[test]
fn a_short_chaos_breaks_no_promise_and_touches_no_other_cluster() {
    let dir = TempDir::new().expect("a directory");
    let evidence = dir.path().join("evidence");
    let kept = format!("--evidence={}", evidence.display());
    let arguments = ["--kills=10", "--seconds=30", "--seed=3", &kept];
    let (metrics, code) = chaos(dir.path(), &arguments);
    metrics.no_promise_is_broken(10.0, 1_000.0);
    metrics.is_told_by(code);
    let of_killed = metrics.said_of("chaos_untold", "of");
    assert!(of_killed >= 1, "two workers are killed: {}", metrics.said);
    assert_eq!(metrics.value("chaos_untold"), 0.0, "{}", metrics.said);
    let changes = metrics.said_of("chaos_false_takeovers", "of");
    assert!(changes >= 4, "four leaders are killed: {}", metrics.said);
    let lost = metrics.said_of("chaos_false_losses", "of");
    // A worker may be killed before any leader has heard of it.
    assert!(lost >= 1, "two workers are killed: {}", metrics.said);
    let manifest = std::fs::read(evidence.join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let workers = manifest["workers"].as_array().expect("the workers");
    // At the end the cluster is stopped in order.
    let left = workers.iter().filter(|worker| worker["fate"] == "left");
    assert_eq!(left.count(), 2, "{workers:?}");
}

#[test]
fn a_short_chaos_breaks_no_promise_while_sessions_are_swapped_all_the_time() {
    let dir = TempDir::new().expect("a directory");
    let arguments = ["--kills=6", "--seconds=15", "--seed=5", "--overcommit=300"];
    let (metrics, _) = chaos(dir.path(), &arguments);
    metrics.no_promise_is_broken(6.0, 1_000.0);
    // 192 on a quiet machine; 13 on one with twenty other processes for each core.
    let swaps = metrics.value("chaos_swaps");
    assert!(swaps >= 5.0, "{}", metrics.said);
}

#[test]
fn a_short_chaos_breaks_no_promise_on_a_machine_that_it_keeps_busy() {
    let dir = TempDir::new().expect("a directory");
    let arguments = ["--kills=4", "--seconds=10", "--seed=2", "--load=3"];
    let (metrics, code) = chaos(dir.path(), &arguments);
    // A build beside the load leaves little for its programs: 584 were seen.
    metrics.no_promise_is_broken(4.0, 100.0);
    metrics.is_told_by(code);
    assert_eq!(metrics.said_of("chaos_kills", "load"), 3);
    for name in [
        "chaos_untold",
        "chaos_false_takeovers",
        "chaos_false_losses",
    ] {
        assert!(metrics.value(name) >= 0.0, "{}", metrics.said);
    }
}

#[test]
fn nothing_is_done_to_a_cluster_without_kills_and_so_no_leader_changes_for_a_reason() {
    let dir = TempDir::new().expect("a directory");
    let (metrics, code) = chaos(dir.path(), &["--kills=0", "--seconds=3"]);
    metrics.is_told_by(code);
    let changes = metrics.said_of("chaos_false_takeovers", "of");
    assert_eq!(metrics.value("chaos_false_takeovers"), changes as f64);
    assert_eq!(
        metrics.metric("chaos_false_takeovers")["config"]["excused_share"],
        0.0
    );
}

#[test]
fn a_hostile_tenant_gets_hold_of_nothing_and_its_neighbours_results_are_right() {
    let dir = TempDir::new().expect("a directory");
    let (metrics, code) = chaos(dir.path(), &["--hostile=20", "--seed=4"]);
    let said = &metrics.said;
    metrics.is_told_by(code);
    for name in [
        "chaos_lost",
        "chaos_duplicated",
        "chaos_reordered",
        "chaos_wrong",
        "chaos_hung",
    ] {
        assert_eq!(metrics.value(name), 0.0, "{name}: {said}");
    }
    assert_eq!(metrics.value("chaos_checker"), 1.0, "{said}");
    let of = |key| metrics.said_of("hostile_crossed", key);
    for key in [
        "messages_heard",
        "bytes_seen",
        "handles_found",
        "chunks_held",
    ] {
        assert_eq!(of(key), 0, "{key}: {said}");
    }
    for key in ["answers_astray", "settings_changed", "results_wrong"] {
        assert_eq!(of(key), 0, "{key}: {said}");
    }
    // The attack actually took place.
    assert!(of("sent") >= 100 && of("refused") >= 30, "{said}");
    assert!(of("impersonated") >= 5, "{said}");
    for key in ["epochs", "workers_lost", "sessions_ended"] {
        assert_eq!(of(key), 0, "{key}: {said}");
    }
    assert_eq!(metrics.value("hostile_evicted"), 0.0, "{said}");
    let ratio = "hostile_neighbour_p99_ratio";
    assert!(metrics.value(ratio) > 0.0, "{said}");
    assert_eq!(metrics.said_of(ratio, "repetitions"), 5, "{said}");
    for flood in ["flooded_here", "flooded_there"] {
        assert!(metrics.said_of(ratio, flood) >= 1_000, "{said}");
    }
}

#[test]
fn a_hostile_run_is_too_short_or_too_much_at_once() {
    let dir = TempDir::new().expect("a directory");
    for arguments in [
        &["--hostile=19"][..],
        &["--hostile=60", "--kills=3"],
        &["--load=257"],
    ] {
        let output = warploom(dir.path())
            .arg("chaos")
            .args(arguments)
            .output()
            .expect("the binary runs");
        let (_, err) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    }
}
