//! Supervision of the children: each death is reported, and dead children are restarted.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use admin::errors::ErrorCode;
use anyhow::{Result, bail};

use super::{LocalCluster, RoleProcess, new_id};

/// Interval at which the children are checked.
const LOOK: Duration = Duration::from_millis(100);
/// Number of deaths of one child in a row after which a starting cluster gives up.
const HOPELESS: u32 = 3;

impl LocalCluster {
    /// Waits for `until`, and supervises the children in the meantime. `say` gets a line for each
    /// death and each restart, including those during the cluster's start.
    pub async fn tended<F: Future>(&mut self, until: F, mut say: impl FnMut(&str)) -> F::Output {
        let mut until = pin!(until);
        std::mem::take(&mut self.unsaid)
            .iter()
            .for_each(|line| say(line));
        loop {
            tokio::select! {
                biased;
                output = &mut until => return output,
                () = tokio::time::sleep(LOOK) => {}
            }
            self.tend().iter().for_each(|line| say(line));
        }
    }

    /// As [`LocalCluster::tended`] while the cluster starts; fails if a child keeps dying.
    pub(super) async fn started<T>(&mut self, ready: impl Future<Output = Result<T>>) -> Result<T> {
        let mut ready = pin!(ready);
        loop {
            tokio::select! {
                biased;
                output = &mut ready => return output,
                () = tokio::time::sleep(LOOK) => {}
            }
            for line in self.tend() {
                tracing::warn!("{line}");
                self.unsaid.push(line);
            }
            let mut deaths = self.restarts.iter();
            if let Some((name, _)) = deaths.find(|(_, it)| it.deaths() >= HOPELESS) {
                let mut brokers = self.broker.servers().iter().enumerate();
                let broker =
                    brokers.find(|(index, _)| broker_name(*index, self.options.brokers) == *name);
                let log = match broker {
                    Some((_, server)) => server.log_path(),
                    None => self.log(name),
                };
                let said = last_line(&log, 0);
                bail!(
                    ErrorCode::LocalStart
                        .failed(format!("{name} does not stay up; it said: {said}"))
                );
            }
        }
    }

    /// Reaps dead children, and restarts those that are due. Returns a line for people for each
    /// event.
    pub fn tend(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for index in 0..self.broker.servers().len() {
            self.tend_broker(index, &mut said);
        }
        self.tend_disks(&mut said);
        for index in 0..self.leaders.len() {
            self.tend_leader(index, &mut said);
        }
        for index in 0..self.workers.len() {
            self.tend_worker(index, &mut said);
        }
        for index in 0..self.controllers.len() {
            self.tend_controller(index, &mut said);
        }
        self.tend_tracer(&mut said);
        said
    }

    fn tend_broker(&mut self, index: usize, said: &mut Vec<String>) {
        let server = &mut self.broker.servers_mut()[index];
        let Some(status) = server.exited() else {
            return;
        };
        let (name, now) = (broker_name(index, self.options.brokers), Instant::now());
        let restarts = self.restarts.entry(name.clone()).or_default();
        if restarts.is_due(now) {
            self.brokers_started[index] = now;
            let pid = server.respawn().map(|()| server.pid());
            self.started_again(&name, pid.map_err(Into::into), said);
        } else if !restarts.is_known() {
            let pause = restarts.died(now, now - self.brokers_started[index]);
            said.push(died(&name, server.pid(), status, pause));
        }
    }

    fn tend_leader(&mut self, index: usize, said: &mut Vec<String>) {
        let (_, role) = &mut self.leaders[index];
        let Some(status) = role.ended() else {
            return;
        };
        let (name, now) = (role.name().to_owned(), Instant::now());
        let restarts = self.restarts.entry(name.clone()).or_default();
        if restarts.is_due(now) {
            // Another candidate: the dead one's id may be bound to an epoch that it no longer
            // knows.
            let id = new_id();
            let started = self.leader_role(&name, id);
            let pid = started.map(|role| {
                let pid = role.pid();
                self.leaders[index] = (id, role);
                pid
            });
            self.started_again(&name, pid, said);
        } else if !restarts.is_known() {
            let pause = restarts.died(now, role.age());
            said.push(died(&name, role.pid(), status, pause));
        }
    }

