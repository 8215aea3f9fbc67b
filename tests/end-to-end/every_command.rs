//! Rules for every command. The table has a line for each page of the manual.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use test_cluster::TempDir;

use crate::loaded::LoadedCluster;

/// Command lines that find no cluster, or end before they search for one, with their exit codes: at
/// least one for each command.
const LINES: &[(&str, i32)] = &[
    ("up --leaders=0", 2),
    ("leader", 3),
    ("worker", 3),
    ("worker list", 3),
    ("worker drain 0", 3),
    ("submit kernel.ptx saxpy", 3),
    ("run -- true", 3),
    ("env", 0),
    ("smi", 3),
    ("smi pmon -c 1", 3),
    ("smi --program", 3),
    ("tenant create a", 3),
    ("tenant set a --priority 1", 3),
    ("tenant list", 3),
    ("tenant suspend a", 3),
    ("tenant resume a", 3),
    ("tenant remove a", 3),
    ("tenant renew a", 3),
    ("session list", 3),
    ("session show 0000000000000001", 3),
    ("session end 0000000000000001", 3),
    ("cluster show", 3),
    ("cluster set quantum=1ms", 3),
    ("profile list", 3),
    ("profile show 0000000000000001", 3),
    ("profile pin 0000000000000001", 3),
    ("profile unpin", 3),
    ("usage", 3),
    ("weights add a weights.safetensors", 2),
    ("weights list", 3),
    ("weights remove a", 3),
    ("status", 3),
    ("status --check", 1),
    ("why", 3),
    ("replay", 3),
    ("order show", 3),
    ("order export --out order.csv", 3),
    ("order verify", 3),
    ("order diff one.csv other.csv", 2),
    ("order timeline --out order.svg", 3),
    ("order hold", 3),
    ("order release", 3),
    ("config", 0),
    ("tracer", 2),
    ("tracer --set telemetry.otlp=http://127.0.0.1:9", 3),
    ("controller", 3),
    ("controller link", 3),
    ("controller openapi", 0),
    ("controller token create ci", 3),
    ("controller token list", 3),
    ("controller token revoke ci", 3),
    ("top", 3),
    ("completions bash", 0),
    ("man", 0),
    ("bench nothing", 2),
    ("demo --leaders=0", 2),
    ("chaos --seconds=0", 2),
    ("conform --only nothing", 2),
    ("sim workloads", 2),
    ("sim compare --pairs nothing", 2),
    ("sim faults --seeds nothing", 2),
];

/// A setting for a broker that is not there.
const NOWHERE: [&str; 2] = ["--set", "broker.url=nats://127.0.0.1:1"];

/// A folder with a kernel; the binary runs in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let kernel = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/saxpy.ptx");
        std::fs::copy(kernel, dir.path().join("kernel.ptx")).expect("a kernel");
        Self(dir)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warploom"));
        command.args(arguments).current_dir(self.0.path());
        command.env("WARPLOOM_CLUSTER_STATE_DIR", self.0.path());
        command
    }

    /// Runs a command that waits for a cluster as long as usual.
    fn run_patiently(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments)
            .env("WARPLOOM_ROLE_DEADLINE", "500ms")
            .env("WARPLOOM_CLIENT_DEADLINE", "500ms")
            .env("WARPLOOM_CLIENT_OPENING", "200ms")
            .env("WARPLOOM_COMMAND_DEADLINE", "500ms")
            .output()
            .expect("the binary runs")
    }
}

fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_table_has_every_command() {
    let place = Place::new();
    let pages = place.0.path().join("man");
    let written = place.run(&["man", "man"]);
    assert!(written.status.success(), "{}", said(&written));
    let names = std::fs::read_dir(pages).expect("pages").flatten();
    let names = names.map(|page| page.file_name().to_string_lossy().replace(".1", ""));
    let names: BTreeSet<String> = names.collect();
    let group = |name: &String| names.iter().any(|it| it.starts_with(&format!("{name}-")));
    let lines = LINES
        .iter()
        .map(|(line, _)| format!("warploom-{}", line.replace(' ', "-")));
    let lines: Vec<String> = lines.collect();
    for name in names.iter().filter(|name| !group(name)) {
        let at = |line: &String| line == name || line.starts_with(&format!("{name}-"));
        assert!(lines.iter().any(at), "{name} is in no line");
    }
}

