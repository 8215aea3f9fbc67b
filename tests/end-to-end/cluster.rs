//! `warploom cluster` and `warploom profile`: the leader orders by the settings of administrators.

use std::process::Output;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use admin::evidence::Started;
use bus_schemas::TenantSettings;
use client_agent::{Client, Settings};
use serde_json::Value;

use crate::loaded::{LoadedCluster, plan};
use crate::run::{text, warploom};

const SOON: Duration = Duration::from_secs(30);
/// Number of launches of the tenant with more work, and of the one with less.
const MANY: u64 = 500;
const FEW: u64 = 100;
const KERNEL: &str = include_str!("../../ops/lab/src/bench/long.ptx");

/// Runs an administrator's command on a loaded cluster.
pub(crate) fn administrator(loaded: &LoadedCluster, arguments: &[&str]) -> Output {
    let cluster = &loaded.demo.cluster;
    warploom(&cluster.options().state_dir)
        .env("WARPLOOM_BROKER_CREDENTIALS", cluster.credentials())
        .env("WARPLOOM_CLUSTER_NAME", &cluster.options().cluster)
        .args(arguments)
        .output()
        .expect("the binary runs")
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
pub(crate) fn done(loaded: &LoadedCluster, arguments: &[&str]) -> String {
    let output = administrator(loaded, arguments);
    let (out, err) = text(&output);
    assert!(output.status.success(), "{arguments:?}: {out}{err}");
    out
}

/// The JSON objects that a command prints, one a line.
#[track_caller]
pub(crate) fn objects(loaded: &LoadedCluster, arguments: &[&str]) -> Vec<Value> {
    let said = done(loaded, arguments);
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"));
    said.lines().map(parse).collect()
}

/// Opens a session and launches `launches` small kernels at once, at the same time as the others;
/// waits for their end. Returns the session's id.
pub(crate) fn launch(settings: Settings, launches: u64, together: &Barrier) -> String {
    let client = Client::connect(settings).expect("a broker");
    let session = client.open().expect("a session");
    let module = session.load(KERNEL.as_bytes()).expect("a module");
    let kernel = module.function("long").expect("a kernel");
    let data = session.alloc(128).expect("memory");
    let mut params = data.to_le_bytes().to_vec();
    params.extend(1_u32.to_le_bytes());
    session.sync().expect("ready");
    together.wait();
    together.wait();
    for _ in 0..launches {
        let launched = session.launch(&kernel, [1, 1, 1], [32, 1, 1], 0, &params);
        launched.expect("a launch");
    }
    session.sync().expect("they ran");
    let id = session.id().to_string();
    session.close().expect("closed");
    id
}

/// Queues many launches of `high` and few of `low` while grants are held, then releases them.
/// Returns the GPU positions at which each ran.
async fn positions(loaded: &LoadedCluster) -> (Vec<u64>, Vec<u64>) {
    let administrator = &loaded.demo.administrator;
    let together = Arc::new(Barrier::new(3));
    let guests: Vec<_> = [("high", MANY), ("low", FEW)]
        .into_iter()
        .map(|(tenant, launches)| {
            let (settings, together) = (loaded.login(tenant), together.clone());
            tokio::task::spawn_blocking(move || launch(settings, launches, &together))
        })
        .collect();
    let wait = |together: Arc<Barrier>| tokio::task::spawn_blocking(move || together.wait());
    wait(together.clone()).await.expect("both are ready");
    administrator.hold(true).await.expect("held");
    wait(together).await.expect("both go on");
    let queued = |name: &str, status: &bus_schemas::Status| {
        let tenants = status.tenants.iter();
        let own = tenants.filter(|tenant| tenant.tenant.as_str() == name);
        own.map(|tenant| tenant.queued).sum::<u64>()
    };
    loop {
        let status = administrator.status(SOON).await.expect("a leader");
        // The launches and a sync.
        if queued("high", &status) > MANY && queued("low", &status) > FEW {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    administrator.hold(false).await.expect("released");
    let mut sessions = Vec::new();
    for guest in guests {
        let ended = tokio::time::timeout(SOON, guest).await.expect("in time");
        sessions.push(ended.expect("it is right"));
    }
    let logs = loaded.demo.cluster.started_logs();
    let log = std::fs::read_to_string(&logs[0]).expect("the worker's log");
    let started: Vec<Started> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of it"))
        .collect();
    let of = |session: &String| {
        // After the module, the allocation and the sync before the hold.
        let own = started.iter().filter(|line| line.session == *session);
        let ran = own.filter(|line| line.kind == "run" && line.outcome == "ran" && line.last > 3);
        let mut positions: Vec<_> = ran.map(|line| line.position).collect();
        positions.sort_unstable();
        positions
    };
    (of(&sessions[0]), of(&sessions[1]))
}

#[tokio::test]
async fn a_floor_that_is_set_is_kept() {
    let plans = [plan("high", "search", 0), plan("low", "search", 4)];
    let loaded = LoadedCluster::idle(2, 1, &plans, &[("worker.device", "cpu")]).await;
    done(&loaded, &["cluster", "set", "learn=off"]);
    let (high, low) = positions(&loaded).await;
    assert!(high.last() < low.first(), "{high:?} before {low:?}");
    // Half of the granted work, while it has any: a fifth of the other's is enough for it.
    done(&loaded, &["cluster", "set", "floors=0,0,0,0,50"]);
    let (high, low) = positions(&loaded).await;
    assert!(low.last() < high.last(), "{low:?} among {high:?}");
    let ahead = high.iter().filter(|at| Some(*at) < low.last()).count();
    assert!(ahead <= 2 * low.len() + 2, "{low:?} among {high:?}");
}

#[tokio::test]
async fn settings_say_where_they_come_from_and_bad_ones_change_nothing() {
    let loaded = LoadedCluster::idle(1, 1, &[plan("a", "search", 1)], &[]).await;
    let set = &["cluster", "set", "window=4ms", "quantum=1ms", "settle=off"];
    done(&loaded, set);
    let find = |key: &str| {
        let shown = objects(&loaded, &["cluster", "show", "--json"]);
        let found = shown.into_iter().find(|line| line["key"] == key);
        let found = found.expect("every setting is shown");
        let text = |field: &str| found[field].as_str().expect("text").to_owned();
        (text("value"), text("source"))
    };
    assert_eq!(find("window").0, "4ms");
    assert!(
        find("window").1.starts_with("set, revision "),
        "{:?}",
        find("window")
    );
    assert_eq!(find("floors"), ("none".into(), "default".into()));
    for (change, says) in [
        (&["quantum=5ms"][..], "does not fit"),
        (&["window=1h"], "such as"),
        (&["floors=50"], "five"),
        (&["unknown=30us", "windows=1ms"], "window, quantum"),
        (&["window"], "SETTING=VALUE"),
    ] {
        let output = administrator(&loaded, &[&["cluster", "set"], change].concat());
        let (_, said) = text(&output);
        assert_eq!(output.status.code(), Some(2), "{change:?}: {said}");
        assert!(said.contains(says), "{change:?}: {said}");
    }
    assert_eq!(find("unknown"), ("20us".into(), "default".into()));
    done(
        &loaded,
        &["cluster", "set", "window=default", "quantum=default"],
    );
    assert_eq!(find("window"), ("2ms".into(), "default".into()));
    assert_eq!(find("settle").0, "off");
    let status = loaded.demo.administrator.status(SOON).await;
    let orders_by = status.expect("a leader").settings.expect("it says");
    assert_eq!((orders_by.window_ns, orders_by.settle), (2_000_000, false));
}

/// The profile in force, according to the leader: version, hash, and true if it is pinned.
async fn profile(loaded: &LoadedCluster) -> (u64, String, bool) {
    let status = loaded.demo.administrator.status(SOON).await;
    let profile = status.expect("a leader").profile.expect("it says");
    (profile.version, profile.hash.to_string(), profile.pinned)
}

async fn learned(loaded: &LoadedCluster, above: u64) -> (u64, String, bool) {
    for _ in 0..600 {
        let profile = profile(loaded).await;
        if profile.0 > above {
            return profile;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    loaded.panic("no new profile version");
}

/// Waits until workers have reported the names and durations of the profile's kernels.
async fn measured(loaded: &LoadedCluster) {
    let number = |line: &Value, field: &str| line[field].as_u64();
    for _ in 0..600 {
        let shown = objects(loaded, &["profile", "show", "--json"]);
        let known = shown.iter().filter(|line| !line["launches"].is_null());
        for line in known.clone() {
            let function = line["function"].as_str().expect("a name");
            let module = line["module"].as_str().expect("an image");
            assert!(!function.is_empty() && module.len() == 16, "{line}");
            assert!(number(line, "launches") > Some(0), "{line}");
            assert!(line["grid"][0].as_u64() > Some(0), "{line}");
            let order = ["least_ns", "median_ns", "p95_ns", "most_ns"];
            let values = order.map(|field| number(line, field).expect("a number"));
            assert!(values.is_sorted() && values[0] > 0, "{line}");
            let mean = number(line, "mean_ns");
            assert!(mean >= Some(values[0]) && mean <= Some(values[3]), "{line}");
        }
        if !shown.is_empty() && known.count() == shown.len() {
            let function = shown[0]["function"].as_str().expect("a name");
            let table = done(loaded, &["profile", "show"]);
            assert!(table.contains(&format!("{function}<")), "{table}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    loaded.panic("not every kernel of the profile has a name");
}

#[tokio::test]
async fn a_profile_is_learned_kept_over_a_failover_and_pinned() {
    let mut loaded = LoadedCluster::start(2, 1, &[plan("a", "search", 1)]).await;
    let first = learned(&loaded, 0).await;
    assert!(!first.2);
    let versions = || objects(&loaded, &["profile", "list", "--json"]);
    let listed = |hash: &str| versions().into_iter().find(|line| line["hash"] == hash);
    loaded.progress(3, SOON).await;
    let pinned = done(&loaded, &["profile", "pin", "--json"]);
    let pinned: Value = serde_json::from_str(&pinned).expect("an object");
    let hash = pinned["hash"].as_str().expect("text").to_owned();
    assert_eq!(profile(&loaded).await.1, hash);
    let line = listed(&hash).expect("it is kept");
    assert_eq!(line["state"], serde_json::json!(["in force", "pinned"]));
    let estimates = objects(&loaded, &["profile", "show", "--json"]);
    assert_eq!(line["kernels"], estimates.len());
    assert!(
        estimates
            .iter()
            .all(|line| line["estimate_ns"].as_u64() > Some(0))
    );
    measured(&loaded).await;
    // The next leader orders by the same.
    let old = loaded.epoch_above(0, SOON).await;
    let leader = loaded.demo.cluster.leader(old.leader).expect("one of ours");
    leader.kill().expect("it dies");
    loaded.epoch_above(old.epoch, SOON).await;
    loaded.progress(3, SOON).await;
    let after = profile(&loaded).await;
    assert_eq!((&after.1, after.2), (&hash, true));
    done(&loaded, &["profile", "unpin"]);
    let newest = profile(&loaded).await;
    assert!(!newest.2);
    let settings = loaded.guest("guest", &TenantSettings::default()).await;
    // An unknown kernel makes a new version with its own number.
    let alone = Barrier::new(1);
    let guest = tokio::task::spawn_blocking(move || launch(settings, 10, &alone));
    guest.await.expect("it ran");
    let next = learned(&loaded, newest.0).await;
    assert_ne!(next.1, hash);
    let status = administrator(&loaded, &["profile", "show", "99999"]);
    assert_eq!(status.status.code(), Some(2));
    loaded.settle().await;
}
