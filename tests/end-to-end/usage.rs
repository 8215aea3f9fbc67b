//! `warploom usage`: the usage adds up, even if roles are killed.

use std::time::{Duration, Instant, SystemTime};

use admin::usage::Query;
use async_nats::jetstream;
use bus_schemas::{
    ClusterSettings, Fold, Incarnation, KernelKey, KernelUse, UsageBlock, UseTotals, WIRE_VERSION,
    encode,
};
use futures_util::TryStreamExt;
use serde_json::Value;

use crate::cluster::{done, objects};
use crate::loaded::{LoadedCluster, plan};

const SOON: Duration = Duration::from_secs(30);
/// A short interval, so that there are many blocks.
const SETTINGS: &[(&str, &str)] = &[("worker.metering", "100ms")];

/// The counted values: of launches, and of memory that moves and is shared.
const COUNTED: [&str; 12] = [
    "launches",
    "device_seconds",
    "core_credits",
    "vram_credits",
    "swap_outs",
    "swap_out_bytes",
    "swap_ins",
    "swap_in_bytes",
    "swap_wait_seconds",
    "swapped_credits",
    "saved_credits",
    "unsent_bytes",
];

/// The rows of a table, and the line below it.
pub(crate) fn table(loaded: &LoadedCluster, by: &str) -> (Vec<Value>, Value) {
    let mut rows = objects(loaded, &["usage", "--json", "--by", by]);
    let below = rows.pop().expect("a last line");
    (rows, below)
}

pub(crate) fn number(value: &Value, field: &str) -> f64 {
    value[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} of {value}"))
}

fn sum(rows: &[Value], field: &str) -> f64 {
    rows.iter().map(|row| number(row, field)).sum()
}

/// Checks that every grouping of rows gives the same sums, with nothing missing.
pub(crate) fn adds_up(loaded: &LoadedCluster) -> f64 {
    let mut launches = Vec::new();
    for by in ["tenant", "kernel", "gpu", "day", "tenant,kernel,day,gpu"] {
        let (rows, below) = table(loaded, by);
        for field in COUNTED {
            let (sum, total) = (sum(&rows, field), number(&below["total"], field));
            let near = (sum - total).abs() <= 1e-6 * total.max(1.0);
            assert!(near, "{field} by {by}: {sum} of {total}");
            assert!(number(&below["missing"], field) == 0.0, "{below}");
        }
        launches.push(number(&below["total"], "launches"));
    }
    launches[0]
}

#[tokio::test]
async fn usage_adds_up_although_a_leader_is_killed_and_a_worker_leaves() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start_with(2, 1, &plans, SETTINGS).await;
    loaded.progress(3, SOON).await;
    let old = loaded.epoch_above(0, SOON).await;
    let leader = loaded.demo.cluster.leader(old.leader).expect("one of ours");
    leader.kill().expect("it dies");
    loaded.epoch_above(old.epoch, SOON).await;
    loaded.progress(3, SOON).await;
    loaded.demo.stop().await.expect("they stop");
    loaded.demo.cluster.workers[0]
        .stop(SOON)
        .expect("it drains");
    adds_up(&loaded);
    // The usage blocks agree with the worker's last messages to its subscribers.
    let (rows, below) = table(&loaded, "tenant");
    assert_eq!(below["ended_without_last_block"], serde_json::json!([]));
    // Its last message may still be on its way to the observer.
    let all = (sum(&rows, "launches"), sum(&rows, "device_seconds"));
    let heard = loaded
        .wait("the worker's last words", SOON, |loaded| {
            loaded.demo.observer.see(|seen| {
                let usage = seen.usage.values().next()?;
                let launches: u64 = usage.sessions.iter().map(|row| row.launches).sum();
                let device_ns: u64 = usage.sessions.iter().map(|row| row.device_ns).sum();
                let is_all = launches as f64 >= all.0 && device_ns as f64 / 1e9 > all.1 - 1e-6;
                is_all.then(|| usage.clone())
            })
        })
        .await;
    for row in &rows {
        let own = heard
            .sessions
            .iter()
            .filter(|it| row["tenant"] == it.tenant.as_str());
        let (mut launches, mut sm_ns, mut device_ns) = (0, 0, 0);
        for session in own {
            launches += session.launches;
            sm_ns += session.sm_ns;
            device_ns += session.device_ns;
        }
        assert!(launches > 0, "{row}");
        assert_eq!(number(row, "launches"), launches as f64, "{row}");
        let near = |field: &str, ns: u64| (number(row, field) - ns as f64 / 1e9).abs() < 1e-6;
        assert!(
            near("core_credits", sm_ns) && near("device_seconds", device_ns),
            "{row} {heard:?}"
        );
    }
    assert_eq!(rows.len(), 2);
    // Kernels have names, and the shortest launch is no longer than the longest.
    let (kernels, _) = table(&loaded, "kernel");
    let named = kernels.iter().filter(|row| row["kernel"] != "-");
    assert!(named.clone().count() > 2);
    for row in named {
        assert!(
            row["what"].as_str().is_some_and(|what| what.contains('<')),
            "{row}"
        );
        assert!(number(row, "least_ns") <= number(row, "most_ns"), "{row}");
    }
    let csv = done(&loaded, &["usage", "--csv", "--by", "tenant,day"]);
    let head = "tenant,day,launches,device_seconds,core_credits,vram_credits,share";
    assert_eq!(csv.lines().next(), Some(head));
    assert!(csv.lines().count() >= 3, "{csv}");
    let of_b = done(&loaded, &["usage", "--tenant", "b", "--since", "1h"]);
    assert!(of_b.contains('b') && of_b.contains("total"), "{of_b}");
}

