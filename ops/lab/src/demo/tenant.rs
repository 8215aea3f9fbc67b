//! A tenant's process, as the demo sees it: its reports on standard output.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use admin::errors::ErrorCode;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use warploom_cli::local::RoleProcess;

/// A line of output of a tenant's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// The tenant has a session, and its weights are on the device.
    Ready {
        /// The session.
        session: String,
    },
    /// The tenant's device was lost while it prepared, and it begins again.
    Again {
        /// The reason.
        why: String,
    },
    /// A request was answered.
    Request {
        /// Its latency, microseconds.
        us: u64,
        /// Its launches.
        launches: u64,
        /// True if every result equals the reference.
        verified: bool,
        /// The difference, if any.
        detail: Option<String>,
    },
    /// The tenant failed and ends.
    Failed {
        /// The reason.
        why: String,
    },
    /// The tenant was asked to stop, and has finished.
    Stopped,
}

/// Reports of a tenant so far.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Its session, once it is ready.
    pub session: Option<String>,
    /// Latencies, microseconds.
    pub latencies: Vec<u64>,
    /// Launches.
    pub launches: u64,
    /// Requests with only correct results.
    pub verified: u64,
    /// The first complaints.
    pub complaints: Vec<String>,
    /// Reasons why it began again before it was ready, one for each time.
    pub begun_again: Vec<String>,
    /// True if it stopped in good order.
    pub stopped: bool,
}

impl Heard {
    fn note(&mut self, said: Said) {
        match said {
            Said::Ready { session } => self.session = Some(session),
            Said::Again { why } => self.begun_again.push(why),
            Said::Request {
                us,
                launches,
                verified,
                detail,
            } => {
                self.latencies.push(us);
                self.launches += launches;
                self.verified += u64::from(verified);
                if let Some(detail) = detail.filter(|_| !verified) {
                    self.complain(detail);
                }
            }
            Said::Failed { why } => self.complain(why),
            Said::Stopped => self.stopped = true,
        }
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < 5 {
            self.complaints.push(complaint);
        }
    }

    /// A quantile of the latencies in milliseconds; 0 if there are none.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
        sorted.get(index - 1).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

/// Load of this machine, in words: a starved machine is a cause of failures on it.
pub(super) fn machine_load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match text.split(' ').next().filter(|load| !load.is_empty()) {
        Some(load) => format!("the load of this machine is {load} on {processors} processors"),
        None => "the load of this machine is not known".into(),
    }
}

/// A running tenant.
pub struct TenantProcess {
    role: RoleProcess,
    heard: Arc<Mutex<Heard>>,
    reader: Option<JoinHandle<()>>,
}

impl TenantProcess {
    /// Starts to listen to a started tenant.
    #[must_use]
    pub fn new(mut role: RoleProcess) -> Self {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let reader = role.take_stdout().map(|stdout| {
            let heard = heard.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stdout)
                    .lines()
                    .map_while(std::io::Result::ok)
                {
                    let Ok(said) = serde_json::from_str(&line) else {
                        continue;
                    };
                    heard
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .note(said);
                }
            })
        });
        Self {
            role,
            heard,
            reader,
        }
    }

    /// Returns its reports so far.
    #[must_use]
    pub fn heard(&self) -> Heard {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Its session, once it is ready.
    #[must_use]
    pub fn session(&self) -> Option<String> {
        self.heard().session
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// If it ends before, or is not ready after `patience`.
    pub async fn ready(&mut self, patience: Duration) -> Result<()> {
        let asked = Instant::now();
        while self.session().is_none() {
            if !self.role.is_running() || asked.elapsed() > patience {
                let complaints = self.heard().complaints.join("; ");
                bail!(
                    "tenant {} did not become ready: {complaints}; {}",
                    self.role.name(),
                    machine_load()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Tells it to begin.
    ///
    /// # Errors
    /// If it is gone.
    pub fn go(&mut self) -> Result<()> {
        self.role.say("go")
    }

    /// Checks that it runs.
    ///
    /// # Errors
    /// If it has ended, with the reason that it reported.
    pub(super) fn is_at_work(&mut self) -> Result<()> {
        let Some(status) = self.role.ended() else {
            return Ok(());
        };
        // Reads the rest of its reports.
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        let mut why = self.heard().complaints;
        why.push(machine_load());
        let (name, why) = (self.role.name(), why.join("; "));
        bail!(ErrorCode::DemoFailed.failed(format!(
            "{name} ended while it was at work ({status}): {why}"
        )))
    }

    /// Sends SIGKILL.
    ///
    /// # Errors
    /// If it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.role.kill()
    }

    /// Tells it to finish its current request and stop, and waits for its end.
    ///
    /// # Errors
    /// If it does not end within `patience`.
    pub async fn stop(&mut self, patience: Duration) -> Result<Heard> {
        self.is_at_work()?;
        self.role.say("stop")?;
        let ended = self.role.finished(patience).await;
        if ended.is_err() {
            self.role.kill()?;
        }
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        ended?;
        Ok(self.heard())
    }
}
