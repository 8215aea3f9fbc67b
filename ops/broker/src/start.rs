//! The start of a server's process.

use std::fs::{self, OpenOptions};
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::binary::NatsServer;
use crate::config::{Lifetime, ServerPaths};
use crate::process::{OwnedProcess, Signal};
use crate::{BrokerError, Result, files, ports, store_limit};

/// Maximum number of free ports that a start tries.
const TRIES: u32 = 5;

/// The variable with the number of threads on which a server computes; a value that is already set
/// is kept.
const THREADS: &str = "GOMAXPROCS";

/// Minimum number of threads. With one thread per processor, connections wait in the server's own
/// queue behind one that floods it. With more threads, the kernel gives each a share.
const LEAST_THREADS: usize = 16;

/// Words in the log of a server that finds its port in use.
const TAKEN: &str = "address already in use";

/// Parameters for the start of a server.
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) paths: ServerPaths,
    pub(crate) server: NatsServer,
    pub(crate) lifetime: Lifetime,
    pub(crate) port: Option<u16>,
    pub(crate) timeout: Duration,
}

impl Start {
    /// Starts the server, on a free port if it has none of its own.
    pub(crate) fn spawn(&self) -> Result<Started> {
        let port = match self.port {
            Some(port) => port,
            None => ports::free(ports::CLIENTS, 1)
                .map_err(BrokerError::io("finding a port for", self.paths.root()))?[0],
        };
        let log_from = fs::metadata(self.paths.log()).map_or(0, |log| log.len());
        let process = spawn(&self.server, &self.paths, port, self.lifetime)?;
        Ok(Started { process, log_from })
    }

    /// Waits until the server listens; returns its process and its port. If another process took
    /// the free port between the search and the start, the server is started on another one.
    ///
    /// # Errors
    /// `E-BROKER-START` if it does not listen in time.
    pub(crate) fn listening(&self, mut server: Started) -> Result<(OwnedProcess, u16)> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match wait_until_listening(&server.process, &self.paths, self.timeout) {
                Ok(port) => return Ok((server.process, port)),
                Err(_) if self.port.is_none() && tries > 0 && server.lost_its_port(&self.paths) => {
                    server = self.spawn()?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A server that was started and may not listen yet.
pub(crate) struct Started {
    process: OwnedProcess,
    /// Length of the log before the start. The messages of earlier servers end there.
    log_from: u64,
}

impl Started {
    /// True if the server has ended because another process took its port between the search and
    /// the start. A server that is only late is not replaced: the store is still its own.
    fn lost_its_port(&self, paths: &ServerPaths) -> bool {
        let says = || {
            files::contains(&paths.log(), self.log_from, TAKEN)
                || files::contains(&paths.output(), 0, TAKEN)
        };
        self.process.exited().is_some() && says()
    }
}

/// Starts a server on a port.
pub(crate) fn spawn(
    server: &NatsServer,
    paths: &ServerPaths,
    port: u16,
    lifetime: Lifetime,
) -> Result<OwnedProcess> {
    // Ports files of killed servers remain.
    for entry in fs::read_dir(paths.ports_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_file(paths.pid());
    store_limit::renew_limits(paths)?;
    // The server appends to its log; an existing log may have wider permissions.
    files::private_log(&paths.log())?;
    let output = paths.output();
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&output)
        .map_err(BrokerError::io("opening", &output))?;
    let errors = file
        .try_clone()
        .map_err(BrokerError::io("opening", &output))?;
    let mut command = Command::new(&server.path);
    command
        .arg("--config")
        .arg(paths.config())
        .args(["--port", &port.to_string()]);
    if std::env::var_os(THREADS).is_none() {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, processors.max(LEAST_THREADS).to_string());
    }
    command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .current_dir(paths.root());
    let at_our_death = match lifetime {
        Lifetime::Owned => Some(Signal::TERM),
        Lifetime::Ephemeral => Some(Signal::KILL),
        Lifetime::Detached => None,
    };
    OwnedProcess::spawn(command, at_our_death).map_err(BrokerError::io("starting", &server.path))
}

/// Waits for the ports file and returns the port; kills the server after the timeout.
pub(crate) fn wait_until_listening(
    process: &OwnedProcess,
    paths: &ServerPaths,
    limit: Duration,
) -> Result<u16> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(port) = read_port(&paths.ports_dir(), process.pid()) {
            return Ok(port);
        }
        let reason = match process.exited() {
            Some(status) => format!("it ended with {status}"),
            None if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
            None => {
                let _ = process.signal(Signal::KILL);
                format!("it did not listen within {limit:?}")
            }
        };
        let mut log = files::tail(&paths.output(), 8);
        log.extend(files::tail(&paths.log(), 8));
        return Err(BrokerError::Start { reason, log });
    }
}

/// Reads `<binary>_<pid>.ports`. The server creates the file before it fills it, so a file that
/// does not parse counts as missing.
fn read_port(dir: &Path, pid: u32) -> Option<u16> {
    #[derive(Deserialize)]
    struct Ports {
        nats: Vec<String>,
    }
    let suffix = format!("_{pid}.ports");
    let file = fs::read_dir(dir)
        .ok()?
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().ends_with(&suffix))?;
    let ports: Ports = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
    ports.nats.first()?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::MINIMUM_VERSION;
    use crate::config::StatePaths;
    use test_cluster::TempDir;

    /// A start of a script in the place of a server.
    fn start(dir: &TempDir, script: &str) -> Start {
        let paths = StatePaths::new(dir.path()).expect("a path").alone();
        for dir in [paths.store(), paths.ports_dir()] {
            fs::create_dir(dir).expect("made");
        }
        store_limit::write_limit(&paths, None).expect("written");
        let path = paths.root().join("server");
        // Another process writes it: a child of another test would keep it open, and busy.
        let write = "printf '%s' \"$1\" > \"$2\" && chmod 700 \"$2\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", write, "sh", script]).arg(&path);
        assert!(shell.status().expect("a shell").success());
        Start {
            name: "test".into(),
            paths,
            server: NatsServer {
                path,
                version: MINIMUM_VERSION,
            },
            lifetime: Lifetime::Ephemeral,
            port: None,
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_port_that_was_taken_is_noticed_however_much_the_server_says_afterwards() {
        let dir = TempDir::new().expect("a folder");
        let script = r#"#!/bin/sh
if [ ! -e second ]; then
    echo first > second
    echo '[FTL] listen tcp 127.0.0.1:1: bind: address already in use' >> nats-server.log
    for line in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "[INF] more $line" >> nats-server.log; done
    exit 1
fi
echo '{"nats":["nats://127.0.0.1:4222"]}' > ports/server_$$.ports
exec sleep 600
"#;
        let start = start(&dir, script);
        let (process, port) = start
            .listening(start.spawn().expect("it runs"))
            .expect("a port");
        assert_eq!(port, 4222);
        process.signal(Signal::KILL).expect("it runs");
    }

    #[test]
    fn a_port_that_was_taken_long_ago_is_no_reason_to_start_again() {
        let dir = TempDir::new().expect("a folder");
        let start = start(&dir, "#!/bin/sh\necho once >> starts\nexit 1\n");
        fs::write(start.paths.log(), format!("{TAKEN}\n")).expect("written");
        let listening = start.listening(start.spawn().expect("it runs"));
        assert_eq!(listening.err().expect("it ended").code(), "E-BROKER-START");
        let starts = fs::read_to_string(start.paths.root().join("starts"));
        assert_eq!(starts.expect("a file"), "once\n");
    }
}
