//! A short run of `warploom chaos`: what it prints, and that every promise held in it.

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

#[test]
fn a_short_chaos_breaks_no_promise_and_touches_no_other_cluster() {
    let dir = TempDir::new().expect("a directory");
    let evidence = dir.path().join("evidence");
    let output = warploom(dir.path())
        // Of a cluster that it must leave alone.
        .env("WARPLOOM_BROKER_URL", "nats://127.0.0.1:9")
        .env("WARPLOOM_BROKER_CREDENTIALS", "/nowhere/credentials.toml")
        .args(["chaos", "--kills=10", "--seconds=30", "--seed=3", "--json"])
        .args(["--evidence", &evidence.display().to_string()])
        .output()
        .expect("the binary runs");
    let (out, err) = text(&output);
    let objects = out.lines().map(serde_json::from_str);
    let metrics: Vec<Value> = objects
        .collect::<Result<_, _>>()
        .expect("one object a line");
    let value = |name: &str| {
        let mut found = metrics.iter().filter(|it| it["metric"] == name);
        let metric = found.next().unwrap_or_else(|| panic!("no {name}: {out}"));
        metric["value"].as_f64()
    };
    assert_eq!(value("chaos_kills"), Some(10.0), "{out}\n{err}");
    assert!(value("chaos_ops") >= Some(1_000.0), "{out}\n{err}");
    for name in NONE {
        assert_eq!(value(name), Some(0.0), "{name}: {out}\n{err}");
    }
    assert_eq!(value("chaos_checker"), Some(1.0), "{out}\n{err}");
    // Few positions are in a run as short, so that its share of what died with leaders is no figure.
    let share = value("chaos_adopted_share").expect("a share");
    assert!(share <= 0.1, "{out}\n{err}");
    let held = share <= 0.01;
    assert_eq!(output.status.code(), Some(i32::from(!held)), "{out}\n{err}");
    assert!(evidence.join("manifest.json").exists(), "{out}\n{err}");
}
