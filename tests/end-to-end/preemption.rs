//! Long kernels of the lowest priority run while launches of the highest keep coming. The device
//! parks the long kernels for the urgent launches, and all results are correct.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use admin::evidence::Started;
use bus_schemas::{ClusterSettings, TenantSettings};
use client_agent::{Client, Settings};

use crate::loaded::{LoadedCluster, plan};

const GUEST: &str = "guest";
/// Number of sessions with a long kernel each: more than a device is handed at a time.
const SESSIONS: usize = 6;
const BLOCKS: u32 = 16;
const THREADS: u32 = 64;
/// About a second of processor time.
const ROUNDS: u32 = 800_000;
/// Urgent slices that must overtake all long ones.
const OVERTAKING: usize = 10;
const TIMEOUT: Duration = Duration::from_secs(60);

/// The kernel that the benchmark of preemption also runs.
const LONG: &str = include_str!("../../ops/lab/src/bench/long.ptx");

/// The final word of thread `index`, computed by doubling: n rounds are one affine map.
fn expected(index: u32) -> u32 {
    let (mut factor, mut sum) = (1_u32, 0_u32);
    let (mut square, mut step) = (1_664_525_u32, 1_013_904_223_u32);
    let mut left = ROUNDS;
    while left > 0 {
        if left & 1 == 1 {
            (factor, sum) = (
                factor.wrapping_mul(square),
                sum.wrapping_mul(square).wrapping_add(step),
            );
        }
        step = step.wrapping_mul(square).wrapping_add(step);
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    index.wrapping_mul(factor).wrapping_add(sum)
}

/// The number of the long launch's op, after a module, an allocation and a sync.
const LAUNCH: u64 = 4;

/// Runs one long kernel at the same time as the others, and checks its output; returns the
/// session's id.
fn long(settings: Settings, together: &Barrier) -> String {
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let module = session.load(LONG.as_bytes()).expect("a module");
    let long = module.function("long").expect("a kernel");
    let bytes = u64::from(BLOCKS * THREADS) * 4;
    let data = session.alloc(bytes).expect("memory");
    let mut params = data.to_le_bytes().to_vec();
    params.extend(ROUNDS.to_le_bytes());
    session.sync().expect("ready");
    together.wait();
    let (grid, block) = ([BLOCKS, 1, 1], [THREADS, 1, 1]);
    session
        .launch(&long, grid, block, 0, &params)
        .expect("a launch");
    let mut words = vec![0; bytes as usize];
    session.copy_out(data, &mut words).expect("it ran");
    for (word, index) in words.chunks_exact(4).zip(0..) {
        assert_eq!(word, expected(index).to_le_bytes(), "word {index}");
    }
    let id = session.id().to_string();
    session.close().expect("closed");
    id
}

/// The worker's log so far, in the order in which the positions ended.
fn ended(loaded: &LoadedCluster) -> Vec<Started> {
    let logs = loaded.demo.cluster.started_logs();
    let text = std::fs::read_to_string(&logs[0]).expect("the worker's log");
    let parse = |line| serde_json::from_str(line).expect("a line of it");
    text.lines().map(parse).collect()
}

#[tokio::test]
async fn urgent_launches_overtake_long_kernels_and_all_are_right() {
    let mut urgent = plan("urgent", "search", 0);
    // The device has time for both.
    urgent.think_ms = 10;
    let settings = [("worker.watchdog", "120s"), ("worker.device", "cpu")];
    let mut loaded = LoadedCluster::start_with(1, 1, &[urgent], &settings).await;
    let lowest = TenantSettings {
        priority: 4,
        ..TenantSettings::default()
    };
    let joined = loaded.guest(GUEST, &lowest).await;
    // Otherwise all urgent work would have one position before all of them.
    let each = ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    };
    let set = loaded.demo.administrator.set_cluster(&each).await;
    set.expect("every slice is granted by itself");
    let together = Arc::new(Barrier::new(SESSIONS));
    let guests: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let (joined, together) = (joined.clone(), together.clone());
            tokio::task::spawn_blocking(move || long(joined, &together))
        })
        .collect();
    let mut sessions = Vec::new();
    for guest in guests {
        let done = tokio::time::timeout(2 * TIMEOUT, guest).await;
        sessions.push(done.expect("it ends").expect("and is right"));
    }
    loaded.progress(3, TIMEOUT).await;
    let ended = ended(&loaded);
    let overtook = overtaking(&ended, &sessions);
    assert!(
        overtook >= OVERTAKING,
        "{overtook} urgent slices were granted behind all long kernels and ended before any"
    );
    // Positions are in the order of the starts, not of the ends: the record replays to them.
    loaded.settle().await;
}

/// Number of urgent slices that have a later position than all long ones, but ended before the
/// first of those. A device that did not park long kernels would not even have started the last of
/// them.
fn overtaking(ended: &[Started], sessions: &[String]) -> usize {
    let is_long = |line: &&Started| {
        let run = sessions.contains(&line.session) && line.kind == "run" && line.outcome == "ran";
        run && (line.first..=line.last).contains(&LAUNCH)
    };
    let long: Vec<_> = ended.iter().filter(is_long).collect();
    assert_eq!(long.len(), SESSIONS, "every long kernel ran");
    let last = long.iter().map(|line| line.position).max();
    let before = ended.iter().take_while(|line| !is_long(line));
    let urgent = before.filter(|line| line.tenant == "urgent" && line.kind == "run");
    urgent.filter(|line| Some(line.position) > last).count()
}
