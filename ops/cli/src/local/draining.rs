//! The orderly end of a cluster: workers finish their granted work and controllers their requests,
//! then leaders hand over and stop. The tracer ends last.

use std::cmp::Ordering;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use admin::errors::ErrorCode;
use anyhow::{Result, bail};
use rustix::process::Signal;

use super::{LocalCluster, RoleProcess};

/// Time that the workers, and then each leader, may take to end before they are killed.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between checks for their end.
const LOOK: Duration = Duration::from_millis(2);

/// The progress of a drain.
struct Draining {
    /// Number of leaders that were asked to stop, one after the other so that each hands over; 0
    /// while workers end.
    leaders: usize,
    since: Option<Instant>,
    /// Names of the processes that had to be killed.
    killed: Vec<String>,
}

impl LocalCluster {
    /// Drains workers, then lets leaders hand over and stop. The broker runs until it is dropped.
    ///
    /// # Errors
    /// If a process cannot be signalled, or had to be killed after 15 s.
    pub fn drain(&mut self) -> Result<()> {
        let mut draining = Draining::new();
        while !draining.step(self)? {
            std::thread::sleep(LOOK);
        }
        draining.result()
    }

    /// As [`LocalCluster::drain`]; when `hurry` completes, the remaining processes are killed at
    /// once.
    ///
    /// # Errors
    /// As [`LocalCluster::drain`].
    pub async fn drain_unless(&mut self, hurry: impl Future<Output = ()>) -> Result<()> {
        let (mut draining, mut hurry) = (Draining::new(), pin!(hurry));
        while !draining.step(self)? {
            tokio::select! {
                () = &mut hurry => return self.kill(),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        draining.result()
    }

    /// Kills all roles.
    fn kill(&mut self) -> Result<()> {
        let leaders = self.leaders.iter_mut().map(|(_, role)| role);
        let controllers = self.controllers.iter_mut();
        self.workers
            .iter_mut()
            .chain(leaders)
            .chain(controllers.map(|controller| &mut controller.role))
            .chain(&mut self.tracer)
            .try_for_each(RoleProcess::kill)
    }
}

impl Draining {
    fn new() -> Self {
        Self {
            leaders: 0,
            since: None,
            killed: Vec::new(),
        }
    }

    /// Takes one step; returns true once all have ended.
    fn step(&mut self, cluster: &mut LocalCluster) -> Result<bool> {
        let mut roles: Vec<&mut RoleProcess> = match self.leaders.checked_sub(1) {
            None => {
                let controllers = cluster.controllers.iter_mut();
                let controllers = controllers.map(|controller| &mut controller.role);
                cluster.workers.iter_mut().chain(controllers).collect()
            }
            // The tracer ends last: the record is whole then.
            Some(at) => match cluster.leaders.len().cmp(&at) {
                Ordering::Greater => vec![&mut cluster.leaders[at].1],
                Ordering::Equal => cluster.tracer.iter_mut().collect(),
                Ordering::Less => return Ok(true),
            },
        };
        roles.retain_mut(|role| role.is_running());
        match self.since {
            None => {
                self.since = Some(Instant::now());
                roles
                    .iter()
                    .try_for_each(|role| role.signal(Signal::TERM))?;
            }
            Some(since) if since.elapsed() > TIMEOUT => {
                for role in &mut roles {
                    self.killed.push(role.name().to_owned());
                    role.kill()?;
                }
                roles.clear();
            }
            Some(_) => {}
        }
        if !roles.is_empty() {
            return Ok(false);
        }
        self.since = None;
        self.leaders += 1;
        Ok(false)
    }

    fn result(self) -> Result<()> {
        if self.killed.is_empty() {
            return Ok(());
        }
        let names = self.killed.join(", ");
        bail!(ErrorCode::LocalStop.failed(format!(
            "{names} did not end within {TIMEOUT:?} and had to be killed"
        )))
    }
}
