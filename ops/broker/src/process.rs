//! The server's process: started so that it cannot outlive us, signalled, waited for.
#![expect(
    unsafe_code,
    reason = "signals and the parent-death signal have no safe interface in std"
)]

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A signal this crate sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Read the configuration again.
    Hangup,
    /// Shut down in good order.
    Terminate,
    /// Die now.
    Kill,
    /// Stand still until told to go on.
    Stop,
    /// Go on.
    Continue,
}

impl Signal {
    fn number(self) -> libc::c_int {
        match self {
            Signal::Hangup => libc::SIGHUP,
            Signal::Terminate => libc::SIGTERM,
            Signal::Kill => libc::SIGKILL,
            Signal::Stop => libc::SIGSTOP,
            Signal::Continue => libc::SIGCONT,
        }
    }
}

/// A child of ours, with a thread of its own that starts it and reaps it.
///
/// The thread is not a convenience: the kernel sends the parent-death signal when the *thread*
/// that started the child ends, so that must be one that lives as long as the child.
pub(crate) struct OwnedProcess {
    pid: u32,
    exit: Arc<Exit>,
}

#[derive(Default)]
struct Exit {
    status: Mutex<Option<ExitStatus>>,
    changed: Condvar,
}

impl Exit {
    fn lock(&self) -> MutexGuard<'_, Option<ExitStatus>> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnedProcess {
    /// Starts `command` in a process group of its own (a Ctrl-C meant for us must not reach it
    /// before we have drained) with `at_our_death` sent to it when we die.
    pub(crate) fn spawn(
        mut command: Command,
        at_our_death: Option<Signal>,
    ) -> io::Result<OwnedProcess> {
        command.process_group(0);
        owner_only(&mut command);
        if let Some(signal) = at_our_death {
            die_with_parent(&mut command, signal);
        }
        let exit = Arc::new(Exit::default());
        let (started, outcome) = mpsc::channel();
        let keeper = Arc::clone(&exit);
        thread::Builder::new()
            .name("broker-keeper".into())
            .spawn(move || match command.spawn() {
                Ok(child) => {
                    let _ = started.send(Ok(child.id()));
                    reap(child, &keeper);
                }
                Err(error) => drop(started.send(Err(error))),
            })?;
        let pid = outcome
            .recv()
            .map_err(|_| io::Error::other("the keeper thread died"))??;
        Ok(OwnedProcess { pid, exit })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        *self.exit.lock()
    }

    /// Sends a signal; false if the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        // The lock keeps the process from being reaped, so its id cannot be another's.
        let status = self.exit.lock();
        match *status {
            Some(_) => Ok(false),
            None => send(self.pid, signal),
        }
    }

    /// Waits for the end at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let running = |status: &mut Option<ExitStatus>| status.is_none();
        let waited = self
            .exit
            .changed
            .wait_timeout_while(self.exit.lock(), limit, running);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Waits for the child without reaping it, then reaps it under the lock.
fn reap(mut child: Child, exit: &Exit) {
    wait_for_end(child.id());
    let mut status = exit.lock();
    *status = child.wait().ok();
    exit.changed.notify_all();
}

fn wait_for_end(pid: u32) {
    loop {
        // SAFETY: all-zero is a valid value of this plain C struct.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOWAIT;
        // SAFETY: `info` outlives the call; WNOWAIT leaves the child for `Child::wait`.
        let result = unsafe { libc::waitid(libc::P_PID, pid, &mut info, flags) };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// What it writes is its owner's only, whatever our umask is.
fn owner_only(command: &mut Command) {
    let prepare = || {
        // SAFETY: umask is a system call without memory effects.
        unsafe { libc::umask(0o077) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one async-signal-safe system call.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    let number = signal.number() as libc::c_ulong;
    let prepare = move || {
        // SAFETY: prctl and getppid are system calls without memory effects for us.
        let (result, ppid) =
            unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, number), libc::getppid()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the request was made; then no signal would come.
        match u32::try_from(ppid) == Ok(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: between fork and exec the closure makes two async-signal-safe system calls and
    // neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command, _: Signal) {}

/// Sends a signal to a process; false if there is none with that id.
fn send(pid: u32, signal: Signal) -> io::Result<bool> {
    // Zero and negative numbers address groups.
    let Some(pid) = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: kill has no memory effects.
    if unsafe { libc::kill(pid, signal.number()) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        error => Err(error),
    }
}

/// A server that another process started; known by its id and by the configuration it was
/// started with, because ids are reused.
pub(crate) struct ForeignProcess {
    pid: u32,
    config: String,
}

impl ForeignProcess {
    /// The live server named by a pid file, if its command line names `config`.
    pub(crate) fn find(pid_file: &Path, config: &Path) -> Option<ForeignProcess> {
        let pid = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
        let process = ForeignProcess {
            pid,
            config: config.to_str()?.to_owned(),
        };
        process.alive().then_some(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn alive(&self) -> bool {
        let command = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        command
            .split(|byte| *byte == 0)
            .any(|argument| argument == self.config.as_bytes())
    }

    /// Sends a signal; false if the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        if self.alive() {
            send(self.pid, signal)
        } else {
            Ok(false)
        }
    }

    /// Waits for the end at most `limit`; true if it came.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.alive() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    }
}
