//! The committed PTX equals the compiled sources.

use std::path::Path;
use std::process::Command;

/// Without NVRTC, `WARPLOOM_NVRTC=install` lets the script fetch it.
#[test]
fn committed_ptx_is_what_the_sources_compile_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("ops/scripts/compile-kernels.py");
    let mut command = Command::new("python3");
    command.arg(&script).arg("--check");
    if std::env::var("WARPLOOM_NVRTC").as_deref() != Ok("install") {
        command.arg("--no-install");
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return skipped(&format!("python3 does not start: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => print!("{}", String::from_utf8_lossy(&output.stdout)),
        Some(3)
            if command
                .get_args()
                .any(|argument| argument == "--no-install") =>
        {
            skipped(text.trim());
        }
        status => panic!("{} --check: status {status:?}\n{text}", script.display()),
    }
}

fn skipped(reason: &str) {
    // Written to the terminal: the test harness hides the output of passing tests.
    let line = format!(
        "\nSKIPPED: the committed PTX was not compared with its sources: {reason}.\n\
         Set WARPLOOM_NVRTC=install to fetch the compiler (90 MB) and compare.\n\n"
    );
    let terminal = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    terminal.expect("standard error is open");
}
