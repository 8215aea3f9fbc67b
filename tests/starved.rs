//! Three demos at once on a machine with far too few processors: a starved process is not taken for
//! a dead one.
//!
//! It is a separate target, because no other test may run beside it. `just starved` takes half an
//! hour.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

const DEMOS: u64 = 3;
/// Busy threads per processor, in addition to the demos.
const BUSY: usize = 10;
/// Seconds that the tenants run, unless `WARPLOOM_SECONDS` is set.
const SECONDS: u64 = 40;
/// Seconds between two kills of a leader, in a long run.
const KILL_EVERY: u64 = 300;

#[test]
fn three_demos_at_once_on_a_starved_machine_lose_nothing_that_was_not_killed() {
    let seconds = std::env::var("WARPLOOM_SECONDS").map_or(SECONDS, |said| {
        said.parse().expect("WARPLOOM_SECONDS is a number")
    });
    let kills = (seconds / KILL_EVERY).max(1);
    let evidence = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let evidence = evidence.join(format!("starved-{}", std::process::id()));
    let outputs = on_a_busy_machine(|| {
        std::thread::scope(|scope| {
            let demo = |seed| {
                let evidence = evidence.join(format!("demo-{seed}"));
                scope.spawn(move || demo(seed, seconds, kills, &evidence))
            };
            let demos: Vec<_> = (1..=DEMOS).map(demo).collect();
            let ended = demos.into_iter().map(|demo| demo.join().expect("a thread"));
            ended.collect::<Vec<_>>()
        })
    });
    let kept = format!("{}, kept in {}", load(), evidence.display());
    for (seed, output) in (1..).zip(&outputs) {
        holds(output, kills, &format!("demo {seed}, {kept}"));
    }
    std::fs::remove_dir_all(&evidence).expect("evidence that passed is removed");
}

/// Runs one demo to its end. If it fails, its evidence and the logs of its roles are kept.
fn demo(seed: u64, seconds: u64, kills: u64, evidence: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warploom"));
    command.args(["demo", "--json"]);
    command.arg(format!("--seconds={seconds}"));
    command.arg(format!("--kills={kills}"));
    command.arg(format!("--seed={seed}"));
    command.arg("--evidence").arg(evidence);
    command.output().expect("the binary runs")
}

/// Checks that every check of a demo passed, and that no leader, worker or session was lost without
/// a kill.
fn holds(output: &Output, kills: u64, which: &str) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let said = format!("{which}:\n{stdout}\n{stderr}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_str(&stdout).expect("JSON alone on stdout");
    assert_eq!(report["ok"], true, "{said}");
    assert_eq!(report["complaints"], Value::Array(vec![]), "{said}");
    let cluster = &report["cluster"];
    for key in ["leader_changes", "workers_lost", "sessions_lost"] {
        assert_eq!(cluster[key], 0, "{key} of {said}");
    }
    for key in ["lost", "duplicated", "reordered", "skipped"] {
        assert_eq!(cluster[key], 0, "{key} of {said}");
    }
    assert_eq!(cluster["kills"], kills, "{said}");
    assert_eq!(cluster["digest"], cluster["replay_digest"], "{said}");
    // Each death of a process is reported and followed by a restart, also that of a candidate.
    let again = stderr.matches("it is started again").count() as u64;
    assert_eq!(again, kills, "{said}");
    let tenants = report["tenants"].as_array().expect("tenants");
    assert_eq!(tenants.len(), 3, "{said}");
    for tenant in tenants {
        assert!(tenant["requests"].as_u64() > Some(0), "{said}");
        assert_eq!(tenant["verified"], tenant["requests"], "{said}");
    }
}

/// Runs some work while threads of this process take all available processors.
fn on_a_busy_machine<T>(work: impl FnOnce() -> T) -> T {
    /// Ends the threads, however the work ends.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..BUSY * processors {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        work()
    })
}

/// The load of this machine, as reported by the kernel.
fn load() -> String {
    let said = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load {}", said.trim())
}
