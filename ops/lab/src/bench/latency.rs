//! The cost of one launch to its caller: with its sync, and without.

use anyhow::Result;
use bus_schemas::{
    Column, CostClass, CostRun, DeviceResult, Grant, GrantBatch, GrantKind, Intent, KernelKey,
    LeaderId, ResultKind, SessionId, WIRE_VERSION, encode,
};

use super::baseline::Baselines;
use super::bench_cluster::{Bench, play};
use super::bench_process::{BURST, Enqueued, Synced};
use super::goals;
use super::metric::Measurement;
use warploom_cli::local::LocalCluster;

/// Launches in one repetition.
const LAUNCHES: usize = 2_000;
/// Bursts in one repetition.
const BURSTS: usize = 200;

/// Bytes of the three messages of a synchronous launch: intent, order, result.
fn sizes() -> [usize; 3] {
    // Positions and ids as in a cluster that has run for a while: their longest encoding.
    let late = u64::MAX / 2;
    let run = |class| CostRun {
        key: KernelKey(late),
        bytes: 0,
        count: 1,
        class,
    };
    let mut rows = Vec::new();
    let runs = Column::pack(&[run(CostClass::Launch), run(CostClass::Sync)], &mut rows);
    let intent = encode(&Intent {
        v: WIRE_VERSION,
        first: 100_000,
        count: 2,
        runs,
    });
    let grant = Grant {
        kind: GrantKind::Run,
        priority: 2,
        global: late,
        session: SessionId(late),
        first: late,
        last: late,
        cost: late,
        declared: late,
        input: late,
        epoch: 1,
    };
    let mut rows = Vec::new();
    let batch = encode(&GrantBatch {
        v: WIRE_VERSION,
        epoch: 1,
        leader: LeaderId(late),
        first: 100_000,
        recorded: 100_000,
        reports: 100_000,
        grants: Column::pack(&[grant], &mut rows),
        opens: Vec::new(),
    });
    [intent.len(), batch.len(), result_size()]
}

/// Bytes of a sync's answer.
pub(super) fn result_size() -> usize {
    let result = DeviceResult {
        v: WIRE_VERSION,
        number: 100_000,
        op: 100_000,
        kind: ResultKind::Sync,
        device_ns: 1_000,
        total: 0,
        offset: 0,
        bytes: &[],
        events: Column::default(),
    };
    encode(&result).len()
}

/// A launch and its sync, compared with a bare relay of three hops.
pub(super) async fn sync(
    bench: &Bench<'_>,
    cluster: &LocalCluster,
    baselines: Result<&Baselines, &str>,
) -> Result<Vec<Measurement>> {
    let [intent, order, result] = sizes().map(|bytes| bytes.to_string());
    let launches = LAUNCHES.to_string();
    let [to_leader, to_worker, to_client] =
        ["leader", "worker", "client"].map(|process| format!("wl.v1.bench.s.bare.relay.{process}"));
    let hops = baselines.and_then(|baselines| {
        let hop = |from, to, bytes| {
            let hop = baselines.serve("relay", &["hop", from, to, bytes]);
            hop.map_err(|_| "the baseline's hops do not start")
        };
        let leader = hop(&to_leader, &to_worker, &order)?;
        Ok((baselines, leader, hop(&to_worker, &to_client, &result)?))
    });
    let (mut ours, mut tails, mut theirs, mut ratios) = (vec![], vec![], vec![], vec![]);
    for rep in 1..=bench.reps {
        eprintln!("synchronous launch: repetition {rep} of {}", bench.reps);
        let us: Synced = play(cluster, "sync", LAUNCHES).await?;
        ours.push(us.p50_us);
        tails.push(us.p99_us);
        if let Ok((baselines, ..)) = &hops {
            let arguments = ["client", &to_leader, &to_client, &intent, &launches];
            let relay: Synced = baselines.run("relay", &arguments).await?;
            theirs.push(relay.p50_us);
            ratios.push(us.p50_us / relay.p50_us);
        }
    }
    let relay = "three-hop relay p50, us";
    let absolute = Measurement::new(&goals::SYNC_US, &ours)
        .against(relay, &theirs)
        .with("p99_us", super::metric::median(&tails))
        .with("launches", LAUNCHES);
    let ratio = match hops {
        Ok(_) => Measurement::new(&goals::SYNC_RATIO, &ratios).against(relay, &theirs),
        Err(why) => Measurement::missing(&goals::SYNC_RATIO, why),
    };
    let bytes = format!("{intent} {order} {result}");
    Ok(vec![absolute, ratio.with("message_bytes", bytes)])
}

/// An asynchronous launch, as its caller sees it.
pub(super) async fn enqueue(bench: &Bench<'_>, cluster: &LocalCluster) -> Result<Vec<Measurement>> {
    let (mut times, mut mine, mut all) = (vec![], vec![], vec![]);
    for rep in 1..=bench.reps {
        eprintln!("asynchronous launch: repetition {rep} of {}", bench.reps);
        let seen: Enqueued = play(cluster, "enqueue", BURSTS).await?;
        times.push(seen.mean_ns);
        mine.push(seen.allocations);
        all.push(seen.process_allocations);
    }
    let allocations = Measurement::new(&goals::ENQUEUE_ALLOCS, &mine)
        .with("whole_process", super::metric::median(&all));
    let times = Measurement::new(&goals::ENQUEUE_NS, &times)
        .with("bursts", BURSTS)
        .with("burst", BURST);
    Ok(vec![times, allocations])
}
