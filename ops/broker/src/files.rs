//! Small files of the state directory: readable by the owner only, written atomically.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::{BrokerError, Result};

/// Creates `dir` and its parents, and restricts it to its owner, even if it already exists.
///
/// # Errors
/// `E-BROKER-SHARED` for a folder that all users share, such as `/tmp`; `E-BROKER-IO`.
pub fn private_dir(dir: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(BrokerError::io("creating the directory", dir))?;
    let meta = fs::metadata(dir).map_err(BrokerError::io("examining", dir))?;
    match meta.permissions().mode() & 0o7777 {
        mode if mode & 0o077 == 0 => Ok(()),
        mode if mode & 0o1000 != 0 => Err(BrokerError::Shared {
            dir: dir.to_owned(),
        }),
        _ => fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(BrokerError::io("making its owner's only", dir)),
    }
}

/// Opens a log for appending, restricted to its owner even if it already exists.
///
/// # Errors
/// `E-BROKER-IO`.
pub fn private_log(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path);
    let file = file.map_err(BrokerError::io("opening", path))?;
    let private = file.set_permissions(Permissions::from_mode(0o600));
    private.map_err(BrokerError::io("making its owner's only", path))?;
    Ok(file)
}

/// Writes `text` to `path` with mode 0600. A reader sees the old or the new text, never a part.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    // A leftover of an ended process with the same id could have another mode.
    let _ = fs::remove_file(&temporary);
    let write = || {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(BrokerError::io("writing", path))
}

/// Takes the lock file at `path`; dropping the returned file releases the lock.
pub(crate) fn lock(path: &Path) -> Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(BrokerError::io("opening the lock", path))?;
    file.lock().map_err(BrokerError::io("locking", path))?;
    Ok(file)
}

/// The content of `path` from byte `offset` on, at most its last 64 KiB; empty if the file does not
/// exist. A file shorter than `offset` was rotated and is read from its start.
pub(crate) fn read_from(path: &Path, offset: u64) -> String {
    const LIMIT: u64 = 64 << 10;
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let start = if offset > length { 0 } else { offset };
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(LIMIT))))?;
        let mut bytes = Vec::new();
        file.take(LIMIT).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// True if a line of `path` from byte `offset` on has `words`, however long the file is; false if it
/// does not exist. A file shorter than `offset` was rotated and is read from its start.
pub(crate) fn contains(path: &Path, offset: u64, words: &str) -> bool {
    let read = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(if offset > length { 0 } else { offset }))?;
        for line in BufReader::new(file).split(b'\n') {
            if String::from_utf8_lossy(&line?).contains(words) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    read().unwrap_or(false)
}

/// The last `lines` lines of `path`; empty if the file does not exist.
pub(crate) fn tail(path: &Path, lines: usize) -> Vec<String> {
    let text = read_from(path, 0);
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}
