//! One program, alone on its device, sends many long launches at once; then another one arrives.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_cluster::{TempDir, within};

use crate::loaded::{LoadedCluster, SOON, plan};
use crate::run::{text, warploom};

/// Launches of the burst, and the rounds of each: a tenth of a second.
const LAUNCHES: u32 = 60;
const ROUNDS: u32 = 25_000_000;

fn submit(loaded: &LoadedCluster, dir: &Path, tenant: &str, launches: u32, rounds: u32) -> Child {
    let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/lab/src/bench/long.ptx");
    let mut command: Command = warploom(dir);
    command.env(
        "WARPLOOM_BROKER_CREDENTIALS",
        loaded.demo.cluster.credentials(),
    );
    command.args([
        "submit", "--tenant", tenant, kernel, "long", "--block", "32",
    ]);
    command.args(["--arg", "u32*32=0", "--arg", &format!("u32:{rounds}")]);
    command.args(["--repeat", &launches.to_string()]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("the binary runs")
}

fn ends_well(child: Child) {
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
}

/// A newcomer does not wait for all that a program of the same priority has sent. The launches of a
/// session that has just begun are on the device one by one.
#[tokio::test]
async fn a_newcomer_does_not_wait_for_all_that_was_sent_at_once() {
    let plans = [plan("burst", "search", 2), plan("newcomer", "search", 2)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &[]).await;
    let dir = TempDir::new().expect("a directory");
    // By then the leader knows the kernel's duration.
    ends_well(submit(&loaded, dir.path(), "burst", 3, ROUNDS));
    let mut burst = submit(&loaded, dir.path(), "burst", LAUNCHES, ROUNDS);
    let launches = |seen: &mut lab::demo::Seen| {
        let rows = seen.usage.values().flat_map(|usage| &usage.sessions);
        rows.map(|row| row.launches).sum::<u64>()
    };
    let begun = || (loaded.demo.observer.see(launches) > 3).then_some(());
    within(SOON, begun).await.expect("its first launches");
    ends_well(submit(&loaded, dir.path(), "newcomer", 3, 1_000));
    let over = burst.try_wait().expect("it is ours");
    assert!(over.is_none(), "the newcomer came behind all of them");
    tokio::time::timeout(2 * SOON, tokio::task::spawn_blocking(|| ends_well(burst)))
        .await
        .expect("soon")
        .expect("it is right");
}
