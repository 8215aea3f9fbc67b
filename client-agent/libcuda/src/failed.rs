//! Failures that ended sessions of this process: each is said on stderr once, and kept for test runners.

use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use bus_schemas::{Code, Failure, KernelFault, SessionId};
use client_session::without_signals;

use crate::fork::is_forked;
use crate::lock::lock;

/// Time that a failure waits for stderr.
const PATIENCE: Duration = Duration::from_secs(1);

/// Number of failures so far, and the last one in words.
static LAST: Mutex<(u64, String)> = Mutex::new((0, String::new()));

/// Notes that a session of this process has failed, and says so on stderr.
///
/// A CUDA error alone makes users look for a dead device, or for the kernel at fault.
pub(crate) fn note(failure: &Failure, session: SessionId) {
    let words = words(failure, session);
    {
        let mut last = lock(&LAST);
        last.0 += 1;
        last.1.clone_from(&words);
    }
    // The result of a failed assertion says it as drivers do.
    if failure.code == Code::Assert {
        return;
    }
    let text = words.replace('\n', "\nwarploom:   ");
    say(format!("warploom: {text}\n"));
}

/// Writes a text to stderr, on a thread without signals. A pipe that is closed does not end the program, and one that
/// is full holds up its session for [`PATIENCE`] only.
fn say(text: String) {
    let (said, is_said) = std::sync::mpsc::channel();
    let write = move || {
        // In one piece, so that no other line comes between. stderr may be closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
        let _ = said.send(());
    };
    let thread = without_signals(|| std::thread::Builder::new().spawn(write));
    if thread.is_ok() {
        let _ = is_said.recv_timeout(PATIENCE);
    }
}

/// Number of sessions that have failed, and the last failure in words.
pub(crate) fn last() -> (u64, String) {
    if is_forked() {
        // The lock may be held by a thread that does not exist in this process.
        return (0, String::new());
    }
    lock(&LAST).clone()
}

/// A failure in words, with a line for its place if it is a kernel's fault.
fn words(failure: &Failure, session: SessionId) -> String {
    let text = match failure.detail.parse::<KernelFault>() {
        Ok(fault) => format!("{}: {}\n{}", failure.code, fault.headline(), fault.place()),
        Err(_) => {
            format!("{failure}; session {session} is over, its device is lost to this program")
        }
    };
    let plain = |c: char| c == '\n' || !c.is_control();
    text.chars().filter(|c| plain(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_two_lines_and_other_failures_one() {
        let detail = "illegal address in kernel `saxpy`, saxpy.cu:12, PTX line 34, block [0, 0, 0], thread [5, 0, 0], \
                      read of 4 bytes at 0x1000: right at the end of an allocation of 4096 bytes at 0x0";
        let fault = Failure::new(Code::IllegalAddress, detail);
        assert_eq!(
            words(&fault, SessionId(7)),
            "E-KERNEL-ADDRESS: illegal address in kernel `saxpy`, saxpy.cu:12 (PTX line 34)\n\
             block [0, 0, 0], thread [5, 0, 0], read of 4 bytes at 0x1000: right at the end of an allocation of \
             4096 bytes at 0x0"
        );
        let lost = words(
            &Failure::new(Code::DeviceLost, "the worker\nis gone"),
            SessionId(7),
        );
        assert!(lost.starts_with("E-DEVICE-LOST: the worker"), "{lost}");
    }
}
