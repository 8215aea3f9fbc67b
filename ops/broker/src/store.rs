//! A watch on a server's store that checks if its disk can be written.
//!
//! After a failed write, a server refuses everything for the stream, even once its disk can be
//! written again. Only a restart changes that, so a watch is needed.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::ServerPaths;
use crate::store_limit::Room;
use crate::{BrokerError, Result, Server, files};

/// Interval between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which an unfinished look means that the disk does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes written to probe for room: less than this is as good as none.
const PROBE: usize = 64 << 10;
/// Number of looks per measurement of the room.
const LOOKS_PER_ROOM: u32 = 5;
/// The server's log message for a failed write.
const BROKEN: &str = "critical write error";

/// A fault of the disk of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// No room, or no quota.
    #[error("the disk of {} is full", .0.display())]
    Full(PathBuf),
    /// Room for a part of what a cluster keeps, but not for all of it.
    #[error("the disk of {} has too little room: {:.1} MiB for all that is kept", .0.display(), *.1 as f64 / 1_048_576.0)]
    Little(PathBuf, u64),
    /// The disk can be read but not written.
    #[error("the disk of {} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The folder is missing, or its file system is no longer mounted.
    #[error("{} is gone: deleted, or not mounted any more", .0.display())]
    Gone(PathBuf),
    /// The file system does not answer.
    #[error("the disk of {} does not answer", .0.display())]
    Silent(PathBuf),
    /// Any other error.
    #[error("{} cannot be written: {why}", .0.display(), why = .1)]
    Other(PathBuf, String),
}

/// The result of the last look at a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreLook {
    /// Number of the look; it grows with each look.
    pub number: u64,
    /// The fault that prevents writes now.
    pub fault: Option<StoreFault>,
    /// True if the server refuses writes until it is restarted. Either a write failed, or the
    /// folder that it writes to has been replaced.
    pub broken: bool,
    /// True if the disk has much more room than the server's limit ([`Server::take_room`]).
    pub roomier: bool,
}

/// Looks at a server's store once a second, in a thread of its own: a disk may not answer.
#[derive(Debug)]
pub struct StoreWatch {
    pid: u32,
    store: PathBuf,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug)]
struct Seen {
    look: StoreLook,
    silence: Silence,
}

/// Time without a finished look, counted only while the asking process runs. A stopped process must
/// not take the disk for silent.
#[derive(Debug)]
struct Silence {
    number: u64,
    asked: Instant,
    lasted: Duration,
}

impl Silence {
    fn new(now: Instant) -> Self {
        Self {
            number: 0,
            asked: now,
            lasted: Duration::ZERO,
        }
    }

    /// Records that look `number` is the last one at `now`. Returns the time for which it has been
    /// the last.
    fn asked(&mut self, number: u64, now: Instant) -> Duration {
        let step = now.saturating_duration_since(self.asked).min(LOOK);
        self.asked = now;
        self.lasted = match number == self.number {
            true => self.lasted + step,
            false => Duration::ZERO,
        };
        self.number = number;
        self.lasted
    }
}

impl StoreWatch {
    /// Starts to look. A watch belongs to one process of a server; after a restart, start a new
    /// watch.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(server: &Server) -> Result<Self> {
        let (paths, offset) = (server.paths(), server.log_length());
        let seen = Arc::new(Mutex::new(Seen {
            look: StoreLook::default(),
            silence: Silence::new(Instant::now()),
        }));
        let watch = Self {
            pid: server.pid(),
            store: paths.store(),
            seen: Arc::clone(&seen),
        };
        let looker = Looker::new(paths.clone(), offset);
        let seen = Arc::downgrade(&seen);
        thread::Builder::new()
            .name("store-watch".into())
            .spawn(move || watch_on(looker, &seen))
            .map_err(BrokerError::io("watching", &watch.store))?;
        Ok(watch)
    }

    /// The process of the watched store.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the result of the last look. Call it more than once a second: a longer pause between
    /// two calls counts as one second of silence.
    #[must_use]
    pub fn look(&self) -> StoreLook {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut look = seen.look.clone();
        if seen.silence.asked(look.number, Instant::now()) > LOOK + TIMEOUT {
            look.fault = Some(StoreFault::Silent(self.store.clone()));
        }
        look
    }
}

/// Looks until the watch is dropped.
fn watch_on(mut looker: Looker, seen: &Weak<Mutex<Seen>>) {
    let mut number = 0;
    loop {
        number += 1;
        let look = StoreLook {
            number,
            ..looker.look()
        };
        let Some(seen) = seen.upgrade() else { return };
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.look = look;
        drop(seen);
        thread::sleep(LOOK);
    }
}

/// Device and inode of a folder, if it exists.
type Folder = Option<(u64, u64)>;

fn folder(path: &Path) -> std::io::Result<Folder> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// True if a file system of its own is mounted at a folder.
fn is_mounted(path: &Path, at: (u64, u64)) -> bool {
    let above = path.parent().and_then(|above| folder(above).ok().flatten());
    above.is_some_and(|(device, _)| device != at.0)
}

/// State of the looks.
#[derive(Debug)]
struct Looker {
    paths: ServerPaths,
    store: PathBuf,
    offset: u64,
    /// The folder at the server's start, and true if a file system was mounted there.
    home: Folder,
    mounted: bool,
    /// The folder in it that the server created.
    inner: Folder,
    broken: bool,
    /// The last measured room, and the number of looks until the next measurement, which walks
    /// through the store.
    room: Option<Room>,
    until_room: u32,
}

impl Looker {
    fn new(paths: ServerPaths, offset: u64) -> Self {
        let store = paths.store();
        let home = folder(&store).ok().flatten();
        Self {
            paths,
            mounted: home.is_some_and(|home| is_mounted(&store, home)),
            store,
            offset,
            home,
            inner: None,
            broken: false,
            room: None,
            until_room: 0,
        }
    }

