//! The strikes of a plan, carried out: signals, links, streams, and the repairs that are due later.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::Administrator;
use admin::evidence::{InjectedFault, Kill};
use anyhow::{Context, Result, anyhow, bail};
use async_nats::jetstream;
use async_nats::jetstream::stream::DiscardPolicy;
use broker::Server;
use bus_schemas::Status;
use rustix::process::{Pid, Signal};
use test_cluster::{Link, Links};

use super::acts::{Act, Deed};
use super::plan::{Bucket, Strike, Target};
use super::programs::Program;
use super::pulse::Pulse;
use super::watch::Watch;
use crate::demo::RunObserver;
use warploom_cli::local::LocalCluster;

/// Maximum duration of a question to the leader or the broker; nothing else is done meanwhile.
const ASK: Duration = Duration::from_millis(600);
/// Bytes of room in a full stream: less than any of its messages takes.
const ROOM: i64 = 64;

/// The name of a kill in the evidence.
pub(super) const KILL: &str = "kill";

/// A repair that is due.
pub(super) enum Undo {
    /// Continues a stopped process.
    Continue(u32),
    /// Opens a cut link again.
    Join(Arc<Link>),
    /// Ends the delay of a link.
    Hurry(Arc<Link>),
    /// Lets the other brokers reach a broker again.
    Unite(usize),
    /// Restores the limit of the record's stream.
    Empty(Box<jetstream::stream::Config>),
}

/// A killed leader without a grant of a successor so far.
struct Takeover {
    kill: usize,
    at: Instant,
    /// True if its broker died with it.
    both: bool,
}

/// The cluster and the strikes on it.
pub(super) struct Strikes {
    pub(super) cluster: LocalCluster,
    pub(super) administrator: Administrator,
    pub(super) observer: RunObserver,
    pub(super) programs: Vec<Program>,
    pub(super) links: BTreeMap<String, Vec<Arc<Link>>>,
    /// Links between brokers, if there are several.
    pub(super) routes: Option<Links>,
    /// Measures how long programs got nothing after a broker was taken away.
    pub(super) pulse: Pulse,
    pub(super) began: Instant,
    /// The bus, watched.
    pub(super) watch: Watch,
    /// Acts that can have consequences for leaders, workers or programs.
    pub(super) acts: Vec<Act>,
    /// All faults, for the evidence.
    pub(super) faults: Vec<InjectedFault>,
    /// Leaders killed, for the evidence.
    pub(super) kills: Vec<Kill>,
    /// Processes killed.
    pub(super) killed: usize,
    /// Times to the next leader's first grant if leader and broker died together.
    pub(super) both_ms: Vec<f64>,
    pub(super) undo: Vec<(Instant, Undo)>,
    /// True while a deleted bucket is not restored: a process that knows its content has to survive.
    deleted: bool,
    takeovers: Vec<Takeover>,
}

impl Strikes {
    pub(super) fn new(
        cluster: LocalCluster,
        administrator: Administrator,
        (observer, watch): (RunObserver, Watch),
        links: BTreeMap<String, Vec<Arc<Link>>>,
        routes: Option<Links>,
    ) -> Self {
        Self {
            cluster,
            administrator,
            observer,
            watch,
            acts: Vec::new(),
            programs: Vec::new(),
            links,
            routes,
            pulse: Pulse::new(),
            began: Instant::now(),
            faults: Vec::new(),
            kills: Vec::new(),
            killed: 0,
            both_ms: Vec::new(),
            undo: Vec::new(),
            deleted: false,
            takeovers: Vec::new(),
        }
    }

    /// Carries out a strike. Fails if it cannot be done now: there is no leader, or the target is being
    /// started.
    pub(super) async fn strike(&mut self, strike: Strike) -> Result<()> {
        match strike {
            Strike::Kill(target) => self.kill(target).await,
            Strike::Stop(target, time) => self.stop(target, time).await,
            Strike::Restart(index) => self.restart(index).await,
            Strike::Wipe(index) => self.wipe(index).await,
            Strike::Part(index, time) => self.part(index, time).await,
            Strike::Fill(time) => self.fill(time).await,
            Strike::Delete(bucket) => self.delete(bucket).await,
            Strike::Cut(target, time) => {
                for (name, link) in self.linked(target).await? {
                    self.note("cut", &name, None);
                    link.close(true);
                    let until = self.later(time, Undo::Join(link));
                    self.did(&name, Deed::Cut, Some(until));
                }
                Ok(())
            }
            Strike::Slow(target, late, time) => {
                for (name, link) in self.linked(target).await? {
                    self.note(&format!("slow by {late:?}"), &name, None);
                    link.delay(late);
                    let until = self.later(time, Undo::Hurry(link));
                    self.did(&name, Deed::Slow, Some(until));
                }
                Ok(())
            }
        }
    }

