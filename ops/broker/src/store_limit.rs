//! The storage limit of a server's JetStream.

use std::fs;
use std::path::Path;

use crate::config::{ServerPaths, StatePaths};
use crate::{BrokerError, Result, files};

/// Minimum bytes for all data of a cluster. A table of the crate `actors` lists that data; a test
/// of `warploom-cli`, which depends on both, compares them.
pub const LEAST_STORE: u64 = 23 << 20;
/// Minimum bytes at which all data except the record have room.
pub const LEAST_STORE_TO_START: u64 = 19 << 20;

/// The storage limit of a server, and the limit that its disk allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that its configuration allows.
    limit: u64,
    /// Bytes that it would be allowed if it were started now.
    possible: u64,
}

impl Room {
    /// The room of a server; `None` if its limit is configured and not derived from the disk.
    pub(crate) fn of(paths: &ServerPaths) -> Option<Self> {
        let limit = Limit::read(paths).filter(|limit| !limit.fixed)?;
        Some(Self {
            limit: limit.bytes,
            possible: possible(&paths.store()),
        })
    }

    /// Returns the limit if neither it nor the possible one has room for all data of a cluster.
    pub(crate) fn too_little(self) -> Option<u64> {
        (self.limit.max(self.possible) < LEAST_STORE).then_some(self.limit)
    }

    /// True if the disk has so much more room than the limit that the server should get a new
    /// limit.
    pub(crate) fn has_grown(self) -> bool {
        self.possible / 2 >= self.limit
            || (self.limit < LEAST_STORE && self.possible >= LEAST_STORE)
    }
}

/// Bytes that a store holds, and three quarters of the free space.
fn possible(store: &Path) -> u64 {
    let free = rustix::fs::statvfs(store).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    held(store) + free / 4 * 3
}

/// The limit in a server's limit file, which its configuration includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// True if the limit is configured and does not depend on the disk.
    fixed: bool,
}

impl Limit {
    /// Reads the limit; `None` if it was never written.
    fn read(paths: &ServerPaths) -> Option<Self> {
        Self::parse(&fs::read_to_string(paths.limit()).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().strip_prefix(LIMIT)?;
        let (bytes, fixed) = match text.strip_suffix(FIXED) {
            Some(bytes) => (bytes, true),
            None => (text, false),
        };
        let bytes = bytes.parse().ok()?;
        Some(Self { bytes, fixed })
    }

    fn text(self) -> String {
        let fixed = if self.fixed { FIXED } else { "" };
        format!("{LIMIT}{bytes}{fixed}\n", bytes = self.bytes)
    }
}

const LIMIT: &str = "max_file_store: ";
const FIXED: &str = " # configured";

/// Writes the storage limit of JetStream: the configured bytes, or those for which the disk has
/// room.
///
/// # Errors
/// As [`renew_limit`].
pub(crate) fn write_limit(paths: &ServerPaths, configured: Option<u64>) -> Result<()> {
    let fixed = Limit::read(paths).is_some_and(|limit| limit.fixed);
    match configured {
        Some(bytes) => {
            let limit = Limit { bytes, fixed: true };
            files::write_private(&paths.limit(), &limit.text())
        }
        None if fixed => write_possible(paths, None),
        None => renew_limit(paths),
    }
}

/// Writes the storage limit of JetStream if it is not configured: the bytes it already keeps and
/// three quarters of the free space, but never less than before. By its own default, the server
/// takes three quarters of the free space at its start. That is none if its disk is full at the
/// start, and too few if it has stored much.
///
/// # Errors
/// `E-BROKER-ROOM` if the store is new and has no room; also if the file cannot be written.
fn renew_limit(paths: &ServerPaths) -> Result<()> {
    match Limit::read(paths) {
        Some(limit) if limit.fixed => Ok(()),
        before => write_possible(paths, before.map(|limit| limit.bytes)),
    }
}

fn write_possible(paths: &ServerPaths, before: Option<u64>) -> Result<()> {
    let store = paths.store();
    let bytes = possible(&store).max(before.unwrap_or(0));
    if before == Some(bytes) {
        return Ok(());
    }
    if before.is_none() && bytes < LEAST_STORE_TO_START {
        return Err(BrokerError::Room {
            store,
            bytes,
            least: LEAST_STORE_TO_START,
        });
    }
    let limit = Limit {
        bytes,
        fixed: false,
    };
    match files::write_private(&paths.limit(), &limit.text()) {
        // On a full disk the previous limit stays in force.
        Err(_) if before.is_some() => Ok(()),
        written => written,
    }
}

/// Writes the limit on what several servers may reserve in all, which their account includes: the
/// lowest limit for each of them. Does nothing if a server has no limit yet.
///
/// Servers of a NATS cluster check a new stream against one another's reports, which are up to a
/// second old, and accept what they are assigned. The account's limit is checked against existing
/// reservations. A server that reserved more than its limit refuses every change of a stream
/// permanently.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_account_limit(state: &StatePaths, servers: &[ServerPaths]) -> Result<()> {
    let limits: Option<Vec<Limit>> = servers.iter().map(Limit::read).collect();
    let limits = limits.unwrap_or_default();
    let Some(least) = limits.iter().map(|limit| limit.bytes).min() else {
        return Ok(());
    };
    let bytes = least.saturating_mul(servers.len() as u64);
    let (path, text) = (state.account(), format!("max_file: {bytes}\n"));
    match fs::read_to_string(&path) {
        Ok(before) if before == text => Ok(()),
        before => match files::write_private(&path, &text) {
            // On a full disk the previous limit stays in force.
            Err(_) if before.is_ok() => Ok(()),
            written => written,
        },
    }
}

