//! `warploom run`: runs a C program that knows nothing of Warploom.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bus_schemas::Status;
use test_cluster::TempDir;

use crate::loaded::{LoadedCluster, plan};

pub(crate) const WARPLOOM: &str = env!("CARGO_BIN_EXE_warploom");

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles a program of `tests/end-to-end/programs` and links it with the drop-in.
pub(crate) fn compile(dir: &Path, name: &str) -> PathBuf {
    // Programs that load it themselves are linked with nothing.
    compile_with(dir, name, &["-Wl,--as-needed", "-lcuda"])
}

/// Compiles a library that wraps the drop-in.
pub(crate) fn compile_library(dir: &Path, name: &str) -> PathBuf {
    compile_with(
        dir,
        name,
        &["-shared", "-fPIC", "-Wl,--no-as-needed", "-lcuda"],
    )
}

fn compile_with(dir: &Path, name: &str, options: &[&str]) -> PathBuf {
    let library = warploom_cli::drop_in::library(None).expect("it is built with this test");
    let folder = warploom_cli::drop_in::folder(dir, &library).expect("a folder");
    let program = dir.join(name);
    let status = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(source(&format!("tests/end-to-end/programs/{name}.c")))
        .arg(format!("-L{}", folder.display()))
        .args(options)
        .status()
        .expect("gcc runs");
    assert!(status.success(), "{name} compiles");
    program
}

fn ptx() -> PathBuf {
    source("tests/kernels/vector_add.ptx")
}

/// A `warploom …` command of this build that finds no cluster except one in `dir`.
pub(crate) fn warploom(dir: &Path) -> Command {
    warploom_of(Path::new(WARPLOOM), dir)
}

/// As `warploom`, of another build.
pub(crate) fn warploom_of(binary: &Path, dir: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .current_dir(dir)
        .env("WARPLOOM_CLUSTER_STATE_DIR", dir.join("state"))
        .env_remove("WARPLOOM_BROKER_CREDENTIALS");
    command
}

#[track_caller]
pub(crate) fn text(output: &Output) -> (String, String) {
    let both = [&output.stdout, &output.stderr];
    let [out, err] = both.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (out, err)
}

#[test]
fn a_program_runs_with_one_line_and_no_cluster() {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "vector_add");
    let output = warploom(dir.path())
        .args(["run", "--stats", "--"])
        .arg(&program)
        .arg(ptx())
        .output()
        .expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "10000 sums are right\n");
    assert!(err.contains("waited 2 times for an answer"), "{err}");
    let left = std::fs::read_dir(dir.path().join("state/run")).expect("the folder of runs");
    assert_eq!(left.count(), 0, "nothing of the run is left");
}

#[test]
fn a_run_within_a_run_starts_its_own_workers_without_the_drop_in() {
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "vector_add");
    let output = warploom(dir.path())
        .args(["run", "--", WARPLOOM, "up", "--help"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{:?}", text(&output));
    let output = warploom(dir.path())
        .args(["run", "--", "env", "-u", "WARPLOOM_BROKER_CREDENTIALS"])
        .args([WARPLOOM, "run", "--"])
        .arg(&program)
        .arg(ptx())
        .output()
        .expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(out, "10000 sums are right\n");
    assert_eq!(err.matches("no cluster is configured").count(), 2, "{err}");
}

#[test]
fn run_ends_as_its_program_does() {
    let dir = TempDir::new().expect("a directory");
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)] {
        let output = warploom(dir.path())
            .args(["run", "--", "sh", "-c", script])
            .output()
            .expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(code),
            "{script}: {:?}",
            text(&output)
        );
    }
    let output = warploom(dir.path())
        .args(["run", "--", "/no/such/program"])
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output).1.contains("E-RUN-PROGRAM"));
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "no program").expect("written");
    let output = warploom(dir.path()).args(["run", "--"]).arg(plain).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(126), "{:?}", text(&output));
}

#[tokio::test]
async fn a_killed_programs_memory_is_free_as_soon_as_run_knows() {
    // Without the report of `run`, its session would stay open for this long.
    let settings = &[("leader.connection_lost", "600s")];
    let loaded = LoadedCluster::start_with(1, 1, &[plan("a", "search", 1)], settings).await;
    let dir = TempDir::new().expect("a directory");
    let program = compile(dir.path(), "vector_add");
    let credentials = loaded.demo.cluster.credentials();
    let mut run = warploom(dir.path())
        .env("WARPLOOM_BROKER_CREDENTIALS", credentials)
        .env(
            "WARPLOOM_CLUSTER_NAME",
            &loaded.demo.cluster.options().cluster,
        )
        .args(["run", "--tenant", "a", "--"])
        .arg(&program)
        .arg(ptx())
        .arg("wait")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    let line = lines.next().expect("a line").expect("it is text");
    assert_eq!(line, "10000 sums are right");
    let sessions = |status: &Status| {
        status
            .tenants
            .iter()
            .map(|tenant| tenant.sessions)
            .sum::<u64>()
    };
    let before = sessions(&loaded.until("a leader", |_| true).await);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id()));
    let child: i32 = children.expect("a list").trim().parse().expect("one child");
    let pid = rustix::process::Pid::from_raw(child).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is killed");
    assert_eq!(run.wait().expect("it ends").code(), Some(137));
    loaded
        .until("its session has ended", |status| sessions(status) < before)
        .await;
}
