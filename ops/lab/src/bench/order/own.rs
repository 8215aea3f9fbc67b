//! The delay of a grant because its leader took over from itself. The leader's epoch was old enough to end,
//! and 1,000 sessions continue in the next one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bus_schemas::{ClusterSettings, Epoch, GrantBatch, decode};
use client_agent::{Client, Session};
use futures_util::StreamExt;
use workloads::kernels::EMPTY;

use crate::bench::bench_cluster::{Bench, TIMEOUT};
use crate::bench::median;
use crate::bench::{Goal, Measurement, metrics};
use warploom_cli::local::{LocalCluster, RoleProcess};

metrics! {
    OWN = "own_takeover_ms", "ms", Goal::AtMost(5.0),
        "how much longer the longest pause between grants to a worker is where its leader takes over from itself, 1,000 sessions on 4 workers";
}

/// Name of the process that keeps all workers at work.
pub(in crate::bench) const PROCESS: &str = "everywhere";
const WORKERS: usize = 4;
const SESSIONS: usize = 1_000;
/// Maximum age of the record, in seconds. An epoch lasts at most an eighth of it: one second.
const RECORD_AGE_S: u64 = 8;
/// Takeovers in one repetition.
const TAKEOVERS: usize = 10;
/// Time from a takeover to the moment that it is compared with.
const APART: Duration = Duration::from_millis(500);
/// Launches between two syncs.
const LAUNCHES: usize = 16;

