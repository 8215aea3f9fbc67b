//! `warploom order` and `warploom replay` on a cluster after its leader was killed. Exports can be
//! verified, compared, replayed and drawn without the cluster, and changes to them are noticed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::Store;
use bus_schemas::ClusterSettings;
use rustix::process::Signal;
use serde_json::Value;
use storage::{Storage, Stored, stored_days};
use warploom_cli::local::Scratch;

use crate::loaded::{LoadedCluster, SOON, plan};

/// The binary under test with the cluster's credentials, in its own folder that outlives the
/// cluster.
pub(crate) struct Tool {
    credentials: PathBuf,
    folder: Scratch,
}

impl Tool {
    pub(crate) fn of(loaded: &LoadedCluster) -> Self {
        Self {
            credentials: loaded.demo.cluster.credentials(),
            folder: Scratch::new().expect("a folder"),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Exit code and all output.
    pub(crate) fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let credentials = format!("broker.credentials={}", self.credentials.display());
        let output = Command::new(env!("CARGO_BIN_EXE_warploom"))
            .args(arguments)
            .args(["--set", &credentials, "--set", "cluster.name=test"])
            .current_dir(self.folder.path())
            .output()
            .expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    }

    /// Starts a command that keeps running, and writes its output to a file.
    fn begins(&self, arguments: &[&str], file: &str) -> std::process::Child {
        let credentials = format!("broker.credentials={}", self.credentials.display());
        let said = std::fs::File::create(self.file(file)).expect("a file");
        Command::new(env!("CARGO_BIN_EXE_warploom"))
            .args(arguments)
            .args(["--set", &credentials, "--set", "cluster.name=test"])
            .current_dir(self.folder.path())
            .stderr(said.try_clone().expect("twice"))
            .stdout(said)
            .spawn()
            .expect("the binary runs")
    }

    /// The output of a command that must succeed.
    pub(crate) fn well(&self, arguments: &[&str]) -> String {
        let (code, said) = self.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    }

    /// The output of a command that must find an error.
    pub(crate) fn fails(&self, arguments: &[&str], says: &str) {
        let (code, said) = self.run(arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.well(&[arguments, &["--json"]].concat());
        let lines = said.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("a JSON object"))
            .collect()
    }
}

/// A cluster after some events: grants were held back and released, its leader was killed, its
/// tenants were stopped.
async fn eventful() -> LoadedCluster {
    let plans = [plan("chat", "chat", 0), plan("train", "train", 4)];
    let mut loaded = LoadedCluster::start(2, 2, &plans).await;
    let patience = Duration::from_secs(30);
    loaded.demo.requests(0, 20, patience).await.expect("work");
    let administrator = &loaded.demo.administrator;
    // Alone on its GPU, a tenant would have one position for all of its work.
    let each = ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    };
    administrator.set_cluster(&each).await.expect("set");
    loaded.demo.requests(0, 20, patience).await.expect("work");
    administrator.hold(true).await.expect("held");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let status = administrator.status(patience).await.expect("a status");
    assert!(status.held);
    administrator.hold(false).await.expect("released");
    let leader = loaded.demo.cluster.leader(status.leader).expect("ours");
    leader.signal(Signal::KILL).expect("killed");
    loaded.demo.requests(0, 20, patience).await.expect("work");
    loaded.demo.requests(1, 5, patience).await.expect("work");
    loaded.demo.stop().await.expect("stopped");
    loaded
}

#[tokio::test]
async fn an_order_is_exported_verified_compared_replayed_and_drawn() {
    let loaded = eventful().await;
    let tool = Tool::of(&loaded);
    let live = tool.json(&["order", "verify"]).remove(0);
    assert!(live["first"].is_null(), "{live}");
    assert!(
        live["gpus"]
            .as_array()
            .unwrap()
            .iter()
            .all(|gpu| !gpu["heard"].is_null())
    );
    for file in ["run.record", "run.csv", "run.jsonl"] {
        tool.well(&["order", "export", "--out", file]);
    }
    drop(loaded.demo);
    let digest = live["digest"].as_str().unwrap();
    let whole = tool
        .json(&["order", "verify", "run.record", "--expect", digest])
        .remove(0);
    let positions = whole["positions"].as_u64().unwrap();
    assert!(positions > 100, "{whole}");
    assert_eq!(whole["compared"].as_u64(), Some(positions + 2), "{whole}");
    tool.well(&["replay", "--record", "run.record", "--expect", digest]);
    for (left, right) in [("run.record", "run.csv"), ("run.csv", "run.jsonl")] {
        tool.well(&["order", "verify", right]);
        tool.well(&["order", "diff", left, right]);
    }
    let chats = tool.json(&["order", "show", "run.record", "--tenant=chat", "--limit=7"]);
    assert_eq!(chats.len(), 7);
    assert!(
        chats
            .iter()
            .all(|row| row["tenant"] == "chat" && row["outcome"] == "ran")
    );
    assert!(
        tool.well(&["order", "show", "run.csv"])
            .contains("the last 100 of")
    );
    looks(&tool, &chats[3]);
    tampering_is_noticed(&tool);
}

