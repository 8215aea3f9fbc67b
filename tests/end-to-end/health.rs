//! The first word of `warploom status`, from a worker's death until its device is served again.

use std::time::{Duration, Instant};

use crate::cluster::{administrator, done, objects};
use crate::loaded::{LoadedCluster, SOON};
use crate::run::text;

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Waits until `status --check` ends with this code and begins like this. A busy server may not answer for a moment,
/// which degrades a cluster too.
async fn until_checked(loaded: &LoadedCluster, code: i32, begins: &str) -> (String, String) {
    let until = Instant::now() + SOON;
    loop {
        let output = administrator(loaded, &["status", "--check"]);
        let (out, err) = text(&output);
        if output.status.code() == Some(code) && out.starts_with(begins) {
            return (out, err);
        }
        assert!(Instant::now() < until, "{begins:?} of {out}{err}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until `status --check` fails and begins like this, and `status --json` says the same.
async fn until_unhealthy(loaded: &LoadedCluster, word: &str, why: &str) {
    let begins = format!("{word}: {why}");
    let (_, err) = until_checked(loaded, 1, &begins).await;
    assert!(
        err.contains(&format!("E-CLUSTER-UNHEALTHY: {begins}")),
        "{err}"
    );
    let until = Instant::now() + SOON;
    loop {
        let json = objects(loaded, &["status", "--json"]).remove(0);
        let reasons = json["reasons"].as_array().into_iter().flatten();
        let reasons: Vec<_> = reasons.filter_map(|it| it.as_str()).collect();
        if json["health"] == word && reasons.join("; ").starts_with(why) {
            return;
        }
        assert!(Instant::now() < until, "{json}");
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_healthy(loaded: &LoadedCluster) {
    until_checked(loaded, 0, "healthy\n").await;
}

/// Waits until the leader knows this many workers, and misses this many.
async fn until(loaded: &LoadedCluster, workers: usize, lost: usize) {
    let what = format!("{workers} there, {lost} missed");
    loaded
        .until(&what, |status| {
            (status.workers.len(), status.lost.len()) == (workers, lost)
        })
        .await;
}

#[tokio::test]
async fn a_cluster_is_degraded_from_a_workers_death_until_its_device_is_served() {
    let settings = [("worker.device", "cpu")];
    let mut loaded = LoadedCluster::idle(2, 2, &[], &settings).await;
    until(&loaded, 2, 0).await;
    until_healthy(&loaded).await;
    loaded.demo.cluster.workers[1].kill().expect("it dies");
    until(&loaded, 1, 1).await;
    until_unhealthy(&loaded, "degraded", "worker of gpu 1 (").await;
    let json = objects(&loaded, &["status", "--json"]).remove(0);
    assert_eq!(json["lost"][0]["gpu"], 1, "{json}");
    // The next leader misses it as well.
    let epoch = loaded.replace_leader(0, SOON).await;
    loaded.epoch_above(epoch, SOON).await;
    until(&loaded, 1, 1).await;
    until_unhealthy(&loaded, "degraded", "worker of gpu 1 (").await;
    loaded.demo.cluster.start_worker(1).expect("another start");
    until(&loaded, 2, 0).await;
    until_healthy(&loaded).await;
}

#[tokio::test]
async fn a_worker_that_is_drained_or_stopped_leaves_a_healthy_cluster() {
    let settings = [("worker.device", "cpu")];
    let mut loaded = LoadedCluster::idle(1, 2, &[], &settings).await;
    until(&loaded, 2, 0).await;
    done(&loaded, &["worker", "drain", "1", "--wait"]);
    until(&loaded, 1, 0).await;
    until_healthy(&loaded).await;
    loaded.demo.cluster.start_worker(1).expect("another start");
    until(&loaded, 2, 0).await;
    let again = loaded.demo.cluster.workers.last_mut().expect("it");
    again.stop(SOON).expect("it ends by SIGTERM");
    until(&loaded, 1, 0).await;
    until_healthy(&loaded).await;
    // Without the last one no program can run.
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    until(&loaded, 0, 1).await;
    until_unhealthy(&loaded, "down", "no worker is there; worker of gpu 0 (").await;
}
