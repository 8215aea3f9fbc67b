//! Weights that the cluster keeps. Programs of the tenants that they were published to need not
//! send them; others send every byte. Workers come and go, a command is killed, and the store is
//! full.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use test_cluster::TempDir;

use crate::copies::{MIB, Program, Sent, weights};
use crate::guest::finish;
use crate::loaded::{LoadedCluster, plan};
use crate::run::{text, warploom};

/// Bytes of the file's tensors. The last is too small to be offered.
const TENSORS: [usize; 3] = [3 * MIB + 4, 400_000, 1_000];

/// A safetensors file with tensors of 32-bit numbers, and the bytes of the tensors.
fn file(dir: &Path, name: &str, seed: u32, sizes: &[usize]) -> (PathBuf, Vec<Vec<u8>>) {
    let tensors: Vec<_> = (0_u32..)
        .zip(sizes)
        .map(|(n, bytes)| weights(seed + n, *bytes))
        .collect();
    let mut at = 0;
    let rows = tensors.iter().enumerate().map(|(n, bytes)| {
        let (from, elements) = (at, bytes.len() / 4);
        at += bytes.len();
        format!(
            r#""layer.{n}":{{"dtype":"F32","shape":[{elements}],"data_offsets":[{from},{at}]}}"#
        )
    });
    let head = format!("{{{}}}", rows.collect::<Vec<_>>().join(","));
    let mut bytes = (head.len() as u64).to_le_bytes().to_vec();
    bytes.extend(head.as_bytes());
    tensors.iter().for_each(|tensor| bytes.extend(tensor));
    let path = dir.join(name);
    std::fs::write(&path, bytes).expect("written");
    (path, tensors)
}

/// A command for a cluster.
pub(crate) fn command(loaded: &LoadedCluster, dir: &Path) -> Command {
    let mut command = warploom(dir);
    let credentials = loaded.demo.cluster.credentials();
    command.env("WARPLOOM_BROKER_CREDENTIALS", credentials);
    command
}

/// Runs a command that must end with this exit code.
#[track_caller]
fn ends(command: &mut Command, code: i32) -> Output {
    let output = finish(command);
    assert_eq!(output.status.code(), Some(code), "{:?}", text(&output));
    output
}

