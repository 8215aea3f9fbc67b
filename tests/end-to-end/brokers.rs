//! A broker of three servers, while tenants compare every result. Any one server is killed,
//! stopped, cut off or loses its disk.

use std::time::{Duration, Instant};

use admin::Administrator;
use admin::cluster_settings::ClusterSetting;
use broker::{Broker, Routes};
use bus_schemas::{ClusterSettings, TenantSettings};
use storage::{Copies, Stored};
use test_cluster::{Links, TestBroker};

use crate::loaded::{LoadedCluster, plan};

/// The servers of a stream elect another leader within nine seconds.
const SOON: Duration = Duration::from_secs(40);
/// Time that a server which was away may take to catch up. The broker decides how it catches up,
/// and when it retries.
const CATCH_UP: Duration = Duration::from_secs(150);

/// Three servers with routes through links that can be cut.
async fn three(leaders: usize, workers: usize) -> (LoadedCluster, Links) {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut routes = Routes::free(3).expect("free ports");
    let links = Links::before(&mut routes).expect("proxies");
    let mut loaded = LoadedCluster::made(leaders, workers, &plans, |options| {
        options.brokers = 3;
        options.routes = Some(routes);
    })
    .await;
    loaded.work(&plans).await;
    loaded.progress(2, SOON).await;
    (loaded, links)
}

/// Waits until the cluster can again tolerate the loss of any one server.
async fn in_step(loaded: &LoadedCluster) {
    if let Err(error) = loaded.demo.administrator.in_step(CATCH_UP).await {
        loaded.panic(&format!("{error:#}"));
    }
}

