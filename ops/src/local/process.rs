//! One role's process.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// A started role. Dropped, it is killed.
#[derive(Debug)]
pub struct Role {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Role {
    /// Starts `binary arguments…` in a process group of its own, so that Ctrl-C reaches it only
    /// through us; stdout is a pipe, stderr goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, binary: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let stderr = File::options().create(true).append(true).open(log);
        let stderr = stderr.with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new(binary);
        crate::drop_in::clear(&mut command);
        let child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .env("WARPLOOM_PARENT", std::process::id().to_string())
            .spawn()
            .with_context(|| format!("starting {name}: {}", binary.display()))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output, once.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Writes a line to its standard input.
    ///
    /// # Errors
    /// When it is gone.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let stdin = self
            .child
            .stdin
            .as_mut()
            .context("the role's stdin is closed")?;
        writeln!(stdin, "{line}").with_context(|| format!("telling {} to {line}", self.name))
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal)
            .with_context(|| format!("signalling {}", self.name))
    }

    /// SIGKILL, and waits for its end.
    ///
    /// # Errors
    /// When it cannot be waited for.
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
    /// When it has not ended after `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if asked.elapsed() > patience {
                bail!(
                    "{} has not ended after {patience:?}; see {}",
                    self.name,
                    self.log.display()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// SIGTERM, then waits; kills it where that takes longer than `patience`.
    ///
    /// # Errors
    /// When it had to be killed.
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

impl Drop for Role {
    fn drop(&mut self) {
        if self.is_running() {
            drop(self.kill());
        }
    }
}
