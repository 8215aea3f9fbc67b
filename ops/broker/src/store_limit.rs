//! The bytes that a server's JetStream may keep.

use std::fs;
use std::path::Path;

use crate::config::ServerPaths;
use crate::{Result, files};

/// Bytes that JetStream may keep, into the file that the server's configuration includes: what it
/// keeps already and three quarters of what is free, and never less than before. Left alone, the
/// server takes three quarters of what is free as it starts: none for one that starts while its
/// disk is full, and too few for one that has stored much.
pub(crate) fn write_limit(paths: &ServerPaths) -> Result<()> {
    let (store, limit) = (paths.store(), paths.limit());
    let before = fs::read_to_string(&limit).ok();
    let before = before.as_deref().and_then(bytes_of);
    let free = rustix::fs::statvfs(&store).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    let bytes = (held(&store) + free / 4 * 3).max(before.unwrap_or(0));
    if before == Some(bytes) {
        return Ok(());
    }
    match files::write_private(&limit, &format!("{LIMIT}{bytes}\n")) {
        // On a full disk the one from before will do.
        Err(_) if before.is_some() => Ok(()),
        written => written,
    }
}

const LIMIT: &str = "max_file_store: ";

fn bytes_of(text: &str) -> Option<u64> {
    text.trim().strip_prefix(LIMIT)?.parse().ok()
}

/// Bytes of all files below a folder.
fn held(folder: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        bytes += match entry.metadata() {
            Ok(meta) if meta.is_dir() => held(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_cluster::TempDir;

    #[test]
    fn a_limit_does_not_shrink() {
        let dir = TempDir::new().expect("a folder");
        let state = crate::config::StatePaths::new(dir.path()).expect("a path");
        let paths = state.alone();
        fs::create_dir(paths.store()).expect("made");
        fs::write(paths.store().join("held"), [0; 1_000]).expect("written");
        write_limit(&paths).expect("written");
        let read = || bytes_of(&fs::read_to_string(paths.limit()).expect("there"));
        let first = read().expect("a number");
        assert!(first > 1_000, "{first}");
        let more = first * 3;
        fs::write(paths.limit(), format!("{LIMIT}{more}\n")).expect("written");
        write_limit(&paths).expect("written");
        assert_eq!(read(), Some(more));
    }
}
