//! An OTLP receiver: `tests/peers/otlp/receiver.py` as a process, and the data that it received.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::folder::TempDir;
use serde_json::Value;

/// A running OTLP receiver on a free port; stopped when dropped.
pub struct Receiver {
    process: Child,
    // The receiver runs until this is closed.
    stdin: Option<ChildStdin>,
    base: String,
    dir: TempDir,
}

impl Receiver {
    /// Starts a receiver that answers the first `fail` posts with 503. It serves https if a
    /// certificate with its key (PEM) is given.
    ///
    /// # Panics
    /// If python or its packages are missing: a test cannot go on without them.
    #[must_use]
    pub fn start(fail: u32, tls: Option<&str>) -> Receiver {
        let dir = TempDir::new().expect("a directory");
        let mut command = Command::new("python3");
        command.arg(script("receiver.py"));
        if let Some(identity) = tls {
            let file = dir.path().join("identity.pem");
            fs::write(&file, identity).expect("written");
            command.arg("--tls").arg(file);
        }
        let mut process = command
            .arg("--tools")
            .arg(broker::tools_dir(None))
            .arg("--out")
            .arg(dir.path().join("received.jsonl"))
            .args(["--fail", &fail.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 starts");
        let stdin = process.stdin.take();
        let mut line = String::new();
        let stdout = process.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line
            .trim()
            .strip_prefix("listening ")
            .and_then(|port| port.parse::<u16>().ok());
        let port = port.expect("the receiver serves");
        let scheme = if tls.is_some() { "https" } else { "http" };
        Receiver {
            process,
            stdin,
            base: format!("{scheme}://127.0.0.1:{port}"),
            dir,
        }
    }

    /// Its base URL.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.base.clone()
    }

    /// Checks the traces of a tenant, or of all, received so far by
    /// `tests/peers/otlp/traces.py`. Returns what they say, or the rule that does not hold. So many
    /// spans may come twice, the same: a killed tracer does not know if its last batch was taken.
    ///
    /// # Panics
    /// If python is missing, or its answer is not JSON.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn traces(&self, tenant: Option<&str>, may_repeat: u64) -> Result<Value, String> {
        let received = self.dir.path().join("received.jsonl");
        if !received.exists() {
            fs::write(&received, "").expect("written");
        }
        let checked = Command::new("python3")
            .arg(script("traces.py"))
            .arg(received)
            .args(tenant.iter().flat_map(|tenant| ["--tenant", tenant]))
            .args(["--may-repeat", &may_repeat.to_string()])
            .output()
            .expect("python3 starts");
        match checked.status.success() {
            true => Ok(serde_json::from_slice(&checked.stdout).expect("a JSON object")),
            false => Err(String::from_utf8_lossy(&checked.stderr).into_owned()),
        }
    }

    /// Everything received so far, whole lines only.
    ///
    /// # Panics
    /// If a line is not JSON.
    #[must_use]
    pub fn received(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.dir.path().join("received.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |line| serde_json::from_str(line).expect("a JSON object");
        whole.lines().map(parse).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn script(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = here
        .ancestors()
        .map(|dir| dir.join("tests/peers/otlp").join(name));
    found
        .find(|path| path.is_file())
        .expect("the receiver is in the repository")
}
