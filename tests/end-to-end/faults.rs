//! Faults around a CUDA program: it does not notice them, or gets the driver's own error, in time.
//! A program that fails does not affect others.

use std::time::{Duration, Instant};

use bus_schemas::Status;
use rustix::process::Signal;
use test_cluster::TempDir;

use crate::guest::{self, Guest, SOON, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

const SLOWLY: &[(&str, &str)] = &[("leader.connection_lost", "1s"), ("leader.expiry", "6s")];

async fn status(loaded: &LoadedCluster) -> Status {
    let status = loaded.demo.administrator.status(SOON).await;
    status.unwrap_or_else(|error| loaded.panic(&format!("{error:#}")))
}

async fn sessions(loaded: &LoadedCluster) -> u64 {
    let status = status(loaded).await;
    status.tenants.iter().map(|tenant| tenant.sessions).sum()
}

/// Device bytes that a tenant's sessions hold, according to their worker.
fn resident(loaded: &LoadedCluster, tenant: &str) -> u64 {
    loaded.demo.observer.see(|seen| {
        let rows = seen.usage.values().flat_map(|usage| &usage.sessions);
        let own = rows.filter(|row| row.tenant.as_str() == tenant);
        own.map(|row| row.resident).sum()
    })
}

#[tokio::test]
async fn leaders_may_die_and_programs_may_stand_still() {
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::idle(2, 1, &plans, SLOWLY).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "faults");
    let guest = Guest::start(command(&loaded, "a", dir.path(), &program).arg("works"));
    for _ in 0..2 {
        guest.goes_on(5);
        let epoch = loaded.replace_leader(0, SOON).await;
        loaded.epoch_above(epoch, SOON).await;
        guest.goes_on(5);
    }
    // A third of the time for which a silent program is considered alive.
    guest.signal(Signal::STOP);
    tokio::time::sleep(Duration::from_secs(2)).await;
    guest.signal(Signal::CONT);
    guest.goes_on(5);
    let (last, code) = guest.ends();
    assert!(code == Some(0) && last.ends_with("launches"), "{last}");
    // The end of a program does not wait for a cluster that is gone.
    let guest = Guest::start(command(&loaded, "a", dir.path(), &program).arg("ends"));
    assert_eq!(guest.says().as_deref(), Some("works"));
    loaded.demo.cluster.broker.kill().expect("it dies");
    assert_eq!(guest.ends(), ("ends".into(), Some(0)));
}

#[tokio::test]
async fn a_program_hears_that_its_device_is_gone_and_goes_on_hearing_it() {
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "faults");
    let guest = Guest::start(command(&loaded, "a", dir.path(), &program).arg("loses"));
    assert_eq!(guest.says().as_deref(), Some("works"));
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    assert_eq!(guest.ends(), ("lost".into(), Some(0)));
}

#[tokio::test]
async fn a_killed_programs_memory_is_free() {
    let mut quota = plan("a", "search", 1);
    quota.settings.quota = 64 << 20;
    let loaded = LoadedCluster::idle(1, 1, &[quota], SLOWLY).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "faults");
    // Under `run` at once; without it, some time after its connection is lost.
    for behind_run in [true, false] {
        let mut guest = match behind_run {
            false => Guest::start(command(&loaded, "a", dir.path(), &program).arg("works")),
            true => Guest::start(
                warploom(dir.path())
                    .env(
                        "WARPLOOM_BROKER_CREDENTIALS",
                        loaded.demo.cluster.credentials(),
                    )
                    .env("WARPLOOM_CLUSTER_NAME", "test")
                    .args(["run", "--tenant", "a", "--"])
                    .arg(&program)
                    .arg("works"),
            ),
        };
        guest.goes_on(1);
        assert_eq!(sessions(&loaded).await, 1);
        loaded
            .wait("its memory is seen", SOON, |loaded| {
                (resident(loaded, "a") > 0).then_some(())
            })
            .await;
        let pid = match behind_run {
            false => guest.child.id() as i32,
            true => only_child(guest.child.id()),
        };
        let pid = rustix::process::Pid::from_raw(pid).expect("a process");
        rustix::process::kill_process(pid, Signal::KILL).expect("it is killed");
        let killed = Instant::now();
        while sessions(&loaded).await > 0 {
            assert!(killed.elapsed() < SOON, "its session lives on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ended = killed.elapsed();
        loaded
            .wait("its memory is free", SOON, |loaded| {
                (resident(loaded, "a") == 0).then_some(())
            })
            .await;
        println!("behind run: {behind_run}; its session ended after {ended:?}");
        guest.child.wait().expect("it is a child");
    }
    let asks = guest::finish(command(&loaded, "a", dir.path(), &program).arg("asks"));
    let told = ("as much as it may\n".to_owned(), String::new());
    assert_eq!(text(&asks), told, "{:?}", asks.status);
}

#[tokio::test]
async fn a_kernel_that_waits_for_one_of_another_stream_is_told_why_it_ended() {
    // A test cluster has a watchdog of two seconds.
    let loaded = LoadedCluster::idle(1, 1, &[plan("a", "search", 1)], &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "faults");
    let meets = guest::finish(command(&loaded, "a", dir.path(), &program).arg("meets"));
    assert_eq!(text(&meets).0, "ended\n", "{meets:?}");
}

/// The process that `run` started.
fn only_child(parent: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.expect("a list");
    children.trim().parse().expect("one child")
}

#[test]
fn without_a_cluster_a_program_is_told_what_to_do() {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "faults");
    let library = guest::drop_in(dir.path());
    // An address without a listener, a listener that sends nothing, and a broker without a leader.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("its address");
    let broker = test_cluster::TestBroker::start();
    let login = &broker.credentials().tenant("a").expect("a login").login;
    let silent = format!("nats://{silent}");
    for url in ["nats://127.0.0.1:1", &silent, broker.url()] {
        let output = guest::finish(
            std::process::Command::new(&program)
                .arg("alone")
                .env("LD_LIBRARY_PATH", &library)
                .env_remove("WARPLOOM_BROKER_CREDENTIALS")
                .env("WARPLOOM_BROKER_URL", url)
                .env("WARPLOOM_CLUSTER_NAME", "test")
                .env("WARPLOOM_TENANT", "a")
                .env("WARPLOOM_USER", &login.user)
                .env("WARPLOOM_PASSWORD", &login.password),
        );
        let (out, err) = text(&output);
        let ready = out.starts_with("802 ") && out.contains("warploom up");
        assert!(ready, "{url}: {out}{err}");
    }
}
