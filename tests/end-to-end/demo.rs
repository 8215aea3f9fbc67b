//! A short demo: separate processes, a killed leader, every claim checked; and evidence that cannot
//! be changed unnoticed.

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use test_cluster::TempDir;

use crate::children::{Running, kill, processes};
use crate::run;

fn warploom(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warploom"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn verify(dir: &Path) -> (Option<i32>, String) {
    let output = warploom(&["order", "verify", &dir.display().to_string()]);
    (
        output.status.code(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

#[test]
fn a_short_demo_holds_what_it_claims() {
    let dir = TempDir::new().unwrap();
    let evidence = dir.path().join("evidence");
    let output = warploom(&[
        "demo",
        "--json",
        "--seconds=6",
        "--seed=7",
        "--evidence",
        &evidence.display().to_string(),
    ]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert_eq!(
        stdout.lines().count(),
        1,
        "one object on one line: {stdout}"
    );
    let report: Value = serde_json::from_str(&stdout).expect("JSON alone on stdout");
    let cluster = &report["cluster"];
    for key in ["lost", "duplicated", "reordered"] {
        assert_eq!(cluster[key], 0, "{key}: {report}");
    }
    assert_eq!(cluster["digest"], cluster["replay_digest"], "{report}");
    assert_eq!(cluster["digest"].as_str().map(str::len), Some(64));
    for key in ["leader_changes", "workers_lost", "sessions_lost"] {
        assert!(cluster[key].is_u64(), "{key}: {report}");
    }
    assert!(cluster["takeover_ms"].as_f64().unwrap() > 0.0, "{report}");
    assert!(cluster["gpu_active"].as_f64().unwrap() > 0.0, "{report}");
    let tenants = report["tenants"].as_array().unwrap();
    let names: Vec<_> = tenants
        .iter()
        .map(|tenant| tenant["tenant"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["chat", "search", "train"]);
    for tenant in tenants {
        assert!(tenant["requests"].as_u64().unwrap() > 0, "{tenant}");
        assert_eq!(tenant["verified"], tenant["requests"], "{tenant}");
        assert!(tenant["core_credits"].as_f64().unwrap() > 0.0, "{tenant}");
        assert!(tenant["vram_credits"].as_f64().unwrap() > 0.0, "{tenant}");
    }
    let (code, said) = verify(&evidence);
    assert_eq!(code, Some(0), "{said}");
    tampered(&evidence);
    signed(&evidence, &stderr);
}

/// Checks that the key that the demo named signed the evidence, and no other.
fn signed(evidence: &Path, stderr: &str) {
    let named = stderr.split("evidence is signed with ").nth(1);
    let key = named.expect("the demo names the key").lines().next();
    let key = key.expect("a key");
    assert_eq!(key.len(), 64, "{key}");
    let shown = evidence.display().to_string();
    let with = |key: &str| warploom(&["order", "verify", &shown, "--key", key]);
    assert_eq!(
        with(key).status.code(),
        Some(0),
        "{}",
        text(&with(key).stderr)
    );
    let other = "0".repeat(64);
    let refused = with(&other);
    assert_eq!(refused.status.code(), Some(1));
    let said = text(&refused.stderr);
    assert!(said.contains("E-EVIDENCE-MANIFEST"), "{said}");
}

/// Checks that a line deleted, doubled or swapped with its neighbour is found, in each file.
fn tampered(evidence: &Path) {
    let files = [
        "submitted.jsonl",
        "started.jsonl",
        "order.jsonl",
        "kills.jsonl",
    ];
    for file in files {
        let path = evidence.join(file);
        let whole = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        assert!(!lines.is_empty(), "{file} says nothing");
        let middle = lines.len() / 2;
        let mut damages = vec![];
        let mut deleted = lines.clone();
        deleted.remove(middle);
        damages.push(("deleted", deleted));
        let mut doubled = lines.clone();
        doubled.insert(middle, lines[middle]);
        damages.push(("doubled", doubled));
        if lines.len() > 1 {
            let mut swapped = lines.clone();
            swapped.swap(middle - 1, middle);
            damages.push(("swapped", swapped));
        }
        damages.push(("alone", vec![lines[middle]]));
        damages.push(("none", vec![]));
        damages.retain(|(_, damaged)| *damaged != lines);
        for (damage, lines) in damages {
            let lines: Vec<_> = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&path, lines.concat()).unwrap();
            let (code, said) = verify(evidence);
            assert_eq!(code, Some(1), "{file}, line {damage}: {said}");
        }
        // One digit is changed.
        let digit = whole.rfind(|letter: char| letter.is_ascii_digit()).unwrap();
        let mut changed = whole.clone().into_bytes();
        changed[digit] = if changed[digit] == b'7' { b'8' } else { b'7' };
        std::fs::write(&path, changed).unwrap();
        let (code, said) = verify(evidence);
        assert_eq!(code, Some(1), "{file}, a number changed: {said}");
        std::fs::write(&path, whole).unwrap();
    }
    assert_eq!(verify(evidence).0, Some(0));
}

/// A running demo that keeps its evidence, with its processes in this folder.
fn at_work(dir: &Path, seconds: u64) -> Running {
    let mut command = run::warploom(dir);
    command.env("TMPDIR", dir).args(["demo", "--json"]);
    command.arg(format!("--seconds={seconds}"));
    command.arg("--evidence").arg(dir.join("evidence"));
    let demo = Running::start(&mut command);
    demo.says("tenants at work");
    demo
}

/// Kills the demo's processes that have all of these words in their command lines; returns their
/// number.
fn kill_those_of(dir: &Path, words: &[&str]) -> usize {
    let all = processes(dir);
    let these = all
        .iter()
        .filter(|line| words.iter().all(|word| line.contains(word)));
    let pids = these.map(|line| line.split('"').nth(1).unwrap().parse().unwrap());
    pids.map(|pid| kill(pid, Signal::KILL)).count()
}

#[test]
fn a_demo_counts_a_leader_that_is_followed_though_it_did_not_kill_it() {
    let dir = TempDir::new().unwrap();
    let mut demo = at_work(dir.path(), 6);
    assert_eq!(kill_those_of(dir.path(), &[" leader "]), 3);
    assert_eq!(demo.ends(), Some(0), "{}", demo.said());
    let report: Value = serde_json::from_str(&demo.printed()).expect("JSON");
    let cluster = &report["cluster"];
    assert!(cluster["leader_changes"].as_u64() > Some(0), "{report}");
    assert_eq!(cluster["kills"], 1, "{report}");
    assert!(!dir.path().join("evidence/logs").exists(), "it succeeded");
}

#[test]
fn a_demo_ends_when_a_tenant_does_says_so_and_keeps_the_logs() {
    let dir = TempDir::new().unwrap();
    let mut demo = at_work(dir.path(), 600);
    let killed = kill_those_of(dir.path(), &[" demo-tenant ", "--tenant=search"]);
    assert_eq!(killed, 1);
    assert_eq!(demo.ends(), Some(1), "{}", demo.said());
    demo.says("E-DEMO-FAILED: tenant-search-1 ended while it was at work (signal: 9 (SIGKILL))");
    demo.says("the load of this machine is ");
    for log in ["leader-0.log", "worker-1.log", "tenant-search-1.log"] {
        let log = dir.path().join("evidence/logs").join(log);
        assert!(log.exists(), "{}", log.display());
    }
}
