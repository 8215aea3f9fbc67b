//! The last release's binary. It is built once from the commit in `tests/last-release.txt`, and
//! kept in the target folder under that commit's hash.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The binary.
///
/// # Panics
/// If the checkout's history lacks the commit, or if it does not build: this test must not be
/// skipped silently.
pub(super) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let commit = commit();
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
        let folder = target
            .expect("its folder")
            .join("last-release")
            .join(commit);
        let binary = folder.join("warploom");
        if !binary.exists() {
            build(commit, &folder);
            // Its source and build files take 2 GB.
            std::fs::rename(folder.join("build/debug/warploom"), &binary).expect("it is there");
            for part in ["source", "build"] {
                std::fs::remove_dir_all(folder.join(part)).expect("removed");
            }
        }
        binary
    })
}

fn commit() -> &'static str {
    let lines = include_str!("../../last-release.txt").lines();
    let mut commits = lines.filter(|line| !line.starts_with('#'));
    commits.next().expect("a commit").trim()
}

fn build(commit: &str, folder: &Path) {
    let (source, archive) = (folder.join("source"), folder.join("source.tar"));
    std::fs::create_dir_all(&source).expect("made");
    let mut git = Command::new("git");
    git.current_dir(env!("CARGO_MANIFEST_DIR"));
    git.args(["archive", "--output"]).arg(&archive).arg(commit);
    done(
        &mut git,
        &format!(
            "git gives the last release's commit {commit}: a shallow clone lacks it, \
             `git fetch --unshallow` brings it"
        ),
    );
    let mut tar = Command::new("tar");
    done(
        tar.arg("-xf").arg(&archive).arg("-C").arg(&source),
        "tar unpacks the last release's source",
    );
    eprintln!("building the last release, {commit}: minutes, once");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&source);
    cargo.args(["build", "--locked", "--bin", "warploom"]);
    cargo.env("CARGO_TARGET_DIR", folder.join("build"));
    done(
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0"),
        "the last release builds",
    );
}

fn done(command: &mut Command, what: &str) {
    let status = command.stdin(Stdio::null()).status();
    let well = status.is_ok_and(|status| status.success());
    assert!(well, "not so: {what}; this was {command:?}");
}
