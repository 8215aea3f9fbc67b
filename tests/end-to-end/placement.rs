//! Several devices, groups of workers, and workers that come and go, from the users' point of view.

use std::path::Path;
use std::process::Output;

use client_agent::{Client, Session};
use serde_json::Value;
use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};
use crate::run::text;
use crate::weights::command;

/// Runs `saxpy` on this many devices of tenant `a`.
fn submit(loaded: &LoadedCluster, dir: &Path, devices: u32) -> Output {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/saxpy.ptx");
    let mut command = command(loaded, dir);
    command.args(["--json", "submit", "--tenant", "a"]);
    command.arg(kernel).args(["saxpy", "--block", "4"]);
    command.args(["--arg", "u32:4", "--arg", "f32:2", "--arg", "f32[1,2,3,4]"]);
    command.args(["--arg", "f32*4=10", "--out", "3"]);
    command.args(["--devices", &devices.to_string()]);
    command.output().expect("the binary runs")
}

/// The devices that answered, each with the correct result.
fn devices(output: &Output) -> Vec<u64> {
    let (out, err) = text(output);
    assert!(output.status.success(), "{out}{err}");
    let lines = out.lines().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let values = line["values"].as_array().expect("a list").iter();
        let values: Vec<_> = values.map(Value::as_f64).collect();
        assert_eq!(values, [12.0, 14.0, 16.0, 18.0].map(Some), "{line}");
        line["device"].as_u64().unwrap_or(0)
    });
    lines.collect()
}

fn status(loaded: &LoadedCluster, dir: &Path) -> Value {
    let output = command(loaded, dir).args(["--json", "status"]).output();
    let (out, err) = text(&output.expect("the binary runs"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

#[tokio::test]
async fn several_devices_groups_and_workers_that_join() {
    let loaded = LoadedCluster::idle(1, 2, &[plan("a", "search", 1)], &[]).await;
    let dir = TempDir::new().expect("a directory");
    assert_eq!(devices(&submit(&loaded, dir.path(), 1)), [0]);
    assert_eq!(devices(&submit(&loaded, dir.path(), 2)), [0, 1]);
    let refused = submit(&loaded, dir.path(), 3);
    let (out, err) = text(&refused);
    assert!(
        !refused.status.success() && err.contains("E-CLUSTER-DEVICES"),
        "{out}{err}"
    );
    // Another worker joins, for other tenants: nothing changes. Once bound to its group, the tenant
    // goes there.
    let arguments = ["--gpu", "2", "--group", "batch", "--exclusive"].map(String::from);
    let mut worker = loaded
        .demo
        .cluster
        .role("worker", "worker-batch", &arguments)
        .expect("it starts");
    let workers = loop {
        let workers = status(&loaded, dir.path())["workers"].clone();
        let workers = workers.as_array().expect("a list").clone();
        let batch = workers.iter().filter(|it| it["group"] == "batch");
        if batch.count() == 1 {
            break workers;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(workers.len(), 3);
    for worker in &workers {
        assert_eq!(worker["exclusive"], worker["group"] == "batch");
        let [free, capacity] = ["free", "capacity"].map(|key| worker[key].as_u64().expect(key));
        assert!(free > 0 && free <= capacity, "{worker}");
        assert!(worker["busy"].is_u64(), "{worker}");
    }
    let refused = submit(&loaded, dir.path(), 3);
    assert!(text(&refused).1.contains("E-CLUSTER-DEVICES"));
    let bound = command(&loaded, dir.path())
        .args([
            "tenant", "set", "a", "--group", "batch", "--group", "default",
        ])
        .output()
        .expect("the binary runs");
    assert!(bound.status.success(), "{:?}", text(&bound));
    assert_eq!(devices(&submit(&loaded, dir.path(), 3)), [0, 1, 2]);
    let nowhere = command(&loaded, dir.path())
        .args(["tenant", "set", "a", "--group", "nowhere"])
        .output()
        .expect("the binary runs");
    assert!(nowhere.status.success(), "{:?}", text(&nowhere));
    let refused = submit(&loaded, dir.path(), 1);
    assert!(
        text(&refused).1.contains("E-CLUSTER-GROUP"),
        "{:?}",
        text(&refused)
    );
    worker.kill().expect("it dies");
}

/// A tenant's program, with this many bytes of weights on its device, equal each time.
async fn program(loaded: &LoadedCluster, tenant: &str, weights: usize) -> (Client, Session) {
    let settings = loaded.login(tenant);
    let opened = tokio::task::spawn_blocking(move || {
        let client = Client::connect(settings).expect("a broker");
        let session = client.open().expect("a session");
        if weights > 0 {
            let address = session.alloc(weights as u64).expect("memory");
            let bytes: Vec<u8> = (0..weights).map(|at| (at >> 3) as u8).collect();
            session.copy_in(address, &bytes).expect("a copy");
        }
        session.sync().expect("it ran");
        (client, session)
    });
    opened.await.expect("no panic")
}

async fn end((client, session): (Client, Session)) {
    let ended = tokio::task::spawn_blocking(move || {
        session.close().expect("closed");
        drop(client);
    });
    ended.await.expect("no panic");
}

fn gpu((_, session): &(Client, Session)) -> u32 {
    session.opened().gpu
}

#[tokio::test]
async fn a_program_goes_where_its_weights_are_whoever_brought_them() {
    const WEIGHTS: usize = 8 << 20;
    let plans = ["a", "b", "c"].map(|tenant| plan(tenant, "search", 1));
    let loaded = LoadedCluster::idle(1, 2, &plans, &[]).await;
    let dir = TempDir::new().expect("a directory");
    let guest = program(&loaded, "c", 0).await;
    let holder = program(&loaded, "b", WEIGHTS).await;
    assert_eq!((gpu(&guest), gpu(&holder)), (0, 1));
    end(guest).await;
    // The idle device is chosen first: it counts less that the other has the weights.
    let first = program(&loaded, "a", WEIGHTS).await;
    assert_eq!(gpu(&first), 0);
    end(first).await;
    let guest = program(&loaded, "c", 0).await;
    assert_eq!(gpu(&guest), 0);
    // With equal load, the device is chosen where another tenant holds the same bytes.
    let began = std::time::Instant::now();
    loop {
        let status = status(&loaded, dir.path());
        let workers = status["workers"].as_array().expect("a list").iter();
        if workers.clone().all(|it| it["sessions"] == 1) {
            let second = program(&loaded, "a", 0).await;
            let placed = gpu(&second);
            end(second).await;
            if placed == 1 {
                break;
            }
        }
        if began.elapsed() > crate::loaded::SOON {
            loaded.panic("it is still placed elsewhere");
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    end(holder).await;
    end(guest).await;
}
