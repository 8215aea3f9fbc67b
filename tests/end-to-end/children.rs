//! `up`, `demo` and `run` supervise their children, and leave nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_cluster::TempDir;

use crate::run::{text, warploom};

/// Time limit of everything here, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A running `warploom`, with its output so far.
pub(crate) struct Running {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("it starts");
        let mut stderr = child.stderr.take().expect("a pipe");
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = stderr.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]);
                heard.lock().expect("a lock").push_str(&text);
            }
        });
        Self { child, said }
    }

    /// Starts `warploom up --json`; returns its announcement, too.
    pub(crate) fn up(dir: &Path, arguments: &[&str]) -> (Self, Value) {
        Self::announced(warploom(dir).args(["up", "--json"]).args(arguments))
    }

    /// Starts a command that announces itself in a line of JSON.
    pub(crate) fn announced(command: &mut Command) -> (Self, Value) {
        let mut up = Self::start(command);
        let mut lines = BufReader::new(up.child.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("it is text");
        let announced = serde_json::from_str(&line).expect("it is JSON");
        (up, announced)
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("a lock").clone()
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        until(&format!("{text:?} in {}", self.said()), || {
            self.said().contains(text)
        });
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.child.id(), signal);
    }

    /// Its whole standard output, once it has ended.
    pub(crate) fn printed(&mut self) -> String {
        let mut printed = String::new();
        let stdout = self.child.stdout.as_mut().expect("a pipe");
        stdout.read_to_string(&mut printed).expect("it is text");
        printed
    }

    /// Its exit code.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code();
            }
            assert!(asked.elapsed() < SOON, "it goes on: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("it lives");
}

