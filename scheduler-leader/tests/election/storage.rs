//! The cluster's streams and buckets in its broker: limits, full ones, deleted ones.

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use bus_schemas::{ClusterSettings, LeaderId, TenantSettings};
use storage::{Storage, Stored};
use test_cluster::TestCluster;

use crate::{BEYOND_LEASE, Candidate, HEARD, TIMEOUT, Watcher, block_on};

/// A subject of the cluster that no part of the product listens to.
const FILLER: &str = "wl.v1.test.x.filler";

/// A stream without a limit, which the product would not create.
async fn filler(jetstream: &jetstream::Context) {
    let config = stream::Config {
        name: "filler".into(),
        subjects: vec![FILLER.into()],
        ..stream::Config::default()
    };
    jetstream.create_stream(config).await.unwrap();
}

/// Publishes until the broker stores nothing more.
async fn fill(jetstream: &jetstream::Context) {
    for bytes in [512 << 10, 64 << 10, 1 << 10] {
        for _ in 0..1_000 {
            let sent = jetstream.publish(FILLER, vec![7; bytes].into()).await;
            if sent.unwrap().await.is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_leader_is_elected_although_the_brokers_storage_is_full() {
    let cluster = TestCluster::with(&["a"], |config| {
        config.max_file_store = Some(48 << 20);
    });
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        filler(&jetstream).await;
        let mut first = Candidate::start(&cluster, 1, true);
        let beat = watcher.beat(|_| true).await;
        let _second = Candidate::start(&cluster, 2, true);
        tokio::time::sleep(HEARD).await;
        fill(&jetstream).await;
        let record = watcher.subjects.record(999);
        let refused = jetstream.publish(record, vec![7; 1 << 10].into()).await;
        assert!(refused.unwrap().await.is_err(), "nothing more is stored");
        first.end(false);
        let next = watcher.beat(|next| next.epoch > beat.epoch).await;
        assert_eq!(next.leader, LeaderId(2));
        // It goes on renewing.
        tokio::time::sleep(BEYOND_LEASE).await;
        let now = watcher.beat(|_| true).await;
        assert_eq!((now.epoch, now.leader), (next.epoch, next.leader));
        let status = watcher.status().await;
        assert!(status.recorded < status.input, "its inputs wait");
        // The status tells what is wrong.
        let asked = Instant::now();
        let alarm = loop {
            let stores = watcher.status().await.stores;
            let record = stores
                .iter()
                .find(|store| store.name == watcher.subjects.record_stream());
            if let Some(record) = record.filter(|record| !record.alarm.is_empty()) {
                break record.alarm.clone();
            }
            assert!(asked.elapsed() < TIMEOUT, "an alarm: {stores:?}");
        };
        assert!(alarm.contains("resource"), "{alarm}");
        // With room again, inputs are recorded.
        jetstream.delete_stream("filler").await.unwrap();
        let asked = Instant::now();
        loop {
            let status = watcher.status().await;
            if status.recorded == status.input {
                break;
            }
            assert!(asked.elapsed() < TIMEOUT, "inputs are recorded");
        }
    });
}

#[test]
fn servers_with_little_room_keep_a_smaller_record() {
    let cluster = TestCluster::with(&["a"], |config| {
        config.servers = 3;
        config.max_file_store = Some(2 << 30);
    });
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let _leader = Candidate::start(&cluster, 1, true);
        watcher.beat(|_| true).await;
        record_bytes(&watcher).await;
        let name = watcher.subjects.record_stream();
        let stream = jetstream.get_stream(&name).await.expect("the record");
        let config = &stream.cached_info().config;
        assert_eq!(config.num_replicas, 3);
        assert!(
            (4 << 20..=2 << 30).contains(&config.max_bytes),
            "{config:?}"
        );
    });
}

#[test]
fn servers_promise_no_more_than_they_may_keep() {
    // A server that did would refuse every change: the record would like 8 GiB of the 9,000 MiB,
    // and the others 1,296 MiB.
    for mib in [24, 9_000] {
        let cluster = TestCluster::with(&["a"], |config| {
            config.servers = 3;
            config.max_file_store = Some(mib << 20);
        });
        block_on(async {
            let mut watcher = Watcher::new(&cluster).await;
            let jetstream = jetstream::new(watcher.client.clone());
            let leaders = [1, 2, 3].map(|id| Candidate::start(&cluster, id, true));
            watcher.beat(|_| true).await;
            let storage = Storage::new(jetstream.clone(), &watcher.subjects);
            for copies in [3, 1, 3] {
                storage.set_replicas(copies);
                ensure(&storage).await;
                in_step(&storage).await;
            }
            let account = jetstream.query_account().await.expect("it answers");
            let kept = on_disk(&storage).await;
            let promised: i64 = kept.iter().map(|config| config.max_bytes).sum();
            assert!(promised <= (mib << 20) as i64, "{promised} of {mib} MiB");
            let limit = Some(3 * (mib << 20) as i64);
            assert_eq!(account.limits.max_storage, limit);
            drop(leaders);
        });
    }
}

