//! The state folder of the cluster on this host: its path, and the check for a running cluster. The
//! process that runs a cluster holds a lock in the folder, which always ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::errors::ErrorCode;
use crate::settings::Settings;

/// Timeout for the lock; a process that only checks it holds it for a moment.
const TIMEOUT: Duration = Duration::from_secs(2);
const NAME: &str = "cluster.lock";

/// The state folder of the cluster on this host.
#[must_use]
pub fn state_dir(settings: &Settings) -> PathBuf {
    settings
        .given("cluster.state_dir")
        .map_or_else(default_state_dir, PathBuf::from)
}

/// The default state directory. In a build of Warploom it is under the workspace's target
/// directory, else in the user's state folder.
#[must_use]
fn default_state_dir() -> PathBuf {
    if let Some(target) = broker::tools_dir(None)
        .parent()
        .filter(|dir| dir.ends_with("target"))
    {
        return target.join("warploom");
    }
    let home = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")));
    home.unwrap_or_else(std::env::temp_dir).join("warploom")
}

/// The lock, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    // Released when it is closed.
    _file: File,
}

impl Lock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    /// E-LOCAL-RUNNING if another process has it.
    pub fn take(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join(NAME);
        let shown = path.display();
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("opening {shown}"))?;
        let asked = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if asked.elapsed() < TIMEOUT => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => bail!(ErrorCode::LocalRunning.failed(format!(
                    "a cluster runs on {} already; use that one, or set another \
                     cluster.state_dir",
                    state_dir.display()
                ))),
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("locking {shown}"));
                }
            }
        }
    }
}

/// True if a process runs a cluster on this state folder.
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
        let dir = test_cluster::TempDir::new().expect("a folder");
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
