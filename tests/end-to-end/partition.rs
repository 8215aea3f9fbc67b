//! Links fail one by one. A worker cannot reach the leader but can reach its clients, or the
//! reverse; or a client announces ops that it never sends. The broker's permissions cut the links.

use std::time::Duration;

use crate::loaded::{LoadedCluster, plan};
use bus_schemas::subject::ToLeader;
use bus_schemas::{CostClass, CostRun, Intent, KernelKey, WIRE_VERSION, encode};

const SOON: Duration = Duration::from_secs(60);
/// Duration of a cut link. The test is that a silence of this length loses nothing, so the duration
/// is fixed and waits for no condition. Heartbeats and resends fall into it; a worker is declared
/// lost only after a longer silence.
const CUT: Duration = Duration::from_millis(1_500);
/// Pause between two announcements of the silent client, so that each is its own message.
const APART: Duration = Duration::from_millis(50);

/// Forbids `user` to publish on these subjects; with none, restores the usual permissions.
fn cut(loaded: &LoadedCluster, user: &str, subjects: &[String]) -> String {
    let broker = &loaded.demo.cluster.broker;
    let path = broker.credentials_path().with_file_name("users.conf");
    let whole = std::fs::read_to_string(&path).expect("the broker's users");
    let denied: Vec<_> = subjects
        .iter()
        .map(|subject| format!("{subject:?}"))
        .collect();
    let text: Vec<_> = whole
        .lines()
        .map(|line| {
            if !line.contains(&format!("user: {user:?}")) {
                return line.to_owned();
            }
            let (before, after) = line.split_once(" }, subscribe").expect("permissions");
            format!(
                "{before}, deny: [{}] }}, subscribe{after}",
                denied.join(", ")
            )
        })
        .collect();
    std::fs::write(&path, text.join("\n") + "\n").expect("written");
    broker.reload().expect("taken");
    whole
}

fn heal(loaded: &LoadedCluster, users: &str) {
    let broker = &loaded.demo.cluster.broker;
    let path = broker.credentials_path().with_file_name("users.conf");
    std::fs::write(path, users).expect("written");
    broker.reload().expect("taken");
}

async fn between_leader_and_worker(loaded: &LoadedCluster) -> Vec<String> {
    let status = loaded.epoch_above(0, SOON).await;
    let worker = status.workers[0].incarnation;
    let subjects = loaded.demo.administrator.subjects();
    let order = subjects.grants(worker).replace(".order", ".>");
    vec![
        order,
        subjects.done(worker),
        subjects.worker_beat(worker),
        subjects.refusal(worker),
    ]
}

#[tokio::test]
async fn a_worker_cut_off_from_its_leader_for_a_moment_loses_nothing() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let subjects = between_leader_and_worker(&loaded).await;
    let users = cut(&loaded, "cluster", &subjects);
    tokio::time::sleep(CUT).await;
    heal(&loaded, &users);
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}

#[tokio::test]
async fn a_worker_cut_off_from_its_leader_for_long_is_lost_to_everybody() {
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::start(1, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let subjects = between_leader_and_worker(&loaded).await;
    let users = cut(&loaded, "cluster", &subjects);
    loaded
        .wait("its tenant hears that its device is lost", SOON, |loaded| {
            let complaints = loaded.demo.tenants[0].heard().complaints;
            complaints
                .iter()
                .any(|what| what.contains("E-DEVICE-LOST"))
                .then_some(())
        })
        .await;
    heal(&loaded, &users);
    // The incarnation hears that it was declared lost, and ends: it never runs anything again.
    let patience = Duration::from_secs(60);
    if loaded.demo.cluster.workers[0].wait(patience).is_err() {
        loaded.panic("the lost incarnation goes on");
    }
}

#[tokio::test]
async fn a_worker_cut_off_from_its_clients_loses_nothing() {
    let plans = [plan("a", "search", 1)];
    let loaded = LoadedCluster::start(1, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let subjects = loaded.demo.administrator.subjects().clone();
    let tenant = "a".parse().expect("a tenant");
    let hears = subjects.tenant_inbound(&tenant).replace(".>", ".*.*");
    let says = subjects.tenant_outbound(&tenant).replace(".>", ".w.>");
    let users = cut(&loaded, "cluster", &[hears]);
    cut(&loaded, "tenant-a", &[says]);
    tokio::time::sleep(CUT).await;
    heal(&loaded, &users);
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}

#[tokio::test]
async fn a_client_that_announces_and_never_sends_holds_nobody_up() {
    let plans = [plan("a", "search", 2), plan("silent", "search", 0)];
    let mut loaded = LoadedCluster::start(1, 1, &plans[..1]).await;
    loaded.guest("silent", &plans[1].settings).await;
    let silent = "silent".parse().expect("a tenant");
    loaded.progress(5, SOON).await;
    let (client, subjects, opened) = loaded.join("silent").await;
    // A hundred slices of the highest priority; none of their ops is ever sent.
    let mut column = Vec::new();
    let run = CostRun {
        key: KernelKey(0),
        bytes: 0,
        count: 100,
        class: CostClass::Sync,
    };
    let runs = bus_schemas::Column::pack([&run], &mut column);
    let intent = Intent {
        v: WIRE_VERSION,
        first: 1,
        count: 100,
        runs,
    };
    let subject = subjects.to_leader(&silent, ToLeader::Intent(opened.session));
    for _ in 0..20 {
        client
            .publish(subject.clone(), encode(&intent).into())
            .await
            .expect("published");
        tokio::time::sleep(APART).await;
    }
    loaded.progress(20, SOON).await;
    let heard = loaded.demo.stop().await.expect("stopped");
    assert!(heard[0].stopped && heard[0].verified == heard[0].latencies.len() as u64);
}