/// The last usage report of the worker with the only session: incarnation, GPU, launches and device
/// nanoseconds.
async fn said_by_the_busy(loaded: &LoadedCluster) -> (bus_schemas::Incarnation, usize, [u64; 2]) {
    let status = loaded.epoch_above(0, SOON).await;
    let busy = status.workers.iter().find(|worker| worker.sessions > 0);
    let busy = busy.expect("a worker with the session").clone();
    let said = loaded
        .wait("what it used", SOON, |loaded| {
            loaded.demo.observer.see(|seen| {
                let usage = seen.usage.get(&busy.incarnation)?;
                let sum =
                    |of: fn(&bus_schemas::UsageRow) -> u64| usage.sessions.iter().map(of).sum();
                let launches = sum(|row| row.launches);
                (launches > 0).then(|| [launches, sum(|row| row.device_ns)])
            })
        })
        .await;
    (busy.incarnation, busy.gpu as usize, said)
}

/// Kills a worker while its only session is at work, under a standing grant that is never closed,
/// or slice by slice. Work without a block is reported as lost: at least as much as the worker had
/// reported.
async fn what_died_is_said(standing: bool) {
    // Blocks so rare that nearly everything is lost.
    let settings = [("worker.metering", "2s")];
    let mut loaded = LoadedCluster::idle(1, 2, &[plan("a", "search", 1)], &settings).await;
    let chosen = bus_schemas::ClusterSettings {
        standing,
        ..bus_schemas::ClusterSettings::default()
    };
    let set = loaded.demo.administrator.set_cluster(&chosen).await;
    set.expect("how its ops are granted");
    let plan = plan("a", "search", 1);
    loaded.demo.add_tenant(&plan, 3).expect("a tenant");
    loaded.demo.go().await.expect("it is at work");
    loaded.progress(20, SOON).await;
    let (busy, index, [launches, device_ns]) = said_by_the_busy(&loaded).await;
    // By then it has reported that usage to its leader.
    loaded.progress(20, SOON).await;
    loaded.demo.cluster.workers[index].kill().expect("it dies");
    let lost = |status: &bus_schemas::Status| {
        let mut workers = status.workers.iter();
        !workers.any(|worker| worker.incarnation == busy && !worker.lost)
    };
    loop {
        let status = loaded.epoch_above(0, SOON).await;
        if lost(&status) && status.recorded == status.input {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    adds_up(&loaded);
    let (rows, below) = table(&loaded, "tenant,gpu");
    let unsaid = below["ended_without_last_block"]
        .as_array()
        .expect("a list");
    let [unsaid] = &unsaid[..] else {
        panic!("one worker died: {below}");
    };
    assert_eq!(unsaid["worker"], busy.to_string());
    assert_eq!(unsaid["unrecorded_reports"], 0, "no leader died: {unsaid}");
    let tenants = unsaid["tenants"].as_array().expect("a list");
    let [of_a] = &tenants[..] else {
        panic!("it had one tenant: {unsaid}");
    };
    assert_eq!(of_a["tenant"], "a");
    for field in ["device_ns", "launches", "unknown_ops"] {
        assert_eq!(of_a[field], unsaid[field], "{unsaid}");
    }
    assert!(number(unsaid, "device_ns") > 0.0, "{unsaid}");
    let gpu = index.to_string();
    let rows = rows.into_iter().filter(|row| row["gpu"] == gpu.as_str());
    let rows: Vec<_> = rows.collect();
    let known = sum(&rows, "device_seconds") * 1e9 + number(unsaid, "device_ns");
    assert!(known + 1e3 >= device_ns as f64, "{device_ns}: {below}");
    let known = sum(&rows, "launches") + number(unsaid, "launches") + number(unsaid, "unknown_ops");
    assert!(known >= launches as f64, "{launches}: {below}");
    let said = done(&loaded, &["usage"]);
    assert!(said.contains("ended without its last block"), "{said}");
    done(&loaded, &["tenant", "create", "b"]);
    let of_others = done(&loaded, &["usage", "--tenant", "b"]);
    assert!(!of_others.contains("without its last"), "{of_others}");
}

#[tokio::test]
async fn what_died_under_a_standing_grant_is_said() {
    what_died_is_said(true).await;
}

#[tokio::test]
async fn what_died_in_slices_is_said() {
    what_died_is_said(false).await;
}

const DAY_MS: u64 = 86_400_000;

/// Blocks of an old worker: 40 on each of three days, the last days of its life.
fn of_long_ago(today: u64) -> Vec<UsageBlock> {
    let mut totals = UseTotals::default();
    let block = |number: u64| {
        let mut block = UsageBlock {
            v: WIRE_VERSION,
            incarnation: Incarnation(0xfed),
            gpu: 9,
            sms: 2,
            number,
            first: None,
            at_ms: (today - 10 + (number - 1) / 40) * DAY_MS + number,
            elapsed_ns: 0,
            active_ns: 0,
            starved_ns: 0,
            last: number == 120,
            totals,
            reports: Some(number),
            kernels: vec![KernelUse {
                tenant: ["old", "older"][number as usize % 2]
                    .parse()
                    .expect("a tenant"),
                key: KernelKey(7),
                launches: number,
                device_ns: 1_000 * number,
                sm_ns: 2_000 * number,
                least_ns: 1_000,
                most_ns: 1_000,
            }],
            memory: Vec::new(),
            moves: Vec::new(),
            names: Vec::new(),
        };
        totals.add(&block.sum());
        block.totals = totals;
        block
    };
    (1..=120).map(block).collect()
}

#[tokio::test]
async fn what_is_old_is_folded_to_days() {
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::start_with(1, 1, &plans, SETTINGS).await;
    loaded.progress(3, SOON).await;
    loaded.demo.stop().await.expect("they stop");
    loaded.demo.cluster.workers[0]
        .stop(SOON)
        .expect("it drains");
    let administrator = &loaded.demo.administrator;
    let jetstream = jetstream::new(administrator.client().clone());
    let subjects = administrator.subjects().clone();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let today = now.expect("after 1970").as_millis() as u64 / DAY_MS;
    let old = of_long_ago(today);
    let append = async |subject: String, block: &UsageBlock| {
        let sent = jetstream.publish(subject, encode(block).into()).await;
        sent.expect("sent").await.expect("stored");
    };
    for block in &old {
        append(subjects.usage_blocks(block.incarnation), block).await;
    }
    // Simulates a leader that died after writing the first day and removing half of the blocks in
    // it.
    let mut fold = Fold::default();
    old[..40].iter().for_each(|block| fold.add(block.clone()));
    append(subjects.usage_days(), &fold.finish()[0]).await;
    let of_worker = subjects.usage_blocks(Incarnation(0xfed));
    let name = subjects.usage_stream();
    let stream = jetstream.get_stream(&name).await.expect("the usage stream");
    let begin = stream.cached_info().state.last_sequence - 120;
    let purge = stream.purge().sequence(begin + 20).filter(&of_worker);
    assert!(purge.await.expect("purged").purged >= 19);
    // What is held now is no account: the leader is asked for it, and a busy one answers late.
    let tables = || {
        ["tenant", "kernel", "gpu", "day", "tenant,kernel,day,gpu"].map(|by| {
            let (rows, mut below) = table(&loaded, by);
            below.as_object_mut().expect("an object").remove("memory");
            (rows, below)
        })
    };
    let before = tables();
    assert!(
        number(&before[0].1["total"], "launches") > 7_260.0,
        "{before:?}"
    );
    adds_up(&loaded);
    let aged = ClusterSettings {
        usage_max_age_s: 2 * 86_400,
        ..ClusterSettings::default()
    };
    administrator.set_cluster(&aged).await.expect("set");
    let until = Instant::now() + 4 * SOON;
    let launches = number(&before[0].1["total"], "launches");
    loop {
        // A concurrent reader sees either the folded block or its original blocks, never both.
        let books = administrator.books(Query::default()).await;
        assert_eq!(books.expect("read").all.launches as f64, launches);
        let counts = stream.info_with_subjects(subjects.usage_blocks_all()).await;
        let counts: Vec<_> = counts.expect("subjects").try_collect().await.expect("all");
        let of = |subject: &str| counts.iter().find(|(has, _)| has == subject);
        if of(&of_worker).is_none() {
            let days = of(&subjects.usage_days()).map(|(_, count)| *count);
            assert_eq!(days, Some(3), "{counts:?}");
            assert_eq!(counts.len(), 2, "what is young stays: {counts:?}");
            break;
        }
        assert!(Instant::now() < until, "still there: {counts:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (after, before) in tables().iter().zip(&before) {
        assert_eq!(after.1, before.1);
        assert_eq!(after.0, before.0);
    }
    adds_up(&loaded);
}