#[test]
fn every_command_ends_by_one_rule() {
    let place = Place::new();
    let missing = [
        "submit nowhere.ptx saxpy",
        "submit kernel.ptx saxpy --arg f32*4:nowhere",
        "order verify nowhere",
        "order show nowhere",
        "order export --out x.csv nowhere",
        "order timeline --out x.svg nowhere",
        "replay --record nowhere",
        "why --record nowhere",
        "demo --tenants nowhere",
        "sim faults --script nowhere",
        "--config nowhere config",
        "config --set worker.gpuu=1",
        "leader --set telemetry.otlp=ftp://h",
        "worker --set telemetry.otlp=ftp://h",
        "controller --set telemetry.otlp=ftp://h",
        "tracer --set telemetry.otlp=ftp://h",
    ];
    let missing = missing.map(|line| (line, 2));
    for (line, code) in LINES.iter().chain(&missing) {
        let words: Vec<_> = line.split(' ').collect();
        // No broker listens there; otherwise `run` would start its own cluster.
        let words: Vec<_> = NOWHERE.into_iter().chain(words).collect();
        let output = place.run(&words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(*code), "{line}: {said}");
        // Each message has one code, its own.
        let codes = said.lines().filter(|line| line.contains("E-USAGE: E-"));
        assert_eq!(codes.count(), 0, "{line}: {said}");
    }
    let said = said(&place.run(&["config", "--set", "worker.gpuu=1"]));
    assert!(said.contains("did you mean worker.gpu?"), "{said}");
    let said = self::said(&place.run(&["up", "--brokers", "2"]));
    assert!(said.starts_with("E-BROKER-SERVERS: "), "{said}");
}