    async fn kill(&mut self, target: Target) -> Result<()> {
        match target {
            Target::Leader => {
                self.kill_leader(false).await?;
            }
            Target::LeaderAndBroker => {
                let index = self.lease_server().await?;
                self.leader_to_kill().await?;
                self.take(index).await?;
                self.kill_leader(true).await?;
                self.kill_broker(index)?;
            }
            Target::Broker(index) => {
                self.take(index).await?;
                self.kill_broker(index)?;
            }
            Target::Candidate | Target::Worker(_) | Target::Program(_) => {
                let (name, pid) = self.process(target).await?;
                self.note(KILL, &name, Some(pid));
                self.did(&name, Deed::Kill, None);
                send(pid, Signal::KILL)?;
            }
        }
        self.killed += 1;
        Ok(())
    }

    /// Status of the elected leader, its name and its process id.
    async fn leader_to_kill(&mut self) -> Result<(Status, String, u32)> {
        self.put_back().await?;
        let status = self.status().await?;
        let before = self.kills.last().map_or(0, |kill| kill.epoch);
        if status.epoch <= before {
            bail!("the leader that was killed last still answers");
        }
        let (name, pid) = self.leader(status.leader)?;
        Ok((status, name, pid))
    }

    async fn kill_leader(&mut self, both: bool) -> Result<()> {
        let (status, name, pid) = self.leader_to_kill().await?;
        self.note(KILL, &name, Some(pid));
        self.did(&name, Deed::Kill, None);
        send(pid, Signal::KILL)?;
        self.takeovers.push(Takeover {
            kill: self.kills.len(),
            at: Instant::now(),
            both,
        });
        self.kills.push(Kill {
            kill: self.kills.len() + 1,
            of: 0,
            at_ms: self.at_ms(),
            pid,
            leader: status.leader.to_string(),
            epoch: status.epoch,
            takeover_ms: 0.0,
            successor: 0,
        });
        Ok(())
    }

    async fn stop(&mut self, target: Target, time: Duration) -> Result<()> {
        let (name, pid) = match target {
            Target::Broker(index) => {
                let pid = self.take(index).await?;
                (broker_name(index), pid)
            }
            other => self.process(other).await?,
        };
        self.note(&format!("stop for {time:?}"), &name, Some(pid));
        send(pid, Signal::STOP)?;
        let until = self.later(time, Undo::Continue(pid));
        self.did(&name, Deed::Stop, Some(until));
        Ok(())
    }

    /// Limits the record's stream to its current size, so that it refuses the leaders' appends. It drops
    /// nothing, because the stream refuses new messages instead.
    async fn fill(&mut self, time: Duration) -> Result<()> {
        self.all_serve()?;
        let full = |it: &(Instant, Undo)| matches!(it.1, Undo::Empty(_));
        if self.undo.iter().any(full) {
            bail!("the record is full already");
        }
        let jetstream = jetstream::new(self.administrator.client().clone());
        let name = self.administrator.subjects().record_stream();
        let filled = async {
            let mut stream = jetstream.get_stream(&name).await?;
            let info = stream.info().await?.clone();
            if info.config.discard != DiscardPolicy::New {
                bail!("the record drops what is old when it is full: it is not filled");
            }
            let bytes = i64::try_from(info.state.bytes).unwrap_or(i64::MAX - ROOM);
            let mut config = info.config.clone();
            config.max_bytes = bytes + ROOM;
            jetstream.update_stream(&config).await?;
            anyhow::Ok(info.config)
        };
        let before = asked(filled).await?;
        self.note(&format!("full for {time:?}"), &name, None);
        self.later(time, Undo::Empty(Box::new(before)));
        Ok(())
    }

    async fn delete(&mut self, bucket: Bucket) -> Result<()> {
        self.in_step().await?;
        let subjects = self.administrator.subjects();
        let name = match bucket {
            Bucket::Lease => subjects.lease_bucket(),
            Bucket::State => subjects.state_bucket(),
        };
        let jetstream = jetstream::new(self.administrator.client().clone());
        let deleted = async { Ok(jetstream.delete_key_value(&name).await?) };
        asked(deleted).await?;
        self.note("delete", &name, None);
        if bucket == Bucket::Lease {
            self.did(&name, Deed::Away, None);
        }
        self.deleted = true;
        Ok(())
    }

