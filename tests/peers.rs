//! Unmodified clients of other projects: the fast part of `tests/peers/run.py`.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn clients_that_nobody_here_wrote_run_unmodified() {
    let binary = Path::new(env!("CARGO_BIN_EXE_warploom"));
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/run.py");
    let mut command = Command::new("python3");
    command
        .arg(runner)
        .args(["--fast", "--json", "--binary"])
        .arg(binary)
        .arg("--tools")
        .arg(broker::tools_dir(None));
    // Its output, above all on skipped parts, is shown even if the output of tests is captured.
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .expect("python3 starts");
    let rows = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{rows}");
    let rows: Vec<serde_json::Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).expect("JSON"))
        .collect();
    let names = rows
        .iter()
        .map(|row| row["suite"].as_str().expect("a name"));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "core", "c", "nvml", "tiny", "mlp", "numba", "files", "api", "traces", "plugin"
        ]
    );
    for row in rows.iter().filter(|row| row["state"] == "passed") {
        assert!(
            row["passed"].as_u64() > Some(0) && row["failed"] == 0,
            "{row}"
        );
    }
}
