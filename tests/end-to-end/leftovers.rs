//! Leftovers of commands with their own cluster: after a kill the next command removes them; after
//! a stop there are none.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use test_cluster::TempDir;

use crate::children::{Running, processes, until};
use crate::run::warploom;

/// Commands that have a cluster in the system's temporary folder, and their output once it starts.
const COMMANDS: [(&[&str], &str); 3] = [
    (&["demo", "--seconds=60"], "at work"),
    (
        &["bench", "ptx", "--only=bomb_sync_ms", "--reps=100"],
        "repetition 1 of",
    ),
    (&["chaos", "--seconds=60", "--kills=0"], ""),
];

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Everything below a folder.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let paths = entries.map(|it| it.path());
    paths
        .flat_map(|it| tree(&it).into_iter().chain([it]))
        .collect()
}

/// Number of cluster folders in a folder.
fn clusters(dir: &Path) -> usize {
    let has = |path: &PathBuf| path.join("broker").exists();
    entries(dir).iter().filter(|path| has(path)).count()
}

fn start(dir: &Path, arguments: &[&str], says: &str) -> Running {
    let mut command = warploom(dir);
    let running = Running::start(command.env("TMPDIR", dir).args(arguments));
    until("a cluster starts", || clusters(dir) > 0);
    running.says(says);
    running
}

#[test]
fn what_was_killed_leaves_its_folder_to_the_next() {
    let dir = TempDir::new().expect("a directory");
    // Made by other programs.
    let (bare, file) = (
        dir.path().join("warploom-1-0"),
        dir.path().join("warploom-2-0"),
    );
    fs::create_dir(&bare).expect("made");
    fs::write(&file, "").expect("written");
    for (arguments, says) in COMMANDS {
        let killed = start(dir.path(), arguments, says);
        killed.signal(Signal::KILL);
        until("its processes end", || processes(dir.path()).is_empty());
        assert_eq!(clusters(dir.path()), 1, "what went before is gone");
        drop(killed);
    }
    // Two at the same time leave each other alone.
    let one = start(dir.path(), COMMANDS[0].0, "starting broker");
    until("its folder is there", || clusters(dir.path()) == 1);
    let two = start(dir.path(), COMMANDS[1].0, COMMANDS[1].1);
    assert_eq!(clusters(dir.path()), 2);
    let mut said = String::new();
    for mut running in [one, two] {
        running.signal(Signal::INT);
        assert_eq!(running.ends(), Some(1), "{}", running.said());
        said += &running.said();
    }
    let mut left = entries(dir.path());
    left.sort();
    let within: Vec<PathBuf> = left.iter().flat_map(|it| tree(it)).collect();
    assert_eq!(left, [bare, file], "{within:#?}\n{said}");
}

#[test]
fn a_bench_that_is_stopped_leaves_nothing() {
    let asked: [&[&str]; 3] = [
        COMMANDS[1].0,
        &["bench", "order", "--only=distinct_digests_50"],
        &["bench", "bus", "--only=sync_launch", "--reps=100"],
    ];
    for (arguments, signal) in asked
        .into_iter()
        .zip([Signal::INT, Signal::TERM, Signal::INT])
    {
        let dir = TempDir::new().expect("a directory");
        let mut bench = start(dir.path(), arguments, "");
        bench.signal(signal);
        assert_eq!(bench.ends(), Some(1), "{}", bench.said());
        bench.says("E-STOPPED");
        let left = entries(dir.path());
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(processes(dir.path()), [""; 0]);
    }
}

#[test]
fn what_a_killed_run_leaves_goes_with_the_next() {
    let dir = TempDir::new().expect("a directory");
    let mut command = warploom(dir.path());
    let run = Running::start(command.args(["run", "-v", "--", "sleep", "1"]));
    run.says("WARPLOOM_TENANT=");
    run.signal(Signal::KILL);
    let runs = dir.path().join("state/run");
    until("its processes end", || processes(&runs).is_empty());
    assert_eq!(entries(&runs).len(), 1);
    let mut command = warploom(dir.path());
    let mut next = Running::start(command.args(["run", "--", "true"]));
    assert_eq!(next.ends(), Some(0), "{}", next.said());
    let left = entries(&runs);
    assert!(left.is_empty(), "{left:?}");
}
