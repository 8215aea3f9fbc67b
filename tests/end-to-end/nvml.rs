//! NVML reports the same about a tenant's devices as CUDA and `warploom smi`. Without a cluster it
//! returns an error, and soon.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use test_cluster::{TempDir, TestBroker};

use crate::guest::{Guest, command, drop_in};
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::quotas::Allocator;
use crate::run::{compile, text, warploom};

const MIB: u64 = 1 << 20;

/// A cluster without load, with a tenant that has a quota of 64 MiB.
async fn cluster(workers: usize) -> LoadedCluster {
    let mut a = plan("a", "search", 1);
    a.settings.quota = 64 * MIB;
    LoadedCluster::idle(1, workers, &[a], &[]).await
}

/// `warploom …` with the cluster's credentials.
fn on(loaded: &LoadedCluster, dir: &Path) -> Command {
    let cluster = &loaded.demo.cluster;
    let mut command = warploom(dir);
    command
        .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster);
    command
}

/// The output of a command, which must succeed.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}

#[tokio::test]
async fn a_c_program_sees_what_cuda_says_and_wrong_arguments_do_no_harm() {
    // The first of its two devices is CUDA's device.
    let loaded = cluster(2).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "nvml");
    for part in ["numbers", "wrong", "forks", "threads", "rounds"] {
        let mut command = command(&loaded, "a", dir.path(), &program);
        assert_eq!(said(command.arg(part)), format!("{part}: well\n"));
    }
}

/// The time after which the error came, from the last line of the program.
fn took(out: &str) -> u64 {
    let last = out.lines().last().expect("a line");
    last.trim_end_matches(" ms").parse().expect("a number")
}

#[test]
fn without_a_cluster_the_error_comes_soon_and_says_why() {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "nvml");
    let run = |url: Option<String>| {
        let mut command = Command::new(&program);
        command
            .arg("alone")
            .env("LD_LIBRARY_PATH", drop_in(dir.path()))
            .env_remove("WARPLOOM_BROKER_CREDENTIALS")
            .env_remove("WARPLOOM_BROKER_URL");
        said(command.envs(url.map(|url| ("WARPLOOM_BROKER_URL", url))))
    };
    let unset = run(None);
    assert!(
        unset.starts_with("Driver Not Loaded: no cluster is named"),
        "{unset}"
    );
    assert!(took(&unset) < 500, "{unset}");

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("nats://{}", listener.local_addr().expect("its address"));
    let silent = run(Some(url.clone()));
    assert!(silent.contains("does not answer"), "{silent}");
    assert!(took(&silent) < 3_000, "{silent}");

    drop(listener);
    let refused = run(Some(url));
    assert!(refused.contains("no broker at"), "{refused}");
    assert!(took(&refused) < 1_000, "{refused}");
}

#[test]
fn without_a_leader_the_error_comes_soon() {
    let broker = TestBroker::start();
    let credentials = broker.credentials();
    let login = &credentials.tenant("a").expect("a login").login;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "nvml");
    let mut command = Command::new(&program);
    command
        .arg("alone")
        .env("LD_LIBRARY_PATH", drop_in(dir.path()))
        .env_remove("WARPLOOM_BROKER_CREDENTIALS")
        .env("WARPLOOM_BROKER_URL", broker.url())
        .env("WARPLOOM_CLUSTER_NAME", "test")
        .env("WARPLOOM_TENANT", "a")
        .env("WARPLOOM_USER", &login.user)
        .env("WARPLOOM_PASSWORD", &login.password);
    let out = said(&mut command);
    assert!(out.contains("no leader"), "{out}");
    assert!(took(&out) < 3_000, "{out}");
}

#[tokio::test]
async fn of_a_silent_worker_the_error_comes_soon_and_then_the_device_is_lost() {
    let loaded = cluster(1).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "nvml");
    let mut command = command(&loaded, "a", dir.path(), &program);
    let mut guest = Guest::start(command.arg("silent"));
    assert_eq!(guest.says().as_deref(), Some("ready"));
    let worker = &loaded.demo.cluster.workers[0];
    worker.signal(Signal::STOP).expect("it stands still");
    let input = guest.input.as_mut().expect("its input");
    input.write_all(b"\n").expect("it reads");
    assert_eq!(guest.ends(), ("silent: well".into(), Some(0)));
}

