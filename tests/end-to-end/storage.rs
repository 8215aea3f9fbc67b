//! The broker's disk is full, read-only or gone. Programs run on under their leader, and `status`
//! reports the fault. Once it is over, a leader answers and everything is stored again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use broker::Credentials;
use client_agent::{Client, Settings};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_cluster::TempDir;

use crate::children::{Running, kill, pid, until};
use crate::run::{text, warploom};

fn command(name: &str, arguments: &[&str], path: &Path) -> Result<(), String> {
    let output = Command::new(name).args(arguments).arg(path).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(text(&output).1),
    }
}

/// A disk of 64 MiB with the broker's store; unmounted when dropped.
struct Disk {
    disk: PathBuf,
    store: PathBuf,
}

impl Disk {
    /// Mounts the disk; `None`, with a message, if this process may not mount.
    fn mount(dir: &Path) -> Option<Self> {
        let (disk, broker) = (dir.join("disk"), dir.join("state/broker"));
        let store = broker.join("store");
        for made in [&disk, &store] {
            fs::create_dir_all(made).expect("made");
        }
        for private in [&dir.join("state"), &broker, &store] {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(private, fs::Permissions::from_mode(0o700)).expect("set");
        }
        let mounted = command(
            "mount",
            &["-t", "tmpfs", "-o", "size=64m,mode=700", "tmpfs"],
            &disk,
        );
        if let Err(why) = mounted {
            eprintln!("skipped: a disk of our own cannot be mounted: {why}");
            return None;
        }
        let this = Self { disk, store };
        this.attach();
        Some(this)
    }

    /// Mounts the store on the disk.
    fn attach(&self) {
        let disk = self.disk.display().to_string();
        command("mount", &["--bind", &disk], &self.store).expect("mounted");
    }

    /// Unmounts the store even if a process has open files on it.
    fn detach(&self) {
        command("umount", &["-l"], &self.store).expect("unmounted");
    }

    fn try_remount(&self, how: &str) -> Result<(), String> {
        let options = format!("remount,bind,{how}");
        command("mount", &["-o", &options], &self.store)
    }

    /// Remounts the disk. This is refused while a file is being written, as the prober of the disk
    /// does for a moment.
    fn remount(&self, how: &str) {
        until("it is remounted", || self.try_remount(how).is_ok());
    }

    fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::create(self.disk.join("filler")).expect("made");
        while file.write_all(&[1; 4_096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.disk.join("filler")).expect("removed");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for at in [&self.store, &self.disk] {
            // It may already be unmounted.
            drop(command("umount", &["-l"], at));
        }
    }
}

/// A disk of 64 MiB that has the store in a folder; other files leave only `free` bytes.
fn nearly_full(dir: &Path, free: u64) -> Option<Disk> {
    let disk = Disk::mount(dir)?;
    command("umount", &[], &disk.store).expect("unmounted");
    let folder = disk.disk.join("store");
    fs::create_dir(&folder).expect("made");
    let folder = folder.display().to_string();
    command("mount", &["--bind", &folder], &disk.store).expect("mounted");
    let filler = vec![1; (64 << 20) - free as usize];
    fs::write(disk.disk.join("filler"), filler).expect("written");
    Some(disk)
}

/// A program with one session that computes, round after round.
struct Program {
    rounds: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    fn start(announced: &Value) -> Self {
        let path = announced["credentials"].as_str().expect("a path");
        let credentials = Credentials::load(path.as_ref()).expect("a file");
        let login = credentials
            .tenant("default")
            .expect("a login")
            .login
            .clone();
        let settings = Settings::new(&credentials.url, &credentials.cluster, "default")
            .with_login(&login.user, &login.password);
        let (rounds, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (Arc::clone(&rounds), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let client = Client::connect(settings).expect("a broker");
            let session = client.open().expect("a session");
            let word = session.alloc(4).expect("an address");
            while !stopped.load(Ordering::Relaxed) {
                let round = counted.load(Ordering::Relaxed) as u32;
                session.set(word, 1, round, 4).expect("set");
                let mut read = [0; 4];
                session.copy_out(word, &mut read).expect("read");
                assert_eq!(u32::from_le_bytes(read), round);
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
            session.close().expect("closed");
        });
        let this = Self {
            rounds,
            stop,
            thread: Some(thread),
        };
        this.runs_on();
        this
    }

    /// Waits until it has computed more.
    #[track_caller]
    fn runs_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        until("the program runs on", || {
            let thread = self.thread.as_ref().expect("started");
            assert!(!thread.is_finished(), "the program has failed");
            self.rounds.load(Ordering::Relaxed) > before + 100
        });
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("started");
        thread.join().expect("it did what it should");
    }
}

