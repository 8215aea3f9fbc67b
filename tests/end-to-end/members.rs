//! Workers come and go while tenants are at work. A new worker gets sessions, a drained one keeps
//! its own, and a dead one takes its own with it. The order and the usage hold over all of them.

use std::collections::BTreeMap;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bus_schemas::{Code, Incarnation, LeaderId, Status};
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{administrator, done, objects};
use crate::load::{Device, Load};
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::text;

/// Time that is waited for something that must not happen.
const BRIEFLY: Duration = Duration::from_millis(700);
const SETTINGS: &[(&str, &str)] = &[
    ("worker.device", "cpu"),
    ("worker.metering", "100ms"),
    // A program that asks in vain and leaves may leave behind a session, for this long.
    ("leader.connection_lost", "1s"),
];

async fn loaded(leaders: usize, workers: usize) -> LoadedCluster {
    let plans = [
        plan("chat", "chat", 0),
        plan("search", "search", 2),
        plan("train", "train", 4),
    ];
    LoadedCluster::idle(leaders, workers, &plans, SETTINGS).await
}

fn sessions(status: &Status) -> u64 {
    status.workers.iter().map(|worker| worker.sessions).sum()
}

async fn start(loaded: &LoadedCluster, tenant: &str, devices: u32) -> Load {
    match Load::start(loaded, tenant, devices, SOON).await {
        Ok(load) => load,
        Err(code) => loaded.panic(&format!("{tenant}: {code:?}")),
    }
}

async fn refused(loaded: &LoadedCluster, tenant: &str, devices: u32) -> Code {
    loop {
        match Load::start(loaded, tenant, devices, BRIEFLY).await {
            Ok(load) => loaded.panic(&format!("{tenant} has {:?}", load.gpus())),
            // The leader gives the reason when it is asked again, which may take longer.
            Err(Code::NoLeader) => {}
            Err(code) => return code,
        }
    }
}

/// Completed work: launches by tenant and GPU.
#[derive(Default)]
struct Ledger(BTreeMap<(String, u32), u64>);

impl Ledger {
    async fn close(&mut self, load: Load) {
        let tenant = load.tenant.clone();
        for device in load.stop().await.iter() {
            self.note(&tenant, device);
        }
    }

    fn note(&mut self, tenant: &str, device: &Device) {
        *self.0.entry((tenant.to_owned(), device.gpu)).or_default() += device.launches();
    }

    /// Compares with `warploom usage`, GPU by GPU. The usage of a killed worker ends with its last
    /// block; that of all others is complete.
    fn agrees(&self, loaded: &LoadedCluster, killed: &[(u32, Incarnation)]) {
        let mut rows = objects(loaded, &["usage", "--json", "--by", "tenant,gpu"]);
        let below = rows.pop().expect("a last line");
        for field in ["launches", "device_seconds", "core_credits", "vram_credits"] {
            let number = |value: &Value| value[field].as_f64().expect("a number");
            let (sum, total) = (
                rows.iter().map(number).sum::<f64>(),
                number(&below["total"]),
            );
            let near = (sum - total).abs() <= 1e-6 * total.max(1.0);
            assert!(near && number(&below["missing"]) == 0.0, "{field}: {below}");
        }
        let mut said = BTreeMap::new();
        for row in &rows {
            let tenant = row["tenant"].as_str().expect("a name").to_owned();
            let gpu = row["gpu"]
                .as_str()
                .expect("a gpu")
                .parse()
                .expect("a number");
            said.insert((tenant, gpu), row["launches"].as_u64().expect("launches"));
        }
        for ((tenant, gpu), launches) in &self.0 {
            let counted = said.remove(&(tenant.clone(), *gpu)).unwrap_or(0);
            if killed.iter().any(|(of, _)| of == gpu) {
                continue;
            }
            assert_eq!(counted, *launches, "{tenant} on gpu {gpu}: {rows:?}");
        }
        assert_eq!(said, BTreeMap::new(), "launches that nobody made");
        let unsaid = below["ended_without_last_block"].as_array();
        let unsaid = unsaid.expect("a list").iter();
        let unsaid: Vec<_> = unsaid.map(|worker| worker["worker"].clone()).collect();
        let killed = killed.iter().map(|(_, worker)| worker.to_string());
        assert_eq!(unsaid, killed.collect::<Vec<_>>(), "{below}");
    }
}