    /// Looks once; the caller sets the number.
    fn look(&mut self) -> StoreLook {
        let log = self.paths.log();
        let news = files::read_from(&log, self.offset);
        self.offset = fs::metadata(&log).map_or(self.offset, |meta| meta.len());
        self.broken |= news.contains(BROKEN);
        let mut fault = self.place().and_then(|()| self.write()).err();
        let measured = fault.is_none() && self.measure();
        if let (None, Some(room)) = (&fault, self.room) {
            let little = room.too_little();
            fault = little.map(|bytes| StoreFault::Little(self.store.clone(), bytes));
        }
        StoreLook {
            number: 0,
            fault,
            broken: self.broken,
            roomier: measured && self.room.is_some_and(Room::has_grown),
        }
    }

    /// Measures the room periodically. Returns true if it did.
    fn measure(&mut self) -> bool {
        if self.until_room > 0 {
            self.until_room -= 1;
            return false;
        }
        self.until_room = LOOKS_PER_ROOM - 1;
        self.room = Room::of(&self.paths);
        true
    }

    /// Checks that the folder is the one that the server writes to.
    fn place(&mut self) -> std::result::Result<(), StoreFault> {
        let Some(now) = folder(&self.store).map_err(|error| self.fault(&error))? else {
            self.broken = true;
            return Err(StoreFault::Gone(self.store.clone()));
        };
        if self.home != Some(now) {
            self.broken = true;
            if self.mounted && !is_mounted(&self.store, now) {
                return Err(StoreFault::Gone(self.store.clone()));
            }
        }
        let inner = self.store.join("jetstream");
        let inner = folder(&inner).map_err(|error| self.fault(&error))?;
        match self.inner {
            // The server creates it at its start.
            None => self.inner = inner,
            Some(_) => self.broken |= inner != self.inner,
        }
        Ok(())
    }

    /// Checks that there is room for a few more bytes.
    fn write(&self) -> std::result::Result<(), StoreFault> {
        let path = self.store.join(".probe");
        let written = File::create(&path).and_then(|mut file| file.write_all(&[1; PROBE]));
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(|error| self.fault(&error))
    }

    fn fault(&self, error: &std::io::Error) -> StoreFault {
        let store = self.store.clone();
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreFault::Full(store),
            ErrorKind::ReadOnlyFilesystem => StoreFault::ReadOnly(store),
            ErrorKind::NotFound => StoreFault::Gone(store),
            _ => StoreFault::Other(store, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_cluster::TempDir;

    fn looker(dir: &TempDir) -> Looker {
        let state = crate::config::StatePaths::new(dir.path()).expect("a path");
        let paths = state.alone();
        fs::create_dir_all(paths.store().join("jetstream")).expect("made");
        Looker::new(paths, 0)
    }

    /// The fault that the look found, and true if the server needs a restart.
    fn found(looker: &mut Looker) -> (Option<StoreFault>, bool) {
        let look = looker.look();
        (look.fault, look.broken)
    }

    #[test]
    fn a_pause_of_the_one_who_asks_is_no_silence_of_the_disk() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut silence = Silence::new(start);
        assert_eq!(silence.asked(1, at(100)), Duration::ZERO);
        assert_eq!(silence.asked(1, at(200)), Duration::from_millis(100));
        // As after a pause of a minute.
        assert_eq!(silence.asked(1, at(60_200)), Duration::from_millis(1_100));
        assert_eq!(silence.asked(2, at(60_300)), Duration::ZERO);
        let lasted = (0..120).map(|tenth| silence.asked(2, at(60_400 + 100 * tenth)));
        assert_eq!(lasted.last(), Some(Duration::from_secs(12)));
    }

    #[test]
    fn a_store_that_is_written_is_sound() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(found(&mut looker), (None, false));
        assert_eq!(found(&mut looker), (None, false));
        let left = fs::read_dir(&looker.store).expect("there");
        assert_eq!(left.count(), 1, "the probe stays");
    }

    #[test]
    fn a_store_that_is_deleted_is_gone_until_it_is_there_again() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(found(&mut looker), (None, false));
        let store = looker.store.clone();
        fs::remove_dir_all(&store).expect("removed");
        let gone = Some(StoreFault::Gone(store.clone()));
        assert_eq!(found(&mut looker), (gone, true));
        fs::create_dir(&store).expect("made");
        assert_eq!(
            found(&mut looker),
            (None, true),
            "the server writes elsewhere"
        );
    }

    #[test]
    fn what_lies_in_a_store_may_be_another() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(found(&mut looker), (None, false));
        fs::remove_dir(looker.store.join("jetstream")).expect("removed");
        assert_eq!(found(&mut looker), (None, true));
    }

    #[test]
    fn a_write_that_failed_is_read_from_the_log() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        let log = looker.paths.log();
        fs::write(&log, "[INF] Server is ready\n").expect("written");
        assert_eq!(found(&mut looker), (None, false));
        let said = "[INF] Server is ready\n[ERR] JetStream stream 'A > B' critical write error: no";
        fs::write(&log, said).expect("written");
        assert_eq!(found(&mut looker), (None, true));
        assert_eq!(
            found(&mut looker),
            (None, true),
            "until it is started again"
        );
    }

    #[test]
    fn room_is_measured_now_and_then() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        fs::write(looker.paths.limit(), "max_file_store: 40000000\n").expect("written");
        let grown: Vec<bool> = (0..11).map(|_| looker.look().roomier).collect();
        let mut expected = [false; 11];
        for look in [0, 5, 10] {
            expected[look] = true;
        }
        assert_eq!(grown, expected, "of this machine's disk more is free");
    }
}