    fn tend_worker(&mut self, index: usize, said: &mut Vec<String>) {
        let role = &mut self.workers[index];
        let (Some(status), Some(gpu)) = (role.ended(), role.gpu()) else {
            return;
        };
        let (name, now) = (role.name().to_owned(), Instant::now());
        let restarts = self.restarts.entry(name.clone()).or_default();
        if restarts.is_due(now) {
            let started = self.worker_role(gpu);
            let pid = started.map(|role| {
                let pid = role.pid();
                self.workers[index] = role;
                pid
            });
            self.started_again(&name, pid, said);
        } else if status.success() {
            if restarts.left() {
                let pid = role.pid();
                said.push(format!(
                    "{name} (process {pid}) has left as it was told to; it is not started again"
                ));
            }
        } else if !restarts.is_known() {
            let pause = restarts.died(now, role.age());
            let line = died(&name, role.pid(), status, pause);
            said.push(with_reason(line, role, status));
        }
    }

    fn tend_controller(&mut self, index: usize, said: &mut Vec<String>) {
        let role = &mut self.controllers[index].role;
        let Some(status) = role.ended() else {
            return;
        };
        let (name, now) = (role.name().to_owned(), Instant::now());
        let restarts = self.restarts.entry(name.clone()).or_default();
        if restarts.is_due(now) {
            let started = self.controller_role(&name);
            let pid = started.map(|role| {
                let pid = role.pid();
                self.controllers[index].role = role;
                pid
            });
            self.started_again(&name, pid, said);
        } else if !restarts.is_known() {
            let pause = restarts.died(now, role.age());
            let line = died(&name, role.pid(), status, pause);
            said.push(with_reason(line, role, status));
        }
    }

    fn tend_tracer(&mut self, said: &mut Vec<String>) {
        let Some(role) = &mut self.tracer else {
            return;
        };
        let Some(status) = role.ended() else {
            return;
        };
        let (name, now) = (role.name().to_owned(), Instant::now());
        let restarts = self.restarts.entry(name.clone()).or_default();
        if restarts.is_due(now) {
            let started = self.tracer_role();
            let pid = started.map(|role| self.tracer.insert(role).pid());
            self.started_again(&name, pid, said);
        } else if !restarts.is_known() {
            let pause = restarts.died(now, role.age());
            let line = died(&name, role.pid(), status, pause);
            said.push(with_reason(line, role, status));
        }
    }

    /// Reports a restart; a failed one is retried.
    fn started_again(&mut self, name: &str, pid: Result<u32>, said: &mut Vec<String>) {
        match pid {
            Ok(pid) => said.push(format!("{name} runs again as process {pid}")),
            Err(error) => {
                let restarts = self.restarts.entry(name.to_owned()).or_default();
                let pause = restarts.died(Instant::now(), Duration::ZERO);
                said.push(format!(
                    "{name} cannot be started: {error:#}; tried again in {pause:?}"
                ));
            }
        }
    }
}

/// Name of one of the broker's servers among the children.
pub(super) fn broker_name(index: usize, servers: usize) -> String {
    match servers {
        1 => "broker".into(),
        _ => format!("broker-{}", index + 1),
    }
}

fn died(name: &str, pid: u32, status: ExitStatus, pause: Duration) -> String {
    let how = how(status);
    format!("{name} (process {pid}) {how}; it is started again in {pause:?}")
}

/// The way in which a process ended, for people.
pub(super) fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was killed (SIGKILL)".into(),
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".into(),
    }
}

/// Adds the last output of a role that ended by itself.
fn with_reason(line: String, role: &RoleProcess, status: ExitStatus) -> String {
    match status.code() {
        Some(_) => format!(
            "{line}; it said: {}",
            last_line(role.log(), role.log_from())
        ),
        None => line,
    }
}

/// The last line of a log after its first `from` bytes.
fn last_line(log: &std::path::Path, from: u64) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let text = text.get(from.max(text.len().saturating_sub(4_096))..);
    let text = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    match text.lines().rfind(|line| !line.trim().is_empty()) {
        Some(last) => last.to_owned(),
        None => format!("nothing ({})", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_said_last_is_its_own() {
        let dir = test_cluster::TempDir::new().unwrap();
        let log = &dir.path().join("role.log");
        std::fs::write(log, "of before\n").unwrap();
        assert_eq!(last_line(log, 0), "of before");
        assert!(last_line(log, 10).starts_with("nothing ("));
        std::fs::write(log, "of before\nits own\n\n").unwrap();
        assert_eq!(last_line(log, 10), "its own");
        assert!(last_line(log, u64::MAX).starts_with("nothing ("));
    }
}
