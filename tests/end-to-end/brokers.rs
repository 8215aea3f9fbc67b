//! A broker of three servers, any one of which is killed, stands still, is cut off or loses its
//! disk, while tenants compare every result.

use std::time::{Duration, Instant};

use actors::storage::{Copies, Stored};
use broker::{Links, Routes};
use warploom_cli::cluster_settings::ClusterSetting;

use crate::stage::{Scene, plan};

/// The servers of a stream elect another leader within nine seconds.
const SOON: Duration = Duration::from_secs(40);
/// How long a server that was away may take until it has what the others have: how it catches up, and when it tries
/// again, is the broker's.
const CATCH_UP: Duration = Duration::from_secs(150);

/// Three servers, whose routes lead through links that can be cut.
async fn three(leaders: usize, workers: usize) -> (Scene, Links) {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut routes = Routes::free(3).expect("free ports");
    let links = Links::before(&mut routes).expect("proxies");
    let mut scene = Scene::made(leaders, workers, &plans, |options| {
        options.brokers = 3;
        options.routes = Some(routes);
    })
    .await;
    scene.work(&plans).await;
    scene.progress(2, SOON).await;
    (scene, links)
}

/// Waits until the loss of any one server may be borne again.
async fn in_step(scene: &Scene) {
    if let Err(error) = scene.stage.administrator.in_step(CATCH_UP).await {
        scene.panic(&format!("{error:#}"));
    }
}