#[tokio::test]
async fn smi_says_the_same_in_every_form() {
    let loaded = cluster(2).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "quotas");
    let mut guest = Allocator::start(&loaded, "a", dir.path(), &program);
    assert_eq!(guest.allocates(24 * MIB), "0");
    assert_eq!(guest.does("work"), "0");
    let info = guest.does("info");
    let pid = guest.0.child.id();

    let smi = |arguments: &[&str]| {
        let mut command = on(&loaded, dir.path());
        said(command.args(["smi", "--tenant", "a"]).args(arguments))
    };
    let state: Value = serde_json::from_str(&smi(&["--json"])).expect("JSON");
    let devices = state["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 2, "{state}");
    let used = |device: &&Value| device["processes"] != serde_json::json!([]);
    let own = devices.iter().find(used).expect("one is used");
    assert_eq!(info, format!("{} of {}", own["free"], own["total"]));
    assert_eq!(own["held"], 24 * MIB);
    assert_eq!(own["processes"][0]["pid"], pid, "{state}");
    let status = said(on(&loaded, dir.path()).args(["status", "--json"]));
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let rows = status["memory"].as_array().expect("devices");
    let row = rows.iter().find(|row| row["gpu"] == own["gpu"]);
    let row = &row.expect("that device")["tenants"][0];
    for number in ["total", "held", "free"] {
        assert_eq!(row[number], own[number], "{number}");
    }
    assert_eq!(own["processes"][0]["name"], "quotas");
    every_form(&smi, own, pid);

    // An unknown field is a usage error.
    let output = on(&loaded, dir.path())
        .args(["smi", "--tenant", "a", "--query-gpu=colour"])
        .output()
        .expect("it runs");
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("E-USAGE") && err.contains("memory.total"),
        "{err}"
    );
}

/// Checks every form of output for a device on which `pid` has 24 MiB of 64.
fn every_form(smi: &impl Fn(&[&str]) -> String, own: &Value, pid: u32) {
    let index = own["index"].to_string();
    let fields = "--query-gpu=memory.used,memory.total,memory.free,uuid";
    let line = smi(&[fields, "--format=csv,noheader,nounits", "-i", &index]);
    let uuid = own["uuid"].as_str().expect("a text");
    assert_eq!(line, format!("24, 64, 40, {uuid}\n"));
    let line = smi(&[
        "--query-compute-apps=pid,used_memory",
        "--format=csv,noheader",
    ]);
    assert_eq!(line, format!("{pid}, 24 MiB\n"));
    assert!(smi(&["-L"]).contains(uuid));
    assert!(smi(&[]).contains("quotas"));
    assert!(smi(&["pmon", "-c", "1"]).contains("quotas"));
    assert!(smi(&["-q"]).contains("24 MiB"));
    let xml = smi(&["-q", "-x", "-i", uuid]);
    assert!(xml.contains("<used>24 MiB</used>"), "{xml}");
}

#[tokio::test]
async fn a_tenant_at_work_is_busy_and_another_sees_nothing_of_it() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let mut loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    loaded.work(&plans[..1]).await;
    let dir = TempDir::new().expect("a directory");
    let device = |tenant: &str| -> Value {
        let mut command = on(&loaded, dir.path());
        let state = said(command.args(["smi", "--json", "--tenant", tenant]));
        let state: Value = serde_json::from_str(&state).expect("JSON");
        state["devices"][0].clone()
    };
    let begun = std::time::Instant::now();
    loop {
        let (a, b) = (device("a"), device("b"));
        assert_eq!(b["processes"], serde_json::json!([]), "{b}");
        assert_eq!((&b["held"], &b["busy_ppm"]), (&0.into(), &0.into()), "{b}");
        let held = |it: &Value| it["held"].as_u64() > Some(0);
        let busy = |it: &Value| it["busy_ppm"].as_u64() > Some(0);
        let process = &a["processes"][0];
        if held(&a) && busy(&a) && held(process) && busy(process) {
            assert_eq!(process["name"], "warploom", "{a}");
            return;
        }
        assert!(begun.elapsed() < SOON, "{a}");
    }
}

#[tokio::test]
async fn a_program_finds_nvidia_smi_where_there_is_none() {
    let loaded = cluster(2).await;
    let dir = TempDir::new().expect("a directory");
    let run = |path: &Path| {
        let mut command = on(&loaded, dir.path());
        command
            .env("PATH", path)
            .args(["run", "--tenant", "a", "--", "nvidia-smi", "-L"]);
        said(&mut command)
    };
    let empty = TempDir::new().expect("a directory");
    let listed = run(empty.path());
    // One of two: as many as the program sees.
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.starts_with("GPU 0: "), "{listed}");
    let own = empty.path().join("nvidia-smi");
    std::fs::write(&own, "#!/bin/sh\necho the machine has its own\n").expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&own, mode).expect("set");
    assert_eq!(run(empty.path()), "the machine has its own\n");
}
