//! The bytes that a server's JetStream may keep.

use std::fs;
use std::path::Path;

use crate::config::{ServerPaths, StatePaths};
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
    /// That of a server; none where its limit is not the disk's.
    pub(crate) fn of(paths: &ServerPaths) -> Option<Self> {
        let limit = Limit::read(paths).filter(|limit| !limit.fixed)?;
        Some(Self {
            limit: limit.bytes,
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

/// The limit in a server's file, which its configuration includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    /// Configured, whatever the disk has room for.
    fixed: bool,
}

impl Limit {
    /// None where there is none yet.
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

/// Writes the bytes that JetStream may keep: those configured, or what the disk has room for.
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

/// Writes the bytes that JetStream may keep where they are not configured: what it keeps already and
/// three quarters of what is free, and never less than before. Left alone, the server takes three
/// quarters of what is free as it starts: none for one that starts while its disk is full, and too
/// few for one that has stored much.
///
/// # Errors
/// `E-BROKER-ROOM` for a store that is new and has no room, and where the file cannot be written.
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
        return Err(Error::Room {
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
        // On a full disk the one from before will do.
        Err(_) if before.is_some() => Ok(()),
        written => written,
    }
}

/// Writes the bytes that several servers may promise together, which their account includes: the
/// least limit for each of them. Nothing where a server has no limit yet.
///
/// Servers of a NATS cluster check a new stream against one another's reports, which are up to a
/// second old, and take what they are given. The account's limit is checked against what is promised
/// already. A server that promised more than its limit refuses every change of a stream, for good.
///
/// # Errors
/// Where the file cannot be written.
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
            // On a full disk the one from before will do.
            Err(_) if before.is_ok() => Ok(()),
            written => written,
        },
    }
}

/// Gives a server what its disk has room for by now, and the account of several what follows.
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
        // Once the disk has filled, what was reserved before is not taken back.
        assert_eq!(room(2 * LEAST_STORE, 0).too_little(), None);
    }
}
