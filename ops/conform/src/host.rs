//! Host calls for checks: captured output of the process, and forked children.

#![expect(unsafe_code, reason = "calls the C library")]

use std::ffi::c_void;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::dup;
use rustix::process::{Pid, WaitOptions, waitpid};
use rustix::stdio::{dup2_stdout, stdout};

use crate::finding::Finding;

unsafe extern "C" {
    fn fflush(stream: *mut c_void) -> i32;
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

fn flush() {
    // SAFETY: null means all streams of the process.
    let _ = unsafe { fflush(std::ptr::null_mut()) };
}

fn failed(error: impl ToString) -> Finding {
    Finding(format!("the host: {}", error.to_string()))
}

/// Returns the text that the process writes to its standard output while a body runs.
pub(crate) fn printed(body: impl FnOnce() -> crate::finding::Outcome) -> Result<String, Finding> {
    flush();
    let own: OwnedFd = dup(stdout()).map_err(failed)?;
    let into = memfd_create("printed", MemfdFlags::CLOEXEC).map_err(failed)?;
    let mut into = File::from(into);
    dup2_stdout(into.as_fd()).map_err(failed)?;
    let seen = body();
    flush();
    dup2_stdout(&own).map_err(failed)?;
    seen?;
    into.rewind().map_err(failed)?;
    let mut bytes = Vec::new();
    into.read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the number from 0 to 255 that a body yields in a child of this process.
pub(crate) fn forked(body: impl FnOnce() -> u8) -> Result<u8, Finding> {
    // SAFETY: the child calls the body and ends; it does not depend on locks that other threads
    // hold.
    let child = unsafe { fork() };
    if child == 0 {
        let number = body();
        // SAFETY: the child ends here, without its parent's exit handlers.
        unsafe { _exit(i32::from(number)) };
    }
    let child = Pid::from_raw(child).filter(|_| child > 0);
    let child = child.ok_or_else(|| failed("it has no room for a child"))?;
    let ended = waitpid(Some(child), WaitOptions::empty()).map_err(failed)?;
    let status = ended.and_then(|(_, status)| status.exit_status());
    let status = status.ok_or_else(|| Finding("the child was killed".into()))?;
    u8::try_from(status).map_err(failed)
}