/// Raises a server's limit to the current room of its disk, and updates the account of several
/// servers.
///
/// # Errors
/// As [`write_limit`].
pub(crate) fn renew_limits(paths: &ServerPaths) -> Result<()> {
    renew_limit(paths)?;
    match paths.state() {
        Some(state) => write_account_limit(&state, &state.found()),
        None => Ok(()),
    }
}

/// Total bytes of all files below a folder.
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
        write_limit(&paths, None).expect("written");
        let read = || Limit::read(&paths).map(|limit| limit.bytes);
        let first = read().expect("a number");
        assert!(first > 1_000, "{first}");
        let more = first * 3;
        fs::write(paths.limit(), format!("{LIMIT}{more}\n")).expect("written");
        write_limit(&paths, None).expect("written");
        assert_eq!(read(), Some(more));
    }

    #[test]
    fn a_limit_that_is_configured_stays_until_it_is_no_more() {
        let dir = TempDir::new().expect("a folder");
        let state = crate::config::StatePaths::new(dir.path()).expect("a path");
        let paths = state.alone();
        fs::create_dir(paths.store()).expect("made");
        let read = || Limit::read(&paths).expect("there");
        write_limit(&paths, Some(1_000)).expect("written");
        renew_limits(&paths).expect("renewed");
        let limit = Limit {
            bytes: 1_000,
            fixed: true,
        };
        assert_eq!(read(), limit);
        assert_eq!(Room::of(&paths), None);
        write_limit(&paths, None).expect("written");
        assert!(!read().fixed && read().bytes > 1_000, "{:?}", read());
    }

    #[test]
    fn several_servers_promise_what_the_least_of_them_may_keep() {
        let dir = TempDir::new().expect("a folder");
        let state = crate::config::StatePaths::new(dir.path()).expect("a path");
        let servers = state.of(3);
        for (server, bytes) in servers.iter().zip([900, 700, 800]) {
            fs::create_dir_all(server.store()).expect("made");
            write_account_limit(&state, &servers).expect("nothing yet");
            assert!(!state.account().exists());
            write_limit(server, Some(bytes)).expect("written");
        }
        renew_limits(&servers[0]).expect("renewed");
        let account = fs::read_to_string(state.account()).expect("there");
        assert_eq!(account, "max_file: 2100\n");
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
        // After the disk has filled, earlier reservations stay.
        assert_eq!(room(2 * LEAST_STORE, 0).too_little(), None);
    }
}