/// Checks that the record replays to the accepted positions of every worker, including those that
/// have gone. For killed workers, the leader may have granted more.
async fn order_holds(loaded: &LoadedCluster, workers: usize, killed: &[(u32, Incarnation)]) {
    loaded
        .until("all is recorded", |status| status.recorded == status.input)
        .await;
    let check = objects(loaded, &["order", "verify", "--json"]).remove(0);
    assert!(check["first"].is_null(), "{check}");
    let replayed = objects(loaded, &["replay", "--json"]).remove(0);
    assert_eq!(replayed["digest"], check["digest"]);
    let file = loaded.demo.cluster.options().state_dir.join("run.jsonl");
    let shown = file.to_str().expect("a path");
    done(loaded, &["order", "export", "--out", shown]);
    let rows: Vec<Value> = admin::evidence::read_lines(&file).expect("rows");
    let gpus = check["gpus"].as_array().expect("a list");
    let ids = gpus.iter().map(|gpu| {
        let worker = gpu["incarnation"].as_str().expect("an id");
        worker.parse::<Incarnation>().expect("an id")
    });
    let ids: Vec<_> = ids.collect();
    let was_killed = |worker: &Incarnation| killed.iter().any(|(_, killed)| killed == worker);
    // Their last reports may still be on their way to the observer.
    let heard = loaded
        .wait("their last words", SOON, |loaded| {
            let tails = loaded.demo.observer.see(|seen| seen.tails.clone());
            let heard = gpus.iter().zip(&ids).all(|(gpu, id)| {
                let position = tails.get(id).map(|(position, _)| *position);
                was_killed(id) || position >= gpu["position"].as_u64()
            });
            heard.then_some(tails)
        })
        .await;
    assert_eq!((gpus.len(), heard.len()), (workers, workers), "{check}");
    for (gpu, id) in gpus.iter().zip(&ids) {
        let (position, chain) = heard[id];
        let mut own = rows
            .iter()
            .filter(|row| row["incarnation"] == id.to_string());
        let row = own.find(|row| row["position"] == position);
        let row = row.unwrap_or_else(|| panic!("no position {position} of {gpu}"));
        assert_eq!(row["chain"], chain.to_string(), "{gpu}");
        assert!(
            was_killed(id) || gpu["position"] == position,
            "{gpu}: {position}"
        );
    }
}

