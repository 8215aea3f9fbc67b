//! Processor time of threads.

#![expect(unsafe_code, reason = "a call of the operating system")]

use std::time::Duration;

/// Processor time that the calling thread has used. Time in which it was ready and other threads
/// ran does not count, so that a busy machine does not slow a kernel down.
pub(super) fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the result.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    debug_assert!(!failed, "every system has this clock");
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_with_work_and_not_with_waiting() {
        let begun = std::time::Instant::now();
        let before = thread_time();
        std::thread::sleep(Duration::from_millis(30));
        let mut value = 1_u64;
        for _ in 0..100_000 {
            value = std::hint::black_box(value.wrapping_mul(3));
        }
        let took = thread_time() - before;
        assert!(took > Duration::ZERO);
        assert!(
            took + Duration::from_millis(25) < begun.elapsed(),
            "{took:?}"
        );
    }
}