/// The status; `None` if no leader answers.
fn status(dir: &Path) -> Option<Value> {
    let output = warploom(dir).args(["status", "--json"]).output();
    let output = output.expect("it runs");
    let answered = output.status.success();
    let status = serde_json::from_slice(&output.stdout).ok();
    status.filter(|_| answered)
}

/// The fault of the broker's disk in `status`.
fn fault(dir: &Path) -> String {
    let status = status(dir).unwrap_or_default();
    let stores = status["stores"].as_array().cloned().unwrap_or_default();
    let disk = stores.iter().find(|store| store["name"] == "broker's disk");
    disk.map_or_else(String::new, |disk| disk["alarm"].to_string())
}

/// The alarms of stored data in `status`.
fn alarms(dir: &Path) -> Option<Vec<String>> {
    let status = status(dir)?;
    let stores = status["stores"].as_array().filter(|it| !it.is_empty())?;
    let alarms = stores.iter().filter(|store| store["alarm"] != "");
    Some(alarms.map(ToString::to_string).collect())
}

/// Kills the leaders, and checks that another takes over even during a fault.
#[track_caller]
fn another_leader(dir: &Path, announced: &Value) {
    let before = status(dir).expect("a leader")["epoch"].as_u64();
    for leader in announced["leaders"].as_array().expect("leaders") {
        kill(pid(leader), Signal::KILL);
    }
    until("another leader", || {
        status(dir).is_some_and(|status| status["epoch"].as_u64() > before)
    });
}

/// Waits until something is stored again and a leader answers; returns the time since `over`.
#[track_caller]
fn is_stored_again(dir: &Path, tenant: &str, over: Instant) -> Duration {
    until("something is stored", || {
        let set = warploom(dir).args(["tenant", "create", tenant]).output();
        set.expect("it runs").status.success()
    });
    until("no store is in danger", || alarms(dir) == Some(Vec::new()));
    over.elapsed()
}

/// Checks that the record has all positions accepted before, during and after the fault.
#[track_caller]
fn replays(dir: &Path) {
    let output = warploom(dir).args(["replay", "--json"]).output();
    let output = output.expect("it runs");
    let (out, err) = text(&output);
    assert!(output.status.success(), "{out}{err}");
    assert!(out.contains("\"skipped\":0"), "{out}");
    assert!(out.contains("\"gap_positions\":0"), "{out}");
}

/// A cluster with a program at work.
fn start(dir: &Path) -> (Running, Value, Program) {
    let (up, announced) = Running::up(dir, &["--leaders=2"]);
    let program = Program::start(&announced);
    (up, announced, program)
}

#[track_caller]
fn stops(mut up: Running) {
    up.signal(Signal::TERM);
    assert_eq!(up.ends(), Some(0), "{}", up.said());
}

#[test]
fn a_disk_that_is_full_holds_nobody_up() {
    let dir = TempDir::new().expect("a directory");
    let Some(disk) = Disk::mount(dir.path()) else {
        return;
    };
    let (up, announced, program) = start(dir.path());
    disk.fill();
    until("status says so", || fault(dir.path()).contains("is full"));
    up.says("is full; programs run on");
    program.runs_on();
    another_leader(dir.path(), &announced);
    program.runs_on();
    // A server that starts while its disk is full has the same fault.
    kill(pid(&announced["broker"]), Signal::KILL);
    up.says("broker runs again");
    program.runs_on();
    disk.empty();
    let over = Instant::now();
    let took = is_stored_again(dir.path(), "after", over);
    eprintln!("stored again {took:?} after the disk had room");
    up.says("its disk can be written; it is started again");
    program.runs_on();
    program.end();
    replays(dir.path());
    stops(up);
}