/// Makes the leader cut the record at each epoch that is some seconds old.
async fn cut_soon(loaded: &LoadedCluster) {
    let aged = ClusterSettings {
        record_max_age_s: 8,
        ..ClusterSettings::default()
    };
    let administrator = &loaded.demo.administrator;
    administrator.set_cluster(&aged).await.expect("set");
}

/// An archive keeps the parts that are cut off the record, and a follower of the order misses nothing.
#[tokio::test]
async fn an_archive_keeps_what_is_cut_off() {
    let plans = [plan("chat", "chat", 0)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let tool = Tool::of(&loaded);
    cut_soon(&loaded).await;
    loaded.work(&plans).await;
    let mut follower = tool.begins(&["order", "show", "--live", "--json"], "live.jsonl");
    // Both begin with the record; one is not updated.
    for archive in ["archive", "left"] {
        let added = &tool.json(&["order", "export", "--archive", archive])[0];
        assert!(added["blocks"].as_u64() > Some(0), "{added}");
    }
    // The cut must take what the other one lacks, and its epoch may be high by now.
    let left = loaded.epoch_above(0, SOON).await.epoch;
    let mut behind = 0;
    while behind <= left.max(7) {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        tool.well(&["order", "export", "--archive", "archive"]);
        behind = tool.json(&["order", "verify"])[0]["anchor"]["epoch"]
            .as_u64()
            .unwrap_or(0);
    }
    loaded.demo.stop().await.expect("stopped");
    // A follower of the order continues over every cut.
    let ended = follower.try_wait().expect("it is asked");
    let told = std::fs::read_to_string(tool.file("live.jsonl")).expect("what it said");
    follower.kill().expect("killed");
    follower.wait().expect("it ends");
    assert!(
        ended.is_none() && told.lines().count() > 8,
        "{ended:?}: {told}"
    );
    // The export waits a fifth of this deadline for the workers' chains, which is longer than by
    // default.
    let patient = ["--set", "command.deadline=60s"];
    tool.well(&[&["order", "export", "--archive", "archive"][..], &patient].concat());
    let record = &tool.json(&["order", "verify"])[0];
    let whole = &tool.json(&["order", "verify", "archive"])[0];
    assert!(record["anchor"].is_object() && whole["anchor"].is_null());
    assert_eq!(whole["skipped"], 0, "{whole}");
    assert_eq!(whole["gap_positions"], 0, "{whole}");
    assert_eq!(whole["gpus"][0]["with"], "worker", "{whole}");
    let before = record["anchor"]["positions"].as_u64().expect("a number");
    let behind = record["positions"].as_u64().expect("a number");
    assert!(before > 0, "{record}");
    assert!(
        whole["positions"].as_u64() >= Some(before + behind),
        "{whole}"
    );
    let replayed = &tool.json(&["replay", "--record", "archive"])[0];
    assert_eq!(replayed["digest"], whole["digest"]);
    what_devices_did_is_kept(&mut loaded, &tool);
    tool.fails(&["order", "export", "--archive", "left"], "E-ARCHIVE-GAP");
}

/// Fills a bucket up to its limit with values of its own. A lower limit instead would not last: a
/// leader that has just started gives the bucket its bytes back.
async fn fill(bucket: &Store) {
    let until = Instant::now() + SOON;
    let (mut bytes, mut fillers) = (512 << 10, 0);
    while bytes > 0 {
        let value = vec![0; bytes].into();
        match bucket.put(format!("filler.{fillers}"), value).await {
            Ok(_) => fillers += 1,
            Err(error) if format!("{error:?}").contains("maximum bytes") => bytes /= 2,
            Err(error) => {
                assert!(Instant::now() < until, "{error:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    assert!(fillers > 0, "the bucket is full before anything is stored");
}

/// A full bucket of devices' days does not prevent a cut, without which the record would run out of
/// room. Once the bucket has room again nothing is missing.
#[tokio::test]
async fn the_record_is_cut_where_the_days_cannot_be_kept() {
    let plans = [plan("chat", "chat", 0)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let tool = Tool::of(&loaded);
    let jetstream = async_nats::jetstream::new(loaded.demo.cluster.connect().await);
    // A leader creates it some time after it has begun to lead.
    let storage = Storage::new(jetstream, &loaded.demo.cluster.subjects());
    let bucket = storage.bucket(Stored::Control).await;
    let bucket = bucket.expect("it is opened or created");
    fill(&bucket).await;
    cut_soon(&loaded).await;
    loaded.work(&plans).await;
    tool.well(&["order", "export", "--archive", "archive"]);
    let until = Instant::now() + 2 * SOON;
    while tool.json(&["order", "verify"])[0]["anchor"]["epoch"].as_u64() < Some(8) {
        assert!(Instant::now() < until, "the record is not cut");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        tool.well(&["order", "export", "--archive", "archive"]);
    }
    let kept = async || stored_days(&bucket).await.expect("they are told").len();
    assert_eq!(kept().await, 0, "there was no room");
    let fillers = format!("{}filler.>", bucket.prefix);
    let purged = bucket.stream.purge().filter(fillers).await;
    purged.expect("there is room");
    // The leader keeps the days that it could not store, and adds them at its next cut.
    let until = Instant::now() + SOON;
    while kept().await == 0 {
        assert!(Instant::now() < until, "nothing is kept");
        tokio::time::sleep(Duration::from_millis(500)).await;
        tool.well(&["order", "export", "--archive", "archive"]);
    }
    loaded.demo.stop().await.expect("stopped");
    what_devices_did_is_kept(&mut loaded, &tool);
}

/// Maximum nanoseconds between two inputs of a leader on a busy machine.
const BETWEEN_INPUTS: f64 = 1e9;

/// The devices' days of the part that was cut off are kept: together with the rest they equal those
/// of the whole record. The leader is stopped, as its record would otherwise grow between two
/// reads.
fn what_devices_did_is_kept(loaded: &mut LoadedCluster, tool: &Tool) {
    for (_, leader) in &mut loaded.demo.cluster.leaders {
        leader.stop(Duration::from_secs(30)).expect("it leaves");
    }
    tool.well(&["order", "export", "--archive", "archive"]);
    let sums = |rows: Vec<Value>| {
        let sum = |key: &str| {
            rows.iter()
                .map(|row| row[key].as_f64().unwrap())
                .sum::<f64>()
        };
        (sum("busy_ns"), sum("idle_ns"))
    };
    let kept = sums(tool.json(&["why", "gpu:0"]));
    let whole = sums(tool.json(&["why", "gpu:0", "--record", "archive"]));
    // At the record's new beginning, the device's state before the first input is unknown: on a
    // busy machine inputs are far apart.
    let near = |one: f64, other: f64| (one - other).abs() < BETWEEN_INPUTS.max(0.02 * other);
    assert!(whole.0 > 0.0 && near(kept.0, whole.0), "{kept:?} {whole:?}");
    assert!(
        near(kept.0 + kept.1, whole.0 + whole.1),
        "{kept:?} {whole:?}"
    );
    let asked = tool.json(&["why", "gpu:0", "--since", "2d"]);
    let begin = &asked.last().expect("rows")["record"];
    assert_eq!(begin["was_cut"], true, "{begin}");
}

fn looks(tool: &Tool, row: &Value) {
    let at = format!("{}/{}", row["epoch"], row["global"]);
    let stopped = tool
        .json(&["replay", "--record", "run.record", "--until", &at])
        .remove(0);
    assert_eq!(stopped["at"]["position"], row["position"], "{stopped}");
    let order = &stopped["order"];
    assert_eq!(order["global"], row["global"]);
    for key in ["workers", "tenants", "sessions"] {
        assert!(!order[key].as_array().unwrap().is_empty(), "{key}: {order}");
    }
    let text = tool.well(&["replay", "--record", "run.record", "--until", &at]);
    assert!(text.contains("outstanding ms, priority 0 to 4"), "{text}");
    tool.fails(
        &["replay", "--record", "run.record", "--until", "7:1"],
        "no position 7:1",
    );
    tool.well(&["order", "timeline", "run.record", "--out", "run.svg"]);
    let picture = std::fs::read_to_string(tool.file("run.svg")).unwrap();
    for part in ["gpu 0", "gpu 1", ">chat<", ">train<", "priority 4"] {
        assert!(picture.contains(part), "{part}");
    }
}

/// Changed, missing or swapped rows are named, and so is a changed record.
fn tampering_is_noticed(tool: &Tool) {
    let file = |name: &str| tool.file(name);
    let lines = std::fs::read_to_string(file("run.jsonl")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    let at = lines.len() / 2;
    let row: Value = serde_json::from_str(lines[at]).unwrap();
    let place = format!("gpu {}", row["gpu"]);
    let (position, last) = (&row["position"], &row["last"]);
    let other = lines[at].replace(&format!("\"last\":{last}"), "\"last\":999999");
    let mut changed = lines.clone();
    changed[at] = &other;
    write(&file("changed.jsonl"), &changed);
    let mut short = lines.clone();
    short.remove(at);
    write(&file("short.jsonl"), &short);
    let worker = row["incarnation"].as_str().unwrap();
    let says = format!("{place} worker {worker} position {position}");
    tool.fails(&["order", "verify", "changed.jsonl"], &says);
    tool.fails(
        &["order", "verify", "short.jsonl"],
        "the position before it is missing",
    );
    let says = format!("{place} position {position}");
    tool.fails(&["order", "diff", "run.record", "changed.jsonl"], &says);
    tool.fails(&["order", "diff", "run.record", "short.jsonl"], &says);
    let mut record = std::fs::read(file("run.record")).unwrap();
    let middle = record.len() / 2;
    record[middle] ^= 4;
    std::fs::write(file("touched.record"), record).unwrap();
    tool.fails(&["order", "verify", "touched.record"], "E-RECORD-FILE");
}

fn write(path: &Path, lines: &[&str]) {
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
}
