//! Traces of unmodified programs, as an OTLP receiver that shares no code with Warploom gets and checks them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bus_schemas::TenantSettings;
use serde_json::{Value, json};
use test_cluster::{Receiver, TempDir};

use crate::loaded::{LoadedCluster, SOON};
use crate::run::{WARPLOOM, compile};

/// The tenant of the programs.
const TENANT: &str = "a";
/// Number of spans that may come twice: those of the batches that killed tracers did not live to note. A batch has
/// 4,096 and the spans of one request at most.
const REPEATED: u64 = 3 * 4_400;
/// Interval at which what was received is checked.
const LOOK: Duration = Duration::from_millis(250);

async fn traced(leaders: usize, receiver: &Receiver) -> LoadedCluster {
    let endpoint = receiver.endpoint();
    let mut loaded = LoadedCluster::made(leaders, 1, &[], |options| {
        options.settings.push(("telemetry.otlp".into(), endpoint));
    })
    .await;
    loaded.guest(TENANT, &TenantSettings::default()).await;
    loaded
}

/// Starts `traced.c`: threads, requests of each, and how it names its parent.
fn start<const N: usize>(loaded: &LoadedCluster, program: &Path, arguments: [&str; N]) -> Command {
    start_as(TENANT, loaded, program, arguments)
}

