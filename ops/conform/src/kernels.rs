//! Kernels that checks run, as PTX: the only kernel format of the suite.

use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::finding::Finding;

/// A module of kernels and variables.
pub(crate) const PTX: &str = include_str!("kernels.ptx");

/// The module as an in-memory file, and its path. The file lives as long as the returned value.
pub(crate) fn file() -> Result<(File, CString), Finding> {
    let made = memfd_create("kernels.ptx", MemfdFlags::CLOEXEC);
    let mut file = File::from(made.map_err(|it| Finding(it.to_string()))?);
    let written = file.write_all(PTX.as_bytes());
    written.map_err(|it| Finding(it.to_string()))?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    path.map(|path| (file, path))
        .map_err(|it| Finding(it.to_string()))
}