    /// Checks that the content of a deleted bucket is there again. Several brokers may have to agree first,
    /// and candidates that start meanwhile do not know the content.
    async fn put_back(&mut self) -> Result<()> {
        if !self.deleted || self.cluster.broker.servers().len() == 1 {
            return Ok(());
        }
        self.in_step().await?;
        for (tenant, _) in &self.cluster.options().tenants {
            let known = asked(self.administrator.tenant(tenant)).await?;
            known.context("what was deleted is not put back")?;
        }
        self.deleted = false;
        Ok(())
    }

    pub(super) async fn status(&self) -> Result<Status> {
        self.administrator.status(ASK).await
    }

    /// Schedules a repair after some time. Returns the time at which it is due.
    pub(super) fn later(&mut self, time: Duration, undo: Undo) -> Instant {
        let until = Instant::now() + time;
        self.undo.push((until, undo));
        until
    }

    fn at_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(super) fn note(&mut self, fault: &str, target: &str, pid: Option<u32>) {
        self.faults.push(InjectedFault {
            at_ms: self.at_ms(),
            fault: fault.to_owned(),
            target: target.to_owned(),
            pid,
        });
    }

    /// Looks after all processes: does the repairs that are due, restarts dead processes, and notes
    /// takeovers.
    pub(super) async fn tend(&mut self) -> Result<()> {
        let now = Instant::now();
        let (due, left) = std::mem::take(&mut self.undo)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.undo = left;
        for (until, undo) in due {
            self.undo(undo).await;
            self.ended(until);
        }
        for line in self.cluster.tend() {
            tracing::info!("{line}");
        }
        for program in &mut self.programs {
            program.tend(&self.cluster)?;
        }
        self.note_takeovers();
        self.broker_is_back();
        Ok(())
    }

    /// Does all repairs that are left.
    pub(super) async fn mend(&mut self) {
        while let Some((until, undo)) = self.undo.pop() {
            self.undo(undo).await;
            self.ended(until);
        }
    }

    /// True if no repair is left.
    pub(super) fn mended(&self) -> bool {
        self.undo.is_empty()
    }

    async fn undo(&mut self, undo: Undo) {
        match undo {
            // It may have been killed meanwhile.
            Undo::Continue(pid) => drop(send(pid, Signal::CONT)),
            Undo::Join(link) => link.close(false),
            Undo::Hurry(link) => link.delay(Duration::ZERO),
            Undo::Unite(index) => {
                if let Some(routes) = &self.routes {
                    routes.cut_off(index, false);
                }
            }
            Undo::Empty(config) => {
                let jetstream = jetstream::new(self.administrator.client().clone());
                let emptied = async { Ok(jetstream.update_stream(&*config).await.map(drop)?) };
                if asked(emptied).await.is_err() {
                    // The broker is away, and will be back; the repair is tried again.
                    self.later(Duration::from_millis(50), Undo::Empty(config));
                }
            }
        }
    }

    /// Notes the takeovers that the first grants after a kill complete.
    pub(super) fn note_takeovers(&mut self) {
        let (kills, both_ms) = (&mut self.kills, &mut self.both_ms);
        let observer = &self.observer;
        self.takeovers.retain(|takeover| {
            let kill = &mut kills[takeover.kill];
            let next = observer.see(|seen| {
                let mut later = seen.first_grant.range(kill.epoch + 1..);
                later.next().map(|(epoch, at)| (*epoch, *at))
            });
            let Some((successor, first)) = next else {
                return true;
            };
            let took = first.saturating_duration_since(takeover.at);
            kill.takeover_ms = took.as_secs_f64() * 1e3;
            kill.successor = successor;
            if takeover.both {
                both_ms.push(kill.takeover_ms);
            }
            false
        });
    }

    /// True if every role and program runs.
    pub(super) fn all_up(&mut self) -> bool {
        let cluster = &mut self.cluster;
        let servers = cluster.broker.servers();
        servers.iter().all(Server::is_running)
            && cluster
                .leaders
                .iter_mut()
                .all(|(_, role)| role.is_running())
            && cluster.workers.iter_mut().all(|role| role.is_running())
            && self.programs.iter_mut().all(|program| program.is_up())
    }

    /// Number of killed leaders after which no leader has granted anything.
    pub(super) fn without_successor(&self) -> usize {
        self.takeovers.len()
    }
}

pub(super) fn broker_name(index: usize) -> String {
    format!("broker-{index}")
}

pub(super) async fn asked<T>(question: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(ASK, question).await;
    answer.map_err(|_| anyhow!("no answer after {ASK:?}"))?
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.context("no process")?;
    rustix::process::kill_process(pid, signal).context("sending a signal")
}
