//! `warploom order verify` on a cluster that has lost workers. Each chain is compared with an
//! available source, which is named. A changed order is found by the record's entry on a lost
//! worker.

use std::collections::BTreeMap;
use std::path::Path;

use admin::record;
use bus_schemas::{ClusterSettings, Incarnation};
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{administrator, done, objects};
use crate::load::Load;
use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::text;

/// The result of `order verify`, by worker.
fn verified(loaded: &LoadedCluster, source: Option<&Path>) -> BTreeMap<Incarnation, Value> {
    let mut arguments = vec!["order", "verify", "--json"];
    arguments.extend(source.and_then(Path::to_str));
    let check = objects(loaded, &arguments).remove(0);
    assert!(check["first"].is_null(), "{check}");
    let gpus = check["gpus"].as_array().expect("a list").iter();
    let by_worker = gpus.map(|gpu| {
        let worker = gpu["incarnation"].as_str().expect("an id");
        (worker.parse().expect("an id"), gpu.clone())
    });
    by_worker.collect()
}

async fn recorded(loaded: &LoadedCluster) {
    loaded
        .until("all is recorded", |status| status.recorded == status.input)
        .await;
}

/// Three workers, each with a tenant at work, slice by slice.
async fn at_work() -> (LoadedCluster, Vec<Load>) {
    let plans = [
        plan("chat", "chat", 0),
        plan("search", "search", 2),
        plan("train", "train", 4),
    ];
    let settings = [("worker.device", "cpu")];
    let loaded = LoadedCluster::idle(2, 3, &plans, &settings).await;
    // Alone on its device, a tenant would have one position for all of its work.
    let each = ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    };
    let set = loaded.demo.administrator.set_cluster(&each).await;
    set.expect("set");
    let mut loads = Vec::new();
    for tenant in ["chat", "search", "train"] {
        match Load::start(&loaded, tenant, 1, SOON).await {
            Ok(load) => loads.push(load),
            Err(code) => loaded.panic(&format!("{tenant}: {code:?}")),
        }
    }
    for load in &loads {
        load.goes_on(&loaded, 5).await;
    }
    (loaded, loads)
}

#[tokio::test]
async fn a_worker_that_is_gone_is_compared_with_what_is_recorded_of_it() {
    let (mut loaded, loads) = at_work().await;
    let place = |index: usize| {
        (
            loads[index].gpus()[0] as usize,
            loads[index].devices[0].worker,
        )
    };
    let ((dies, chat), (_, search), (silent, train)) = (place(0), place(1), place(2));
    recorded(&loaded).await;
    for (_, gpu) in verified(&loaded, None) {
        assert_eq!(gpu["with"], "worker", "{gpu}");
    }
    // One worker dies under a leader, which knows its last position.
    let worker = &mut loaded.demo.cluster.workers[dies];
    worker.kill().expect("it dies");
    let before = loaded
        .until("it is lost", |status| status.workers.len() == 2)
        .await;
    loads[1].goes_on(&loaded, 5).await;
    loads[2].goes_on(&loaded, 5).await;
    // One worker falls silent, and its leader dies: the next leader knows nothing of it.
    let worker = &mut loaded.demo.cluster.workers[silent];
    worker.signal(Signal::STOP).expect("it stands still");
    let leader = loaded.demo.cluster.leader(before.leader).expect("ours");
    leader.kill().expect("it dies");
    loaded.epoch_above(before.epoch, SOON).await;
    let worker = &mut loaded.demo.cluster.workers[silent];
    worker.kill().expect("it dies");
    loaded
        .until("one is left", |status| status.workers.len() == 1)
        .await;
    loads[1].goes_on(&loaded, 5).await;
    for load in loads {
        load.stop().await;
    }
    recorded(&loaded).await;
    let file = loaded.demo.cluster.options().state_dir.join("run.record");
    let shown = file.to_str().expect("a path");
    done(&loaded, &["order", "export", "--out", shown]);
    for source in [None, Some(file.as_path())] {
        let gpus = verified(&loaded, source);
        let with = |worker: Incarnation| gpus[&worker]["with"].as_str();
        let each = (with(search), with(chat), with(train));
        assert_eq!(each, (Some("worker"), Some("record"), Some("nothing")));
        let number = |key: &str| gpus[&chat][key].as_u64().expect("a number");
        assert!(number("recorded") > 3, "{gpus:?}");
        assert!(number("recorded") <= number("position"), "{gpus:?}");
    }
    let said = done(&loaded, &["order", "verify"]);
    for part in [
        "its worker's at",
        "what was recorded of it at",
        "with nothing",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    forgery_is_found(&loaded, &file, chat);
}

/// Changes the tenant of a lost worker's work; everything else in the record agrees.
fn forgery_is_found(loaded: &LoadedCluster, file: &Path, worker: Incarnation) {
    let bytes = std::fs::read(file).expect("a record");
    let mut record = record::read(&bytes).expect("a record");
    // These would reveal the change, too.
    record.marks.clear();
    for (_, _, block) in &mut record.blocks {
        for at in 0..block.len().saturating_sub(4) {
            if block[at..].starts_with(b"chat") {
                block[at..at + 4].copy_from_slice(b"chaf");
            }
        }
    }
    let forged = file.with_file_name("forged.record");
    let bytes = record::write(&record).expect("a record");
    std::fs::write(&forged, bytes).expect("it is written");
    let output = administrator(
        loaded,
        &["order", "verify", forged.to_str().expect("a path")],
    );
    let said = text(&output).1;
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [&worker.to_string(), "the recomputed chain is not the one"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
