//! Chat and train over the bus: two programs, and the process that directs them.

use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use admin::settings::Settings;
use anyhow::{Context, Result, anyhow, bail, ensure};
use client_agent::Client;
use workloads::{SplitMix64, Workload};

use super::sides::{BLOCK, BLOCKS, Block, CHAT, SETTLE, Sides, TRAIN, WARM_UP, block};
use crate::bench::bench_cluster::TIMEOUT;
use crate::bench::preempt;
use crate::virtual_device::VirtualDevice;
use warploom_cli::local::{LocalCluster, RoleProcess};

/// Orders to train, and its answers once it has obeyed.
const GO: &str = "go";
const STOP: &str = "stop";

/// Plays chat: for each number on standard input, serves that many requests and reports their latencies.
pub(in crate::bench) fn chat(client: &Client) -> Result<()> {
    let (mut workload, mut device) = prepare(client, CHAT)?;
    let mut pauses = SplitMix64::new(1);
    answer("ready")?;
    for line in std::io::stdin().lines() {
        let count = line?.parse().context("how many requests")?;
        let served = block(workload.as_mut(), &mut device, &mut pauses, count)?;
        answer(&serde_json::to_string(&served)?)?;
    }
    Ok(())
}

/// Plays train: works from `go` to `stop`.
pub(in crate::bench) fn train(client: &Client) -> Result<()> {
    let (mut workload, mut device) = prepare(client, TRAIN)?;
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if tell.send(line == GO).is_err() {
                break;
            }
        }
    });
    answer("ready")?;
    while let Ok(go) = told.recv() {
        answer(if go { GO } else { STOP })?;
        if go && !work(workload.as_mut(), &mut device, &told)? {
            break;
        }
    }
    Ok(())
}

/// Works until told to stop. Returns false if standard input has ended.
fn work(
    workload: &mut dyn Workload<VirtualDevice>,
    device: &mut VirtualDevice,
    told: &Receiver<bool>,
) -> Result<bool> {
    loop {
        let run = workload.run(device);
        run.map_err(|error| anyhow!("{error}"))?;
        match told.try_recv() {
            Ok(true) | Err(TryRecvError::Empty) => {}
            Ok(false) => {
                answer(STOP)?;
                return Ok(true);
            }
            Err(TryRecvError::Disconnected) => return Ok(false),
        }
    }
}

type Prepared = (Box<dyn Workload<VirtualDevice>>, VirtualDevice);

fn prepare(client: &Client, name: &str) -> Result<Prepared> {
    let mut workload = workloads::by_name(name, 1)?;
    let mut device = VirtualDevice::new(client.open()?);
    let prepared = workload.prepare(&mut device);
    prepared.map_err(|error| anyhow!("preparing: {error}"))?;
    Ok((workload, device))
}

fn answer(what: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{what}")?)
}

/// A started process of the benchmark.
struct BenchProcess {
    role: RoleProcess,
    lines: Option<BufReader<ChildStdout>>,
}

impl BenchProcess {
    async fn start(cluster: &LocalCluster, name: &str) -> Result<Self> {
        let mut role = cluster.role(&format!("bench .{name}"), name, &[])?;
        let lines = role.take_stdout().map(BufReader::new);
        let mut process = Self { role, lines };
        let said = process.hear().await?;
        ensure!(said == "ready", "{name} said {said:?}");
        Ok(process)
    }

    /// Sends a line and reads the answer.
    async fn ask(&mut self, what: &str) -> Result<String> {
        self.role.say(what)?;
        self.hear().await
    }

    async fn hear(&mut self) -> Result<String> {
        let mut reader = self.lines.take().context("the process's output")?;
        let read = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            reader.read_line(&mut line).map(|_| (line, reader))
        });
        let Ok(read) = tokio::time::timeout(TIMEOUT, read).await else {
            self.role.kill()?;
            bail!("{} says nothing for {TIMEOUT:?}", self.role.name());
        };
        let (line, reader) = read??;
        ensure!(!line.is_empty(), "{} has ended", self.role.name());
        self.lines = Some(reader);
        Ok(line.trim_end().to_owned())
    }
}

/// Runs both through a cluster of one leader and one worker.
pub(super) async fn over_bus(reps: usize, settings: &Settings) -> Result<Vec<Sides>> {
    let cluster = preempt::cluster(settings, [CHAT, TRAIN], []).await?;
    let mut chat = BenchProcess::start(&cluster, CHAT).await?;
    let mut train = BenchProcess::start(&cluster, TRAIN).await?;
    train.ask(GO).await?;
    chat.ask(&WARM_UP.to_string()).await?;
    let mut repetitions = Vec::new();
    for rep in 1..=reps {
        eprintln!("chat beside train over the bus: repetition {rep} of {reps}");
        let mut sides = Sides::default();
        for beside in [false, true].repeat(BLOCKS) {
            train.ask(if beside { GO } else { STOP }).await?;
            tokio::time::sleep(SETTLE).await;
            let said = chat.ask(&BLOCK.to_string()).await?;
            let served: Block = serde_json::from_str(&said).context("what chat said")?;
            sides.add(beside, served);
        }
        repetitions.push(sides);
    }
    Ok(repetitions)
}