/// An administrator's command that runs beside the test.
fn beside(loaded: &LoadedCluster, arguments: &[&str]) -> Child {
    let cluster = &loaded.demo.cluster;
    let mut command = Command::new(env!("CARGO_BIN_EXE_warploom"));
    command
        .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

async fn ends(child: Child) -> Output {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output = tokio::time::timeout(SOON, output).await.expect("in time");
    output.expect("no panic").expect("its output")
}

/// A drained worker keeps the session of `train`, and gets no other under this leader or the next
/// until the drain is undone. Drained again, it leaves after its last session.
async fn is_drained(
    loaded: &mut LoadedCluster,
    ledger: &mut Ledger,
    train: Load,
    leader: LeaderId,
) {
    let drained = train.devices[0].worker;
    let train_gpu = train.gpus()[0] as usize;
    let gpu = train_gpu.to_string();
    let said = objects(loaded, &["worker", "drain", &gpu, "--json"]).remove(0);
    assert_eq!(said["incarnation"], drained.to_string());
    assert_eq!(
        (&said["draining"], &said["sessions"]),
        (&true.into(), &1.into())
    );
    assert_eq!(refused(loaded, "train", 3).await, Code::TooFewWorkers);
    let before = loaded.status().await.epoch;
    let leader = loaded.demo.cluster.leader(leader);
    leader.expect("one of ours").kill().expect("it dies");
    loaded.epoch_above(before, SOON).await;
    let led = loaded
        .until("all are led", |status| status.workers.len() == 3)
        .await;
    for worker in &led.workers {
        assert_eq!(worker.draining, worker.incarnation == drained);
    }
    assert!(done(loaded, &["status"]).contains("draining"));
    assert_eq!(refused(loaded, "train", 3).await, Code::TooFewWorkers);
    done(loaded, &["worker", "drain", &gpu, "--undo"]);
    let all = start(loaded, "search", 3).await;
    all.goes_on(loaded, 2).await;
    let waits = beside(loaded, &["worker", "drain", &drained.to_string(), "--wait"]);
    loaded
        .until("it is drained", |status| {
            let mut workers = status.workers.iter();
            workers.any(|worker| worker.incarnation == drained && worker.draining)
        })
        .await;
    ledger.close(all).await;
    train.goes_on(loaded, 3).await;
    ledger.close(train).await;
    let output = ends(waits).await;
    assert!(output.status.success(), "{:?}", text(&output));
    assert!(
        text(&output).0.contains("it has left"),
        "{:?}",
        text(&output)
    );
    let worker = &mut loaded.demo.cluster.workers[train_gpu];
    assert!(worker.wait(SOON).expect("it ends").success());
    let output = administrator(loaded, &["worker", "drain", &gpu]);
    assert_eq!(output.status.code(), Some(2), "{:?}", text(&output));
}

#[tokio::test]
async fn workers_join_are_drained_and_die_under_load() {
    let mut loaded = loaded(2, 2).await;
    let mut ledger = Ledger::default();
    let (chat, train) = (
        start(&loaded, "chat", 1).await,
        start(&loaded, "train", 1).await,
    );
    let mut gpus = [chat.gpus()[0], train.gpus()[0]];
    gpus.sort_unstable();
    assert_eq!(gpus, [0, 1], "one on each");
    chat.goes_on(&loaded, 3).await;
    // A new worker gets the next session; the other sessions stay on their workers.
    loaded.demo.cluster.start_worker(2).expect("it starts");
    let three = loaded
        .until("it joins", |status| status.workers.len() == 3)
        .await;
    let search = start(&loaded, "search", 1).await;
    assert_eq!(search.gpus(), [2]);
    for load in [&chat, &train, &search] {
        load.goes_on(&loaded, 3).await;
    }
    is_drained(&mut loaded, &mut ledger, train, three.leader).await;
    // Another worker dies: its session is lost, the other session goes on, and new ones go there.
    let killed = (chat.gpus()[0], chat.devices[0].worker);
    loaded.demo.cluster.workers[killed.0 as usize]
        .kill()
        .expect("it dies");
    assert_eq!(chat.loses(&loaded, killed.0).await, Code::DeviceLost);
    search.goes_on(&loaded, 3).await;
    let again = start(&loaded, "chat", 1).await;
    assert_eq!(again.gpus(), [2]);
    again.goes_on(&loaded, 3).await;
    for load in [chat, search, again] {
        ledger.close(load).await;
    }
    loaded
        .until("all sessions have ended", |status| sessions(status) == 0)
        .await;
    loaded.demo.cluster.workers[2]
        .stop(SOON)
        .expect("it ends in order");
    loaded
        .until("all have gone", |status| status.workers.is_empty())
        .await;
    order_holds(&loaded, 3, &[killed]).await;
    ledger.agrees(&loaded, &[killed]);
}

#[tokio::test]
async fn several_devices_are_had_all_or_none_and_lost_one_by_one() {
    let mut loaded = loaded(1, 2).await;
    let mut ledger = Ledger::default();
    let (chat, train) = (
        start(&loaded, "chat", 1).await,
        start(&loaded, "train", 1).await,
    );
    let pair = start(&loaded, "search", 2).await;
    assert_ne!(pair.gpus()[0], pair.gpus()[1]);
    for load in [&chat, &train, &pair] {
        load.goes_on(&loaded, 2).await;
    }
    let before = sessions(&loaded.status().await);
    assert_eq!(refused(&loaded, "search", 3).await, Code::TooFewWorkers);
    assert_eq!(
        sessions(&loaded.status().await),
        before,
        "none of them is had"
    );
    // A program that asks while the third worker joins gets three devices.
    let asked = Load::start(&loaded, "search", 3, SOON);
    let joins = async {
        tokio::task::yield_now().await;
        loaded
            .demo
            .cluster
            .role("worker", "worker-2", &["--gpu".into(), "2".into()])
    };
    let (three, joined) = tokio::join!(asked, joins);
    let mut joined = joined.expect("it starts");
    let three = three.unwrap_or_else(|code| loaded.panic(&format!("{code:?}")));
    let mut gpus = three.gpus();
    gpus.sort_unstable();
    assert_eq!(gpus, [0, 1, 2]);
    three.goes_on(&loaded, 3).await;
    // A worker dies: each program loses that device, and no other.
    let dies = usize::try_from(chat.gpus()[0]).expect("a gpu");
    let killed = (chat.gpus()[0], chat.devices[0].worker);
    loaded.demo.cluster.workers[dies].kill().expect("it dies");
    for load in [&chat, &pair, &three] {
        assert_eq!(load.loses(&loaded, killed.0).await, Code::DeviceLost);
    }
    for load in [&train, &pair, &three] {
        load.goes_on(&loaded, 3).await;
        let lost = load
            .devices
            .iter()
            .filter(|device| device.lost.get().is_some());
        assert!(lost.map(|device| device.gpu).all(|gpu| gpu == killed.0));
    }
    assert_eq!(refused(&loaded, "chat", 3).await, Code::TooFewWorkers);
    for load in [chat, train, pair, three] {
        ledger.close(load).await;
    }
    loaded
        .until("all sessions have ended", |status| sessions(status) == 0)
        .await;
    joined.stop(SOON).expect("it ends in order");
    loaded.demo.cluster.workers[1 - dies]
        .stop(SOON)
        .expect("it ends in order");
    loaded
        .until("all have gone", |status| status.workers.is_empty())
        .await;
    order_holds(&loaded, 3, &[killed]).await;
    ledger.agrees(&loaded, &[killed]);
}

#[tokio::test]
async fn an_exclusive_worker_that_joins_late_serves_its_tenants_only() {
    let loaded = loaded(1, 1).await;
    let mut ledger = Ledger::default();
    let chat = start(&loaded, "chat", 1).await;
    for tenant in ["search", "train"] {
        done(&loaded, &["tenant", "set", tenant, "--group", "batch"]);
    }
    assert_eq!(refused(&loaded, "train", 1).await, Code::NoGroup);
    // It keeps asking, and gets the worker as soon as it joins.
    let arguments = ["--gpu", "1", "--group", "batch", "--exclusive"].map(String::from);
    let asked = Load::start(&loaded, "train", 1, SOON);
    let joins = async {
        tokio::task::yield_now().await;
        loaded
            .demo
            .cluster
            .role("worker", "worker-batch", &arguments)
    };
    let (train, joined) = tokio::join!(asked, joins);
    let mut joined = joined.expect("it starts");
    let train = train.unwrap_or_else(|code| loaded.panic(&format!("{code:?}")));
    assert_eq!(train.gpus(), [1]);
    // The others stay on the permitted workers, however busy they are; and its own worker takes one
    // tenant at a time.
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(start(&loaded, "chat", 1).await);
    }
    assert!(others.iter().all(|load| load.gpus() == [0]));
    assert_eq!(refused(&loaded, "chat", 2).await, Code::TooFewWorkers);
    assert_eq!(refused(&loaded, "search", 1).await, Code::Occupied);
    let more = start(&loaded, "train", 1).await;
    assert_eq!(more.gpus(), [1]);
    for load in others.iter().chain([&chat, &train, &more]) {
        load.goes_on(&loaded, 3).await;
    }
    for load in others.into_iter().chain([train, more]) {
        ledger.close(load).await;
    }
    let search = start(&loaded, "search", 1).await;
    assert_eq!(search.gpus(), [1]);
    // After a drain, the worker keeps its current sessions.
    done(&loaded, &["worker", "drain", "1"]);
    assert_eq!(refused(&loaded, "search", 1).await, Code::NoGroup);
    search.goes_on(&loaded, 3).await;
    for load in [search, chat] {
        ledger.close(load).await;
    }
    assert!(joined.wait(SOON).expect("it ends").success());
    loaded
        .until("it has gone", |status| status.workers.len() == 1)
        .await;
    order_holds(&loaded, 2, &[]).await;
    ledger.agrees(&loaded, &[]);
}

