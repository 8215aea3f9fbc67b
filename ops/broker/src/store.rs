//! The watch over a server's store: whether its disk can be written.
//!
//! A server whose write failed refuses everything for the stream from then on, also once its disk
//! can be written again; only a restart changes that. So somebody has to look.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result, Server, files};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A look that takes longer has met a disk that does not answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes written to see whether there is room: less than this is as good as none.
const PROBE: usize = 64 << 10;
/// What a server logs when a write failed.
const BROKEN: &str = "critical write error";

/// What is wrong with the disk of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// No room, or no quota.
    #[error("the disk of {} is full", .0.display())]
    Full(PathBuf),
    /// It can be read and not written.
    #[error("the disk of {} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The folder is not there, or no file system is mounted there any more.
    #[error("{} is gone: deleted, or not mounted any more", .0.display())]
    Gone(PathBuf),
    /// The file system does not answer.
    #[error("the disk of {} does not answer", .0.display())]
    Silent(PathBuf),
    /// Anything else.
    #[error("{} cannot be written: {why}", .0.display(), why = .1)]
    Other(PathBuf, String),
}

/// What the last look at a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreLook {
    /// How many looks there were before it.
    pub number: u64,
    /// What keeps the disk from being written now.
    pub fault: Option<StoreFault>,
    /// Whether the server refuses what is to be stored until it is started again: a write of it
    /// failed, or the folder that it writes to is not the one that is there.
    pub broken: bool,
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
    since: Instant,
}

impl StoreWatch {
    /// Looks from now on. For one process of a server: whoever starts it again watches anew.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(server: &Server) -> Result<Self> {
        let (paths, offset) = (server.paths(), server.log_length());
        let seen = Arc::new(Mutex::new(Seen {
            look: StoreLook::default(),
            since: Instant::now(),
        }));
        let watch = Self {
            pid: server.pid(),
            store: paths.store(),
            seen: Arc::clone(&seen),
        };
        let looker = Looker::new(&paths.store(), &paths.log(), offset);
        let seen = Arc::downgrade(&seen);
        thread::Builder::new()
            .name("store-watch".into())
            .spawn(move || watch_on(looker, &seen))
            .map_err(Error::io("watching", &watch.store))?;
        Ok(watch)
    }

    /// The process whose store it is.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the last look found.
    #[must_use]
    pub fn look(&self) -> StoreLook {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut look = seen.look.clone();
        if seen.since.elapsed() > LOOK + TIMEOUT {
            look.fault = Some(StoreFault::Silent(self.store.clone()));
        }
        look
    }
}

/// Looks until nobody wants to know.
fn watch_on(mut looker: Looker, seen: &Weak<Mutex<Seen>>) {
    let mut number = 0;
    loop {
        let (fault, broken) = looker.look();
        let Some(seen) = seen.upgrade() else { return };
        number += 1;
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.look = StoreLook {
            number,
            fault,
            broken,
        };
        seen.since = Instant::now();
        drop(seen);
        thread::sleep(LOOK);
    }
}

/// Which folder a path leads to.
type Folder = Option<(u64, u64)>;

fn folder(path: &Path) -> std::io::Result<Folder> {
    match fs::metadata(path) {
        Ok(meta) => Ok(Some((meta.dev(), meta.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file system of its own is mounted at a folder.
fn is_mounted(path: &Path, at: (u64, u64)) -> bool {
    let above = path.parent().and_then(|above| folder(above).ok().flatten());
    above.is_some_and(|(device, _)| device != at.0)
}

/// What is needed to look.
#[derive(Debug)]
struct Looker {
    store: PathBuf,
    log: PathBuf,
    offset: u64,
    /// The folder that the server was started on, and whether a file system was mounted there.
    home: Folder,
    mounted: bool,
    /// The folder in it that the server made.
    inner: Folder,
    broken: bool,
}

impl Looker {
    fn new(store: &Path, log: &Path, offset: u64) -> Self {
        let home = folder(store).ok().flatten();
        Self {
            store: store.to_owned(),
            log: log.to_owned(),
            offset,
            home,
            mounted: home.is_some_and(|home| is_mounted(store, home)),
            inner: None,
            broken: false,
        }
    }

    /// What keeps the disk from being written, and whether the server has to be started again.
    fn look(&mut self) -> (Option<StoreFault>, bool) {
        let news = files::read_from(&self.log, self.offset);
        self.offset = fs::metadata(&self.log).map_or(self.offset, |meta| meta.len());
        self.broken |= news.contains(BROKEN);
        let fault = self.place().and_then(|()| self.write()).err();
        (fault, self.broken)
    }

    /// Whether the folder is the one that the server writes to.
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
            // The server makes it as it starts.
            None => self.inner = inner,
            Some(_) => self.broken |= inner != self.inner,
        }
        Ok(())
    }

    /// Whether there is room for a little more.
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
        let store = dir.path().join("store");
        fs::create_dir_all(store.join("jetstream")).expect("made");
        Looker::new(&store, &dir.path().join("log"), 0)
    }

    #[test]
    fn a_store_that_is_written_is_sound() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(looker.look(), (None, false));
        assert_eq!(looker.look(), (None, false));
        let left = fs::read_dir(dir.path().join("store")).expect("there");
        assert_eq!(left.count(), 1, "the probe stays");
    }

    #[test]
    fn a_store_that_is_deleted_is_gone_until_it_is_there_again() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(looker.look(), (None, false));
        let store = dir.path().join("store");
        fs::remove_dir_all(&store).expect("removed");
        assert_eq!(looker.look(), (Some(StoreFault::Gone(store.clone())), true));
        fs::create_dir(&store).expect("made");
        assert_eq!(looker.look(), (None, true), "the server writes elsewhere");
    }

    #[test]
    fn what_lies_in_a_store_may_be_another() {
        let dir = TempDir::new().expect("a folder");
        let mut looker = looker(&dir);
        assert_eq!(looker.look(), (None, false));
        fs::remove_dir(dir.path().join("store/jetstream")).expect("removed");
        assert_eq!(looker.look(), (None, true));
    }

    #[test]
    fn a_write_that_failed_is_read_from_the_log() {
        let dir = TempDir::new().expect("a folder");
        fs::write(dir.path().join("log"), "[INF] Server is ready\n").expect("written");
        let mut looker = looker(&dir);
        assert_eq!(looker.look(), (None, false));
        let said = "[INF] Server is ready\n[ERR] JetStream stream 'A > B' critical write error: no";
        fs::write(dir.path().join("log"), said).expect("written");
        assert_eq!(looker.look(), (None, true));
        assert_eq!(looker.look(), (None, true), "until it is started again");
    }
}
