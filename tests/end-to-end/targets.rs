//! A tenant with a target beside one without, on a CPU worker. `status` shows its attainment,
//! `tenant set` checks whether it can be met, and the order with a target replays.

use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::loaded::{LoadedCluster, plan};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than any request of the test takes, on any machine.
const GENEROUS: &str = "50s";

fn warploom(loaded: &LoadedCluster, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warploom"))
        .args(arguments)
        .env(
            "WARPLOOM_BROKER_CREDENTIALS",
            loaded.demo.cluster.credentials(),
        )
        .env("WARPLOOM_CLUSTER_NAME", "test")
        .output()
        .expect("the binary runs")
}

/// The JSON output of a command, which must succeed.
fn json(loaded: &LoadedCluster, arguments: &[&str]) -> Value {
    let output = warploom(loaded, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// One tenant's entry in `status --json`.
fn tenant(loaded: &LoadedCluster, name: &str) -> Value {
    let status = json(loaded, &["status", "--json"]);
    let tenants = status["tenants"].as_array().expect("tenants");
    let found = tenants.iter().find(|tenant| tenant["tenant"] == *name);
    found.expect("the tenant").clone()
}

/// Exit code and all output of a command.
fn said(loaded: &LoadedCluster, arguments: &[&str]) -> (i32, String) {
    let output = warploom(loaded, arguments);
    let all = [output.stdout, output.stderr].concat();
    let code = output.status.code().expect("an exit code");
    (code, String::from_utf8_lossy(&all).into_owned())
}

fn verdict(answer: &Value) -> String {
    let targets = answer["admission"].as_array().expect("verdicts");
    let chat = targets.iter().find(|target| target["tenant"] == "chat");
    chat.expect("of chat")["verdict"]
        .as_str()
        .expect("text")
        .to_owned()
}

fn shows_how_the_target_is_met(loaded: &LoadedCluster) {
    let chat = tenant(loaded, "chat");
    let met = &chat["attainment"];
    assert_eq!(met["target_ns"], 50_000_000_000_u64);
    let requests = met["requests"].as_u64().expect("requests");
    assert!(requests >= 5, "{chat}");
    assert_eq!(met["within"], requests, "{chat}");
    assert_eq!(met["attained"], 1.0, "{chat}");
    assert!(met["p99_ns"].as_u64().is_some_and(|p99| p99 > 0), "{chat}");
    assert!(met["counted_s"].as_f64().is_some_and(|s| s > 0.0), "{chat}");
    let train = tenant(loaded, "train");
    assert_eq!(train["attainment"]["attained"], Value::Null, "{train}");
    let (code, table) = said(loaded, &["status"]);
    assert!(code == 0 && table.contains("100.00 %"), "{table}");
}

fn says_whether_a_target_can_be_met(loaded: &LoadedCluster) {
    let answer = json(loaded, &["tenant", "set", "chat", "--json"]);
    assert_eq!(verdict(&answer), "met", "{answer}");
    // Less than any request takes: refused with `--strict`, otherwise accepted with a warning.
    let impossible = ["tenant", "set", "chat", "--slo", "1us"];
    let (code, told) = said(loaded, &[&impossible[..], &["--strict"]].concat());
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("E-TENANT-TARGET"), "{told}");
    let chat = tenant(loaded, "chat");
    assert_eq!(
        chat["settings"]["slo_ns"], 50_000_000_000_u64,
        "left as it was"
    );
    let (code, told) = said(loaded, &impossible);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("target 1 us"), "{told}");
    assert!(told.contains("E-TENANT-TARGET"), "{told}");
    assert!(told.contains("a request alone"), "{told}");
    let answer = json(
        loaded,
        &["tenant", "set", "chat", "--weight", "2", "--json"],
    );
    assert_eq!(verdict(&answer), "too-long", "{answer}");
    // Another tenant's change is not refused for a target that is already missed.
    let (code, told) = said(
        loaded,
        &["tenant", "set", "train", "--weight", "2", "--strict"],
    );
    assert_eq!(code, 0, "{told}");
    let (code, told) = said(loaded, &["tenant", "set", "chat", "--slo", "soon"]);
    assert!(code == 2 && told.contains("20ms"), "{told}");
    let (code, told) = said(loaded, &["tenant", "create", "new", "--slo", "20ms"]);
    assert!(code == 0 && told.contains("not known yet"), "{told}");
    let answer = json(
        loaded,
        &["tenant", "set", "chat", "--slo", "none", "--json"],
    );
    let targets = answer["admission"].as_array().expect("verdicts");
    assert!(
        targets.iter().all(|target| target["tenant"] == "new"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_target_is_shown_judged_and_replayed() {
    let mut chat = plan("chat", "search", 0);
    // The device is idle in between, so that the target becomes active and inactive.
    chat.think_ms = 150;
    let train = plan("train", "train", 4);
    let loaded = LoadedCluster::start(1, 1, &[chat, train]).await;
    // No request takes longer on the slowest machine, but the order takes the target into account.
    let (code, told) = said(&loaded, &["tenant", "set", "chat", "--slo", GENEROUS]);
    assert_eq!(code, 0, "{told}");
    loaded.progress(6, TIMEOUT).await;
    shows_how_the_target_is_met(&loaded);
    says_whether_a_target_can_be_met(&loaded);
    loaded.progress(3, TIMEOUT).await;
    loaded.settle().await;
}