/// The server that leads the lease's stream.
async fn leads_lease(loaded: &LoadedCluster) -> usize {
    let asked = Instant::now();
    let servers = loaded.demo.cluster.broker.servers();
    loop {
        let copies = loaded.demo.administrator.copies().await;
        let copies = copies.unwrap_or_default();
        let lease = copies.iter().find(|copies| copies.stored == Stored::Lease);
        let leader = lease.and_then(|lease| lease.leader.as_deref());
        let leader = servers
            .iter()
            .position(|server| Some(server.name()) == leader);
        match leader {
            Some(leader) => return leader,
            None if asked.elapsed() > SOON => loaded.panic("nobody answers for the lease"),
            None => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The end of each of these tests: no worker was declared lost, and every check holds.
async fn settle(loaded: LoadedCluster) {
    in_step(&loaded).await;
    let status = loaded.epoch_above(0, SOON).await;
    if status.workers.iter().any(|worker| worker.lost) {
        loaded.panic(&format!("nobody is lost: {:?}", status.workers));
    }
    loaded.settle().await;
}

#[tokio::test]
async fn each_server_is_killed_in_turn() {
    let (mut loaded, _links) = three(2, 2).await;
    for victim in 0..3 {
        in_step(&loaded).await;
        let server = &mut loaded.demo.cluster.broker.servers_mut()[victim];
        server.kill().expect("it dies");
        loaded.progress(3, SOON).await;
        let server = &mut loaded.demo.cluster.broker.servers_mut()[victim];
        server.restart().expect("it comes back");
        loaded.progress(3, SOON).await;
    }
    settle(loaded).await;
}

/// Long enough for the others to elect another leader.
const AWAY: Duration = Duration::from_secs(10);

async fn stands_still(loaded: &LoadedCluster, victim: usize) {
    in_step(loaded).await;
    let server = &loaded.demo.cluster.broker.servers()[victim];
    server.pause().expect("it stands still");
    loaded.progress(3, SOON).await;
    tokio::time::sleep(AWAY).await;
    loaded.progress(3, SOON).await;
    server.resume().expect("it goes on");
    loaded.progress(3, SOON).await;
}

async fn is_cut_off(loaded: &LoadedCluster, links: &Links, victim: usize) {
    in_step(loaded).await;
    links.cut_off(victim, true);
    loaded.progress(3, SOON).await;
    tokio::time::sleep(AWAY).await;
    loaded.progress(3, SOON).await;
    links.cut_off(victim, false);
    loaded.progress(3, SOON).await;
}

#[tokio::test]
async fn the_leases_server_stands_still() {
    let (loaded, _links) = three(2, 2).await;
    stands_still(&loaded, leads_lease(&loaded).await).await;
    settle(loaded).await;
}

#[tokio::test]
async fn the_leases_server_is_cut_off() {
    let (loaded, links) = three(2, 2).await;
    is_cut_off(&loaded, &links, leads_lease(&loaded).await).await;
    settle(loaded).await;
}

#[tokio::test]
#[ignore = "takes a minute: one server of the three does in every run"]
async fn each_server_stands_still_in_turn() {
    let (loaded, _links) = three(2, 2).await;
    for victim in 0..3 {
        stands_still(&loaded, victim).await;
    }
    settle(loaded).await;
}

#[tokio::test]
#[ignore = "takes a minute: one server of the three does in every run"]
async fn each_server_is_cut_off_in_turn() {
    let (loaded, links) = three(2, 2).await;
    for victim in 0..3 {
        is_cut_off(&loaded, &links, victim).await;
    }
    settle(loaded).await;
}

#[tokio::test]
async fn each_server_comes_back_without_its_store_in_turn() {
    let (mut loaded, _links) = three(2, 2).await;
    for victim in 0..3 {
        in_step(&loaded).await;
        let server = &mut loaded.demo.cluster.broker.servers_mut()[victim];
        server.restart_empty().expect("it comes back");
        loaded.progress(3, SOON).await;
    }
    settle(loaded).await;
}

#[tokio::test]
async fn a_leader_that_dies_with_the_leases_server_is_followed() {
    let (mut loaded, _links) = three(3, 2).await;
    for _ in 0..2 {
        in_step(&loaded).await;
        let (victim, status) = (
            leads_lease(&loaded).await,
            loaded.epoch_above(0, SOON).await,
        );
        let cluster = &mut loaded.demo.cluster;
        let server = &mut cluster.broker.servers_mut()[victim];
        server.kill().expect("it dies");
        let leader = cluster.leader(status.leader).expect("one of ours");
        leader.kill().expect("it dies");
        cluster.start_leader().expect("another candidate");
        loaded.epoch_above(status.epoch, SOON).await;
        loaded.progress(3, SOON).await;
        let server = &mut loaded.demo.cluster.broker.servers_mut()[victim];
        server.restart().expect("it comes back");
        loaded.progress(3, SOON).await;
    }
    settle(loaded).await;
}

/// Sets `broker.replicas`.
async fn replicas(loaded: &LoadedCluster, text: &str) -> anyhow::Result<()> {
    let setting = ClusterSetting::named("broker.replicas")?;
    let value = setting.parse(text)?;
    let administrator = &loaded.demo.administrator;
    administrator
        .change_cluster(&[(setting, Some(value))])
        .await
        .map(drop)
}

/// Sets the number of replicas, and retries while the servers elect a leader.
async fn set_replicas(loaded: &LoadedCluster, text: &str) {
    let asked = Instant::now();
    while let Err(error) = replicas(loaded, text).await {
        if asked.elapsed() > SOON {
            loaded.panic(&format!("{text} copies are not set: {error:#}"));
        }
    }
}

/// Waits until all stored data has this many replicas, all equal.
async fn kept(loaded: &LoadedCluster, copies: usize) {
    let asked = Instant::now();
    loop {
        let all = loaded.demo.administrator.copies().await;
        let fits = |of: &Copies| of.followers.len() + 1 == copies && of.are_in_step();
        if all
            .as_ref()
            .is_ok_and(|all| all.len() == Stored::ALL.len() && all.iter().all(fits))
        {
            return;
        }
        if asked.elapsed() > SOON {
            loaded.panic(&format!("not {copies} copies: {all:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn as_many_copies_are_kept_as_are_set_and_no_more_than_there_are_servers() {
    let (loaded, _links) = three(1, 1).await;
    kept(&loaded, 3).await;
    let refused = replicas(&loaded, "5").await.expect_err("there are three");
    assert!(
        format!("{refused:#}").starts_with("E-CLUSTER-REPLICAS"),
        "{refused:#}"
    );
    let chosen = loaded.demo.administrator.chosen().await.expect("settings");
    assert_eq!(chosen.settings().expect("ours").broker_replicas, 0);
    kept(&loaded, 3).await;
    for (text, copies) in [("1", 1), ("3", 3), ("auto", 3)] {
        set_replicas(&loaded, text).await;
        kept(&loaded, copies).await;
        loaded.progress(2, SOON).await;
    }
    settle(loaded).await;
}

/// The server that leads the state's stream, once the others have caught up.
async fn leads_state(administrator: &Administrator, broker: &Broker) -> usize {
    let asked = Instant::now();
    while asked.elapsed() < CATCH_UP {
        let store = administrator.state_bucket().await.expect("the state");
        let info = store.stream.get_info().await;
        let cluster = info.ok().and_then(|info| info.cluster);
        let settled = cluster.filter(|it| it.replicas.iter().all(|replica| replica.current));
        if let Some(leader) = settled.and_then(|it| it.leader) {
            let mut servers = broker.servers().iter();
            return servers
                .position(|it| it.name() == leader)
                .expect("one of ours");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the servers do not agree about the state");
}

#[tokio::test]
async fn what_is_set_while_the_states_server_stands_still_is_stored_by_the_next() {
    let broker = TestBroker::with("test", &["a"], |config| config.servers = 3);
    let login = broker.credentials();
    let administrator = Administrator::patient(login, SOON)
        .await
        .expect("it answers");
    let stored = administrator.stored_everywhere(SOON).await;
    stored.expect("the servers are agreed");
    let victim = leads_state(&administrator, &broker).await;

    let other = &broker.servers()[(victim + 1) % 3];
    let mut there = login.clone();
    there.url = other.url().into();
    let speaker = Administrator::patient(&there, SOON)
        .await
        .expect("it answers");
    let tenant = "a".parse().expect("a tenant");
    let settings = TenantSettings {
        priority: 1,
        ..TenantSettings::default()
    };
    broker.servers()[victim].pause().expect("it stands still");
    let written = speaker.set_tenant(&tenant, &settings).await;
    written.expect("the next leader of the state stores it");
    let read = speaker.tenant(&tenant).await.expect("it is read");
    assert_eq!(read.expect("it is there").priority, 1);
    speaker
        .set_cluster(&ClusterSettings::default())
        .await
        .expect("and the settings");
    broker.servers()[victim].resume().expect("it goes on");
}
