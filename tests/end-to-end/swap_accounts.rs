//! The accounts of swapped memory have every move by tenant, and all held memory, even if the
//! leader and the worker are killed.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use test_cluster::TempDir;

use crate::cluster::done;
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;
use crate::swap::{Holder, OVERCOMMITTED, status};
use crate::usage::{adds_up, number, table};

const SOON: Duration = Duration::from_secs(60);
/// Interval of usage blocks; ten times as long while nothing runs.
const METERING: Duration = Duration::from_millis(100);
/// Bytes that a program holds.
const HELD: f64 = (40 << 20) as f64;

/// The usage of the tenants a and b.
fn both(loaded: &LoadedCluster) -> [Value; 2] {
    let (rows, below) = table(loaded, "tenant");
    assert_eq!(below["missing"]["swap_outs"], 0, "{below}");
    let of = |name: &str| rows.iter().find(|row| row["tenant"] == name).cloned();
    ["a", "b"].map(|name| of(name).unwrap_or_else(|| panic!("{name} has no row: {rows:?}")))
}

/// Runs both programs in turns; they do not fit together.
fn take_turns([one, other]: &mut [Holder; 2], at: &mut u32, rounds: u32) {
    for _ in 0..rounds {
        let next = *at + 10;
        assert_eq!(one.does(&format!("turn {} {}", 1 + *at, 1 + next)), "0");
        assert_eq!(other.does(&format!("turn {} {}", 2 + *at, 2 + next)), "0");
        *at = next;
    }
}

/// Waits until the accounts agree with the worker's report for each tenant, and nothing moves in
/// the meantime.
async fn agree(loaded: &LoadedCluster) -> [Value; 2] {
    let began = Instant::now();
    loop {
        let before = status(loaded).await;
        let used = both(loaded);
        let said = status(loaded).await;
        let same = ["a", "b"].iter().zip(&used).all(|(name, used)| {
            let of = |row: &&bus_schemas::TenantMoves| row.tenant.as_str() == *name;
            let row = said.moves.iter().find(of).map(|row| row.moves);
            let moves = row.unwrap_or_default();
            let counts = [moves.outs, moves.out_bytes, moves.ins, moves.in_bytes];
            let fields = ["swap_outs", "swap_out_bytes", "swap_ins", "swap_in_bytes"];
            let waited = number(used, "swap_wait_seconds") - moves.waited_ns as f64 / 1e9;
            let mut counts = fields.iter().zip(counts);
            counts.all(|(field, count)| used[field] == count) && waited.abs() < 1e-6
        });
        let swap = |status: &bus_schemas::MemoryStatus| {
            let swap = status.swap.as_ref().expect("it is overcommitted");
            (swap.outs, swap.ins, swap.waited_ns)
        };
        if same && swap(&before) == swap(&said) {
            let sum = |field| used.iter().map(|row| number(row, field)).sum::<f64>();
            let (outs, ins, _) = swap(&said);
            assert_eq!(
                (sum("swap_outs"), sum("swap_ins")),
                (outs.0 as f64, ins.0 as f64)
            );
            return used;
        }
        assert!(began.elapsed() < SOON, "{used:?}: {said:?}");
        tokio::time::sleep(METERING).await;
    }
}

/// While nothing runs, charged, swapped and saved memory add up to the held memory at all times.
/// One tenant's memory is on the device, and the other's is not.
async fn all_is_held(loaded: &LoadedCluster) {
    let (began, before) = (Instant::now(), agree(loaded).await);
    let read = began.elapsed();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let (again, after) = (began.elapsed(), agree(loaded).await);
    // Each reading includes blocks up to ten metering intervals old.
    let lag = (read + (began.elapsed() - again) + 20 * METERING).as_secs_f64();
    let gone = again.as_secs_f64();
    let mut there = Vec::new();
    for (before, after) in before.iter().zip(&after) {
        let grown = |field| {
            let credits = number(after, field) - number(before, field);
            credits * f64::from(1 << 30) / HELD
        };
        let [charged, out, saved] = ["vram_credits", "swapped_credits", "saved_credits"].map(grown);
        let seconds = charged + out + saved;
        assert!(
            (seconds - gone).abs() <= lag,
            "{seconds} of {gone} s, {lag} s: {after}"
        );
        assert!(saved.abs() < 1e-6, "nobody shares: {after}");
        assert!(
            charged < 1e-6 || out < 1e-6,
            "it is in one place: {charged}, {out}"
        );
        there.push(charged > out);
    }
    assert_ne!(there[0], there[1], "one of two fits: {after:?}");
}

fn start(loaded: &LoadedCluster, dir: &Path) -> [Holder; 2] {
    let program = compile(dir, "swap");
    let mut holders = ["a", "b"].map(|name| Holder::start(loaded, name, dir, &program));
    for (holder, seed) in holders.iter_mut().zip([1, 2]) {
        assert_eq!(holder.does(&format!("take 40 {seed}")), "0");
    }
    holders
}

#[tokio::test]
async fn every_move_is_in_the_accounts_although_a_leader_and_the_worker_die() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let settings = [&OVERCOMMITTED[..], &[("worker.metering", "100ms")]].concat();
    let mut loaded = LoadedCluster::idle(2, 1, &plans, &settings).await;
    let dir = TempDir::new().expect("a directory");
    let mut holders = start(&loaded, dir.path());
    let mut at = 0;
    take_turns(&mut holders, &mut at, 2);
    loaded.replace_leader(0, SOON).await;
    take_turns(&mut holders, &mut at, 2);
    let used = agree(&loaded).await;
    for row in &used {
        assert!(
            number(row, "swap_outs") >= 3.0 && number(row, "swap_ins") >= 3.0,
            "{row}"
        );
        let (outs, bytes) = (number(row, "swap_outs"), number(row, "swap_out_bytes"));
        // During a slow start there is time to swap out a session that holds only its module so
        // far.
        let fits = 0.9 * HELD * (outs - 1.0)..1.1 * HELD * outs;
        assert!(fits.contains(&bytes), "{row}");
        assert!(number(row, "swap_wait_seconds") > 0.0, "{row}");
    }
    adds_up(&loaded);
    all_is_held(&loaded).await;
    let text = done(&loaded, &["usage"]);
    assert!(
        text.contains("memory beside:") && text.contains("swapped"),
        "{text}"
    );
    let csv = done(&loaded, &["usage", "--csv", "--memory"]);
    let head = "tenant,launches,device_seconds,core_credits,vram_credits,share,swap_outs,swap_out_bytes,\
                swap_ins,swap_in_bytes,swap_wait_seconds,swapped_credits,saved_credits,unsent_bytes";
    assert_eq!(csv.lines().next(), Some(head));
    // Moves since the last block are lost with the worker; all earlier ones are kept.
    let before = agree(&loaded).await;
    take_turns(&mut holders, &mut at, 1);
    let said = status(&loaded).await.swap.expect("it is overcommitted");
    loaded.demo.cluster.workers[0].kill().expect("it dies");
    adds_up(&loaded);
    let after = both(&loaded);
    let outs = |rows: &[Value]| rows.iter().map(|row| number(row, "swap_outs")).sum::<f64>();
    // One session may have been swapped out between the answer and the end.
    let most = said.outs.0 as f64 + 1.0;
    assert!(
        (outs(&before)..=most).contains(&outs(&after)),
        "{after:?}: {said:?}"
    );
    for (before, after) in before.iter().zip(&after) {
        let known = number(before, "swapped_credits")..=f64::MAX;
        assert!(known.contains(&number(after, "swapped_credits")), "{after}");
    }
}
