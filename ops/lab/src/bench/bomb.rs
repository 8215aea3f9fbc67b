//! The time of a sync beside an equal tenant. That tenant's kernel does next to nothing in each block, but
//! each block takes half a gibibyte of local memory. Real processes on a CPU worker.

use std::io::Write;
use std::time::Instant;

use admin::settings::Settings;
use anyhow::Result;
use bus_schemas::TenantSettings;
use client_agent::Client;
use serde::{Deserialize, Serialize};
use workloads::kernels::EMPTY;

use super::bench_cluster::{TENANT, cpu_cluster_of, play};
use super::metric::{Goal, Measurement, median, metrics};
use super::start::busy_process;

metrics! {
    SYNC = "bomb_sync_ms", "ms", Goal::AtMost(100.0),
        "the longest of 200 syncs of a tenant beside an equal one's kernel of 4,096 blocks of 1,024 threads with 512 KB of local memory each";
}

/// The tenant that runs that kernel, and the name of its process.
pub(super) const PROCESS: &str = "bomb";
/// Syncs of one repetition.
const SYNCS: usize = 200;
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry bomb() {
    .local .align 8 .b8 depot[524288]; .reg .b32 %r<2>;
    mov.u32 %r1, %tid.x; st.local.u32 [depot], %r1; st.local.u32 [depot+524284], %r1; ret;
}";

/// Output of the equal tenant's process, in milliseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Equal {
    longest: f64,
    median: f64,
}

/// Repeatedly launches an empty kernel and waits for it.
pub(super) fn equal(client: &Client, syncs: usize) -> Result<Equal> {
    let session = client.open()?;
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    let mut times = Vec::with_capacity(syncs);
    for sync in 0..=syncs {
        let began = Instant::now();
        session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
        session.sync()?;
        if sync > 0 {
            times.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    session.close()?;
    Ok(Equal {
        longest: times.iter().copied().fold(0.0, f64::max),
        median: median(&times).unwrap_or(0.0),
    })
}

/// Repeatedly launches such a kernel, each in a session of its own because the watchdog ends it.
pub(super) fn bomb(client: &Client) -> Result<()> {
    loop {
        let session = client.open()?;
        let bomb = session.load(PTX.as_bytes())?.function("bomb")?;
        session.launch(&bomb, [4_096, 1, 1], [1_024, 1, 1], 0, &[])?;
        session.flush();
        writeln!(std::io::stdout(), "ready")?;
        // The session does not survive the kernel.
        let _ = session.sync();
    }
}

/// Measures the sync if its metric is wanted.
pub(super) async fn sync(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if !wanted(SYNC.name) {
        return Ok(());
    }
    let tenants = [TENANT, PROCESS].map(|name| (name, TenantSettings::default()));
    let cluster = cpu_cluster_of(settings, tenants, |_| ()).await?;
    let (mut longest, mut medians, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("syncs beside blocks that take long to start: repetition {rep} of {reps}");
        let equal: Equal = play(&cluster, "equal", SYNCS).await?;
        alone.push(equal.longest);
        let mut bomb = busy_process(&cluster, PROCESS, &[]).await?;
        let equal: Equal = play(&cluster, "equal", SYNCS).await?;
        bomb.kill()?;
        longest.push(equal.longest);
        medians.push(equal.median);
    }
    let metric = Measurement::new(&SYNC, &longest)
        .against("alone, ms", &alone)
        .with("syncs", SYNCS);
    tell(match median(&medians) {
        Some(median) => metric.with("median_ms", median),
        None => metric,
    });
    Ok(())
}
