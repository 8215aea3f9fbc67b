//! More memory than the device has: sessions take turns on it, keep their bytes, and the device never
//! holds more than it has.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use test_cluster::TempDir;

use crate::guest::{Guest, command};
use crate::loaded::{LoadedCluster, plan};
use crate::run::compile;

const MIB: u64 = 1 << 20;
const OVERCOMMITTED: [(&str, &str); 3] = [
    ("worker.capacity", "64MiB"),
    ("worker.overcommit", "200"),
    ("worker.swap_idle", "100ms"),
];

/// A program that holds memory and works on it.
struct Holder(Guest);

impl Holder {
    fn start(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Self {
        Self(Guest::start(&mut command(loaded, tenant, dir, program)))
    }

    fn tell(&mut self, what: &str) {
        let input = self.0.input.as_mut().expect("its input");
        writeln!(input, "{what}").expect("it reads");
    }

    fn does(&mut self, what: &str) -> String {
        self.tell(what);
        self.0.says().expect("it answers")
    }
}

/// Looks, as long as it lives, how much memory a worker's device has.
struct Watch {
    ends: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn of(worker: u32) -> Self {
        let (ends, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stop, seen) = (Arc::clone(&ends), Arc::clone(&most));
        let thread = std::thread::spawn(move || {
            let file = device_file(worker).expect("the device's memory is a file");
            while !stop.load(Ordering::Relaxed) {
                if let Ok(found) = std::fs::metadata(&file) {
                    seen.fetch_max(found.blocks() * 512, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self {
            ends,
            most,
            thread: Some(thread),
        }
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The file in memory that a worker's device is, by its name in /proc.
fn device_file(worker: u32) -> Option<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{worker}/fd")).ok()?;
    let mut files = files.filter_map(|file| Some(file.ok()?.path()));
    files.find(|file| {
        let target = std::fs::read_link(file).unwrap_or_default();
        target.to_string_lossy().contains("memfd:warploom-device")
    })
}

#[tokio::test]
async fn programs_that_do_not_fit_together_take_turns_and_keep_their_bytes() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = |tenant: &str| Holder::start(&loaded, tenant, dir.path(), &program);
    let (mut one, mut other) = (start("a"), start("b"));
    let watch = Watch::of(loaded.demo.cluster.workers[0].pid());
    assert_eq!(one.does("take 40 1"), "0");
    assert_eq!(other.does("take 30 2"), "0", "more than is left");
    assert_eq!(other.does("take 10 2"), "0");
    for round in 0..6 {
        let (one_seed, other_seed) = (1 + 10 * round, 2 + 10 * round);
        let (one_next, other_next) = (one_seed + 10, other_seed + 10);
        if round % 2 == 0 {
            assert_eq!(
                one.does(&format!("turn {one_seed} {one_next}")),
                "0",
                "round {round}"
            );
            assert_eq!(
                other.does(&format!("turn {other_seed} {other_next}")),
                "0",
                "round {round}"
            );
        } else {
            // Both at once.
            one.tell(&format!("turn {one_seed} {one_next}"));
            other.tell(&format!("turn {other_seed} {other_next}"));
            assert_eq!(one.0.says().as_deref(), Some("0"), "round {round}");
            assert_eq!(other.0.says().as_deref(), Some("0"), "round {round}");
        }
    }
    let most = watch.most();
    assert!(most <= 64 * MIB, "{most} bytes were on a device of 64 MiB");
    assert!(most >= 40 * MIB, "it was looked at: {most}");
}
