//! Processes of leaders, workers, the broker and clients fail; the rest must go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::loaded::{LoadedCluster, plan};
use async_nats::jetstream::{self, stream};
use bus_schemas::{Status, TenantSettings};
use client_agent::{Client, Settings};
use rustix::process::Signal;

const SOON: Duration = Duration::from_secs(60);
/// A guard against a hang in long tests; it is not under test.
const HANGS: Duration = Duration::from_secs(120);

/// The original configuration of the record's stream, before it was filled.
struct Record(stream::Config);

impl Record {
    /// Makes the stream full, so that it stores nothing more.
    async fn fill(jetstream: &jetstream::Context, name: &str) -> Self {
        let mut stream = jetstream.get_stream(name).await.expect("the record");
        let info = stream.info().await.expect("it answers").clone();
        let mut full = info.config.clone();
        full.max_bytes = i64::try_from(info.state.bytes).expect("a size") + 1;
        let updated = jetstream.update_stream(&full).await;
        updated.expect("it is full");
        Self(info.config)
    }

    async fn empty(self, jetstream: &jetstream::Context) {
        let updated = jetstream.update_stream(&self.0).await;
        updated.expect("there is room again");
    }
}

#[tokio::test]
async fn leaders_killed_one_after_the_other() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start(3, 2, &plans).await;
    let mut epoch = 0;
    for _ in 0..3 {
        loaded.progress(3, SOON).await;
        epoch = loaded.replace_leader(epoch, SOON).await;
    }
    loaded.epoch_above(epoch, SOON).await;
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}

#[tokio::test]
async fn what_the_record_lacks_when_leaders_die_the_next_one_appends() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start(3, 1, &plans).await;
    loaded.progress(3, SOON).await;
    let administrator = loaded.demo.cluster.administrator().await;
    let administrator = administrator.expect("it lets us in");
    let jetstream = jetstream::new(administrator.client().clone());
    let record = Record::fill(&jetstream, &administrator.subjects().record_stream()).await;
    let mut epoch = 0;
    // The second leader has the first one's record only from other candidates, and the third one
    // that of both.
    for _ in 0..2 {
        loaded.progress(5, SOON).await;
        let status = loaded.epoch_above(epoch, SOON).await;
        epoch = status.epoch;
        let leader = loaded.demo.cluster.leader(status.leader);
        leader.expect("one of ours").kill().expect("it dies");
    }
    loaded.epoch_above(epoch, SOON).await;
    loaded.progress(5, SOON).await;
    record.empty(&jetstream).await;
    // The longer it works afterwards, the less the last moments of leaders weigh.
    loaded.progress(10, SOON).await;
    let (_, replayed) = loaded.replayed().await;
    // Each took over the inputs of its predecessor's last moments. Without that two fifths are
    // adopted; a busy machine orders few other positions.
    assert!(
        replayed.positions > 100 && replayed.adopted * 5 < replayed.positions,
        "{replayed:?}"
    );
}

/// Opens and closes sessions, each with two grants, until it is told to stop.
fn comes_and_goes(client: &Client, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // Without a leader it takes longer, but still ends.
        let session = client.open().expect("a session");
        session.close().expect("closed");
    }
}

