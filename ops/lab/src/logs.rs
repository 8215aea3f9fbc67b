//! Logs of the cluster of a failed run.

use std::path::Path;

use admin::evidence::{EvidenceKey, sign_again};
use admin::output;

/// Copies the logs of all roles and of the broker's servers beside the evidence, to investigate the
/// failure, and signs all files there.
pub(crate) fn keep(state_dir: &Path, evidence: &Path) {
    let into = evidence.join("logs");
    // Copies that fail are missing; the run has failed anyway, and reports that.
    let _ = std::fs::create_dir_all(&into);
    copy(state_dir, &into, "", 3);
    let signed = EvidenceKey::of(state_dir).and_then(|key| sign_again(evidence, &key));
    if let Err(error) = signed {
        output::note(format_args!(
            "the logs kept beside the evidence are not signed: {error:#}"
        ));
    }
}

/// Copies the logs of a folder and of its folders, `deep` levels down. A server's log gets the name of its
/// folder.
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
