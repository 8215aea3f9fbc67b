//! A short run of `warploom chaos`: what it prints, and that every promise held in it.

use std::path::Path;

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

/// What a run prints with these arguments, and its exit code.
fn chaos(dir: &Path, arguments: &[&str]) -> (Metrics, Option<i32>) {
    let output = warploom(dir)
        // Of a cluster that it must leave alone.
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
    fn value(&self, name: &str) -> f64 {
        let mut found = self.metrics.iter().filter(|it| it["metric"] == name);
        let value = found.next().and_then(|metric| metric["value"].as_f64());
        value.unwrap_or_else(|| panic!("no {name}: {}", self.said))
    }

    fn no_promise_is_broken(&self, kills: f64) {
        let said = &self.said;
        assert_eq!(self.value("chaos_kills"), kills, "{said}");
        assert!(self.value("chaos_ops") >= 1_000.0, "{said}");
        for name in NONE {
            assert_eq!(self.value(name), 0.0, "{name}: {said}");
        }
        assert_eq!(self.value("chaos_checker"), 1.0, "{said}");
        // Few positions are in a run as short, so that its share of what died with leaders is no figure.
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
    metrics.no_promise_is_broken(10.0);
    let held = metrics.value("chaos_adopted_share") <= 0.01;
    assert_eq!(code, Some(i32::from(!held)), "{}", metrics.said);
    assert!(evidence.join("manifest.json").exists(), "{}", metrics.said);
}

#[test]
fn a_short_chaos_breaks_no_promise_while_sessions_are_swapped_all_the_time() {
    let dir = TempDir::new().expect("a directory");
    let arguments = ["--kills=6", "--seconds=15", "--seed=5", "--overcommit=300"];
    let (metrics, _) = chaos(dir.path(), &arguments);
    metrics.no_promise_is_broken(6.0);
    // A busy machine, whose workers are killed and whose programs wait: twice a second at least.
    assert!(metrics.value("chaos_swaps") >= 30.0, "{}", metrics.said);
}
