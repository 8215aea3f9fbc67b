//! One role's process.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// Interval between checks for the end of a role.
const LOOK: Duration = Duration::from_millis(2);

/// A started role, killed when it is dropped.
#[derive(Debug)]
pub struct RoleProcess {
    name: String,
    child: Child,
    log: PathBuf,
    /// Bytes of the log that earlier processes wrote.
    log_from: u64,
    /// The device of a worker.
    gpu: Option<u32>,
    started: Instant,
}

impl RoleProcess {
    /// Starts `binary arguments…` in its own process group, so that Ctrl-C reaches it only through
    /// us; stdout is a pipe, stderr goes to `log`.
    ///
    /// If it cannot be started.
    pub fn start(name: &str, binary: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let stderr = broker::private_log(log)?;
        let log_from = std::fs::metadata(log).map_or(0, |log| log.len());
        let mut command = Command::new(binary);
        crate::drop_in::clear(&mut command);
        let child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .env(admin::process::PARENT, std::process::id().to_string())
            .spawn()
            .with_context(|| format!("starting {name}: {}", binary.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            log_from,
            gpu: None,
            started: Instant::now(),
        })
    }

    /// Sets the number of the worker's device.
    #[must_use]
    pub fn of_device(mut self, gpu: u32) -> Self {
        self.gpu = Some(gpu);
        self
    }

    /// The device of a worker.
    #[must_use]
    pub fn gpu(&self) -> Option<u32> {
        self.gpu
    }

    /// Time since it was started.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The log file with its stderr.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Bytes of its log that earlier processes wrote.
    #[must_use]
    pub fn log_from(&self) -> u64 {
        self.log_from
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes its standard output; `None` the second time.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// If it has ended.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self
            .child
            .stdin
            .as_mut()
            .context("the role's stdin is closed")?;
        writeln!(stdin, "{line}").with_context(|| format!("telling {} to {line}", self.name))
    }

    /// True if it is running.
    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal)
            .with_context(|| format!("signalling {}", self.name))
    }

    /// Sends SIGKILL, and waits for its end.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        drop(self.child.kill());
        self.child
            .wait()
            .map(drop)
            .with_context(|| format!("waiting for {}", self.name))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it has not ended after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.ended_within(asked, patience)? {
                return Ok(status);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// As [`RoleProcess::wait`], without blocking the thread.
    ///
    /// # Errors
    /// As [`RoleProcess::wait`].
    pub async fn finished(&mut self, patience: Duration) -> Result<ExitStatus> {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.ended_within(asked, patience)? {
                return Ok(status);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn ended_within(&mut self, asked: Instant, patience: Duration) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        if status.is_none() && asked.elapsed() > patience {
            bail!(
                "{} has not ended after {patience:?}; see {}",
                self.name,
                self.log.display()
            );
        }
        Ok(status)
    }

    /// Sends SIGTERM and waits; kills it after `patience`.
    ///
    /// # Errors
    /// If it had to be killed.
    pub fn stop(&mut self, patience: Duration) -> Result<()> {
        if !self.is_running() {
            return Ok(());
        }
        self.signal(Signal::TERM)?;
        if let Err(error) = self.wait(patience) {
            self.kill()?;
            return Err(error);
        }
        Ok(())
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        if self.is_running() {
            drop(self.kill());
        }
    }
}
