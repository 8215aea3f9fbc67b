//! Short sessions while leaders are killed one after the other. Sessions that were opened, used and
//! closed shortly before a leader's death are nevertheless in the order, by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bus_schemas::TenantSettings;
use client_agent::{Client, Settings};

use crate::loaded::{LoadedCluster, plan};
use crate::order::Tool;

const SOON: Duration = Duration::from_secs(60);
const GUEST: &str = "guest";
/// Programs that each open one session after the other.
const PROGRAMS: usize = 3;
const KILLS: u64 = 8;

/// Opens, uses and closes sessions until it is told to stop.
fn sessions(settings: Settings, count: &AtomicU64, stop: &AtomicBool) {
    let client = Client::connect(settings).expect("a broker");
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        let session = client.open().expect("a session");
        let address = session.alloc(4096).expect("memory");
        let wanted = [count.load(Ordering::Relaxed) as u8; 64];
        session.copy_in(address, &wanted).expect("it is taken");
        session
            .copy_out(address, &mut bytes)
            .expect("it comes back");
        assert_eq!(bytes, wanted);
        session.close().expect("closed");
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn short_sessions_are_in_the_order_whatever_leader_dies_with_them() {
    let mut loaded = LoadedCluster::start(3, 2, &[plan("a", "search", 1)]).await;
    let settings = loaded.guest(GUEST, &TenantSettings::default()).await;
    let (count, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let programs = (0..PROGRAMS).map(|_| {
        let (settings, count, stop) = (settings.clone(), Arc::clone(&count), Arc::clone(&stop));
        std::thread::spawn(move || sessions(settings, &count, &stop))
    });
    let programs: Vec<_> = programs.collect();
    let mut epoch = 0;
    for _ in 0..=KILLS {
        let before = count.load(Ordering::Relaxed);
        let more = || (count.load(Ordering::Relaxed) > before + 10).then_some(());
        loaded.wait("sessions come and go", SOON, |_| more()).await;
        epoch = loaded.replace_leader(epoch, SOON).await;
    }
    loaded.epoch_above(epoch, SOON).await;
    stop.store(true, Ordering::Relaxed);
    for program in programs {
        program.join().expect("every result is right");
    }
    agree(&loaded);
    loaded.settle().await;
}

/// Checks that replay, verification and exports agree on the order, and that it is whole.
fn agree(loaded: &LoadedCluster) {
    let tool = Tool::of(loaded);
    for file in ["run.record", "run.csv"] {
        tool.well(&["order", "export", "--out", file]);
    }
    let check = tool.json(&["order", "verify", "run.record"]).remove(0);
    assert!(check["first"].is_null(), "{check}");
    let digest = check["digest"].as_str().expect("a digest");
    let replayed = tool
        .json(&[
            "replay",
            "--record",
            "run.record",
            "--expect",
            digest,
            "--order",
            "run.order",
        ])
        .remove(0);
    for found in [&check, &replayed] {
        assert_eq!(found["skipped"], 0, "{found}");
        assert_eq!(found["adopted"], replayed["adopted"], "{found}");
    }
    // Adopted positions were accepted between an append and the death of a leader: there are never
    // many.
    let of = |key: &str| replayed[key].as_u64().expect("a number");
    assert!(of("adopted") < of("positions") / 2, "{replayed}");
}
