//! The two files of a swap space, made so that nothing of them is left when the process ends.

use std::fs::File;
use std::path::Path;

use bus_schemas::{Code, Failure};
use rustix::fs::{self, FallocateFlags, MemfdFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::config::SwapFile;

/// Name in `/proc` of the part in the host's memory.
const NAME: &str = "warploom-swap";
/// Maximum number of names tried for a file that must have one for a moment.
const NAMES: u32 = 16;

/// Creates a file in memory for this many bytes; it takes memory as they are written.
pub(crate) fn in_memory(bytes: u64) -> Result<File, Failure> {
    let made = within_limit(bytes)
        .and_then(|()| fs::memfd_create(NAME, MemfdFlags::CLOEXEC))
        .and_then(|file| fs::ftruncate(&file, bytes).map(|()| file));
    made.map(File::from).map_err(|error| {
        let detail = format!(
            "the host has no file in memory of {bytes} bytes for swapped memory ({error}): allow it, or \
             let the swap space have none in memory"
        );
        Failure::new(Code::OutOfMemory, detail)
    })
}

/// Creates a file without a name on this directory's file system, with all its bytes reserved.
pub(crate) fn on_disk(of: &SwapFile) -> Result<File, Failure> {
    let refused = |why: &str, advice: &str| {
        let (bytes, dir) = (of.bytes, of.dir.display());
        let detail =
            format!("a swap file of {bytes} bytes cannot be had in {dir} ({why}): {advice}");
        Failure::new(Code::OutOfMemory, detail)
    };
    let limited = "raise the limit of the size of files (ulimit -f), or ask for less";
    within_limit(of.bytes).map_err(|error| refused(&error.to_string(), limited))?;
    let other = "name a directory in which this process may make files";
    let file = without_name(&of.dir).map_err(|error| refused(&error.to_string(), other))?;
    let reserve = || fs::fallocate(&file, FallocateFlags::empty(), 0, of.bytes);
    let reserved = retry_on_intr(reserve);
    reserved.map_err(|error| match error {
        Errno::OPNOTSUPP | Errno::NOSYS => refused(
            "its file system cannot reserve room, by fallocate",
            "name a directory on one that can, as ext4 and xfs",
        ),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => refused(
            &error.to_string(),
            "free as much there, name another directory, or ask for less",
        ),
        error => refused(&error.to_string(), "name another directory"),
    })?;
    Ok(file)
}

/// Checks the host's limit on file lengths first, because the host ends a process that exceeds it.
fn within_limit(bytes: u64) -> Result<(), Errno> {
    let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    match bytes <= most.min(i64::MAX as u64) {
        true => Ok(()),
        false => Err(Errno::FBIG),
    }
}

fn without_name(dir: &Path) -> Result<File, Errno> {
    let (mine, flags) = (Mode::RUSR | Mode::WUSR, OFlags::RDWR | OFlags::CLOEXEC);
    // Exclusive: the file can get no name later.
    match fs::open(dir, flags | OFlags::TMPFILE | OFlags::EXCL, mine) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        made => return made.map(File::from),
    }
    // The file system does not support that: the name is removed before anything is in the file.
    for n in 0..NAMES {
        let name = dir.join(format!("{NAME}-{}-{n}", std::process::id()));
        match fs::open(&name, flags | OFlags::CREATE | OFlags::EXCL, mine) {
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
            Ok(file) => {
                fs::unlink(&name)?;
                return Ok(File::from(file));
            }
        }
    }
    Err(Errno::EXIST)
}