#[test]
fn a_status_without_a_leader_says_in_both_forms_that_the_cluster_is_down() {
    let place = Place::new();
    for (check, code) in [(None, 3), (Some("--check"), 1)] {
        for json in [None, Some("--json")] {
            let words = NOWHERE.into_iter().chain(["status"]);
            let words: Vec<_> = words.chain(check).chain(json).collect();
            let output = place.run(&words);
            assert_eq!(output.status.code(), Some(code), "{}", said(&output));
            let out = String::from_utf8_lossy(&output.stdout).into_owned();
            if json.is_none() {
                assert_eq!(out, "down: no leader answers\n");
                continue;
            }
            let health: serde_json::Value = serde_json::from_str(&out).expect("one object");
            let down = serde_json::json!({ "health": "down", "reasons": ["no leader answers"] });
            assert_eq!(health, down);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_that_there_is_not_is_made_by_one_rule_or_the_same_error_everywhere() {
    let loaded = LoadedCluster::idle(1, 1, &[], &[]).await;
    let folder = &loaded.demo.cluster.options().state_dir;
    let folder = format!("cluster.state_dir={}", folder.display());
    let place = Place::new();
    // Until that is forbidden, the commands that start a program create its tenant, and say so
    // once.
    let saxpy = "submit --tenant fresh kernel.ptx saxpy --block 4 --arg u32:4 --arg f32:2 --arg f32*4=1 --arg f32*4=10";
    let programs = [saxpy, saxpy, "run --tenant other -- true"];
    for (line, makes) in programs.into_iter().zip([true, false, true]) {
        let words = ["--set", &folder].into_iter().chain(line.split(' '));
        let output = place.run_patiently(&words.collect::<Vec<_>>());
        let said = said(&output);
        assert!(output.status.success(), "{line}: {said}");
        assert_eq!(
            said.contains("was not there: it is made"),
            makes,
            "{line}: {said}"
        );
    }
    let set = ["--set", &folder, "cluster", "set", "tenant.create_only=on"];
    let set = place.run_patiently(&set);
    assert!(set.status.success(), "{}", said(&set));
    for line in [
        "run --tenant nobody -- true",
        "submit --tenant nobody kernel.ptx saxpy",
        "env --tenant nobody",
        "smi --tenant nobody",
        "tenant set nobody --priority 1",
        "tenant suspend nobody",
        "tenant resume nobody",
        "tenant remove nobody",
        "tenant renew nobody",
        "session list --tenant nobody",
        "usage --tenant nobody",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let words: Vec<_> = ["--set", &folder].into_iter().chain(words).collect();
        let output = place.run_patiently(&words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("tenant"), "{line}: {said}");
    }
    numbers(&place, &folder);
    let worker = |words: &[&str]| {
        let drain = ["--set", &folder, "worker", "drain", "0"];
        place.run_patiently(&[&drain[..], words].concat())
    };
    let left = worker(&["--wait"]);
    assert!(left.status.success(), "{}", said(&left));
    let back = worker(&["--undo"]);
    assert_eq!(back.status.code(), Some(2), "{}", said(&back));
    assert!(
        said(&back).contains("`warploom worker --gpu 0` starts one"),
        "{}",
        said(&back)
    );
}

/// A second worker gets the next free number, and says so; a given number that is taken is refused.
fn numbers(place: &Place, folder: &str) {
    let worker = ["--set", folder, "worker", "--device", "cpu"];
    let taken = place.run_patiently(&[&worker[..], &["--gpu", "0"]].concat());
    assert_eq!(taken.status.code(), Some(1), "{}", said(&taken));
    assert!(said(&taken).contains("E-WORKER-NUMBER"), "{}", said(&taken));
    let mut second = place.command(&worker);
    let mut second = second.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(second.stderr.take().expect("a pipe")).lines();
    let told = lines.next().expect("a line").expect("text");
    second.kill().expect("it runs");
    second.wait().expect("it is a child");
    assert!(
        told.starts_with("gpu 0 has a worker: this one is gpu 1"),
        "{told}"
    );
    at_once(place, folder);
}

/// Of two workers that start at the same time, with one number that was given, one is refused.
fn at_once(place: &Place, folder: &str) {
    let worker = ["--set", folder, "worker", "--device", "cpu", "--gpu", "7"];
    let start = || {
        let mut worker = place.command(&worker);
        worker.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let mut workers = [start(), start()];
    let refused = 'ended: loop {
        for (at, worker) in workers.iter_mut().enumerate() {
            if worker.try_wait().expect("it is a child").is_some() {
                break 'ended at;
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let [first, second] = workers;
    let (refused, mut live) = match refused {
        0 => (first, second),
        _ => (second, first),
    };
    let refused = refused.wait_with_output().expect("it is a child");
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("E-WORKER-NUMBER"),
        "{}",
        said(&refused)
    );
    assert!(live.try_wait().expect("it is a child").is_none());
    let list = place.run_patiently(&["--set", folder, "worker", "list", "--json"]);
    let listed = said(&list).matches("\"gpu\":7").count();
    live.kill().expect("it runs");
    live.wait().expect("it is a child");
    assert_eq!(listed, 1, "{}", said(&list));
}

#[test]
fn no_size_is_too_large_to_be_answered() {
    let place = Place::new();
    let most = u64::MAX.to_string();
    for (line, code) in [
        ("submit kernel.ptx saxpy --arg f32*400000000000=1", 2),
        ("submit kernel.ptx saxpy --arg f64*MOST=1", 2),
        ("submit kernel.ptx saxpy --arg f64*MOST:kernel.ptx", 2),
        ("submit kernel.ptx saxpy --grid MOST", 2),
        ("submit kernel.ptx saxpy --shared MOST", 2),
        ("submit kernel.ptx saxpy --devices MOST", 2),
        ("submit kernel.ptx saxpy --repeat MOST", 2),
        ("submit kernel.ptx saxpy --out MOST", 2),
        ("run --devices MOST -- true", 2),
        ("up --workers MOST", 2),
        ("up --leaders MOST", 2),
        ("up --brokers MOST", 2),
        ("up --set up.controllers=MOST", 2),
        ("up --set broker.port=MOST", 2),
        ("up --set up.metrics=MOST", 2),
        ("demo --workers MOST", 2),
        ("demo --leaders MOST", 2),
        ("demo --seconds MOST", 2),
        ("demo --kills MOST", 2),
        ("chaos --seconds MOST", 2),
        ("chaos --kills MOST", 2),
        ("worker --device cpu --set worker.threads=MOST", 2),
        ("worker --device cpu --set worker.capacity=MOST", 3),
        ("worker --device cpu --set worker.overcommit=MOST", 2),
        ("worker --device cpu --set worker.chunk_memory=MOST", 3),
        ("worker --device cpu --set worker.watchdog=MOSTd", 2),
        ("leader --set leader.expiry=MOSTms", 3),
        ("status --set command.deadline=MOSTms", 3),
        ("usage --since MOSTd", 3),
        ("tenant set a --outstanding MOST", 3),
        ("tenant set a --quota MOST", 3),
        ("tenant set a --weight MOST", 2),
        ("order show --limit MOST", 3),
        ("top --every MOST", 2),
    ] {
        let line = format!("--set broker.url=nats://127.0.0.1:1 {line}");
        let line = line.replace("MOST", &most);
        let output = place.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            said(&output)
        );
    }
}

#[test]
fn a_login_in_the_brokers_url_is_never_printed() {
    let place = Place::new();
    for url in ["nats://u:hunter2@127.0.0.1:1", "nats://u:hunter2@no host:x"] {
        let setting = format!("broker.url={url}");
        for (line, _) in LINES {
            // After `--` come a program's own arguments.
            let words = ["--json", "--set", &setting, "--set", "log.filter=trace"];
            let words: Vec<_> = words.into_iter().chain(line.split(' ')).collect();
            let said = said(&place.run(&words));
            assert!(!said.contains("hunter2"), "{line}: {said}");
            let said = self::said(&place.run(&words[1..]));
            assert!(!said.contains("hunter2"), "{line}: {said}");
        }
    }
    // Nor in an error of the command line itself.
    for words in [
        &["status", "--set", "nats://u:hunter2@h"][..],
        &["nats://u:hunter2@h"],
        &["status", "--set", "telemetry.otlp=http://u:hunter2@h"],
        &["config", "--set", "telemetry.otlp=http://u:hunter2@h"],
        &["config", "--set", "worker.gpu=nats://u:hunter2@h"],
    ] {
        let said = said(&place.run(words));
        assert!(!said.contains("hunter2"), "{words:?}: {said}");
    }
    std::fs::write(
        place.0.path().join("warploom.toml"),
        "[broker]\nurl = \"nats://u:hunter2@h\n",
    )
    .expect("written");
    let said = said(&place.run(&["config"]));
    assert!(
        said.contains("E-CONFIG-FILE") && !said.contains("hunter2"),
        "{said}"
    );
}
