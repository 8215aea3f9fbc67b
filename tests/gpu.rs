//! The GPU kit's own tests: rows, results, processes, the page against committed results. The
//! rehearsal of whole sessions is a step of `.ci/run`, because it needs a release build.

use std::path::Path;
use std::process::Command;

#[test]
fn the_kit_passes_its_own_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu");
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "-v", "test_gpukit"])
        .current_dir(folder)
        .output()
        .expect("python3 starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // A runner that finds no test also succeeds.
    assert!(said.matches(" ... ok").count() >= 20, "{said}");
}
