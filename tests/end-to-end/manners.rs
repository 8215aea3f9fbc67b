//! The drop-in as a guest: its host process forks, spawns, exits, loads and unloads it, and is
//! interrupted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use test_cluster::TempDir;

use crate::guest::{Guest, command, drop_in, finish};
use crate::loaded::{LoadedCluster, plan};
use crate::run::{compile, text, warploom};

/// Parts of `programs/manners.c`.
const PARTS: [&str; 8] = [
    "threads",
    "forks",
    "forks_early",
    "spawns",
    "signals",
    "leaves_busy",
    "leaves_late",
    "leaves_thread",
];

#[tokio::test]
async fn a_guest_keeps_out_of_its_hosts_way() {
    let loaded = LoadedCluster::idle(1, 2, &[plan("a", "search", 1)], &[]).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "manners");
    let well = |command: &mut Command, wanted: &str| {
        let output = finish(command);
        let said = (wanted.to_owned(), String::new());
        assert_eq!(text(&output), said, "{command:?}: {:?}", output.status);
        assert!(output.status.success(), "{command:?}: {:?}", output.status);
    };
    // Regardless of the work of its threads at the end.
    let again = std::iter::repeat_n("leaves_busy", 20);
    for part in PARTS.into_iter().chain(again) {
        let mut guest = command(&loaded, "a", dir.path(), &program);
        well(guest.arg(part), &format!("{part}: well\n"));
    }
    let mut two = command(&loaded, "a", dir.path(), &program);
    well(two.arg("two").env("WARPLOOM_DEVICES", "2"), "two: well\n");
    let loads = compile(dir.path(), "loads");
    let mut loads = command(&loaded, "a", dir.path(), &loads);
    well(&mut loads, "loaded and unloaded\n");
    interrupts(&loaded, dir.path());
}

/// Ctrl-C while Python waits for a kernel, directly and under `warploom run`, in which case the
/// terminal sends it to both processes.
fn interrupts(loaded: &LoadedCluster, dir: &Path) {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/end-to-end/programs/interrupted.py");
    let mut direct = command(loaded, "a", dir, Path::new("python3"));
    let mut behind_run = warploom(dir);
    behind_run
        .env(
            "WARPLOOM_BROKER_CREDENTIALS",
            loaded.demo.cluster.credentials(),
        )
        .env("WARPLOOM_CLUSTER_NAME", "test")
        .args(["run", "--tenant", "a", "--", "python3"]);
    for command in [&mut direct, &mut behind_run] {
        // A process group, like a terminal's foreground.
        let guest = Guest::start(command.arg(&script).process_group(0));
        assert_eq!(guest.says().as_deref(), Some("waits"), "{command:?}");
        // Most of the time it waits; it must hear the signal at any point.
        std::thread::sleep(Duration::from_millis(100));
        let group = rustix::process::Pid::from_child(&guest.child);
        rustix::process::kill_process_group(group, Signal::INT).expect("it is there");
        let ended = guest.ends();
        assert_eq!(
            ended,
            ("interrupted, 3 is right".into(), Some(0)),
            "{command:?}"
        );
    }
}

#[test]
fn the_library_needs_no_glibc_above_2_34() {
    let dir = TempDir::new().expect("a directory");
    let bytes = std::fs::read(drop_in(dir.path()).join("libcuda.so.1")).expect("the library");
    // The names of required versions are words among the library's dynamic strings.
    let versions = bytes.split(|byte| *byte == 0).filter_map(|word| {
        let version = std::str::from_utf8(word).ok()?.strip_prefix("GLIBC_2.")?;
        version.split('.').next()?.parse::<u32>().ok()
    });
    let newest = versions.max().expect("it needs some");
    assert!(newest <= 34, "it needs glibc 2.{newest}");
}

#[test]
fn a_worker_takes_no_drop_in_for_a_driver() {
    let dir = TempDir::new().expect("a directory");
    let worker = |device: &str| {
        let mut worker = warploom(dir.path());
        worker
            .env("LD_LIBRARY_PATH", drop_in(dir.path()))
            .args(["worker", "--set", "broker.url=nats://127.0.0.1:1"])
            .args(["--device", device])
            .stderr(Stdio::piped());
        worker
    };
    let output = finish(&mut worker("cuda"));
    let said = text(&output).1;
    for word in ["E-DEVICE", "Warploom's own drop-in", "worker.device"] {
        assert!(said.contains(word), "{said}");
    }
    assert_eq!(output.status.code(), Some(1));
    let mut auto = worker("auto").spawn().expect("it starts");
    let mut lines = BufReader::new(auto.stderr.take().expect("a pipe")).lines();
    let told = lines.find(|line| line.as_ref().is_ok_and(|it| it.contains("drop-in")));
    auto.kill().expect("it runs");
    auto.wait().expect("it is a child");
    let told = told.expect("it says so").expect("it is text");
    assert!(told.contains("the CPU serves"), "{told}");
}

#[test]
fn commands_end_quietly_when_nobody_reads_on() {
    let dir = TempDir::new().expect("a directory");
    for arguments in [&["config"][..], &["config", "--json"], &["bench"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = warploom(dir.path())
            .args(arguments)
            .stdout(writer)
            .output()
            .expect("it runs");
        assert_eq!(text(&output).1, "", "{arguments:?}");
        assert!(
            output.status.success(),
            "{arguments:?}: {:?}",
            output.status
        );
    }
    // Nor if its error output has no reader.
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(b" ").expect("it is read");
    drop(reader);
    let output = warploom(dir.path()).arg("status").stderr(writer).output();
    assert_eq!(output.expect("it runs").status.code(), Some(3));
}
