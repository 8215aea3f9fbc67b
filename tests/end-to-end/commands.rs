//! The command line: exit codes, settings and their sources, what a user sees when it goes wrong.

use std::process::{Command, Output};

use broker::testing::TempDir;

fn warploom(dir: &TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warploom"))
        .args(arguments)
        .current_dir(dir.path())
        .env("WARPLOOM_CLUSTER_STATE_DIR", dir.path())
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn exit_codes_tell_what_kind_of_error_it_was() {
    let dir = TempDir::new().unwrap();
    for (arguments, code, says) in [
        (&["config"][..], 0, "worker.device"),
        (&["--help"], 0, "Examples"),
        (&["config", "--set", "no.such=1"], 2, "E-CONFIG-KEY"),
        (&["frobnicate"], 2, "frobnicate"),
        (&["status"], 3, "warploom up"),
        (
            &["status", "--set", "broker.url=nats://127.0.0.1:1"],
            3,
            "127.0.0.1:1",
        ),
        (&["order", "verify", "nowhere"], 1, "E-RECORD-FILE"),
        (&["order", "hold"], 3, "warploom up"),
        (&["replay", "--until", "x"], 2, "GPU:POSITION"),
        (&["demo", "--tenants", "nowhere.toml"], 1, "E-DEMO-TENANTS"),
    ] {
        let output = warploom(&dir, arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

#[test]
fn config_tells_whence_each_setting_came() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("warploom.toml"), "[worker]\nthreads = 2\n").unwrap();
    let output = warploom(&dir, &["config", "--json", "--set", "worker.gpu=3"]);
    let said = text(&output.stdout);
    assert!(
        said.contains(r#""key":"worker.threads","source":"file warploom.toml","value":"2""#),
        "{said}"
    );
    assert!(
        said.contains(r#""key":"worker.gpu","source":"flag","value":"3""#),
        "{said}"
    );
    assert!(
        said.contains("environment WARPLOOM_CLUSTER_STATE_DIR"),
        "{said}"
    );
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn an_administrators_command_says_whose_credentials_it_needs() {
    let dir = TempDir::new().unwrap();
    let broker = broker::testing::TestBroker::start();
    let path = dir.path().join("a.toml");
    let own = broker.credentials().for_tenant("a").expect("a login");
    own.save(&path).expect("written");
    let setting = format!("broker.credentials={}", path.display());
    let output = warploom(&dir, &["status", "--set", &setting]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("a tenant's"), "{said}");
}