fn start_as<const N: usize>(
    tenant: &str,
    loaded: &LoadedCluster,
    program: &Path,
    arguments: [&str; N],
) -> Command {
    let mut command = Command::new(WARPLOOM);
    command
        .env(
            "WARPLOOM_BROKER_CREDENTIALS",
            loaded.demo.cluster.credentials(),
        )
        .env_remove("TRACEPARENT")
        .args(["run", "--tenant", tenant, "--"])
        .arg(program)
        .args(arguments)
        .stdout(Stdio::piped());
    command
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until so many launches were received, of requests or executed, by the rules.
async fn received(
    loaded: &mut LoadedCluster,
    receiver: &Receiver,
    name: &str,
    launches: u64,
) -> Value {
    let asked = Instant::now();
    loop {
        loaded.demo.cluster.tend();
        let said = match receiver.traces(Some(TENANT), REPEATED) {
            Ok(said) => said,
            Err(broken) => loaded.panic(&broken),
        };
        if said[name].as_u64() >= Some(launches) {
            return said;
        }
        if asked.elapsed() > SOON {
            loaded.panic(&format!("of {launches} launches: {said}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// True if a worker has recorded a kernel of this name.
async fn is_named(loaded: &LoadedCluster, name: &str) -> bool {
    let records = loaded.demo.administrator.kernel_records().await;
    let records = records.expect("the broker answers");
    let mut names = records.values().filter_map(|record| record.name.as_ref());
    names.any(|known| known.function == name)
}

/// Number of launches of kernels with these names.
fn kernels(said: &Value, is_wanted: impl Fn(&str) -> bool) -> u64 {
    let kernels = said["kernels"].as_object().expect("kernels");
    let wanted = kernels.iter().filter(|(name, _)| is_wanted(name));
    wanted.filter_map(|(_, launches)| launches.as_u64()).sum()
}

fn number(said: &Value, name: &str) -> u64 {
    said[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} of {said}"))
}

#[tokio::test]
async fn the_threads_of_a_program_are_traced_with_and_without_a_parent() {
    let receiver = Receiver::start(0, None);
    let mut loaded = traced(1, &receiver).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "traced");
    // Threads of 1, 2 and 3 launches for each request.
    let (requests, launches) = (3 * 40, 40 * (1 + 2 + 3));

    let alone = start(&loaded, &program, ["3", "40", "none"]).spawn();
    ended(alone.expect("it starts"));
    let said = received(&mut loaded, &receiver, "executed", launches).await;
    assert!(number(&said, "requests") >= requests, "{said}");
    assert_eq!(number(&said, "launches"), launches, "{said}");
    assert_eq!(number(&said, "executed"), launches, "{said}");
    assert_eq!(kernels(&said, |_| true), launches, "{said}");
    assert_eq!(number(&said, "incomplete"), 0, "{said}");
    assert_eq!(said["errors"], json!({}), "{said}");
    assert_eq!(said["sessions"].as_array().map(Vec::len), Some(1), "{said}");
    // The main thread loads the module.
    let threads = said["threads"].as_array().map_or(0, Vec::len);
    assert!((3..=4).contains(&threads), "{said}");
    let covered = said["cover_p50"].as_f64().expect("a share");
    assert!(covered >= 0.98, "{covered}");
    // A busy worker may record the name of a new kernel later than its first traces are exported.
    while !is_named(&loaded, "add").await {
        loaded.demo.cluster.tend();
        tokio::time::sleep(LOOK).await;
    }

    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut inherited = start(&loaded, &program, ["1", "10", "none"]);
    ended(
        inherited
            .env("TRACEPARENT", parent)
            .spawn()
            .expect("it starts"),
    );
    let own = start(&loaded, &program, ["2", "10", "own"]).spawn();
    let own = ended(own.expect("it starts"));
    let said = received(&mut loaded, &receiver, "executed", launches + 10 + 30).await;
    assert!(kernels(&said, |name| name == "add") >= 40, "{said}");
    assert!(said["names"]["gpu launch add"].as_u64() > Some(0), "{said}");
    let parents = said["parents"].as_array().expect("parents");
    for line in own.lines().chain([parent]) {
        let [_, trace, span, _] = line.splitn(4, '-').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert!(parents.contains(&json!([trace, span])), "{line} of {said}");
    }
    loaded
        .demo
        .cluster
        .drain()
        .expect("every role ends by itself");
    let said = receiver.traces(Some(TENANT), REPEATED).expect("whole");
    assert_eq!(number(&said, "incomplete"), 0, "{said}");
    // All three programs load the same module, and the first of them has it compiled.
    assert_eq!(said["names"]["compile"], 1, "{said}");
}

#[tokio::test]
async fn errors_that_a_program_handles_are_told_by_its_request() {
    let receiver = Receiver::start(0, None);
    let mut loaded = traced(1, &receiver).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "refused");
    let refused = start(&loaded, &program, []).spawn();
    ended(refused.expect("it starts"));
    let said = received(&mut loaded, &receiver, "executed", 1).await;
    assert_eq!(number(&said, "failed_calls"), 5, "{said}");
    // Four events at most: the second allocation counts with the first one.
    let wanted = json!({"E-MODULE-PTX": 3, "E-MEMORY-QUOTA": 1});
    assert_eq!(said["exceptions"], wanted, "{said}");
    assert_eq!(said["errors"], json!({}), "no request failed: {said}");
    let spans = receiver.received();
    let events = spans.iter().filter_map(|span| span["events"].as_array());
    let words = |event: &Value| {
        Some(
            event["attributes"]["exception.message"]
                .as_str()?
                .to_owned(),
        )
    };
    let told: Vec<String> = events.flatten().filter_map(words).collect();
    for word in ["line 5", "frobnicate", "bytes do not fit"] {
        assert!(told.iter().any(|it| it.contains(word)), "{word}: {told:?}");
    }
}

#[tokio::test]
async fn a_wait_for_another_tenant_is_linked_to_the_slice_that_ran() {
    let receiver = Receiver::start(0, None);
    let mut loaded = traced(1, &receiver).await;
    loaded.guest("b", &TenantSettings::default()).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "traced");
    let enough = dir.path().join("enough");
    let running = [TENANT, "b"].map(|tenant| {
        let mut running = start_as(tenant, &loaded, &program, ["2", "1", "none"]);
        running.arg(&enough).spawn().expect("it starts")
    });
    let linked = async |loaded: &mut LoadedCluster, is_enough: fn(u64, u64) -> bool| {
        let asked = Instant::now();
        loop {
            loaded.demo.cluster.tend();
            let said = match receiver.traces(None, REPEATED) {
                Ok(said) => said,
                Err(broken) => loaded.panic(&broken),
            };
            if is_enough(number(&said, "links"), number(&said, "links_absent")) {
                return said;
            }
            if asked.elapsed() > SOON {
                loaded.panic(&format!("links of {said}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    linked(&mut loaded, |links, _| links > 20).await;
    std::fs::write(enough, "").expect("written");
    running.into_iter().map(ended).for_each(drop);
    // All traces are kept: once all are exported, every link leads to a span.
    linked(&mut loaded, |links, absent| links > 20 && absent == 0).await;
}

#[tokio::test]
async fn killed_tracers_and_leaders_lose_no_trace_and_double_none() {
    let receiver = Receiver::start(0, None);
    let mut loaded = traced(2, &receiver).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "traced");
    let enough = dir.path().join("enough");
    let mut running = start(&loaded, &program, ["2", "1", "none"]);
    let running = running.arg(&enough).spawn().expect("it starts");
    let (mut tracers, mut leaders, mut epoch, mut seen) = (0, 0, 0, 0);
    // Each is killed once more traces have come since the last one was.
    while tracers < 3 || leaders < 1 {
        loaded.demo.cluster.tend();
        let said = match receiver.traces(Some(TENANT), REPEATED) {
            Ok(said) => said,
            Err(broken) => loaded.panic(&broken),
        };
        let so_far = number(&said, "executed");
        if so_far > seen + 100 && (tracers == 0 || leaders == 1) {
            if let Some(tracer) = &mut loaded.demo.cluster.tracer
                && tracer.is_running()
            {
                tracer.kill().expect("it dies");
                (tracers, seen) = (tracers + 1, so_far);
            }
        } else if so_far > seen + 100 {
            epoch = loaded.replace_leader(epoch, SOON).await;
            (leaders, seen) = (leaders + 1, so_far);
        }
        tokio::time::sleep(LOOK).await;
    }
    std::fs::write(enough, "").expect("written");
    let launches: u64 = ended(running)
        .lines()
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|count| count.parse::<u64>().ok())
        })
        .map(|count| count.expect("a number"))
        .sum();
    let said = received(&mut loaded, &receiver, "launches", launches).await;
    assert_eq!(number(&said, "launches"), launches, "{said}");
    // Of some ops the dead leader was the only one to hear of their end.
    let (requests, incomplete) = (number(&said, "requests"), number(&said, "incomplete"));
    assert!(incomplete <= requests / 10, "{said}");
    assert!(number(&said, "executed") >= launches * 9 / 10, "{said}");
}
