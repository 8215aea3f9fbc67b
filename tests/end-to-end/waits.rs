//! Every wait ends. A process that does not answer is named, and one that does is waited for.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use client_agent::Client;
use test_cluster::TempDir;

use crate::cluster::{administrator, done};
use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

const KERNEL: &str = include_str!("../../ops/lab/src/bench/long.ptx");
/// Long for a living leader or worker, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(3);

/// Removes a process for good while programs wait, and checks the resulting code.
async fn goes_away(loaded: &mut LoadedCluster, code: &str, goes: impl FnOnce(&mut LoadedCluster)) {
    // Without standing grants each launch needs a leader.
    done(loaded, &["cluster", "set", "standing=off"]);
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "waits");
    let mut run = warploom(dir.path())
        .env(
            "WARPLOOM_BROKER_CREDENTIALS",
            loaded.demo.cluster.credentials(),
        )
        .env(
            "WARPLOOM_CLUSTER_NAME",
            &loaded.demo.cluster.options().cluster,
        )
        .args(["run", "--tenant=a", "--set=client.deadline=3s", "--"])
        .arg(&program)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/kernels/vector_add.ptx"
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().map(|line| line.expect("it is text"));
    assert_eq!(line().as_deref(), Some("at work"));
    let mut joined = loaded.login("a");
    joined.deadline = DEADLINE;
    let client = Client::connect(joined).expect("a broker");
    let session = client.open().expect("a session");
    session.sync().expect("it runs");

    goes(loaded);
    let error = session.sync().expect_err("nobody answers");
    assert_eq!(error.code().name(), code, "{error}");
    // The session stays failed, and a close ends, too.
    let again = session.sync().expect_err("it is over");
    assert_eq!(again.to_string(), error.to_string());
    let closed = session.close().expect_err("nobody answers");
    assert_ne!(closed.to_string(), "");
    let said = line().expect("the error");
    assert!(said.starts_with("46 "), "{said}");
    assert!(said.contains(code), "{said}");
    assert_eq!(line(), None, "and the same again");
    let mut err = String::new();
    let mut stderr = run.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut err).expect("it is text");
    assert!(err.contains(&format!("warploom: {code}")), "{err}");
    assert_eq!(run.wait().expect("it ends").code(), Some(7));
}

#[tokio::test]
async fn a_broker_that_is_gone_for_good_is_named() {
    let mut loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    goes_away(&mut loaded, "E-CLUSTER-NO-BROKER", |loaded| {
        loaded.demo.cluster.broker.kill().expect("it dies");
    })
    .await;
}

#[tokio::test]
async fn leaders_that_are_gone_for_good_are_named() {
    let mut loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    goes_away(&mut loaded, "E-CLUSTER-NO-LEADER", |loaded| {
        for (_, leader) in &mut loaded.demo.cluster.leaders {
            leader.kill().expect("it dies");
        }
    })
    .await;
    // A command waits as long as its deadline says.
    let asked = administrator(&loaded, &["--set=command.deadline=321ms", "status"]);
    let (out, err) = text(&asked);
    assert_eq!(asked.status.code(), Some(3), "{out}{err}");
    assert!(err.contains("no leader"), "{err}");
    assert!(err.contains("after 321ms"), "{err}");
}

#[test]
fn a_broker_that_takes_connections_and_never_speaks_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("nats://{}", silent.local_addr().expect("its address"));
    let dir = TempDir::new().expect("a directory");
    for command in [&["status"][..], &["tenant", "list"], &["order", "verify"]] {
        let asked = warploom(dir.path())
            .env("WARPLOOM_BROKER_URL", &url)
            .env("WARPLOOM_COMMAND_DEADLINE", "300ms")
            .args(command)
            .output()
            .expect("the binary runs");
        let (out, err) = text(&asked);
        assert_eq!(asked.status.code(), Some(3), "{command:?}: {out}{err}");
        assert!(err.contains("E-CLUSTER-UNREACHABLE"), "{err}");
        assert!(err.contains(&url), "{err}");
    }
}

#[tokio::test]
async fn a_kernel_that_takes_longer_than_the_deadline_is_waited_for() {
    // The watchdog would also end a long kernel.
    let settings = [("worker.watchdog", "300s")];
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::start_with(1, 1, &plans, &settings).await;
    loaded.demo.tenants[0].kill().expect("it dies");
    let mut joined = loaded.login("a");
    joined.deadline = DEADLINE;
    let client = Client::connect(joined).expect("a broker");
    let session = client.open().expect("a session");
    let module = session.load(KERNEL.as_bytes()).expect("a module");
    let kernel = module.function("long").expect("a kernel");
    let data = session.alloc(128).expect("memory");
    let mut rounds = 1_u32 << 20;
    loop {
        let mut params = data.to_le_bytes().to_vec();
        params.extend(rounds.to_le_bytes());
        let begun = Instant::now();
        let launched = session.launch(&kernel, [1, 1, 1], [32, 1, 1], 0, &params);
        launched.expect("a launch");
        session.sync().expect("it is waited for");
        if begun.elapsed() > 2 * DEADLINE {
            break;
        }
        rounds = rounds.checked_mul(2).expect("it takes long at some time");
    }
    session.close().expect("closed");
}
