//! Logs of a cluster whose run failed.

use std::path::Path;

use warploom_cli::evidence::{EvidenceKey, sign_again};
use warploom_cli::output;

/// Copies the logs of all roles and of the broker's servers beside the evidence, to look into what
/// went wrong, and signs what lies there then.
pub(crate) fn keep(state_dir: &Path, evidence: &Path) {
    let into = evidence.join("logs");
    // What cannot be kept is missing; the run has failed anyway, and says so.
    let _ = std::fs::create_dir_all(&into);
    copy(state_dir, &into, "", 3);
    let signed = EvidenceKey::of(state_dir).and_then(|key| sign_again(evidence, &key));
    if let Err(error) = signed {
        output::note(format_args!(
            "the logs kept beside the evidence are not signed: {error:#}"
        ));
    }
}

/// Copies what is in a folder and in those in it, so deep; a server's log is named for its folder.
fn copy(dir: &Path, into: &Path, prefix: &str, deep: usize) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = format!("{prefix}{}", name.display());
        let is = |kind| path.extension().is_some_and(|extension| extension == kind);
        if is("log") || is("jsonl") {
            let _ = std::fs::copy(&path, into.join(&name));
        } else if path.is_dir() && deep > 0 {
            copy(&path, into, &format!("{name}-"), deep - 1);
        }
    }
}
