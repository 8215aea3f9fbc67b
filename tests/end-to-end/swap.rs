//! More memory than the device has: sessions take turns on it and keep their bytes. The device
//! never holds more than its capacity.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bus_schemas::{MemoryStatus, Place, SessionMemoryStatus};
use test_cluster::TempDir;

use crate::guest::{Guest, command, finish};
use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

const MIB: u64 = 1 << 20;
pub(crate) const OVERCOMMITTED: [(&str, &str); 3] = [
    ("worker.capacity", "64MiB"),
    ("worker.overcommit", "200"),
    ("worker.swap_idle", "100ms"),
];

/// A program that holds memory and works on it.
pub(crate) struct Holder(pub(crate) Guest);

impl Holder {
    pub(crate) fn start(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Self {
        Self(Guest::start(&mut command(loaded, tenant, dir, program)))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.child.id()
    }

    pub(crate) fn tell(&mut self, what: &str) {
        self.0.tell(what);
    }

    /// As `does`, for a program that may have ended.
    pub(crate) fn may(&mut self, what: &str) -> Option<String> {
        let input = self.0.input.as_mut().expect("its input");
        writeln!(input, "{what}").ok()?;
        self.0.says()
    }

    pub(crate) fn does(&mut self, what: &str) -> String {
        self.0.does(what)
    }
}

/// Watches the memory of a worker's device, as long as it lives.
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

/// The memory file of a worker's device, by its name in /proc.
fn device_file(worker: u32) -> Option<PathBuf> {
    let files = std::fs::read_dir(format!("/proc/{worker}/fd")).ok()?;
    let mut files = files.filter_map(|file| Some(file.ok()?.path()));
    files.find(|file| {
        let target = std::fs::read_link(file).unwrap_or_default();
        target.to_string_lossy().contains("memfd:warploom-device")
    })
}

/// Two programs of 40 MiB on a device of 64 MiB: one after the other, and both at once.
fn take_turns(loaded: &LoadedCluster, dir: &Path, tenants: [&str; 2], rounds: u32) {
    let program = compile(dir, "swap");
    let start = |tenant: &str| Holder::start(loaded, tenant, dir, &program);
    let [mut one, mut other] = tenants.map(start);
    let watch = Watch::of(loaded.demo.cluster.workers[0].pid());
    assert_eq!(one.does("take 40 1"), "0");
    assert_eq!(other.does("take 30 2"), "0", "more than is left");
    assert_eq!(other.does("take 10 2"), "0");
    for round in 0..rounds {
        let turn = |first: u32| format!("turn {} {}", first + 10 * round, first + 10 * round + 10);
        if round % 2 == 0 {
            assert_eq!(one.does(&turn(1)), "0", "round {round}");
            assert_eq!(other.does(&turn(2)), "0", "round {round}");
        } else {
            one.tell(&turn(1));
            other.tell(&turn(2));
            assert_eq!(one.0.says().as_deref(), Some("0"), "round {round}");
            assert_eq!(other.0.says().as_deref(), Some("0"), "round {round}");
        }
    }
    let most = watch.most();
    assert!(most <= 64 * MIB, "{most} bytes were on a device of 64 MiB");
    assert!(most >= 40 * MIB, "it was looked at: {most}");
    for program in [one, other] {
        assert_eq!(program.0.ends().1, Some(0));
    }
}

#[tokio::test]
async fn programs_that_do_not_fit_together_take_turns_and_keep_their_bytes() {
    // Both of one tenant, which has no quota.
    let plans = [plan("guest", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    take_turns(&loaded, dir.path(), ["guest"; 2], 6);
    // Each return is in the order, and a replay makes the same decisions.
    let (_, replayed) = loaded.replayed().await;
    assert_eq!(replayed.skipped, 0);
}

#[tokio::test]
async fn what_the_hosts_memory_has_no_room_for_goes_to_a_file_without_a_name() {
    let plans = [plan("a", "search", 1), plan("b", "search", 1)];
    let (dir, disk) = (
        TempDir::new().expect("a directory"),
        TempDir::new().expect("a directory"),
    );
    let on_disk = disk.path().display().to_string();
    let mut settings = OVERCOMMITTED.to_vec();
    settings.extend([
        ("worker.swap_memory", "16MiB"),
        ("worker.swap_file", "112MiB"),
        ("worker.swap_dir", &on_disk),
    ]);
    let loaded = LoadedCluster::idle(1, 1, &plans, &settings).await;
    take_turns(&loaded, dir.path(), ["a", "b"], 4);
    let said = status(&loaded).await.swap.expect("it is overcommitted");
    assert_eq!((said.memory.1, said.file.1), (16 * MIB, 112 * MIB));
    let names = std::fs::read_dir(disk.path()).expect("a directory").count();
    assert_eq!(names, 0, "nobody finds it");
}

#[test]
fn a_disk_without_room_for_the_swap_file_refuses_the_worker_at_its_start() {
    let dir = TempDir::new().expect("a directory");
    let on_disk = format!("worker.swap_dir={}", dir.path().display());
    let mut worker = warploom(dir.path());
    worker.args([
        "worker",
        "--device",
        "cpu",
        "--set",
        "broker.url=nats://127.0.0.1:1",
    ]);
    worker.args(["--set", "worker.overcommit=150", "--set", &on_disk]);
    let refused = finish(worker.args(["--set", "worker.swap_file=1024TiB"]));
    assert_eq!(refused.status.code(), Some(1));
    let (_, said) = text(&refused);
    for word in [&dir.path().display().to_string(), "1125899906842624 bytes"] {
        assert!(said.contains(word), "{said}");
    }
    let mut worker = warploom(dir.path());
    worker.args(["worker", "--set", "worker.overcommit=99"]);
    let refused = finish(worker.args(["--set", "broker.url=nats://127.0.0.1:1"]));
    assert_eq!(refused.status.code(), Some(2), "{:?}", text(&refused));
}

/// A worker's report on its memory, as administrators get it.
pub(crate) async fn status(loaded: &LoadedCluster) -> MemoryStatus {
    let administrator = &loaded.demo.administrator;
    let patience = Duration::from_secs(30);
    let status = administrator.status(patience).await.expect("a leader");
    let device = administrator.memory(&status).await.pop().expect("one");
    device.said.expect("it answers")
}

/// The places of sessions with their held MiB, the largest first.
fn places(status: &MemoryStatus) -> Vec<(u64, Place)> {
    let swap = status.swap.as_ref().expect("it is overcommitted");
    let place = |session: &SessionMemoryStatus| {
        let mut rows = swap.sessions.iter();
        let row = rows.find(|row| row.session == session.session);
        (
            session.held / MIB,
            row.map_or(Place::Resident, |row| row.place),
        )
    };
    let mut places: Vec<_> = status.sessions.iter().map(place).collect();
    places.sort_unstable_by_key(|(mib, _)| std::cmp::Reverse(*mib));
    places
}

async fn settles(loaded: &LoadedCluster, wanted: &[(u64, Place)]) -> MemoryStatus {
    for _ in 0..600 {
        let status = status(loaded).await;
        if places(&status) == wanted {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}, not {wanted:?}", places(&status(loaded).await))
}

#[tokio::test]
async fn where_memory_is_can_be_seen_and_a_lowered_quota_swaps_out_what_is_idle() {
    let mut a = plan("a", "search", 1);
    let plans = [a.clone(), plan("b", "search", 1)];
    let mut loaded = LoadedCluster::idle(2, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = |tenant: &str| Holder::start(&loaded, tenant, dir.path(), &program);
    let (mut one, mut other) = (start("a"), start("b"));
    assert_eq!(one.does("take 40 1"), "0");
    assert_eq!(
        one.does("info"),
        format!("{} of {}", 24 * MIB - 512, 64 * MIB),
        "what fits"
    );
    assert_eq!(other.does("take 10 2"), "0");
    let seen = settles(&loaded, &[(40, Place::Resident), (10, Place::Resident)]).await;
    let swap = seen.swap.expect("it is overcommitted");
    assert_eq!((swap.outs, swap.ins), ((0, 0), (0, 0)));
    assert_eq!((seen.capacity, swap.limit), (64 * MIB, 128 * MIB));
    assert_eq!(other.does("take 22 2"), "0");
    let seen = settles(&loaded, &[(40, Place::Out), (32, Place::Resident)]).await;
    let swap = seen.swap.expect("it is overcommitted");
    assert_eq!(swap.outs.0, 1);
    assert!((40 * MIB..41 * MIB).contains(&swap.outs.1), "{swap:?}");
    assert_eq!(swap.memory.0, swap.outs.1, "in the host's memory");
    let row = seen
        .tenants
        .iter()
        .find(|row| row.tenant == a.tenant)
        .expect("a row");
    assert_eq!(
        (row.held, row.resident),
        (40 * MIB + 512, 0),
        "charged for nothing"
    );
    // The next leader has the same information.
    loaded.replace_leader(0, Duration::from_secs(30)).await;
    assert_eq!(one.does("turn 1 11"), "0");
    assert_eq!(other.does("turn 2 12"), "0");
    assert_eq!(one.does("turn 11 21"), "0");
    settles(&loaded, &[(40, Place::Resident), (32, Place::Out)]).await;
    // Above a lowered quota, no idle session stays.
    a.settings.quota = 16 * MIB;
    loaded.set_tenant(&a.tenant, &a.settings).await;
    settles(&loaded, &[(40, Place::Out), (32, Place::Out)]).await;
    assert_eq!(one.does("take 1 1"), "2", "and may only free");
    assert_eq!(
        one.does("turn 21 31"),
        "0",
        "alone above it a session goes on"
    );
    assert_eq!(one.does("drop"), "0");
    // Figures are current: ended programs hold no swap space, and nothing moves.
    drop((one, other));
    for _ in 0..600 {
        let seen = status(&loaded).await;
        let swap = seen.swap.expect("it is overcommitted");
        if seen.sessions.is_empty() && swap.memory.0 == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}", status(&loaded).await.swap);
}

#[tokio::test]
async fn who_must_stay_stays_and_is_in_nobodys_way() {
    let mut a = plan("a", "search", 1);
    a.settings.swap = false;
    let plans = [a, plan("b", "search", 1), plan("c", "search", 1)];
    let loaded = LoadedCluster::idle(1, 1, &plans, &OVERCOMMITTED).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "swap");
    let start = |tenant: &str| Holder::start(&loaded, tenant, dir.path(), &program);
    let (mut pinned, mut other) = (start("a"), start("b"));
    let pins = |status: &MemoryStatus| {
        let swap = status.swap.as_ref().expect("it is overcommitted");
        swap.sessions.iter().filter(|row| row.pinned).count()
    };
    assert_eq!(pinned.does("take 30 1"), "0");
    while pins(&status(&loaded).await) == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(other.does("take 35 2"), "2", "beside who stays");
    assert_eq!(other.does("take 30 2"), "0");
    // A program pins itself.
    let mut third = command(&loaded, "c", dir.path(), &program);
    let mut third = Holder(Guest::start(third.env("WARPLOOM_CLIENT_SWAP", "off")));
    assert_eq!(
        third.does("take 20 3"),
        "2",
        "it would leave the other no room"
    );
    assert_eq!(third.does("take 3 3"), "0");
    for (program, seed) in [(&mut pinned, 1), (&mut other, 2), (&mut third, 3)] {
        assert_eq!(program.does(&format!("turn {seed} {seed}")), "0");
    }
    let seen = status(&loaded).await;
    assert_eq!((pins(&seen), seen.swap.expect("swap").outs.0), (2, 0));
}
