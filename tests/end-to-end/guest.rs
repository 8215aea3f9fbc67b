//! A CUDA program on a loaded cluster without `warploom run`, as in docs/howto/programs.md: some
//! variables suffice.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::loaded::LoadedCluster;
use crate::run::text;

/// Time limit of each step of a program.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A program with the variables that lead it to a loaded cluster, as a tenant.
pub(crate) fn command(loaded: &LoadedCluster, tenant: &str, dir: &Path, program: &Path) -> Command {
    let credentials = broker::Credentials::load(&loaded.demo.cluster.credentials());
    let credentials = credentials.expect("credentials");
    let login = &credentials.tenant(tenant).expect("a login").login;
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", drop_in(dir))
        .env("WARPLOOM_BROKER_URL", credentials.url.with_login())
        .env("WARPLOOM_CLUSTER_NAME", &credentials.cluster)
        .env("WARPLOOM_TENANT", tenant)
        .env("WARPLOOM_USER", &login.user)
        .env("WARPLOOM_PASSWORD", &login.password)
        .env_remove("WARPLOOM_BROKER_CREDENTIALS")
        .env_remove("WARPLOOM_STATS");
    command
}

/// The folder in which programs find the library.
pub(crate) fn drop_in(dir: &Path) -> PathBuf {
    let library = warploom_cli::drop_in::library(None).expect("it is built with this test");
    warploom_cli::drop_in::folder(dir, &library).expect("a folder")
}

/// Runs a program to its end, within the time limit.
#[track_caller]
pub(crate) fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begun.elapsed() > SOON {
            child.kill().expect("it dies");
            let output = child.wait_with_output().expect("its output");
            panic!("{command:?} does not end: {:?}", text(&output));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

/// A running program, killed when dropped.
pub(crate) struct Guest {
    pub(crate) child: Child,
    /// Its input, until that is closed.
    pub(crate) input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Guest {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (told, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // The output may have no reader any more.
                let _ = told.send(line);
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Writes a line to its input.
    #[track_caller]
    pub(crate) fn tell(&mut self, what: &str) {
        let input = self.input.as_mut().expect("its input");
        writeln!(input, "{what}").expect("it reads");
    }

    /// Writes a line to its input; returns the line with which it answers.
    #[track_caller]
    pub(crate) fn does(&mut self, what: &str) -> String {
        self.tell(what);
        self.says().expect("it answers")
    }

    /// The next line of its output; `None` at its end.
    #[track_caller]
    pub(crate) fn says(&self) -> Option<String> {
        match self.lines.recv_timeout(SOON) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing any more"),
        }
    }

    /// Waits until it has printed this many further lines.
    #[track_caller]
    pub(crate) fn goes_on(&self, lines: usize) {
        while self.lines.try_recv().is_ok() {}
        for _ in 0..lines {
            self.says().expect("it has not ended");
        }
    }

    /// Waits for its end; returns its last line and its exit code.
    #[track_caller]
    pub(crate) fn ends(mut self) -> (String, Option<i32>) {
        drop(self.input.take());
        let mut last = String::new();
        while let Some(line) = self.says() {
            last = line;
        }
        (last, self.child.wait().expect("it is a child").code())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
