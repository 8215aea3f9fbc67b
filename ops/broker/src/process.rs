//! The server's process: started so that it cannot outlive its parent, signalled, awaited.
#![expect(
    unsafe_code,
    reason = "what a child does before it becomes another program has no safe interface"
)]

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::io::Errno;
pub(crate) use rustix::process::Signal;
use rustix::process::{
    Pid, WaitId, WaitIdOptions, getppid, kill_process, set_parent_process_death_signal, umask,
    waitid,
};

/// A child process, with a thread of its own that starts it and reaps it.
///
/// The thread is required: the kernel sends the parent-death signal when the *thread* that started
/// the child ends. That thread must therefore live as long as the child.
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
    /// Starts `command` in its own process group, with `at_our_death` as its parent-death signal. A
    /// Ctrl-C meant for this process must not reach the child before this process has drained.
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

    /// The exit status, if the process has ended.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        *self.exit.lock()
    }

    /// Sends a signal; returns false if the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        // The lock keeps the process from being reaped, so its id cannot be reused.
        let status = self.exit.lock();
        match *status {
            Some(_) => Ok(false),
            None => send(self.pid, signal),
        }
    }

    /// Waits at most `limit` for the process to end.
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
    let Some(pid) = id(pid) else { return };
    // The child stays a zombie for `Child::wait`.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
}

/// Restricts files that the child creates to their owner, whatever the parent's umask is.
fn owner_only(command: &mut Command) {
    let prepare = || {
        umask(Mode::from_raw_mode(0o077));
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one async-signal-safe system call.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = id(std::process::id());
    let prepare = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have died before the request was made; then no signal would come.
        match getppid() == parent {
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

fn id(pid: u32) -> Option<Pid> {
    // Zero and negative numbers address process groups.
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.and_then(Pid::from_raw)
}

/// Sends a signal to a process; returns false if no process has that id.
fn send(pid: u32, signal: Signal) -> io::Result<bool> {
    let pid = id(pid).ok_or(io::ErrorKind::InvalidInput)?;
    match kill_process(pid, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A server that another process started. It is identified by its id and its configuration, because
/// ids are reused.
pub(crate) struct ForeignProcess {
    pid: u32,
    config: String,
}

impl ForeignProcess {
    /// Finds the live server named by a pid file, if its command line names `config`.
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

    /// Sends a signal; returns false if the process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        if self.alive() {
            send(self.pid, signal)
        } else {
            Ok(false)
        }
    }

    /// Waits at most `limit` for the process to end; returns true if it did.
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