fn listed(loaded: &LoadedCluster, dir: &Path) -> Vec<Value> {
    let output = ends(command(loaded, dir).args(["--json", "weights", "list"]), 0);
    let (out, _) = text(&output);
    out.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Number of bytes that a tenant's program sends to copy these.
async fn sends(loaded: &LoadedCluster, sent: &Sent, tenant: &str, bytes: &[u8]) -> usize {
    sent.take().await;
    let settings = loaded.login(tenant);
    let copied = bytes.to_vec();
    let program = tokio::task::spawn_blocking(move || {
        let program = Program::start(settings, &copied);
        assert!(program.read(copied.len()) == copied);
        program.session.close().expect("closed");
    });
    program.await.expect("it ends");
    sent.take().await
}

async fn cluster() -> LoadedCluster {
    let plans = ["a", "b", "c"].map(|tenant| plan(tenant, "search", 1));
    LoadedCluster::idle(1, 1, &plans, &[("worker.device", "cpu")]).await
}

#[tokio::test]
async fn published_weights_are_not_sent_by_those_they_are_published_to() {
    let mut loaded = cluster().await;
    let dir = TempDir::new().expect("a directory");
    let (path, tensors) = file(dir.path(), "tiny.safetensors", 1, &TENSORS);
    let add = ["weights", "add", "tiny"];
    // A worker notices within seconds that there is a store at all, so it starts after the first
    // add.
    let added = ends(
        command(&loaded, dir.path())
            .args(add)
            .arg(&path)
            .args(["--tenant", "a"]),
        0,
    );
    assert!(text(&added).0.contains("2 tensors"), "{:?}", text(&added));
    let gpu = loaded.demo.cluster.workers[0].gpu().expect("its number");
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    loaded
        .demo
        .cluster
        .start_worker(gpu)
        .expect("another worker");
    loaded.demo.cluster.workers.remove(0);
    let sent = Sent::count(&loaded).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(
        sends(&loaded, &sent, "a", &tensors[0]).await < 4_096,
        "nobody ever sent it"
    );
    assert!(sends(&loaded, &sent, "a", &tensors[1]).await < 4_096);
    assert!(
        sends(&loaded, &sent, "b", &tensors[0]).await >= TENSORS[0],
        "not its"
    );
    // Published to all, without sending anything.
    let again = command(&loaded, dir.path())
        .args(add)
        .arg(&path)
        .arg("--public")
        .output();
    let again = text(&again.expect("it runs")).0;
    assert!(
        again.contains("published to all") && again.contains("; 0 B sent"),
        "{again}"
    );
    // Changes reach workers at once.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sends(&loaded, &sent, "c", &tensors[1]).await < 4_096);
    let [row] = &listed(&loaded, dir.path())[..] else {
        panic!("one name");
    };
    assert_eq!(
        (&row["name"], &row["public"]),
        (&"tiny".into(), &true.into())
    );
    assert_eq!(row["bytes"], (TENSORS[0] + TENSORS[1]) as u64);
    // A transfer of which half is published and half is sent: the tenant has sent only the latter.
    let mut changed = tensors[0].clone();
    changed[MIB + 5] ^= 1;
    let bytes = sends(&loaded, &sent, "c", &changed).await;
    assert!((MIB..MIB + 4_096).contains(&bytes), "{bytes} sent");
    // Removed weights must be sent again.
    ends(
        command(&loaded, dir.path()).args(["weights", "remove", "tiny"]),
        0,
    );
    ends(
        command(&loaded, dir.path()).args(["weights", "remove", "tiny"]),
        1,
    );
    assert!(listed(&loaded, dir.path()).is_empty());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(sends(&loaded, &sent, "c", &tensors[0]).await >= TENSORS[0]);
}

#[tokio::test]
async fn wrong_files_unknown_tenants_and_a_full_store_are_said_and_keep_nothing() {
    let loaded = cluster().await;
    let dir = TempDir::new().expect("a directory");
    let (path, _) = file(dir.path(), "large.safetensors", 5, &[20 * MIB]);
    let run = |arguments: &[&str]| {
        let output = finish(command(&loaded, dir.path()).args(arguments));
        (output.status.code(), text(&output).1)
    };
    let large = path.to_str().expect("text");
    let add = |more: &[&'static str]| [&["weights", "add", "x"], more].concat();
    let (code, said) = run(&[&add(&["--tenant", "nobody"])[..], &[large]].concat());
    assert!(
        code == Some(2) && said.contains("no tenant nobody"),
        "{said}"
    );
    let (code, said) = run(&[&add(&[])[..], &[large]].concat());
    assert!(code == Some(2) && said.contains("--tenant"), "{said}");
    let junk = dir.path().join("junk.safetensors");
    std::fs::write(&junk, b"PK\x03\x04 a checkpoint of something else").expect("written");
    let (code, said) = run(&[&add(&["--public"])[..], &[junk.to_str().expect("text")]].concat());
    assert!(code == Some(1) && said.contains("E-WEIGHTS-FILE"), "{said}");
    let (code, said) = run(&["weights", "remove", "x"]);
    assert!(
        code == Some(1) && said.contains("nothing is kept"),
        "{said}"
    );
    let little = ["--set", "weights.max_bytes=8MiB"];
    let (code, said) = run(&[&little[..], &add(&["--public"]), &[large]].concat());
    assert!(code == Some(1) && said.contains("E-WEIGHTS-FULL"), "{said}");
    assert!(listed(&loaded, dir.path()).is_empty());
    assert!(kept(&loaded).await.0 < 100_000, "nothing is written");
    // The limit stays until another is set. With room for it, the earlier failure has no effect.
    let (code, said) = run(&[&add(&["--public"])[..], &[large]].concat());
    assert!(code == Some(1) && said.contains("E-WEIGHTS-FULL"), "{said}");
    ends(
        command(&loaded, dir.path())
            .args(["--set", "weights.max_bytes=64MiB"])
            .args(add(&["--public"]))
            .arg(&path),
        0,
    );
    assert_eq!(listed(&loaded, dir.path()).len(), 1);
}

/// Bytes and messages that the broker keeps of weights.
async fn kept(loaded: &LoadedCluster) -> (u64, u64) {
    let credentials = loaded.demo.cluster.broker.credentials();
    let login = credentials.cluster_user.clone().expect("a login of roles");
    let options = async_nats::ConnectOptions::with_user_and_password(login.user, login.password);
    let bus = options
        .connect(credentials.url.with_login())
        .await
        .expect("a broker");
    let jetstream = async_nats::jetstream::new(bus);
    let name = format!("OBJ_wl-{}-weights", credentials.cluster);
    let stream = jetstream.get_stream(name).await.expect("a store");
    let state = &stream.cached_info().state;
    (state.bytes, state.messages)
}

#[tokio::test]
async fn an_add_that_is_killed_publishes_nothing_and_what_it_wrote_is_freed() {
    let loaded = cluster().await;
    let dir = TempDir::new().expect("a directory");
    let (path, _) = file(dir.path(), "model.safetensors", 7, &[8 * MIB; 12]);
    let mut add = command(&loaded, dir.path());
    add.args(["weights", "add", "m", "--public"]).arg(&path);
    let mut halves = 0;
    for after in [60, 150, 250] {
        let mut child = add.spawn().expect("it starts");
        tokio::time::sleep(Duration::from_millis(after)).await;
        child.kill().expect("it dies");
        child.wait().expect("dead");
        // Nothing, or all of it if the command was that fast.
        match &listed(&loaded, dir.path())[..] {
            [] => halves += 1,
            rows => assert_eq!(rows[0]["bytes"], 96 * MIB as u64),
        }
    }
    assert!(halves > 0, "all of them were faster");
    // Another command is killed while it changes published weights: these stay unchanged.
    ends(&mut add, 0);
    let (other, _) = file(dir.path(), "other.safetensors", 90, &[8 * MIB; 12]);
    let mut change = command(&loaded, dir.path());
    change.args(["weights", "add", "m", "--public"]).arg(&other);
    let mut child = change.spawn().expect("it starts");
    tokio::time::sleep(Duration::from_millis(300)).await;
    child.kill().expect("it dies");
    child.wait().expect("dead");
    let again = ends(&mut add, 0);
    let rows = listed(&loaded, dir.path());
    assert_eq!(rows[0]["bytes"], 96 * MIB as u64);
    let said = text(&again).0;
    assert!(
        said.contains("; 0 B sent") || said.contains("; 96.0 MiB sent"),
        "{said}"
    );
    // Half a minute later the leftovers of all of them are removed, and nothing else.
    tokio::time::sleep(Duration::from_secs(31)).await;
    ends(&mut add, 0);
    let (bytes, _) = kept(&loaded).await;
    let most = 97 * MIB as u64;
    assert!(
        (96 * MIB as u64..most).contains(&bytes),
        "{bytes} bytes are kept"
    );
    ends(
        command(&loaded, dir.path()).args(["weights", "remove", "m"]),
        0,
    );
    let (bytes, messages) = kept(&loaded).await;
    assert!(
        bytes < 100_000,
        "{bytes} bytes are kept, in {messages} messages"
    );
}
