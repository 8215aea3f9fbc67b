//! Cuts of the record: what is too old goes, and the rest replays from an anchor.

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use bus_schemas::{ClusterSettings, LeaderId};
use scheduler_leader_core::replay::{Anchor, replay};
use test_cluster::TestCluster;

use crate::{Candidate, HEARD, TIMEOUT, Watcher, block_on};

/// The blocks of the record stream, by the epoch and number in their ids.
async fn blocks(stream: &stream::Stream) -> Vec<(u64, u64, Vec<u8>)> {
    let state = stream.get_info().await.unwrap().state;
    let mut blocks = Vec::new();
    for sequence in state.first_sequence..=state.last_sequence {
        // Blocks that were cut meanwhile are missing.
        let Ok(message) = stream.get_raw_message(sequence).await else {
            continue;
        };
        let id = message.headers.get("Nats-Msg-Id").unwrap().as_str();
        let parts: Vec<_> = id.split('.').collect();
        let of = |at: usize| parts[at].parse::<u64>().unwrap();
        blocks.push((of(0), of(2), message.payload.to_vec()));
    }
    blocks
}

/// Waits until the record begins at this epoch or later; returns the anchor of the rest, which
/// replays.
async fn cut_to(jetstream: &jetstream::Context, name: &str, least: u64) -> Anchor {
    let asked = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let stream = jetstream.get_stream(name).await.unwrap();
        let blocks = blocks(&stream).await;
        let first = blocks.iter().filter(|block| block.1 != Anchor::NUMBER);
        let first = first.map(|block| block.0).min().unwrap_or(0);
        let anchor = blocks
            .iter()
            .find(|block| (block.0, block.1) == (first, Anchor::NUMBER));
        if let Some(anchor) = anchor.filter(|_| first >= least) {
            let anchor = Anchor::decode(first, &anchor.2).unwrap();
            let replayed = replay(&blocks, &[]).unwrap();
            assert_eq!(replayed.anchor.as_ref(), Some(&anchor));
            return anchor;
        }
        assert!(asked.elapsed() < 6 * TIMEOUT, "the record is cut");
    }
}

#[test]
fn what_is_too_old_of_the_record_is_cut_off_behind_an_anchor() {
    let cluster = TestCluster::start();
    block_on(async {
        let mut watcher = Watcher::new(&cluster).await;
        let jetstream = jetstream::new(watcher.client.clone());
        let leader = Candidate::start(&cluster, 1, true);
        let beat = watcher.beat(|_| true).await;
        let bucket = watcher.subjects.state_bucket();
        let store = jetstream.get_key_value(&bucket).await.unwrap();
        let settings = ClusterSettings {
            record_max_age_s: 8,
            ..ClusterSettings::default()
        };
        let value = serde_json::to_vec(&settings).unwrap();
        store.put("settings", value.into()).await.unwrap();
        // An epoch is at most a second old, and the same leader leads on.
        let later = watcher.beat(|next| next.epoch >= beat.epoch + 3).await;
        assert_eq!(later.leader, beat.leader);
        let name = watcher.subjects.record_stream();
        let anchor = cut_to(&jetstream, &name, beat.epoch + 1).await;
        assert!(anchor.epochs >= 1 && anchor.inputs >= 1, "{anchor:?}");
        // The next leader continues from there.
        let _other = Candidate::start(&cluster, 2, true);
        tokio::time::sleep(HEARD).await;
        drop(leader);
        let next = watcher.beat(|next| next.leader == LeaderId(2)).await;
        let later = cut_to(&jetstream, &name, next.epoch).await;
        assert!(later.epochs > anchor.epochs && later.inputs > anchor.inputs);
    });
}