/// Keeps a session on each worker at work, until killed.
pub(in crate::bench) fn everywhere(client: &Client) -> Result<()> {
    let sessions = client.open_devices(WORKERS as u32)?;
    std::thread::scope(|scope| {
        let busy = |session| scope.spawn(move || busy(session));
        let mut busy: Vec<_> = sessions.iter().map(busy).collect();
        let mut ended = busy.drain(..).map(|it| it.join());
        ended.try_for_each(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn busy(session: &Session) -> Result<()> {
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    loop {
        for _ in 0..LAUNCHES {
            session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
        }
        session.sync()?;
    }
}

/// Measures the delay. A repetition is ten takeovers and as many moments half-way between them.
pub(super) async fn own(bench: &Bench<'_>) -> Result<Measurement> {
    let cluster = bench
        .adjusted(|options| {
            options.workers = WORKERS;
            options.leaders = 1;
            options.order = Some(ClusterSettings {
                standing: false,
                record_max_age_s: RECORD_AGE_S,
                ..ClusterSettings::default()
            });
        })
        .await?;
    let cluster = &cluster;
    let _idle = open_sessions(cluster).await?;
    let mut load = cluster.role(&format!("bench .{PROCESS}"), PROCESS, &[])?;
    let administrator = cluster.administrator().await?;
    let everything = administrator.subjects().all();
    let orders = format!("{}s.w.*.order", everything.trim_end_matches('>'));
    let mut orders = administrator.client().subscribe(orders).await?;
    let mut pauses = Pauses::default();
    // The first takeovers warm up.
    pauses.watch(&mut orders, 2).await?;
    let (mut later, mut between, mut around) = (Vec::new(), Vec::new(), Vec::new());
    for rep in 1..=bench.reps {
        eprintln!("own takeovers: repetition {rep} of {}", bench.reps);
        pauses.clear();
        pauses.watch(&mut orders, TAKEOVERS).await?;
        if !load.is_running() {
            let log = std::fs::read_to_string(cluster.log(PROCESS)).unwrap_or_default();
            bail!("the load did not survive its leader's epoch: {log}");
        }
        let middle = [&pauses.around, &pauses.between].map(|it| median(it));
        if let [Some(with), Some(without)] = middle {
            later.push(with - without);
            between.push(without);
            around.extend(&pauses.around);
        }
    }
    load.kill()?;
    let longest = around.iter().copied().reduce(f64::max);
    Ok(Measurement::new(&OWN, &later)
        .against(
            "the longest pause between grants without a takeover, ms",
            &between,
        )
        .with("pause_ms", median(&around))
        .with("longest_pause_ms", longest)
        .with("takeovers", around.len())
        .with("sessions", SESSIONS)
        .with("workers", WORKERS))
}

/// Opens 1,000 sessions of one client, which stay open as long as the returned process lives.
async fn open_sessions(cluster: &LocalCluster) -> Result<RoleProcess> {
    let more = format!("--reps={}", SESSIONS - 1);
    let mut client = cluster.role("bench .sessions", "sessions", &[more])?;
    let said = BufReader::new(client.take_stdout().context("the client's output")?);
    client.say("go")?;
    let opened = move || {
        said.lines()
            .any(|line| line.is_ok_and(|line| line == "open"))
    };
    let opened = tokio::task::spawn_blocking(opened);
    let opened = tokio::time::timeout(TIMEOUT, opened).await;
    anyhow::ensure!(
        matches!(opened, Ok(Ok(true))),
        "the sessions were not opened"
    );
    Ok(client)
}

/// Pauses between the grants to a worker, across takeovers and across the moments half-way between them.
/// For each, the longest pause of all workers is kept, in milliseconds.
#[derive(Default)]
struct Pauses {
    around: Vec<f64>,
    between: Vec<f64>,
    epoch: Epoch,
    /// Time of the last grant to each worker, and its epoch.
    last: BTreeMap<String, (Instant, Epoch)>,
    /// The longest pause across the latest takeover.
    longest: Duration,
    /// The moment to compare with, and the longest pause across it.
    moment: Option<(Instant, Duration)>,
}

impl Pauses {
    fn clear(&mut self) {
        self.around.clear();
        self.between.clear();
    }

    /// Watches this many takeovers.
    async fn watch(&mut self, orders: &mut async_nats::Subscriber, takeovers: usize) -> Result<()> {
        let patience = TIMEOUT + Duration::from_secs(RECORD_AGE_S) * takeovers as u32;
        let watched = async {
            while self.around.len() < takeovers {
                let message = orders.next().await.context("the connection closed")?;
                let batch = decode::<GrantBatch<'_>>(&message.payload)?;
                if !batch.grants.is_empty() {
                    self.granted(Instant::now(), &message.subject, batch.epoch);
                }
            }
            Ok(())
        };
        let watched = tokio::time::timeout(patience, watched).await;
        watched.context("the leader does not take over from itself")?
    }

    fn granted(&mut self, now: Instant, worker: &str, epoch: Epoch) {
        if epoch > self.epoch {
            // The result of the previous takeover is known by now: a worker without work gets no grants.
            if self.epoch > 0
                && let Some((_, without)) = self.moment.take()
            {
                self.around.push(self.longest.as_secs_f64() * 1e3);
                self.between.push(without.as_secs_f64() * 1e3);
            }
            self.epoch = epoch;
            self.longest = Duration::ZERO;
            self.moment = Some((now + APART, Duration::ZERO));
        }
        let Some((at, before)) = self.last.insert(worker.to_owned(), (now, epoch)) else {
            return;
        };
        let pause = now - at;
        if before < epoch {
            self.longest = self.longest.max(pause);
        } else if let Some((moment, longest)) = &mut self.moment
            && (at..now).contains(moment)
        {
            *longest = pause.max(*longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_across_a_takeover_and_across_half_an_epoch_count() {
        let (mut pauses, began) = (Pauses::default(), Instant::now());
        let mut granted = |ms: u64, worker, epoch| {
            pauses.granted(began + Duration::from_millis(ms), worker, epoch);
        };
        granted(0, "a", 1);
        granted(1, "b", 1);
        granted(1_000, "a", 2);
        granted(1_007, "b", 2);
        for (ms, worker) in [
            (1_498, "a"),
            (1_499, "b"),
            (1_501, "a"),
            (1_503, "b"),
            (1_990, "b"),
        ] {
            granted(ms, worker, 2);
        }
        granted(2_000, "a", 3);
        assert_eq!(pauses.around, [0.0, 1_006.0]);
        assert_eq!(pauses.between, [0.0, 4.0]);
    }
}