#[tokio::test]
async fn a_command_whose_worker_dies_fails_with_the_code_that_is_documented() {
    let loaded = loaded(1, 1).await;
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/lab/src/bench/long.ptx");
    let submit = [
        "submit", "--tenant", "chat", kernel, "long", "--block", "32",
    ];
    let many = [
        "--arg",
        "u32*32=0",
        "--arg",
        "u32:200000",
        "--repeat",
        "100000",
    ];
    let child = beside(&loaded, &[&submit[..], &many].concat());
    loaded
        .until("it is at work", |status| sessions(status) == 1)
        .await;
    let usage = |loaded: &LoadedCluster| {
        let launches = |seen: &mut lab::demo::Seen| {
            let rows = seen.usage.values().flat_map(|usage| &usage.sessions);
            rows.map(|row| row.launches).sum::<u64>()
        };
        (loaded.demo.observer.see(launches) > 0).then_some(())
    };
    loaded.wait("its first launches", SOON, usage).await;
    loaded.demo.cluster.workers[0]
        .signal(Signal::KILL)
        .expect("it dies");
    let output = ends(child).await;
    assert_eq!(output.status.code(), Some(1), "{:?}", text(&output));
    assert!(
        text(&output).1.contains("E-DEVICE-LOST"),
        "{:?}",
        text(&output)
    );
}