#[test]
fn a_disk_that_is_nearly_full_at_the_start_is_said_and_used_once_it_has_room() {
    let dir = TempDir::new().expect("a directory");
    let Some(disk) = nearly_full(dir.path(), 26 << 20) else {
        return;
    };
    let (up, _, program) = start(dir.path());
    up.says("has too little room");
    until("status says so", || {
        fault(dir.path()).contains("has too little room")
    });
    program.runs_on();
    disk.empty();
    let took = is_stored_again(dir.path(), "after", Instant::now());
    eprintln!("all is stored {took:?} after the disk had room");
    up.says("its disk has room again");
    program.end();
    replays(dir.path());
    stops(up);
}

#[test]
fn a_disk_without_room_for_a_cluster_is_refused_in_words() {
    let dir = TempDir::new().expect("a directory");
    let Some(_disk) = nearly_full(dir.path(), 23 << 20) else {
        return;
    };
    let output = warploom(dir.path()).arg("up").output();
    let output = output.expect("it runs");
    let (_, err) = text(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("E-BROKER-ROOM: "), "{err}");
}

#[test]
fn a_disk_that_is_read_only_holds_nobody_up() {
    let dir = TempDir::new().expect("a directory");
    let Some(disk) = Disk::mount(dir.path()) else {
        return;
    };
    let (up, announced, program) = start(dir.path());
    disk.detach();
    disk.attach();
    disk.remount("ro");
    until("status says so", || {
        fault(dir.path()).contains("is read-only")
    });
    program.runs_on();
    another_leader(dir.path(), &announced);
    program.runs_on();
    disk.remount("rw");
    let took = is_stored_again(dir.path(), "after", Instant::now());
    eprintln!("stored again {took:?} after the disk could be written");
    program.end();
    replays(dir.path());
    // A server that dies cannot start on such a disk, and starts as soon as it can.
    until("it is read-only while the server is down", || {
        let broker = fs::read_to_string(dir.path().join("state/broker/nats-server.pid"));
        let broker = broker.ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = broker.and_then(Pid::from_raw) {
            // The fault may have killed it before.
            let _ = kill_process(pid, Signal::KILL);
        }
        disk.try_remount("ro").is_ok()
    });
    until("status says so without a broker", || {
        let output = warploom(dir.path()).arg("status").output();
        let (_, err) = text(&output.expect("it runs"));
        err.contains("E-CLUSTER-UNREACHABLE") && err.contains("is read-only")
    });
    disk.remount("rw");
    let took = is_stored_again(dir.path(), "later", Instant::now());
    eprintln!("stored again {took:?} after the disk could be written, the broker was down");
    replays(dir.path());
    stops(up);
}

#[test]
fn a_disk_that_is_gone_and_comes_back_has_everything() {
    let dir = TempDir::new().expect("a directory");
    let Some(disk) = Disk::mount(dir.path()) else {
        return;
    };
    let (up, announced, program) = start(dir.path());
    disk.detach();
    until("status says so", || fault(dir.path()).contains("is gone"));
    program.runs_on();
    another_leader(dir.path(), &announced);
    program.runs_on();
    disk.attach();
    let took = is_stored_again(dir.path(), "after", Instant::now());
    eprintln!("stored again {took:?} after the disk was back");
    program.end();
    replays(dir.path());
    stops(up);
}

#[test]
fn a_store_that_is_deleted_is_made_anew() {
    let dir = TempDir::new().expect("a directory");
    let (up, _, program) = start(dir.path());
    let store = dir.path().join("state/broker/store/jetstream");
    fs::remove_dir_all(&store).expect("removed");
    up.says("its disk can be written; it is started again");
    up.says("broker runs again");
    let took = is_stored_again(dir.path(), "after", Instant::now());
    eprintln!("stored again {took:?} after the server was told to start again");
    assert!(store.exists());
    program.runs_on();
    program.end();
    stops(up);
}
