//! Elections and successions.

use std::time::{Duration, Instant};

use async_nats::jetstream;
use bus_schemas::subject::ConnectionName;
use bus_schemas::{
    Epoch, Incarnation, LeaderBeat, LeaderId, Refusal, Seal, SealReply, TenantSettings,
    WIRE_VERSION, WorkerBeat, decode, encode,
};
use futures_util::StreamExt;
use scheduler_leader::{LeaderSettings, run};
use test_cluster::TestCluster;

use crate::{BEYOND_LEASE, Candidate, HEARD, TIMEOUT, Watcher, block_on};

/// Removes the leading candidate from the list and returns it.
fn take(candidates: &mut Vec<Candidate>, leader: LeaderId) -> Candidate {
    let at = candidates.iter().position(|one| one.id == leader);
    candidates.remove(at.expect("it is one of them"))
}

/// A watcher, this many candidates, and the heartbeat of the leading one.
async fn led(
    cluster: &TestCluster,
    count: u64,
    events: bool,
) -> (Watcher, Vec<Candidate>, LeaderBeat) {
    let mut watcher = Watcher::new(cluster).await;
    let candidates = (1..=count).map(|id| Candidate::start(cluster, id, events));
    let candidates = candidates.collect();
    let beat = watcher.beat(|_| true).await;
    (watcher, candidates, beat)
}

#[test]
fn a_dead_leader_is_followed() {
    let cluster = TestCluster::start();
    block_on(async {
        let (mut watcher, mut candidates, mut beat) = led(&cluster, 3, true).await;
        for next in 4..=8 {
            tokio::time::sleep(HEARD).await;
            let mut leader = take(&mut candidates, beat.leader);
            let epoch = beat.epoch;
            leader.end(false);
            let successor = watcher.beat(|beat| beat.epoch > epoch).await;
            assert_eq!(successor.epoch, epoch + 1, "one campaign, one winner");
            candidates.push(Candidate::start(&cluster, next, true));
            beat = successor;
        }
    });
}

#[test]
fn a_tenant_that_calls_itself_the_leader_deposes_nobody() {
    let cluster = TestCluster::with(&["mallory"], |_| {});
    block_on(async {
        let (mut watcher, mut candidates, beat) = led(&cluster, 3, true).await;
        tokio::time::sleep(HEARD).await;
        let credentials = cluster.credentials();
        let system = credentials.system_user.clone().expect("it has one");
        let options = async_nats::ConnectOptions::with_user_and_password;
        let system = options(system.user, system.password);
        let system = system.connect(credentials.url.with_login()).await.unwrap();
        let closed = system.subscribe(credentials.disconnect_subject()).await;
        let mut closed = closed.unwrap();
        system.flush().await.unwrap();
        let login = credentials.tenant("mallory").unwrap().login.clone();
        for _ in 0..20 {
            let name = ConnectionName::Leader(beat.leader).to_string();
            let tenant = options(login.user.clone(), login.password.clone());
            drop(
                tenant
                    .name(name)
                    .connect(credentials.url.with_login())
                    .await
                    .unwrap(),
            );
            closed.next().await.expect("the broker tells of it");
        }
        // A deposed leader is followed within milliseconds.
        for _ in 0..40 {
            let next = watcher.beat(|_| true).await;
            assert_eq!((next.epoch, next.leader), (beat.epoch, beat.leader));
        }
        take(&mut candidates, beat.leader).end(false);
        let successor = watcher.beat(|next| next.epoch > beat.epoch).await;
        assert_eq!(successor.epoch, beat.epoch + 1);
    });
}

#[test]
fn heartbeats_alone_serve_without_a_system_account() {
    let cluster = TestCluster::with(&["a"], |config| config.system_account = false);
    block_on(async {
        let (mut watcher, mut candidates, beat) = led(&cluster, 2, false).await;
        tokio::time::sleep(HEARD).await;
        let mut leader = take(&mut candidates, beat.leader);
        leader.end(false);
        watcher.beat(|next| next.epoch > beat.epoch).await;
    });
}

#[test]
fn a_leader_told_to_leave_hands_over() {
    let cluster = TestCluster::start();
    block_on(async {
        let (mut watcher, mut candidates, beat) = led(&cluster, 2, false).await;
        tokio::time::sleep(HEARD).await;
        let mut leader = take(&mut candidates, beat.leader);
        if let Some(stop) = leader.stop.take() {
            let _ = stop.send(true);
        }
        watcher.beat(|next| next.epoch > beat.epoch).await;
        assert_eq!(leader.ended.recv_timeout(TIMEOUT).unwrap(), Ok(()));
    });
}

#[test]
fn a_leader_outlives_its_leases_bucket() {
    let cluster = TestCluster::start();
    block_on(async {
        let (mut watcher, _candidates, beat) = led(&cluster, 2, true).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let bucket = watcher.subjects.lease_bucket();
        jetstream.delete_key_value(&bucket).await.unwrap();
        // The bucket is created again and the lease written again, while the term goes on.
        let deleted = Instant::now();
        let lease = loop {
            assert!(deleted.elapsed() < TIMEOUT, "the lease comes back");
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Ok(store) = jetstream.get_key_value(&bucket).await
                && let Ok(Some(lease)) = store.get("leader").await
            {
                break lease;
            }
        };
        let lease: serde_json::Value = serde_json::from_slice(&lease).unwrap();
        assert_eq!(lease["epoch"], beat.epoch);
        assert_eq!(lease["leader"], beat.leader.0);
        tokio::time::sleep(BEYOND_LEASE).await;
        let now = watcher.beat(|_| true).await;
        assert_eq!((now.epoch, now.leader), (beat.epoch, beat.leader));
    });
}