#[tokio::test]
async fn what_no_candidate_has_is_with_the_worker_however_much_it_is() {
    // One message of a worker holds about 7,000 grants.
    const GRANTS: u64 = 9_000;
    const GUESTS: usize = 6;
    let mut loaded = LoadedCluster::start(1, 1, &[plan("a", "search", 1)]).await;
    loaded.progress(3, SOON).await;
    let settings = loaded.guest("guest", &TenantSettings::default()).await;
    let administrator = loaded.demo.cluster.administrator().await;
    let administrator = administrator.expect("it lets us in");
    let jetstream = jetstream::new(administrator.client().clone());
    let record = Record::fill(&jetstream, &administrator.subjects().record_stream()).await;
    let status = loaded.epoch_above(0, SOON).await;
    let granted = |status: &Status| status.workers.iter().map(|it| it.accepted).sum::<u64>();
    let (before, stop) = (granted(&status), Arc::<AtomicBool>::default());
    let guests = (0..GUESTS).map(|_| {
        let (settings, stop) = (settings.clone(), Arc::clone(&stop));
        std::thread::spawn(move || {
            let client = Client::connect(settings).expect("a broker");
            comes_and_goes(&client, &stop);
        })
    });
    let guests: Vec<_> = guests.collect();
    let began = Instant::now();
    while granted(&loaded.epoch_above(0, SOON).await) < before + GRANTS {
        assert!(began.elapsed() < HANGS, "sessions come and go no more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    loaded.replace_leader(0, SOON).await;
    loaded.epoch_above(status.epoch, SOON).await;
    loaded.progress(3, SOON).await;
    stop.store(true, Ordering::Relaxed);
    for guest in guests {
        guest.join().expect("all sessions open and close");
    }
    record.empty(&jetstream).await;
    loaded.progress(3, SOON).await;
    let (_, replayed) = loaded.replayed().await;
    // The worker had the inputs of the dead leader's grants, and handed them on. They are compared
    // with the worker's own report of its accepted positions, in several messages.
    assert!(
        replayed.positions > GRANTS && replayed.adopted * 10 < replayed.positions,
        "{replayed:?}"
    );
}

/// Copies megabytes to the device and back, different ones each time, until it is told to stop.
fn copies(settings: Settings, rounds: &AtomicU64, stop: &AtomicBool) {
    // More than is in flight at a time, in either direction.
    const COPY: usize = (24 << 20) + 5;
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let address = session.alloc(COPY as u64).expect("memory");
    let mut bytes = vec![0; COPY];
    while !stop.load(Ordering::Relaxed) {
        let round = rounds.load(Ordering::Relaxed);
        let mut wanted = vec![round as u8; COPY];
        for (index, page) in wanted.chunks_mut(4096).enumerate() {
            // All pages differ.
            page[..4].copy_from_slice(&(index as u32).to_le_bytes());
        }
        session.copy_in(address, &wanted).expect("it is taken");
        session
            .copy_out(address, &mut bytes)
            .expect("it comes back");
        assert!(bytes == wanted, "round {round}");
        rounds.store(round + 1, Ordering::Relaxed);
    }
    session.close().expect("closed");
}

#[tokio::test]
async fn megabytes_under_way_survive_their_leaders() {
    const GUEST: &str = "guest";
    let mut loaded = LoadedCluster::start(2, 1, &[plan("a", "search", 1)]).await;
    let settings = loaded.guest(GUEST, &TenantSettings::default()).await;
    let (rounds, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let (counted, stopped) = (Arc::clone(&rounds), Arc::clone(&stop));
    let guest = std::thread::spawn(move || copies(settings, &counted, &stopped));
    let mut epoch = 0;
    for killed in 1..=2 {
        let more = || (rounds.load(Ordering::Relaxed) >= killed).then_some(());
        loaded.wait("copies come through", SOON, |_| more()).await;
        epoch = loaded.replace_leader(epoch, SOON).await;
    }
    let before = rounds.load(Ordering::Relaxed);
    let more = || (rounds.load(Ordering::Relaxed) > before + 1).then_some(());
    loaded.wait("copies come through", SOON, |_| more()).await;
    stop.store(true, Ordering::Relaxed);
    guest.join().expect("every copy is right");
    loaded.settle().await;
}

#[tokio::test]
async fn a_leader_told_to_stop_hands_over() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let old = loaded.epoch_above(0, SOON).await;
    let leader = loaded.demo.cluster.leader(old.leader).expect("one of ours");
    leader.stop(SOON).expect("it ends in order");
    let status = loaded.epoch_above(old.epoch, SOON).await;
    assert_ne!(status.leader, old.leader);
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}

#[tokio::test]
async fn a_worker_told_to_stop_finishes_what_it_was_granted() {
    let plans = [plan("a", "train", 1)];
    let mut loaded = LoadedCluster::start(1, 1, &plans).await;
    loaded.progress(2, SOON).await;
    loaded.demo.cluster.workers[0]
        .stop(SOON)
        .expect("it ends in order");
    // The leader notes that it left, which is recorded within 20 ms.
    loop {
        let status = loaded.epoch_above(0, SOON).await;
        if status.workers.iter().all(|worker| worker.lost) && status.recorded == status.input {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (replayed, evidence) = loaded.demo.collect(&[]).await.expect("the record replays");
    // Every accepted position has ended, according to the record.
    assert_eq!(replayed.positions, evidence.started.len() as u64);
    let check = evidence.verify();
    let faults = (check.duplicated, check.reordered);
    assert!(
        faults == (0, 0) && check.disagreements.is_empty(),
        "{check:?}"
    );
}

#[tokio::test]
async fn roles_told_to_stop_end_although_the_broker_is_gone() {
    let mut loaded = LoadedCluster::start(2, 1, &[plan("a", "search", 1)]).await;
    loaded.progress(2, SOON).await;
    loaded.demo.tenants[0].kill().expect("it dies");
    loaded.demo.cluster.broker.kill().expect("it dies");
    loaded.demo.cluster.drain().expect("all end by themselves");
}

#[tokio::test]
async fn a_paused_leader_comes_back_and_does_no_harm() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let old = loaded.epoch_above(0, SOON).await;
    let leader = loaded.demo.cluster.leader(old.leader).expect("one of ours");
    leader.signal(Signal::STOP).expect("it stops");
    let status = loaded.epoch_above(old.epoch, SOON).await;
    assert_ne!(status.leader, old.leader);
    loaded.progress(3, SOON).await;
    let leader = loaded.demo.cluster.leader(old.leader).expect("one of ours");
    leader.signal(Signal::CONT).expect("it goes on");
    tokio::time::sleep(Duration::from_secs(1)).await;
    loaded.progress(3, SOON).await;
    let after = loaded.epoch_above(0, SOON).await;
    assert_eq!(
        after.leader, status.leader,
        "the stale one does not take over"
    );
    loaded.settle().await;
}

#[tokio::test]
async fn a_killed_worker_takes_only_its_own_tenants_with_it() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let mut loaded = LoadedCluster::start(1, 2, &plans).await;
    loaded.progress(2, SOON).await;
    let status = loaded.epoch_above(0, SOON).await;
    let sessions: Vec<_> = status
        .workers
        .iter()
        .map(|worker| worker.sessions)
        .collect();
    assert_eq!(sessions, [1, 1], "one tenant on each worker");
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    let lost = loaded
        .wait("one tenant hears that its device is lost", SOON, |loaded| {
            let lost = |index: usize| {
                let complaints = loaded.demo.tenants[index].heard().complaints;
                complaints
                    .iter()
                    .any(|complaint| complaint.contains("E-DEVICE-LOST"))
            };
            (0..2).find(|index| lost(*index))
        })
        .await;
    let other = 1 - lost;
    loaded
        .demo
        .requests(other, 5, SOON)
        .await
        .expect("the other goes on");
    let heard = loaded.demo.tenants[other]
        .stop(SOON)
        .await
        .expect("and stops in order");
    assert!(heard.stopped && heard.verified == heard.latencies.len() as u64);
    let status = loaded.epoch_above(0, SOON).await;
    assert_eq!(
        status.workers.iter().filter(|worker| !worker.lost).count(),
        1
    );
}

#[tokio::test]
async fn a_broker_that_is_away_for_8_s_costs_nobody_its_session() {
    let plans = [plan("a", "search", 1), plan("b", "train", 3)];
    let mut loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(2, SOON).await;
    loaded.demo.cluster.broker.kill().expect("it dies");
    tokio::time::sleep(Duration::from_secs(8)).await;
    loaded.demo.cluster.broker.restart().expect("it comes back");
    loaded.progress(3, Duration::from_secs(40)).await;
    loaded.settle().await;
}

#[tokio::test]
async fn the_lease_is_deleted_while_its_holder_runs() {
    let plans = [plan("a", "search", 1)];
    let mut loaded = LoadedCluster::start(2, 1, &plans).await;
    loaded.progress(2, SOON).await;
    let jetstream = jetstream::new(loaded.demo.administrator.client().clone());
    let bucket = loaded.demo.administrator.subjects().lease_bucket();
    jetstream
        .delete_key_value(&bucket)
        .await
        .expect("the bucket was there");
    tokio::time::sleep(Duration::from_secs(3)).await;
    loaded.progress(3, SOON).await;
    let status = loaded.epoch_above(0, SOON).await;
    loaded
        .demo
        .cluster
        .leader(status.leader)
        .expect("one of ours")
        .kill()
        .expect("it dies");
    loaded.epoch_above(status.epoch, SOON).await;
    loaded.progress(3, SOON).await;
    loaded.settle().await;
}

#[tokio::test]
async fn a_killed_tenant_leaves_its_memory_and_the_others_alone() {
    let plans = [plan("a", "train", 1), plan("b", "search", 1)];
    let mut loaded = LoadedCluster::start(1, 1, &plans).await;
    loaded.progress(2, SOON).await;
    loaded.demo.tenants[0].kill().expect("it dies");
    loaded
        .demo
        .requests(1, 3, SOON)
        .await
        .expect("the other goes on");
    // Ten seconds after its connection closed, the session ends and its memory is free.
    let patience = Duration::from_secs(25);
    loaded
        .wait("the dead tenant's memory is free", patience, |loaded| {
            let resident = loaded.demo.observer.see(|seen| {
                let rows = seen.usage.values().flat_map(|usage| &usage.sessions);
                let of_a = rows.filter(|row| row.tenant.as_str() == "a");
                of_a.map(|row| row.resident).sum::<u64>()
            });
            (resident == 0).then_some(())
        })
        .await;
    loaded
        .demo
        .requests(1, 3, SOON)
        .await
        .expect("the other goes on");
    let heard = loaded.demo.tenants[1]
        .stop(SOON)
        .await
        .expect("and stops in order");
    assert!(heard.stopped && heard.verified == heard.latencies.len() as u64);
}
