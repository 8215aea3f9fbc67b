//! Processor time of whole processes.

#![expect(unsafe_code, reason = "calls a C interface")]

use anyhow::{Context, Result, bail, ensure};

/// Processor time of a process so far, in nanoseconds: in its code and in the kernel, of the threads that have ended
/// too.
///
/// # Errors
/// If the process is gone.
pub(super) fn spent_ns(pid: u32) -> Result<u64> {
    let number = libc::pid_t::try_from(pid).context("a process id")?;
    let mut clock = 0;
    // SAFETY: the pointer points to a clock's id.
    let failed = unsafe { libc::clock_getcpuclockid(number, &raw mut clock) };
    ensure!(failed == 0, "process {pid} has no clock: error {failed}");
    let mut spent = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer points to a time.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut spent) };
    if failed != 0 {
        let error = std::io::Error::last_os_error();
        bail!("the processor time of process {pid}: {error}");
    }
    let (seconds, nanoseconds) = (u64::try_from(spent.tv_sec)?, u64::try_from(spent.tv_nsec)?);
    Ok(seconds * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_thread_that_has_ended_counts() {
        let own = std::process::id();
        let before = spent_ns(own).unwrap();
        let spin = move || while spent_ns(own).unwrap() < before + 5_000_000 {};
        std::thread::spawn(spin).join().unwrap();
        assert!(spent_ns(own).unwrap() >= before + 5_000_000);
        assert!(spent_ns(u32::MAX).is_err());
    }
}