/// Number of stored blocks of the record.
async fn recorded(jetstream: &jetstream::Context, record: &str) -> u64 {
    let stream = jetstream.get_stream(record).await;
    stream.map_or(0, |stream| stream.cached_info().state.messages)
}

/// Waits until the lease has expired, with no candidate to take it over.
async fn expires(store: &jetstream::kv::Store) {
    let asked = Instant::now();
    while store.get("leader").await.unwrap().is_some() {
        assert!(asked.elapsed() < TIMEOUT, "the lease expires");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_lease_expires_by_itself() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let mut leader = Candidate::start(&cluster, 1, true);
        watcher.beat(|_| true).await;
        let jetstream = jetstream::new(watcher.client.clone());
        // Its epoch is in the record: it will not be used again.
        let (asked, record) = (Instant::now(), watcher.subjects.record_stream());
        while recorded(&jetstream, &record).await == 0 {
            assert!(asked.elapsed() < TIMEOUT, "its epoch is recorded");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        leader.end(false);
        let store = jetstream
            .get_key_value(watcher.subjects.lease_bucket())
            .await
            .unwrap();
        assert!(store.get("leader").await.unwrap().is_some());
        expires(&store).await;
        // The next lease expires as well, over the expired one's marker.
        let mut leader = Candidate::start(&cluster, 2, true);
        let beat = watcher.beat(|beat| beat.leader == LeaderId(2)).await;
        assert!(beat.epoch > 1, "epochs do not start over");
        leader.end(false);
        expires(&store).await;
    });
}

/// A worker that has obeyed a higher epoch refuses: the leader goes above it.
#[test]
fn a_refused_leader_campaigns_above() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let _leader = Candidate::start(&cluster, 1, true);
        let beat = watcher.beat(|_| true).await;
        let worker = Incarnation(77);
        let mut seals = watcher
            .client
            .subscribe(watcher.subjects.seal(worker))
            .await
            .unwrap();
        let obeyed: Epoch = beat.epoch + 40;
        let says = |epoch, leader| WorkerBeat {
            epoch,
            leader,
            ..WorkerBeat::new(worker, 0, 1 << 30)
        };
        // It does not name the epoch at first: the refusal does.
        let subject = watcher.subjects.worker_beat(worker);
        let bytes = encode(&says(0, LeaderId(0)));
        watcher
            .client
            .publish(subject.clone(), bytes.into())
            .await
            .unwrap();
        let message = tokio::time::timeout(TIMEOUT, seals.next())
            .await
            .unwrap()
            .unwrap();
        let seal: Seal = decode(&message.payload).unwrap();
        assert_eq!(seal.epoch, beat.epoch);
        let refusal = SealReply {
            v: WIRE_VERSION,
            sealed: None,
            refused: Some(Refusal {
                v: WIRE_VERSION,
                epoch: obeyed,
                leader: LeaderId(9),
            }),
            page: None,
        };
        let reply = message.reply.unwrap();
        watcher
            .client
            .publish(reply, encode(&refusal).into())
            .await
            .unwrap();
        let above = watcher.beat(|beat| beat.epoch > obeyed).await;
        assert_eq!(above.leader, LeaderId(1));
    });
}

#[test]
fn settings_and_tenants_reach_the_leader() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let _leader = Candidate::start(&cluster, 1, true);
        watcher.beat(|_| true).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let store = jetstream
            .get_key_value(watcher.subjects.state_bucket())
            .await
            .unwrap();
        let settings = TenantSettings {
            weight: 7,
            ..TenantSettings::default()
        };
        let value = serde_json::to_vec(&settings).unwrap();
        store.put("tenant.chat", value.into()).await.unwrap();
        let asked = Instant::now();
        loop {
            let status = watcher.status().await;
            if let [tenant] = status.tenants.as_slice() {
                assert_eq!(
                    (tenant.tenant.as_str(), &tenant.settings),
                    ("chat", &settings)
                );
                break;
            }
            assert!(asked.elapsed() < TIMEOUT, "the tenant is heard of");
        }
        store.delete("tenant.chat").await.unwrap();
        let asked = Instant::now();
        while !watcher.status().await.tenants.is_empty() {
            assert!(asked.elapsed() < TIMEOUT, "the tenant is gone");
        }
        // The change is recorded.
        let status = watcher.status().await;
        let asked = Instant::now();
        while watcher.status().await.recorded < status.input {
            assert!(asked.elapsed() < TIMEOUT, "inputs are recorded");
        }
        let stream = jetstream
            .get_stream(watcher.subjects.record_stream())
            .await
            .unwrap();
        assert!(stream.cached_info().state.messages > 0);
    });
}

#[test]
fn a_refused_login_is_an_error() {
    let cluster = TestCluster::start();
    let credentials = cluster.credentials();
    let mut settings = LeaderSettings::new(&credentials.url, credentials.cluster.parse().unwrap());
    settings.bus.login = Some(("cluster".into(), "wrong".into()));
    let error = run(settings, || Ok(std::future::pending())).unwrap_err();
    assert!(format!("{error:#}").contains("login"), "{error:#}");
}
