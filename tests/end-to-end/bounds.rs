//! The bounds of a tenant's kernels, and the time until a kernel beyond them ends.

use std::time::{Duration, Instant};

use bus_schemas::{Code, TenantSettings};
use client_agent::{Client, Session, Settings};

use crate::loaded::LoadedCluster;

const TIMEOUT: Duration = Duration::from_secs(60);

/// `endless` loops forever; each thread of `deep` has 64 KiB of local memory and finds it zeroed.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry endless() { again: bra again; }
.visible .entry deep(.param .u64 sum) {
    .local .align 8 .b8 depot[65536]; .reg .b32 %r<4>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [sum]; ld.local.u32 %r1, [depot+65532];
    mov.u32 %r2, 1; st.local.u32 [depot+65532], %r2; add.u32 %r1, %r1, %r2;
    red.global.add.u32 [%d1], %r1; ret;
}";

/// Adds a tenant; returns its programs' settings.
async fn guest(loaded: &mut LoadedCluster, name: &str, quota: u64) -> Settings {
    let settings = TenantSettings {
        quota,
        ..TenantSettings::default()
    };
    loaded.guest(name, &settings).await
}

/// Launches `deep` and returns the sum that its threads computed.
fn deep(session: &Session, blocks: u32, threads: u32) -> Result<u32, client_agent::Error> {
    let module = session.load(PTX.as_bytes())?;
    let deep = module.function("deep")?;
    let sum = session.alloc(4)?;
    session.set(sum, 1, 0, 4)?;
    let (grid, block) = ([blocks, 1, 1], [threads, 1, 1]);
    session.launch(&deep, grid, block, 0, &sum.to_le_bytes())?;
    let mut word = [0; 4];
    session.copy_out(sum, &mut word)?;
    Ok(u32::from_le_bytes(word))
}

#[tokio::test]
async fn the_blocks_of_a_kernel_count_against_the_quota_while_it_runs() {
    let settings = [("worker.device", "cpu"), ("worker.watchdog", "60s")];
    let mut loaded = LoadedCluster::idle(1, 1, &[], &settings).await;
    // A block of 1,024 threads takes 64 MiB, one of 256 threads 16 MiB.
    let settings = guest(&mut loaded, "guest", 40 << 20).await;
    let played = tokio::task::spawn_blocking(move || {
        let client = Client::connect(settings).expect("a broker");
        for round in 0..2 {
            let session = client.open().expect("a session");
            assert_eq!(deep(&session, 8, 256).expect("it ran"), 8 * 256, "{round}");
            // The kernel's memory is freed: there is room for an allocation.
            let room = session.alloc(30 << 20).expect("an address");
            session.sync().expect("room");
            session.free(room).expect("freed");
            session.close().expect("closed");
        }
        let session = client.open().expect("a session");
        let refused = deep(&session, 1, 1_024).expect_err("larger than the quota");
        assert_eq!(refused.code(), Code::Quota, "{refused}");
        assert!(refused.to_string().contains("one block"), "{refused}");
    });
    played.await.expect("as it should be");
}

#[tokio::test]
async fn a_kernel_of_a_program_that_is_gone_ends_and_frees_its_place() {
    // The watchdog does not end it.
    let settings = [
        ("worker.device", "cpu"),
        ("worker.watchdog", "3600s"),
        ("leader.connection_lost", "1s"),
    ];
    let mut loaded = LoadedCluster::idle(1, 1, &[], &settings).await;
    let settings = guest(&mut loaded, "guest", 0).await;
    let launched = tokio::task::spawn_blocking(move || {
        let client = Client::connect(settings).expect("a broker");
        let session = client.open().expect("a session");
        let module = session.load(PTX.as_bytes()).expect("a module");
        let endless = module.function("endless").expect("a kernel");
        session.sync().expect("ready");
        session
            .launch(&endless, [4, 1, 1], [64, 1, 1], 0, &[])
            .expect("a launch");
        session.flush();
        // Gives the launch time to begin.
        std::thread::sleep(Duration::from_secs(1));
    });
    launched.await.expect("under way");
    let asked = Instant::now();
    loop {
        let status = loaded.demo.administrator.status(TIMEOUT).await;
        let status = status.expect("a leader");
        if status.workers.iter().all(|worker| worker.sessions == 0) {
            break;
        }
        if asked.elapsed() > TIMEOUT {
            loaded.panic("the session is still there");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
