//! Faults during permanent swapping: leaders and programs that die, programs that stop, full tiers,
//! and a worker that the system kills for its memory use.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use test_cluster::TempDir;

use crate::guest::{Guest, SOON, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;
use crate::swap::{Holder, OVERCOMMITTED, status};

/// Two programs of 40 MiB each that endlessly take turns on 64 MiB.
struct Turns {
    pids: [u32; 2],
    ends: Arc<AtomicBool>,
    rounds: Arc<AtomicU32>,
    /// Each returns the output of a program that lost its bytes or stopped answering.
    threads: [JoinHandle<Option<String>>; 2],
}

impl Turns {
    fn begin(loaded: &LoadedCluster, dir: &Path, program: &Path) -> Self {
        let (ends, rounds) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let mut pids = [0; 2];
        let threads = [1, 2].map(|seed| {
            let mut holder = Holder::start(loaded, "guest", dir, program);
            pids[seed - 1] = holder.pid();
            // One after the other: neither fits beside the other while that moves.
            assert_eq!(holder.does(&format!("take 20 {seed}")), "0");
            assert_eq!(holder.does(&format!("take 20 {seed}")), "0");
            let (ends, rounds): (Arc<AtomicBool>, Arc<AtomicU32>) =
                (Arc::clone(&ends), Arc::clone(&rounds));
            std::thread::spawn(move || {
                let mut at = seed;
                while !ends.load(Ordering::Relaxed) {
                    let said = holder.may(&format!("turn {at} {}", at + 10));
                    if said.as_deref() != Some("0") {
                        return Some(said.unwrap_or_else(|| "nothing any more".into()));
                    }
                    at += 10;
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                None
            })
        });
        Self {
            pids,
            ends,
            rounds,
            threads,
        }
    }

    /// Waits for this many more turns.
    async fn go_on(&self, more: u32) {
        let before = self.rounds.load(Ordering::Relaxed);
        let done = async {
            while self.rounds.load(Ordering::Relaxed) < before + more {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let went_on = tokio::time::timeout(SOON, done).await;
        went_on.expect("no turn is over any more");
    }

    /// Ends them; returns the error of each, if any.
    fn end(self) -> [Option<String>; 2] {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.map(|thread| thread.join().expect("it ends"))
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

#[tokio::test]
async fn leaders_and_programs_die_and_stand_still_while_memory_moves() {
    let plans = [plan("guest", "search", 1)];
    let mut settings = OVERCOMMITTED.to_vec();
    settings.extend([("leader.connection_lost", "1s"), ("leader.expiry", "60s")]);
    let mut loaded = LoadedCluster::idle(2, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let turns = Turns::begin(&loaded, dir.path(), &program);
    for _ in 0..2 {
        turns.go_on(4).await;
        let epoch = loaded.replace_leader(0, SOON).await;
        loaded.epoch_above(epoch, SOON).await;
        turns.go_on(4).await;
    }
    // A stopped program, with its memory on the device or not, does not block the others: turns go
    // on.
    for pid in turns.pids {
        signal(pid, Signal::STOP);
        turns.go_on(2).await;
        signal(pid, Signal::CONT);
        turns.go_on(4).await;
    }
    // A third takes part, and is killed at any point of a move.
    for pause in [0, 3, 10, 40] {
        let mut third = Holder::start(&loaded, "guest", dir.path(), &program);
        assert_eq!(third.does("take 30 3"), "0");
        assert_eq!(third.does("turn 3 4"), "0");
        third.tell("work 4 1000");
        tokio::time::sleep(Duration::from_millis(pause)).await;
        signal(third.pid(), Signal::KILL);
        turns.go_on(2).await;
    }
    let third = |seen: &bus_schemas::MemoryStatus| seen.sessions.len() > 2;
    for _ in 0..400 {
        if !third(&status(&loaded).await) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let seen = status(&loaded).await;
    assert!(!third(&seen), "who was killed holds memory: {seen:?}");
    let outs = seen.swap.expect("it is overcommitted").outs.0;
    // On a busy machine turns are long.
    assert!(outs >= 4, "only {outs} times somebody was swapped out");
    assert_eq!(turns.end(), [None, None]);
    let (_, replayed) = loaded.replayed().await;
    assert_eq!(replayed.skipped, 0);
}

#[tokio::test]
async fn programs_whose_memory_moves_hear_that_their_device_is_gone() {
    let plans = [plan("guest", "search", 1)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let turns = Turns::begin(&loaded, dir.path(), &program);
    turns.go_on(4).await;
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    // The program ends by itself at the first error, which must come: it does not wait forever.
    let said = turns.threads.map(|thread| thread.join().expect("it ends"));
    assert!(said.iter().all(Option::is_some), "{said:?}");
}

#[tokio::test]
async fn who_asks_for_more_than_the_tiers_take_is_refused_and_nobody_loses_anything() {
    let plans = [plan("a", "search", 1)];
    let mut settings = OVERCOMMITTED.to_vec();
    settings.extend([
        ("worker.overcommit", "300"),
        ("worker.swap_memory", "80MiB"),
    ]);
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = |_| Holder::start(&loaded, "a", dir.path(), &program);
    let mut all: Vec<Holder> = (0..8).map(start).collect();
    let take = |holder: &mut Holder| holder.does("take 10 1") == "0";
    let (had, refused): (Vec<usize>, Vec<usize>) =
        (0..all.len()).partition(|&index| take(&mut all[index]));
    // More than fits on the device, and as much as the tiers hold; it does not matter which
    // sessions must leave.
    assert_eq!((had.len(), refused.len()), (7, 1), "10 MiB each");
    for _ in 0..2 {
        for &index in &had {
            assert_eq!(all[index].does("turn 1 1"), "0", "program {index}");
        }
    }
    // The refused program lives, and gets memory that another frees.
    let waits = refused[0];
    assert!(!take(&mut all[waits]), "there is no more now than before");
    assert_eq!(all[had[0]].does("drop"), "0");
    assert!(take(&mut all[waits]), "what was given back");
    assert_eq!(all[waits].does("turn 1 2"), "0");
}

/// A memory control group of this test, if this machine supports it; removed when dropped.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn make(limit: u64) -> Result<Self, String> {
        let root = Path::new("/sys/fs/cgroup");
        let (parent, file) = match root.join("cgroup.controllers").exists() {
            true => (root.to_owned(), "memory.max"),
            false => (root.join("memory"), "memory.limit_in_bytes"),
        };
        let group = Self(parent.join(format!("warploom-test-{}", std::process::id())));
        std::fs::create_dir(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        group.write(file, limit)?;
        Ok(group)
    }

    fn write(&self, file: &str, value: impl std::fmt::Display) -> Result<(), String> {
        let path = self.0.join(file);
        std::fs::write(&path, value.to_string())
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // It can be removed once its last process has ended; that has just been killed.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[tokio::test]
async fn a_worker_that_the_system_kills_for_memory_takes_nobody_else_with_it() {
    let plans = ["a", "b"].map(|tenant| plan(tenant, "search", 1));
    let settings = [("worker.capacity", "256MiB"), ("worker.overcommit", "200")];
    let mut loaded = LoadedCluster::idle(1, 2, &plans, &settings).await;
    let group = match MemoryGroup::make(32 << 20) {
        Ok(group) => group,
        Err(why) => {
            eprintln!("skipped: no control group can be made: {why}");
            return;
        }
    };
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = |tenant: &str| Holder::start(&loaded, tenant, dir.path(), &program);
    let mut doomed = start("a");
    assert_eq!(doomed.does("take 4 1"), "0");
    let seen = loaded
        .until("its worker is known", |status| {
            status.workers.iter().any(|worker| worker.sessions == 1)
        })
        .await;
    let gpu = seen.workers.iter().find(|worker| worker.sessions == 1);
    let gpu = gpu.expect("as above").gpu;
    let mut other = start("b");
    assert_eq!(other.does("take 40 2"), "0");
    let mut workers = loaded.demo.cluster.workers.iter();
    let worker = workers.position(|worker| worker.gpu() == Some(gpu));
    let worker = worker.expect("its process");
    let pid = loaded.demo.cluster.workers[worker].pid();
    if let Err(why) = group.write("cgroup.procs", pid) {
        eprintln!("skipped: nobody can be put into a control group: {why}");
        return;
    }
    doomed.tell("take 200 1");
    loaded
        .until("the worker is lost", |status| {
            let mut live = status.workers.iter().filter(|worker| !worker.lost);
            live.all(|worker| worker.gpu != gpu)
        })
        .await;
    // A worker without free memory may be silent for a while before that.
    let killed = Instant::now();
    while loaded.demo.cluster.workers[worker].is_running() {
        assert!(killed.elapsed() < SOON, "the system has not killed it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(doomed.may("info").as_deref(), Some("0"), "it has ended");
    for round in 0..4 {
        let turn = format!("turn {} {}", round + 2, round + 3);
        assert_eq!(other.does(&turn), "0", "whose worker lives");
    }
    let mut third = Holder(Guest::start(&mut command(
        &loaded,
        "a",
        dir.path(),
        &program,
    )));
    assert_eq!(third.does("take 40 3"), "0", "on the worker that lives");
    assert_eq!(third.does("turn 3 4"), "0");
}
