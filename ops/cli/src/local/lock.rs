//! Whether somebody runs a cluster on a state folder: whoever does holds a lock, which ends with its
//! process however that comes.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Whoever looks holds the lock for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const NAME: &str = "cluster.lock";

/// The lock, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    // Released when it is closed.
    _file: File,
}

impl Lock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    /// E-LOCAL-RUNNING where another process has it.
    pub(super) fn take(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(NAME);
        let shown = path.display();
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("opening {shown}"))?;
        let asked = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if asked.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => bail!(
                    "E-LOCAL-RUNNING: a cluster runs on {} already; use that one, or set another \
                     cluster.state_dir",
                    state_dir.display()
                ),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("locking {shown}"));
                }
            }
        }
    }
}

/// Whether some process runs a cluster on this state folder.
#[must_use]
pub fn is_up(state_dir: &Path) -> bool {
    let Ok(file) = File::open(state_dir.join(NAME)) else {
        return false;
    };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_up_while_its_lock_is_held() {
        let dir = broker::testing::TempDir::new().expect("a folder");
        assert!(!is_up(dir.path()));
        let lock = Lock::take(dir.path()).expect("it is free");
        assert!(is_up(dir.path()));
        let error = Lock::take(dir.path()).expect_err("it is taken");
        assert!(error.to_string().contains("E-LOCAL-RUNNING"), "{error}");
        drop(lock);
        assert!(!is_up(dir.path()));
        Lock::take(dir.path()).expect("it is free again");
    }
}
