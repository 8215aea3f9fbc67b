//! Checks that the committed PTX, inputs and expected outputs match the sources.

use crate::folders::root;
use crate::manifest::Case;
use std::process::Command;

/// Compiles every source again and compares, if `WARPLOOM_CORPUS` is set. `check` uses the
/// installed compilers; `install` fetches them first (some 2 GB, minutes).
pub(crate) fn compile_to_the_ptx(_: &[Case]) -> Result<(), String> {
    let wish = std::env::var("WARPLOOM_CORPUS").unwrap_or_default();
    if wish.is_empty() {
        println!(
            "SKIPPED: the corpus was not compiled again; \
             set WARPLOOM_CORPUS to check or install (2 GB) for that"
        );
        return Ok(());
    }
    let script = root().join("ops/scripts/compile-corpus.py");
    let mut command = Command::new("python3");
    command.arg(&script).arg("--check");
    if wish != "install" {
        command.arg("--no-install");
    }
    let output = command
        .output()
        .map_err(|error| format!("python3 does not start: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{} --check: {}\n{}{}",
            script.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
