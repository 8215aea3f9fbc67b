//! The first word of `warploom status`, from a worker's death until its device is served again.

use crate::cluster::{administrator, done, objects};
use crate::loaded::{LoadedCluster, SOON};
use crate::run::text;

/// Checks that `status --check` fails and begins like this, and that `status --json` says the same.
#[track_caller]
fn is_unhealthy(loaded: &LoadedCluster, word: &str, why: &str) {
    let output = administrator(loaded, &["status", "--check"]);
    let (out, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let begins = format!("{word}: {why}");
    assert!(out.starts_with(&begins), "{out}");
    assert!(
        err.contains(&format!("E-CLUSTER-UNHEALTHY: {begins}")),
        "{err}"
    );
    let json = objects(loaded, &["status", "--json"]).remove(0);
    assert_eq!(json["health"], word, "{json}");
    let reasons = json["reasons"].as_array().expect("a list");
    let reasons: Vec<_> = reasons.iter().filter_map(|it| it.as_str()).collect();
    assert!(reasons.join("; ").starts_with(why), "{json}");
}

#[track_caller]
fn is_healthy(loaded: &LoadedCluster) {
    let said = done(loaded, &["status", "--check"]);
    assert!(said.starts_with("healthy\n"), "{said}");
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
    is_healthy(&loaded);
    loaded.demo.cluster.workers[1].kill().expect("it dies");
    until(&loaded, 1, 1).await;
    is_unhealthy(&loaded, "degraded", "worker of gpu 1 (");
    let json = objects(&loaded, &["status", "--json"]).remove(0);
    assert_eq!(json["lost"][0]["gpu"], 1, "{json}");
    // The next leader misses it as well.
    let epoch = loaded.replace_leader(0, SOON).await;
    loaded.epoch_above(epoch, SOON).await;
    until(&loaded, 1, 1).await;
    is_unhealthy(&loaded, "degraded", "worker of gpu 1 (");
    loaded.demo.cluster.start_worker(1).expect("another start");
    until(&loaded, 2, 0).await;
    is_healthy(&loaded);
}

#[tokio::test]
async fn a_worker_that_is_drained_or_stopped_leaves_a_healthy_cluster() {
    let settings = [("worker.device", "cpu")];
    let mut loaded = LoadedCluster::idle(1, 2, &[], &settings).await;
    until(&loaded, 2, 0).await;
    done(&loaded, &["worker", "drain", "1", "--wait"]);
    until(&loaded, 1, 0).await;
    is_healthy(&loaded);
    loaded.demo.cluster.start_worker(1).expect("another start");
    until(&loaded, 2, 0).await;
    let again = loaded.demo.cluster.workers.last_mut().expect("it");
    again.stop(SOON).expect("it ends by SIGTERM");
    until(&loaded, 1, 0).await;
    is_healthy(&loaded);
    // Without the last one no program can run.
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    until(&loaded, 0, 1).await;
    is_unhealthy(&loaded, "down", "no worker is there; worker of gpu 0 (");
}
