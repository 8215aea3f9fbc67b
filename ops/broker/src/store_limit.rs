//! The bytes that a server's JetStream may keep.

use std::fs;
use std::path::Path;

use crate::config::ServerPaths;
use crate::{Error, Result, files};

/// Bytes below which not all that a cluster keeps has a place. What that is, is a table of the crate
/// `actors`; a test of `warploom-cli`, which knows both, compares them.
pub const LEAST_STORE: u64 = 22 << 20;
/// Bytes below which something beside the record has none.
pub const LEAST_STORE_TO_START: u64 = 18 << 20;

/// What a server may keep, and what it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that its configuration lets it keep.
    limit: u64,
    /// Bytes that it would be let keep if it were started now.
    possible: u64,
}

impl Room {
    /// That of a server; none where its configuration has no limit.
    pub(crate) fn of(paths: &ServerPaths) -> Option<Self> {
        let limit = fs::read_to_string(paths.limit()).ok()?;
        Some(Self {
            limit: bytes_of(&limit)?,
            possible: possible(&paths.store()),
        })
    }

    /// The limit, where neither it nor what is free has a place for all that a cluster keeps.
    pub(crate) fn too_little(self) -> Option<u64> {
        (self.limit.max(self.possible) < LEAST_STORE).then_some(self.limit)
    }

    /// Whether the disk has so much more room than the limit that the server should be told.
    pub(crate) fn has_grown(self) -> bool {
        self.possible / 2 >= self.limit
            || (self.limit < LEAST_STORE && self.possible >= LEAST_STORE)
    }
}

/// Bytes that a store holds, and three quarters of what is free.
fn possible(store: &Path) -> u64 {
    let free = rustix::fs::statvfs(store).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    held(store) + free / 4 * 3
}

/// Writes the bytes that JetStream may keep into the file that the server's configuration includes:
/// what it keeps already and three quarters of what is free, and never less than before. Left alone,
/// the server takes three quarters of what is free as it starts: none for one that starts while its
/// disk is full, and too few for one that has stored much.
///
/// # Errors
/// `E-BROKER-ROOM` for a store that is new and has no room, and where the file cannot be written.
pub(crate) fn write_limit(paths: &ServerPaths) -> Result<()> {
    let (store, limit) = (paths.store(), paths.limit());
    let before = fs::read_to_string(&limit).ok();
    let before = before.as_deref().and_then(bytes_of);
    let bytes = possible(&store).max(before.unwrap_or(0));
    if before == Some(bytes) {
        return Ok(());
    }
    if before.is_none() && bytes < LEAST_STORE_TO_START {
        return Err(Error::Room {
            store,
            bytes,
            least: LEAST_STORE_TO_START,
        });
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

    #[test]
    fn a_server_is_told_of_room_that_makes_a_difference() {
        let room = |limit, possible| Room { limit, possible };
        assert_eq!(
            room(LEAST_STORE - 1, LEAST_STORE - 1).too_little(),
            Some(LEAST_STORE - 1)
        );
        assert!(!room(LEAST_STORE - 1, LEAST_STORE - 1).has_grown());
        assert_eq!(room(LEAST_STORE - 1, LEAST_STORE).too_little(), None);
        assert!(room(LEAST_STORE - 1, LEAST_STORE).has_grown());
        assert!(
            !room(LEAST_STORE, 2 * LEAST_STORE - 1).has_grown(),
            "no reload for a little"
        );
        assert!(room(LEAST_STORE, 2 * LEAST_STORE).has_grown());
        // Once the disk has filled, what was reserved before is not taken back.
        assert_eq!(room(2 * LEAST_STORE, 0).too_little(), None);
    }
}
