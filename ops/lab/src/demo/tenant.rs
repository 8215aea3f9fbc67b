//! A tenant's process, as the demo sees it: what it says on its standard output.

use std::io::{BufRead, BufReader};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use warploom_cli::local::RoleProcess;

/// A line a tenant's process prints.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It has a session and its weights are on the device.
    Ready {
        /// The session.
        session: String,
    },
    /// Its device was lost while it prepared, and it begins again.
    Again {
        /// Why.
        why: String,
    },
    /// A request was answered.
    Request {
        /// Its latency, microseconds.
        us: u64,
        /// Its launches.
        launches: u64,
        /// Whether every result equals the reference.
        verified: bool,
        /// What does not, if anything.
        detail: Option<String>,
    },
    /// It failed and ends.
    Failed {
        /// Why.
        why: String,
    },
    /// It was asked to stop and all is done.
    Stopped,
}

/// What a tenant has said so far.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Its session, once it is ready.
    pub session: Option<String>,
    /// Latencies, microseconds.
    pub latencies: Vec<u64>,
    /// Launches.
    pub launches: u64,
    /// Requests whose results were all right.
    pub verified: u64,
    /// The first complaints.
    pub complaints: Vec<String>,
    /// Why it began again before it was ready, each time.
    pub begun_again: Vec<String>,
    /// Whether it stopped in order.
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

    /// A quantile of the latencies, milliseconds; 0 without any.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let index = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
        sorted.get(index - 1).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

/// How busy this machine is, in words: a starved one is a cause of what fails on it.
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
    /// Listens to a started tenant.
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

    /// What it has said so far.
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
    /// When it ends before, or is not after `patience`.
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
    /// When it is gone.
    pub fn go(&mut self) -> Result<()> {
        self.role.say("go")
    }

    /// Nothing, while it runs.
    ///
    /// # Errors
    /// When it has ended: why, as it said itself.
    pub(super) fn is_at_work(&mut self) -> Result<()> {
        let Some(status) = self.role.ended() else {
            return Ok(());
        };
        // All that it said.
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        let mut why = self.heard().complaints;
        why.push(machine_load());
        let (name, why) = (self.role.name(), why.join("; "));
        bail!("E-DEMO-FAILED: {name} ended while it was at work ({status}): {why}")
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// When it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.role.kill()
    }

    /// Tells it to finish the request it is at and stop, and waits for its end.
    ///
    /// # Errors
    /// When it does not within `patience`.
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
