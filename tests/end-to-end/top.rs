//! `warploom top` without a terminal prints the current state once. In a terminal of any size, it
//! restores the terminal however it ends.

use std::path::Path;
use std::process::Command;

use test_cluster::TempDir;

use crate::cluster::{administrator, done, objects};
use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};
use crate::swap::Holder;

#[tokio::test]
async fn what_there_is_now_is_printed_once_for_people_and_programs() {
    let plans = [plan("guest", "search", 1), plan("other", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let mut holder = Holder::start(&loaded, "guest", dir.path(), &program);
    assert_eq!(holder.does("take 10 1"), "0");
    let told = objects(&loaded, &["top", "--once", "--json"]).remove(0);
    let session = &told["sessions"][0];
    assert_eq!(session["process"]["pid"], holder.pid(), "{told}");
    assert_eq!(told["gpus"][0]["sessions"], 1);
    let tenants = told["tenants"].as_array().expect("tenants");
    assert_eq!(tenants.len(), 2);
    assert!(tenants[0]["held"].as_u64() >= Some(10 << 20), "{told}");
    let shown = done(&loaded, &["top", "--filter", "guest"]);
    for part in ["guest", session["id"].as_str().expect("an id"), "live"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("other"), "{shown}");
    let wrong = administrator(&loaded, &["top", "--every", "0"]);
    assert_eq!(wrong.status.code(), Some(2), "{:?}", text(&wrong));
    assert_eq!(holder.0.ends().1, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_of_any_size_is_left_as_it_was_however_it_ends() {
    let loaded = LoadedCluster::idle(1, 1, &[plan("chat", "search", 1)], &[]).await;
    let terminal =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end-to-end/programs/terminal.py");
    let cluster = &loaded.demo.cluster;
    for end in ["q", "\u{3}", "SIGTERM", "SIGINT"] {
        let top = warploom(&cluster.options().state_dir);
        let mut python = Command::new("python3");
        python
            .arg(&terminal)
            .args(["80x24,40x12,20x6,200x60", end])
            .arg(top.get_program())
            .args(["top", "--every", "0.2"])
            .env("TERM", "xterm-256color")
            .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
            .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster)
            .current_dir(&cluster.options().state_dir);
        let output = python.output().expect("Python runs");
        let (out, err) = text(&output);
        assert_eq!((out.trim(), &*err), ("0", ""), "{end:?}");
    }
}