#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let asked = Instant::now();
    while !holds() {
        assert!(asked.elapsed() < SOON, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn pid(value: &Value) -> u32 {
    value.as_u64().expect("a process") as u32
}

/// Processes with this folder in their command line or environment; zombies are found by their
/// parent.
pub(crate) fn processes(of: &Path) -> Vec<String> {
    let of = of.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("a folder").flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        // The name of another folder may begin with this one's: `…-1` and `…-12`.
        let mut behind = command.split(&of).skip(1);
        if behind.any(|rest| !rest.starts_with(|next: char| next.is_ascii_digit())) {
            found.push(format!("{:?} {command}", entry.file_name()));
        }
    }
    found
}

/// True if a process exists, dead or alive.
fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The workers that a cluster's leader considers live.
fn workers(dir: &Path) -> Vec<String> {
    let output = warploom(dir)
        .args(["status", "--json"])
        .output()
        .expect("it runs");
    let (out, _) = text(&output);
    let rows = out
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut found = Vec::new();
    for row in rows {
        collect_workers(&row, &mut found);
    }
    found
}

fn collect_workers(row: &Value, found: &mut Vec<String>) {
    for worker in row["workers"].as_array().into_iter().flatten() {
        if worker["lost"] != true
            && let Some(incarnation) = worker["incarnation"].as_str()
        {
            found.push(incarnation.to_owned());
        }
    }
}

#[test]
fn what_dies_under_up_is_said_reaped_and_started_again() {
    let dir = TempDir::new().expect("a directory");
    let (mut up, announced) = Running::up(dir.path(), &["--leaders=2"]);
    let before = workers(dir.path());
    assert_eq!(before.len(), 1, "{}", up.said());
    for (name, died) in [
        ("worker-0", pid(&announced["workers"][0])),
        ("leader-0", pid(&announced["leaders"][0])),
        ("leader-1", pid(&announced["leaders"][1])),
        ("broker", pid(&announced["broker"])),
    ] {
        kill(died, Signal::KILL);
        up.says(&format!("{name} (process {died}) was killed (SIGKILL)"));
        up.says(&format!("{name} runs again as process"));
        assert!(!exists(died), "{name} is a zombie");
    }
    // The cluster is whole again, with another worker, at the same address.
    until("a new worker", || {
        let now = workers(dir.path());
        now.len() == 1 && now != before
    });
    let credentials = announced["credentials"].as_str().expect("a path");
    let credentials = fs::read_to_string(credentials).expect("a file");
    assert!(credentials.contains(announced["url"].as_str().expect("a url")));
    up.signal(Signal::TERM);
    assert_eq!(up.ends(), Some(0), "{}", up.said());
    assert_eq!(processes(dir.path()), [""; 0]);
}

#[test]
fn a_worker_lost_while_it_stood_still_comes_back_as_another() {
    let dir = TempDir::new().expect("a directory");
    let (up, announced) = Running::up(dir.path(), &["--leaders=1"]);
    let (before, stopped) = (workers(dir.path()), pid(&announced["workers"][0]));
    kill(stopped, Signal::STOP);
    until("it is lost", || workers(dir.path()).is_empty());
    kill(stopped, Signal::CONT);
    until("another worker", || {
        let now = workers(dir.path());
        now.len() == 1 && now != before
    });
    up.says("worker-0 (process");
    up.says("lost");
}

#[test]
fn a_worker_without_a_parent_joins_again_by_itself() {
    let dir = TempDir::new().expect("a directory");
    let (_up, announced) = Running::up(dir.path(), &["--leaders=1", "--workers=0"]);
    let credentials = announced["credentials"].as_str().expect("a path");
    let mut command = warploom(dir.path());
    command.env("WARPLOOM_BROKER_CREDENTIALS", credentials);
    let worker = Running::start(command.args(["worker", "--gpu=3"]));
    until("it joins", || workers(dir.path()).len() == 1);
    let before = workers(dir.path());
    worker.signal(Signal::STOP);
    until("it is lost", || workers(dir.path()).is_empty());
    worker.signal(Signal::CONT);
    until("it is another worker", || {
        let now = workers(dir.path());
        now.len() == 1 && now != before
    });
    worker.says("joins again");
}

#[test]
fn a_worker_that_was_drained_is_not_started_again() {
    let dir = TempDir::new().expect("a directory");
    let (mut up, announced) = Running::up(dir.path(), &["--leaders=1"]);
    let drained = warploom(dir.path())
        .args(["worker", "drain", "0"])
        .output()
        .expect("it runs");
    assert!(drained.status.success(), "{:?}", text(&drained));
    up.says("worker-0 (process");
    up.says("has left");
    assert!(!exists(pid(&announced["workers"][0])));
    up.signal(Signal::INT);
    assert_eq!(up.ends(), Some(0), "{}", up.said());
}

#[test]
fn nothing_outlives_an_up_that_is_killed() {
    let dir = TempDir::new().expect("a directory");
    let (up, _) = Running::up(dir.path(), &["--leaders=2"]);
    up.signal(Signal::KILL);
    until("nothing is left", || processes(dir.path()).is_empty());
}

#[test]
fn a_cluster_that_cannot_start_says_why_at_once() {
    let dir = TempDir::new().expect("a directory");
    let output = warploom(dir.path())
        .args(["up", "--set", "worker.device=cuda"])
        .output()
        .expect("it runs");
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("E-LOCAL-START: worker-0"), "{err}");
    assert!(err.contains("worker.device is cuda"), "{err}");
    assert_eq!(processes(dir.path()), [""; 0]);
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing() {
    for (says, signal) in [("starting broker", Signal::INT), ("at work", Signal::TERM)] {
        let dir = TempDir::new().expect("a directory");
        let mut command = warploom(dir.path());
        command.env("TMPDIR", dir.path());
        let mut demo = Running::start(command.args(["demo", "--seconds=60"]));
        demo.says(says);
        demo.signal(signal);
        assert_eq!(demo.ends(), Some(1), "{}", demo.said());
        demo.says("E-STOPPED");
        let left: Vec<_> = fs::read_dir(dir.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(processes(dir.path()), [""; 0]);
    }
}

#[test]
fn a_run_that_is_stopped_leaves_nothing() {
    let dir = TempDir::new().expect("a directory");
    let mut command = warploom(dir.path());
    let mut run = Running::start(command.args(["run", "-v", "--", "sleep", "600"]));
    run.says("WARPLOOM_TENANT=");
    run.signal(Signal::TERM);
    assert_eq!(run.ends(), Some(128 + 15), "{}", run.said());
    let left = fs::read_dir(dir.path().join("state/run")).expect("the folder of runs");
    assert_eq!(left.count(), 0, "nothing of the run is left");
    assert_eq!(processes(dir.path()), [""; 0]);
    // It is stopped while its cluster starts.
    let mut command = warploom(dir.path());
    let mut run = Running::start(command.args(["run", "-v", "--", "sleep", "600"]));
    run.says("starting one for this program");
    run.signal(Signal::TERM);
    assert_eq!(run.ends(), Some(1), "{}", run.said());
    let left = fs::read_dir(dir.path().join("state/run")).expect("the folder of runs");
    assert_eq!(left.count(), 0, "nothing of the run is left");
    assert_eq!(processes(dir.path()), [""; 0]);
}

/// Runs a program that needs a device; returns true if it succeeded, and its output.
fn run(dir: &Path) -> (bool, String) {
    let program = crate::run::compile(dir, "vector_add");
    let output = warploom(dir)
        .args(["run", "--"])
        .arg(program)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/kernels/vector_add.ptx"
        ))
        .output()
        .expect("it runs");
    let (out, err) = text(&output);
    (output.status.success(), out + &err)
}

