//! The folder of a cluster that a command starts for itself, removed when the command ends. A
//! killed command cannot remove its folder; the next command does.
//!
//! The owner of a folder holds a lock in it, which always ends with its process. A folder without a
//! lock file is left alone, and so is another user's.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use broker::Broker;
use rustix::fs::{Mode, OFlags};

/// Prefix of the names of all such folders.
const PREFIX: &str = "warploom-";
/// Suffix of the names of folders without a locked file.
const NEW: &str = ".new";
/// The file with the lock.
const OWNER: &str = "owner.lock";

/// A folder accessible only to its owner, removed with its contents when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    // Released when it is closed, after the folder is removed.
    _owner: File,
}

impl Scratch {
    /// Creates a fresh folder in the system's temporary folder, and removes abandoned ones from
    /// there.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// As [`Self::new`], in another folder.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn within(parent: &Path) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        sweep(parent);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let made = make(&path);
            match made.with_context(|| format!("making {}", path.display()))? {
                Some(owner) => {
                    return Ok(Self {
                        path,
                        _owner: owner,
                    });
                }
                // It belongs to an earlier process with our id, or another process removed it as
                // abandoned.
                None => continue,
            }
        }
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next command removes what cannot be removed now.
        let _ = clear(&self.path);
    }
}

/// Creates a folder with a held lock. Returns `None` if the name is taken, or if another process
/// took the folder for abandoned before it was locked. The folder gets its name only once it is
/// locked. A process that is killed earlier leaves a folder that ends in [`NEW`], which all
/// processes recognize.
fn make(path: &Path) -> io::Result<Option<File>> {
    let mut new = path.as_os_str().to_owned();
    new.push(NEW);
    let new = PathBuf::from(new);
    match DirBuilder::new().mode(0o700).create(&new) {
        Ok(()) => {}
        // It belongs to an earlier process with our id.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    }
    let Some(owner) = own(&new)? else {
        return Ok(None);
    };
    if path.symlink_metadata().is_ok() {
        clear(&new)?;
        return Ok(None);
    }
    match fs::rename(&new, path) {
        Ok(()) => Ok(Some(owner)),
        // Another process took it for abandoned before we locked the file; our lock is now on a
        // deleted file.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks a fresh folder; `None` if another process took it for abandoned.
fn own(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600);
    let file = match file.open(path.join(OWNER)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// True if a name is that of a folder without a lock.
fn is_new(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(NEW)
}

/// Removes the folders of dead owners. Failures are left for the next time.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && let Some(owner) = abandoned(&entry.path())
        {
            let _ = clear(&entry.path());
            drop(owner);
        } else if name.to_str().is_some_and(is_new) {
            // Its process was killed before it had a lock; if it is still running, it creates
            // another folder.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The lock of an abandoned folder; `None` if another user owns the folder, or if its owner is
/// alive.
fn abandoned(path: &Path) -> Option<File> {
    // No link is followed, to the folder or to its lock.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let folder = rustix::fs::open(path, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let folder = File::from(folder);
    let ours = |uid: u32| uid == rustix::process::geteuid().as_raw();
    let meta = folder.metadata().ok()?;
    if !ours(meta.uid()) || meta.mode() & 0o077 != 0 {
        return None;
    }
    let owner = rustix::fs::openat(&folder, OWNER, flags, Mode::empty()).ok()?;
    let owner = File::from(owner);
    let meta = owner.metadata().ok()?;
    if !ours(meta.uid()) || !meta.is_file() {
        return None;
    }
    owner.try_lock().ok()?;
    // The previous holder of the lock may have removed the folder, and another one may exist by
    // now.
    let now = fs::symlink_metadata(path.join(OWNER)).ok()?;
    if (now.dev(), now.ino()) != (meta.dev(), meta.ino()) {
        return None;
    }
    // The broker of a killed cluster ends moments later, and writes until then.
    match Broker::attach(&path.join("broker")) {
        Ok(_) => None,
        Err(_) => Some(owner),
    }
}

/// Removes a folder, its lock last: if anything fails earlier, it can still be recognized.
fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == OWNER {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_file(path.join(OWNER))?;
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder as a killed owner leaves it.
    fn left(parent: &Path, name: &str) -> PathBuf {
        let path = parent.join(name);
        DirBuilder::new().mode(0o700).create(&path).expect("made");
        drop(own(&path).expect("made").expect("locked"));
        fs::create_dir(path.join("broker")).expect("made");
        fs::write(path.join("broker/log"), "said").expect("written");
        path
    }

    #[test]
    fn a_folder_goes_when_it_is_dropped() {
        let dir = test_cluster::TempDir::new().expect("a folder");
        let [one, two] = [(); 2].map(|()| Scratch::within(dir.path()).expect("made"));
        assert_ne!(one.path(), two.path());
        let path = one.path().to_owned();
        fs::write(path.join("file"), "").expect("written");
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o700);
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn a_process_that_is_killed_at_any_moment_leaves_nothing_for_good() {
        let dir = test_cluster::TempDir::new().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let made = |name: &str| {
            let made = DirBuilder::new().mode(0o700).create(at(name));
            made.expect("made");
        };
        // Killed before it had a file, before it locked the file, and before the folder had its
        // name.
        made("warploom-1-0.new");
        made("warploom-1-1.new");
        fs::write(at("warploom-1-1.new").join(OWNER), "").expect("written");
        made("warploom-1-2.new");
        drop(own(&at("warploom-1-2.new")).expect("made").expect("locked"));
        // A live owner: it holds its lock.
        made("warploom-2-0.new");
        let held = own(&at("warploom-2-0.new")).expect("made");
        let scratch = Scratch::within(dir.path()).expect("made");
        let mut left = fs::read_dir(dir.path()).expect("a folder").flatten();
        assert!(left.all(|it| it.path() == scratch.path() || it.path() == at("warploom-2-0.new")));
        assert!(held.is_some() && at("warploom-2-0.new").exists());
    }

    #[test]
    fn many_at_once_take_none_from_one_another() {
        let dir = test_cluster::TempDir::new().expect("a folder");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let made = Scratch::within(dir.path()).expect("made");
                        assert!(made.path().join(OWNER).exists());
                    }
                });
            }
        });
        let left = fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(left, 0);
    }

    #[test]
    fn a_folder_that_was_taken_for_abandoned_is_not_used() {
        let dir = test_cluster::TempDir::new().expect("a folder");
        let gone = dir.path().join("warploom-1-0.new");
        assert!(own(&gone).expect("no error").is_none());
        let taken = dir.path().join("warploom-1-1");
        fs::create_dir(&taken).expect("made");
        assert!(make(&taken).expect("no error").is_none());
        assert!(!dir.path().join("warploom-1-1.new").exists());
    }

    #[test]
    fn only_what_its_owner_left_is_removed() {
        let dir = test_cluster::TempDir::new().expect("a folder");
        let gone = left(dir.path(), "warploom-1-0");
        // Folders that must stay: one with an owner, one without a lock, another user's, one open
        // to others, and one with another name.
        let elsewhere = test_cluster::TempDir::new().expect("a folder");
        let held = Scratch::within(elsewhere.path()).expect("made");
        let moved = dir.path().join("warploom-2-0");
        fs::rename(held.path(), &moved).expect("moved");
        let bare = dir.path().join("warploom-3-0");
        fs::create_dir(&bare).expect("made");
        let open = left(dir.path(), "warploom-4-0");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("set");
        let other = left(dir.path(), "other-5-0");
        // Links: to a folder elsewhere, and to a lock in another folder.
        let elsewhere = left(&dir.path().join("other-5-0"), "elsewhere");
        let linked = dir.path().join("warploom-6-0");
        symlink(&elsewhere, &linked).expect("linked");
        let lock = dir.path().join("warploom-7-0");
        DirBuilder::new().mode(0o700).create(&lock).expect("made");
        symlink(elsewhere.join(OWNER), lock.join(OWNER)).expect("linked");
        let mut stay = vec![moved.clone(), bare, open, other, elsewhere, linked, lock];
        if rustix::process::geteuid().is_root() {
            let theirs = left(dir.path(), "warploom-8-0");
            std::os::unix::fs::chown(&theirs, Some(65_534), None).expect("given");
            stay.push(theirs);
        }
        // A link in a removed folder: its target stays.
        symlink(dir.path().join("other-5-0"), gone.join("broker/link")).expect("linked");
        let own = Scratch::within(dir.path()).expect("made");
        assert!(!gone.exists());
        assert!(own.path().exists());
        for path in stay {
            assert!(path.symlink_metadata().is_ok(), "{}", path.display());
        }
        assert!(dir.path().join("other-5-0/elsewhere/broker/log").exists());
        drop(held);
    }
}