#[test]
fn more_copies_hold_fewer_bytes_where_there_is_no_room_for_as_many() {
    /// Bytes that each server may keep.
    const ROOM: i64 = 9_000 << 20;
    let cluster = TestCluster::with(&["a"], |config| {
        config.servers = 3;
        config.max_file_store = Some(ROOM as u64);
    });
    block_on(async {
        let watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let storage = Storage::new(jetstream.clone(), &watcher.subjects);
        storage.set_replicas(1);
        apart(&jetstream, &storage).await;
        // One copy of everything fits on the three servers; three copies of it do not.
        for (copies, most) in [(1, 3 * ROOM), (3, ROOM)] {
            storage.set_replicas(copies);
            ensure(&storage).await;
            let kept = on_disk(&storage).await;
            let all = kept
                .iter()
                .all(|config| config.num_replicas == copies as usize);
            assert!(all, "{copies} copies of {kept:?}");
            let promised: i64 = kept.iter().map(|config| config.max_bytes).sum();
            assert!(promised <= most, "{promised} bytes of {copies} copies");
            // The record, or all others, were bounded.
            assert_eq!(
                promised > ROOM,
                copies == 1,
                "{promised} of {copies} copies"
            );
        }
    });
}

/// The configurations of what is kept on disk. The servers' list names a stream twice, and another not at all,
/// when a leader changes meanwhile.
async fn on_disk(storage: &Storage) -> Vec<stream::Config> {
    let mut all = Vec::new();
    for stored in Stored::ALL {
        let asked = Instant::now();
        let stream = loop {
            if let Ok(Some(stream)) = storage.find_stream(stored).await {
                break stream;
            }
            assert!(asked.elapsed() < 3 * TIMEOUT, "{stored:?} is there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        all.push(stream.cached_info().config.clone());
    }
    all.retain(|config| config.storage == stream::StorageType::File);
    all
}

/// Recreates the record until its leader's server is not that of the usage stream, for these two
/// take most of the servers' room.
async fn apart(jetstream: &jetstream::Context, storage: &Storage) {
    let server = async |stored| loop {
        let Ok(stream) = storage.stream(stored).await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let cluster = stream.cached_info().cluster.clone();
        return cluster.and_then(|cluster| cluster.leader);
    };
    let usage = server(Stored::Usage).await;
    while server(Stored::Record).await == usage {
        let name = storage.name(Stored::Record);
        jetstream.delete_stream(name).await.expect("deleted");
    }
}

/// Ensures all stores, and retries while the servers elect a leader.
async fn ensure(storage: &Storage) {
    let asked = Instant::now();
    while let Err(error) = storage.ensure().await {
        if asked.elapsed() > 3 * TIMEOUT {
            panic!("{error}\n{}", places(storage).await);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until every copy has all that its leader has. A server that is still catching up with a stream when it loses
/// the copy may keep the room reserved for it.
async fn in_step(storage: &Storage) {
    let asked = Instant::now();
    for stored in Stored::ALL {
        let behind = async || match storage.copies_of(stored).await {
            Ok(copies) => copies.is_some_and(|copies| !copies.are_in_step()),
            Err(_) => true,
        };
        while behind().await {
            if asked.elapsed() > 3 * TIMEOUT {
                panic!("{stored:?} is behind\n{}", places(storage).await);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The limit of each stream, the bytes that it holds, and the servers that have a copy, as text.
async fn places(storage: &Storage) -> String {
    let mut text = String::new();
    for stored in Stored::ALL {
        let found = match storage.find_stream(stored).await {
            Ok(Some(stream)) => {
                let info = stream.cached_info();
                let (limit, held) = (info.config.max_bytes, info.state.bytes);
                let copies = info.config.num_replicas;
                let cluster = &info.cluster;
                format!("{copies} copies of at most {limit} bytes, {held} held, at {cluster:?}")
            }
            none => format!("{none:?}"),
        };
        text += &format!("{stored:?}: {found}\n");
    }
    text
}

/// Bytes of the record, once it exists.
async fn record_bytes(watcher: &Watcher) -> u64 {
    let jetstream = jetstream::new(watcher.client.clone());
    let (name, asked) = (watcher.subjects.record_stream(), Instant::now());
    loop {
        if let Ok(stream) = jetstream.get_stream(&name).await {
            return stream.cached_info().config.max_bytes as u64;
        }
        assert!(asked.elapsed() < 3 * TIMEOUT, "there is a record");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn a_record_is_kept_wherever_all_that_is_kept_has_a_place() {
    // The buckets would like all the room of the larger servers.
    for mib in [23, 80, 150, 220] {
        let cluster = TestCluster::with(&["a"], |config| {
            config.max_file_store = Some(mib << 20);
        });
        block_on(async {
            let mut watcher = Watcher::new(&cluster).await;
            let _leader = Candidate::start(&cluster, 1, true);
            watcher.beat(|_| true).await;
            assert!(record_bytes(&watcher).await >= 4 << 20, "of {mib} MiB");
        });
    }
}

#[test]
fn the_state_has_a_place_whatever_was_made_before_it() {
    let cluster = TestCluster::with(&["a"], |config| {
        config.max_file_store = Some(24 << 20);
    });
    block_on(async {
        let watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let storage = Storage::new(jetstream, &watcher.subjects);
        storage.stream(Stored::Record).await.expect("made");
        for stored in [Stored::Kernels, Stored::Control, Stored::Answers] {
            storage.make_bucket(stored).await.expect("made");
        }
        storage.make_bucket(Stored::State).await.expect("a place");
        storage.ensure().await.expect("the others too");
    });
}

#[test]
fn a_bucket_that_is_nearly_full_is_an_alarm() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let _leader = Candidate::start(&cluster, 1, true);
        watcher.beat(|_| true).await;
        let bucket = watcher.subjects.kernel_bucket();
        let asked = Instant::now();
        let store = loop {
            if let Ok(store) = jetstream.get_key_value(&bucket).await {
                break store;
            }
            assert!(asked.elapsed() < TIMEOUT, "the bucket is there");
        };
        let limit = store.stream.cached_info().config.max_bytes as u64;
        let alarm = async || {
            let stores = watcher.status().await.stores;
            let store = stores.into_iter().find(|store| store.name == bucket);
            store.map_or_else(String::new, |store| store.alarm)
        };
        let mib = vec![7_u8; 1 << 20];
        for key in 0..limit * 81 / 100 / (1 << 20) + 1 {
            let put = store.put(format!("k{key}"), mib.clone().into()).await;
            put.unwrap();
        }
        let asked = Instant::now();
        while !alarm().await.contains("% full") {
            assert!(asked.elapsed() < TIMEOUT, "an alarm");
        }
        for key in 0..limit * 10 / 100 / (1 << 20) + 1 {
            store.purge(format!("k{key}")).await.unwrap();
        }
        let asked = Instant::now();
        while !alarm().await.is_empty() {
            assert!(asked.elapsed() < TIMEOUT, "no alarm any more");
        }
    });
}

#[test]
fn everything_that_is_kept_has_a_limit() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        // A bucket of an earlier version, without a limit.
        let earlier = jetstream::kv::Config {
            bucket: watcher.subjects.state_bucket(),
            history: 64,
            ..jetstream::kv::Config::default()
        };
        jetstream.create_key_value(earlier).await.unwrap();
        let _leader = Candidate::start(&cluster, 1, true);
        watcher.beat(|_| true).await;
        let subjects = &watcher.subjects;
        let buckets = [
            subjects.lease_bucket(),
            subjects.state_bucket(),
            subjects.kernel_bucket(),
        ];
        let buckets = buckets.map(|bucket| format!("KV_{bucket}"));
        let streams = [subjects.record_stream(), subjects.usage_stream()];
        for name in buckets.into_iter().chain(streams) {
            let asked = Instant::now();
            loop {
                let stream = jetstream.get_stream(&name).await;
                if let Ok(stream) = &stream
                    && stream.cached_info().config.max_bytes > 0
                {
                    break;
                }
                assert!(asked.elapsed() < TIMEOUT, "{name} has a limit: {stream:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
}

#[test]
fn a_deleted_state_bucket_is_put_back_by_the_living_leader() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let _leader = Candidate::start(&cluster, 1, true);
        let beat = watcher.beat(|_| true).await;
        let bucket = watcher.subjects.state_bucket();
        let store = jetstream.get_key_value(&bucket).await.unwrap();
        let tenant = TenantSettings {
            weight: 7,
            ..TenantSettings::default()
        };
        let settings = ClusterSettings {
            window_ns: 3_000_000,
            ..ClusterSettings::default()
        };
        let tenant_value = serde_json::to_vec(&tenant).unwrap();
        store.put("tenant.chat", tenant_value.into()).await.unwrap();
        let value = serde_json::to_vec(&settings).unwrap();
        store.put("settings", value.into()).await.unwrap();
        let asked = Instant::now();
        while watcher.status().await.settings != Some(settings.clone()) {
            assert!(asked.elapsed() < TIMEOUT, "the settings are heard of");
        }
        jetstream.delete_key_value(&bucket).await.unwrap();
        let asked = Instant::now();
        loop {
            assert!(asked.elapsed() < TIMEOUT, "the bucket is put back");
            // All the while the leader uses the settings.
            let status = watcher.status().await;
            let names: Vec<_> = status.tenants.iter().map(|it| it.tenant.as_str()).collect();
            assert_eq!(names, ["chat"]);
            assert_eq!(status.settings, Some(settings.clone()));
            let Ok(store) = jetstream.get_key_value(&bucket).await else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let tenant = store.get("tenant.chat").await.unwrap();
            let set = store.get("settings").await.unwrap();
            if let (Some(back), Some(set)) = (tenant, set) {
                let back: TenantSettings = serde_json::from_slice(&back).unwrap();
                let set: ClusterSettings = serde_json::from_slice(&set).unwrap();
                assert_eq!((back.weight, set), (7, settings));
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let now = watcher.beat(|_| true).await;
        assert_eq!((now.epoch, now.leader), (beat.epoch, beat.leader));
    });
}