#[test]
fn a_cluster_that_ended_is_not_taken_for_one() {
    for signal in [Signal::TERM, Signal::KILL] {
        let dir = TempDir::new().expect("a directory");
        let (mut up, _) = Running::up(dir.path(), &["--leaders=1"]);
        let (ran, said) = run(dir.path());
        assert!(ran && !said.contains("starting one"), "{said}");
        up.signal(signal);
        up.ends();
        let (ran, said) = run(dir.path());
        assert!(ran && said.contains("starting one"), "{signal:?}: {said}");
        let output = warploom(dir.path()).arg("status").output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output).1.contains("has ended"), "{:?}", text(&output));
        // The next cluster reuses its logins and tenants, and waits for the processes that remain
        // of it.
        let (_up, announced) = Running::up(dir.path(), &["--leaders=1"]);
        assert!(announced["url"].is_string());
        let output = warploom(dir.path()).arg("up").output().expect("it runs");
        assert_eq!(output.status.code(), Some(1));
        let (_, err) = text(&output);
        assert!(err.contains("E-LOCAL-RUNNING"), "{err}");
    }
}

/// Everything below a folder, with its permission bits.
fn modes(dir: &Path, found: &mut Vec<(std::path::PathBuf, u32)>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        // A file that the broker renames in the meantime is examined under its next name.
        let Ok(meta) = entry.metadata() else { continue };
        found.push((entry.path(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            modes(&entry.path(), found);
        }
    }
}

#[test]
fn nobody_else_reads_the_state_folder() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().expect("a directory");
    let state = dir.path().join("state");
    // The folder existed before, readable by all, and so did a log.
    for folder in [state.clone(), state.join("broker")] {
        fs::create_dir(&folder).expect("made");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("set");
    }
    for log in ["worker-0.log", "broker/nats-server.log"] {
        fs::write(state.join(log), "before\n").expect("written");
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(state.join(log), open).expect("set");
    }
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 000; exec \"$0\" up --json --leaders=1"])
        .arg(env!("CARGO_BIN_EXE_warploom"))
        .env("WARPLOOM_CLUSTER_STATE_DIR", &state);
    let mut up = Running::start(&mut shell);
    let mut lines = BufReader::new(up.child.stdout.take().expect("a pipe")).lines();
    let line = lines.next();
    assert!(line.is_some(), "{}", up.said());
    let mut found = vec![(state.clone(), 0)];
    let meta = fs::metadata(&state).expect("it is there");
    found[0].1 = meta.permissions().mode() & 0o777;
    modes(&state, &mut found);
    assert!(found.len() > 10, "{found:?}");
    let open: Vec<_> = found.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_folder_of_everybodys_holds_no_state() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().expect("a directory");
    let state = dir.path().join("state");
    fs::create_dir(&state).expect("made");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o1777)).expect("set");
    let output = warploom(dir.path()).arg("up").output().expect("it runs");
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("E-BROKER-SHARED"), "{err}");
    let mode = fs::metadata(&state).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777, "it is left as it is");
}
