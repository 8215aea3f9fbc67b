//! The processes and links that strikes hit, and the acts that follow from strikes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::evidence::InjectedFault;
use anyhow::{Context, Result, bail};
use bus_schemas::LeaderId;
use test_cluster::Link;

use super::acts::{Act, Deed, Whom};
use super::plan::Target;
use super::programs;
use super::strikes::{KILL, Strikes, broker_name};

/// A broker is back if a leader was heard through it within this time.
const HEARD: Duration = Duration::from_millis(200);

/// True if the last kill of a role hit this process.
fn is_killed(faults: &[InjectedFault], name: &str, pid: u32) -> bool {
    let kills = faults.iter().filter(|it| it.fault == KILL);
    let last = kills.rev().find(|it| it.target == name);
    last.is_some_and(|it| it.pid == Some(pid))
}

impl Strikes {
    /// The running process of a role. A process that is starting or dying is not hit.
    pub(super) async fn process(&mut self, target: Target) -> Result<(String, u32)> {
        let (name, pid) = match target {
            Target::Leader | Target::LeaderAndBroker => {
                let status = self.status().await?;
                self.leader(status.leader)?
            }
            Target::Candidate => self.candidate().await?,
            Target::Worker(index) => self.worker(index)?,
            Target::Program(index) => {
                let program = self.programs.get(index).context("no such program")?;
                let alive = program.is_up();
                alive
                    .then(|| (program.role().name().to_owned(), program.role().pid()))
                    .context("the program is being started")?
            }
            Target::Broker(index) => (broker_name(index), self.server(index)?.pid()),
        };
        match is_killed(&self.faults, &name, pid) {
            true => bail!("{name} was killed and has not ended yet"),
            false => Ok((name, pid)),
        }
    }

    async fn candidate(&mut self) -> Result<(String, u32)> {
        let leads = self.status().await?.leader;
        let mut others = self.cluster.leaders.iter_mut();
        let other = others.find_map(|(id, role)| {
            let fit = *id != leads && role.is_running();
            fit.then(|| (role.name().to_owned(), role.pid()))
        });
        other.context("no candidate stands by")
    }

    /// The worker of a device. A worker that no leader can know yet is not hit: it is not declared lost,
    /// and its acts would be attributed to its predecessor.
    fn worker(&mut self, index: usize) -> Result<(String, u32)> {
        let role = self.cluster.workers.get_mut(index);
        let role = role.filter(|role| role.gpu().is_some());
        let role = role.context("there is no such worker")?;
        let started = Instant::now().checked_sub(role.age());
        let heard = self.watch.heard();
        let mut known = role.gpu().zip(started).into_iter();
        let joined = known.any(|(gpu, started)| heard.has_joined(gpu, started));
        let alive = role.is_running() && joined;
        alive
            .then(|| (role.name().to_owned(), role.pid()))
            .context("the worker is being started")
    }

    pub(super) fn leader(&mut self, id: LeaderId) -> Result<(String, u32)> {
        let role = self.cluster.leader(id).context("the leader is not ours")?;
        match role.is_running() {
            true => Ok((role.name().to_owned(), role.pid())),
            false => bail!("the leader is dead already"),
        }
    }

    pub(super) async fn linked(&mut self, target: Target) -> Result<Vec<(String, Arc<Link>)>> {
        let name = match target {
            Target::Program(index) => programs::name(index),
            other => self.process(other).await?.0,
        };
        let links = self.links.get(&name).context("it has no links")?;
        Ok(links
            .iter()
            .map(|link| (name.clone(), link.clone()))
            .collect())
    }

    /// Records an act on a role from now on, until the given time or until it ends.
    pub(super) fn did(&mut self, name: &str, deed: Deed, until: Option<Instant>) {
        let number = name
            .rsplit('-')
            .next()
            .and_then(|number| number.parse().ok());
        let leaders = &self.cluster.leaders;
        let leader = || leaders.iter().find(|(_, role)| role.name() == name);
        let whom = match (name.split('-').next(), number) {
            (Some("leader"), _) => leader().map(|(id, _)| Whom::Leader(*id)),
            (Some("worker"), Some(gpu)) => Some(Whom::Worker(gpu)),
            (Some("program"), Some(index)) => Some(Whom::Program(index as usize)),
            _ => Some(Whom::Broker),
        };
        let from = Instant::now();
        self.acts.extend(whom.map(|whom| Act {
            whom,
            deed,
            from,
            until,
        }));
    }

    /// Ends the acts that were due to end at that time.
    pub(super) fn ended(&mut self, then: Instant) {
        let acts = self.acts.iter_mut();
        for act in acts.filter(|act| act.until == Some(then)) {
            act.until = Some(Instant::now());
        }
    }

    /// Ends the acts on the broker once it is whole again and a leader is heard through it.
    pub(super) fn broker_is_back(&mut self) {
        let away = |act: &&mut Act| act.whom == Whom::Broker && act.until.is_none();
        let now = Instant::now();
        let heard = self.watch.last_beat();
        let heard = heard.is_some_and(|at| now.saturating_duration_since(at) < HEARD);
        if !heard || self.pulse.is_lost() || self.all_serve().is_err() {
            return;
        }
        for act in self.acts.iter_mut().filter(away) {
            // Messages that were on their way when the broker went are heard a moment later.
            if act.from.elapsed() > HEARD {
                act.until = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_killed_once_and_the_next_one_of_its_name_again() {
        let fault = |fault: &str, target: &str, pid| InjectedFault {
            at_ms: 0,
            fault: fault.into(),
            target: target.into(),
            pid: Some(pid),
        };
        let faults = [
            fault(KILL, "worker-0", 7),
            fault(KILL, "worker-0", 8),
            fault(KILL, "worker-1", 9),
            fault("stop for 1s", "leader-0", 10),
        ];
        assert!(is_killed(&faults, "worker-0", 8));
        assert!(!is_killed(&faults, "worker-0", 11), "the next one");
        assert!(!is_killed(&faults, "worker-0", 7), "a number is used again");
        assert!(!is_killed(&faults, "worker-0", 9), "another role");
        assert!(!is_killed(&faults, "leader-0", 10), "it stands still");
    }
}
