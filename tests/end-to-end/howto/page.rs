//! A page of docs/howto, executed by a shell in its own folder and with its own cluster.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::Value;
use test_cluster::TempDir;

use crate::children::{Running, until};
use crate::run::{WARPLOOM, text, warploom, warploom_of};

pub(super) const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/howto");
/// A program with a session: it allocates, and runs until the file with the given name exists.
pub(super) const PROGRAM: &str = r"
import ctypes, os, sys, time
cuda = ctypes.CDLL('libcuda.so.1')
context, address = ctypes.c_void_p(), ctypes.c_uint64()
for status in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
               cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(address), 4096),
               cuda.cuMemsetD8_v2(address, 7, 4096), cuda.cuCtxSynchronize()):
    if status: sys.exit(f'CUDA error {status}')
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
";

/// The commands of a page: those after a prompt, and the lines of shell blocks.
pub(super) fn commands(page: &str) -> VecDeque<String> {
    let page = fs::read_to_string(Path::new(PAGES).join(page)).expect("a page");
    let (mut found, mut block): (VecDeque<String>, _) = (VecDeque::new(), None);
    let mut goes_on = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = block.is_none().then(|| language.to_owned());
            continue;
        }
        let Some(language) = block.as_deref() else {
            continue;
        };
        let prompted = line.strip_prefix("$ ");
        let is_plain = match language {
            "sh" => !line.is_empty(),
            "" => line.starts_with("warploom ") || line.starts_with("*/"),
            _ => false,
        };
        match prompted.or_else(|| is_plain.then_some(line)) {
            _ if goes_on => {
                let command = found.back_mut().expect("one that goes on");
                command.push('\n');
                command.push_str(line);
            }
            Some(command) => found.push_back(command.to_owned()),
            None => continue,
        }
        goes_on = line.ends_with('\\');
    }
    found
}

/// A page that is executed in its own folder.
pub(super) struct Page {
    pub(super) commands: VecDeque<String>,
    pub(super) dir: TempDir,
    /// Texts on the page, and their replacements here.
    pub(super) means: Vec<(&'static str, String)>,
}

impl Page {
    pub(super) fn open(page: &str) -> Self {
        let dir = TempDir::new().expect("a folder");
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).expect("a folder");
        symlink(WARPLOOM, bin.join("warploom")).expect("a link");
        fs::write(dir.path().join("train.py"), PROGRAM).expect("written");
        Self {
            commands: commands(page),
            dir,
            means: Vec::new(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn means(&mut self, printed: &'static str, here: impl Into<String>) {
        self.means.push((printed, here.into()));
    }

    /// The next command, which must begin with this text.
    #[track_caller]
    pub(super) fn next(&mut self, begins: &str) -> String {
        let mut command = self.commands.pop_front().expect("a command");
        assert!(command.starts_with(begins), "{command:?} is next");
        for (printed, here) in &self.means {
            command = command.replace(printed, here);
        }
        command
    }

    /// A shell that runs a script as a reader would type it.
    pub(super) fn shell(&self, script: &str) -> Command {
        let path = std::env::var("PATH").expect("a path");
        let mut shell = warploom_of(Path::new("bash"), self.path());
        shell.args(["-e", "-o", "pipefail", "-c", script]);
        shell.env("PATH", format!("{}/bin:{path}", self.path().display()));
        // Pages name the default port, which other tests' clusters need as well.
        shell.env("WARPLOOM_CONTROLLER_LISTEN", "127.0.0.1:0");
        shell
    }

    pub(super) fn output(&self, script: &str) -> Output {
        self.shell(script).output().expect("a shell")
    }

    /// Runs the next command, which must succeed; returns its output.
    #[track_caller]
    pub(super) fn runs(&mut self, begins: &str) -> String {
        self.ends(begins, 0)
    }

    /// Runs the next command, which must end with this code; returns its output.
    #[track_caller]
    pub(super) fn ends(&mut self, begins: &str, code: i32) -> String {
        let command = self.next(begins);
        let output = self.output(&command);
        let (out, err) = text(&output);
        assert_eq!(output.status.code(), Some(code), "{command}: {out}{err}");
        out + &err
    }

    /// Starts the next command, which runs until it is told to end. It prints to `said`.
    #[track_caller]
    pub(super) fn starts(&mut self, begins: &str) -> Going {
        let command = self.next(begins);
        let said = self.path().join(format!("{}.out", self.commands.len()));
        // A comment may follow the command.
        let script = format!("exec >{}\nexec {command}", said.display());
        Going {
            command: Running::start(&mut self.shell(&script)),
            said,
        }
    }

    /// Skips the next command, which is not run here.
    #[track_caller]
    pub(super) fn passes(&mut self, begins: &str, why: &str) {
        self.next(begins);
        assert!(!why.is_empty());
    }

    /// Checks that every command was named.
    #[track_caller]
    pub(super) fn ended(&self) {
        assert_eq!(self.commands, [""; 0], "left");
    }

    /// A cluster with two workers and these tenants, as the reader has it.
    pub(super) fn cluster(&self, tenants: &str) -> Running {
        let tenants = format!("up.tenants={tenants}");
        let controller = ["--set", "controller.listen=127.0.0.1:0"];
        let arguments = ["--leaders=1", "--workers=2", "--set", &tenants];
        Running::up(self.path(), &[&arguments[..], &controller].concat()).0
    }

    /// The ids of a tenant's sessions.
    pub(super) fn sessions(&self, tenant: &str) -> Vec<String> {
        let mut list = warploom(self.path());
        list.args(["session", "list", "--json", "--tenant", tenant]);
        let (out, _) = text(&list.output().expect("it runs"));
        let rows = out.lines().filter_map(|it| serde_json::from_str(it).ok());
        rows.filter_map(|row: Value| Some(row["id"].as_str()?.to_owned()))
            .collect()
    }

    /// A tenant's program with a session, which runs until the file `end` exists; returns the
    /// session's id, too.
    pub(super) fn program(&self, tenant: &str, end: &str) -> (Running, String) {
        let before = self.sessions(tenant);
        let script = format!("exec warploom run --tenant {tenant} -- python3 train.py {end}");
        let program = Running::start(&mut self.shell(&script));
        let mut id = None;
        until(&format!("a session of {tenant}"), || {
            let mut now = self.sessions(tenant).into_iter();
            id = now.find(|id| !before.contains(id));
            id.is_some()
        });
        (program, id.expect("an id"))
    }
}

/// A running command, with the file that it prints to.
pub(super) struct Going {
    pub(super) command: Running,
    pub(super) said: PathBuf,
}

impl Going {
    pub(super) fn printed(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    #[track_caller]
    pub(super) fn prints(&self, text: &str) {
        until(&format!("{text:?} of a command that goes on"), || {
            self.printed().contains(text)
        });
    }

    /// Waits until it prints this text, while other work is running.
    #[track_caller]
    pub(super) fn prints_beside(&self, text: &str, page: &Page, work: &str) {
        until(&format!("{text:?} of a command that looks on"), || {
            let done = page.output(work);
            assert!(
                done.status.success(),
                "{work}: {}",
                crate::run::text(&done).1
            );
            self.printed().contains(text)
        });
    }

    /// Ends it as Ctrl-C does.
    #[track_caller]
    pub(super) fn interrupt(mut self) {
        self.command.signal(Signal::INT);
        assert_eq!(self.command.ends(), Some(0), "{}", self.command.said());
    }
}