/// The server that answers for the lease.
async fn leads_lease(scene: &Scene) -> usize {
    let asked = Instant::now();
    let servers = scene.stage.cluster.broker.servers();
    loop {
        let copies = scene.stage.administrator.copies().await;
        let copies = copies.unwrap_or_default();
        let lease = copies.iter().find(|copies| copies.stored == Stored::Lease);
        let leader = lease.and_then(|lease| lease.leader.as_deref());
        let leader = servers
            .iter()
            .position(|server| Some(server.name()) == leader);
        match leader {
            Some(leader) => return leader,
            None if asked.elapsed() > SOON => scene.panic("nobody answers for the lease"),
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The end of each of these tests: nobody was declared lost, and every check holds.
async fn settle(scene: Scene) {
    in_step(&scene).await;
    let status = scene.epoch_above(0, SOON).await;
    if status.workers.iter().any(|worker| worker.lost) {
        scene.panic(&format!("nobody is lost: {:?}", status.workers));
    }
    scene.settle().await;
}

#[tokio::test]
async fn each_server_is_killed_in_turn() {
    let (mut scene, _links) = three(2, 2).await;
    for victim in 0..3 {
        in_step(&scene).await;
        let server = &mut scene.stage.cluster.broker.servers_mut()[victim];
        server.kill().expect("it dies");
        scene.progress(3, SOON).await;
        let server = &mut scene.stage.cluster.broker.servers_mut()[victim];
        server.restart().expect("it comes back");
        scene.progress(3, SOON).await;
    }
    settle(scene).await;
}

/// Long enough for the others to have chosen anew.
const AWAY: Duration = Duration::from_secs(10);

async fn stands_still(scene: &Scene, victim: usize) {
    in_step(scene).await;
    let server = &scene.stage.cluster.broker.servers()[victim];
    server.pause().expect("it stands still");
    scene.progress(3, SOON).await;
    tokio::time::sleep(AWAY).await;
    scene.progress(3, SOON).await;
    server.resume().expect("it goes on");
    scene.progress(3, SOON).await;
}

async fn is_cut_off(scene: &Scene, links: &Links, victim: usize) {
    in_step(scene).await;
    links.cut_off(victim, true);
    scene.progress(3, SOON).await;
    tokio::time::sleep(AWAY).await;
    scene.progress(3, SOON).await;
    links.cut_off(victim, false);
    scene.progress(3, SOON).await;
}

#[tokio::test]
async fn the_leases_server_stands_still() {
    let (scene, _links) = three(2, 2).await;
    stands_still(&scene, leads_lease(&scene).await).await;
    settle(scene).await;
}

#[tokio::test]
async fn the_leases_server_is_cut_off() {
    let (scene, links) = three(2, 2).await;
    is_cut_off(&scene, &links, leads_lease(&scene).await).await;
    settle(scene).await;
}

#[tokio::test]
#[ignore = "takes a minute: one server of the three does in every run"]
async fn each_server_stands_still_in_turn() {
    let (scene, _links) = three(2, 2).await;
    for victim in 0..3 {
        stands_still(&scene, victim).await;
    }
    settle(scene).await;
}

#[tokio::test]
#[ignore = "takes a minute: one server of the three does in every run"]
async fn each_server_is_cut_off_in_turn() {
    let (scene, links) = three(2, 2).await;
    for victim in 0..3 {
        is_cut_off(&scene, &links, victim).await;
    }
    settle(scene).await;
}

#[tokio::test]
async fn each_server_comes_back_without_its_store_in_turn() {
    let (mut scene, _links) = three(2, 2).await;
    for victim in 0..3 {
        in_step(&scene).await;
        let server = &mut scene.stage.cluster.broker.servers_mut()[victim];
        server.restart_empty().expect("it comes back");
        scene.progress(3, SOON).await;
    }
    settle(scene).await;
}

#[tokio::test]
async fn a_leader_that_dies_with_the_leases_server_is_followed() {
    let (mut scene, _links) = three(3, 2).await;
    for _ in 0..2 {
        in_step(&scene).await;
        let (victim, status) = (leads_lease(&scene).await, scene.epoch_above(0, SOON).await);
        let cluster = &mut scene.stage.cluster;
        let server = &mut cluster.broker.servers_mut()[victim];
        server.kill().expect("it dies");
        let killed = Instant::now();
        let leader = cluster.leader(status.leader).expect("one of ours");
        leader.kill().expect("it dies");
        cluster.start_leader().expect("another candidate");
        scene.epoch_above(status.epoch, SOON).await;
        println!("broker_takeover_ms {}", killed.elapsed().as_millis());
        scene.progress(3, SOON).await;
        let server = &mut scene.stage.cluster.broker.servers_mut()[victim];
        server.restart().expect("it comes back");
        scene.progress(3, SOON).await;
    }
    settle(scene).await;
}

/// Sets `broker.replicas`.
async fn replicas(scene: &Scene, text: &str) -> anyhow::Result<()> {
    let setting = ClusterSetting::named("broker.replicas")?;
    let value = setting.parse(text)?;
    let administrator = &scene.stage.administrator;
    administrator
        .change_cluster(&[(setting, Some(value))])
        .await
        .map(drop)
}

/// Until all that is kept has so many copies, equal ones.
async fn kept(scene: &Scene, copies: usize) {
    let asked = Instant::now();
    loop {
        let all = scene.stage.administrator.copies().await;
        let fits = |of: &Copies| of.followers.len() + 1 == copies && of.are_in_step();
        if all
            .as_ref()
            .is_ok_and(|all| all.len() == Stored::ALL.len() && all.iter().all(fits))
        {
            return;
        }
        if asked.elapsed() > SOON {
            scene.panic(&format!("not {copies} copies: {all:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn as_many_copies_are_kept_as_are_set_and_no_more_than_there_are_servers() {
    let (scene, _links) = three(1, 1).await;
    kept(&scene, 3).await;
    let refused = replicas(&scene, "5").await.expect_err("there are three");
    assert!(
        format!("{refused:#}").starts_with("E-CLUSTER-REPLICAS"),
        "{refused:#}"
    );
    let chosen = scene.stage.administrator.chosen().await.expect("settings");
    assert_eq!(chosen.settings().expect("ours").broker_replicas, 0);
    kept(&scene, 3).await;
    for (text, copies) in [("1", 1), ("3", 3), ("auto", 3)] {
        replicas(&scene, text).await.expect("it is set");
        kept(&scene, copies).await;
        scene.progress(2, SOON).await;
    }
    settle(scene).await;
}
