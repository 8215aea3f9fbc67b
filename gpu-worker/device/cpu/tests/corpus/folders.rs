//! The folders of the repository that the corpus reads.

use std::path::{Path, PathBuf};

/// Folder of the cases; `WARPLOOM_CORPUS_PTX` names another one, for other options or targets.
pub(crate) fn cases() -> PathBuf {
    match std::env::var_os("WARPLOOM_CORPUS_PTX") {
        Some(folder) => folder.into(),
        None => root().join("tests/corpus/ptx"),
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}
