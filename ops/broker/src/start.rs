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
pub(crate) const TRIES: u32 = 5;

/// The variable with the number of threads on which a server computes; a value that is already set
/// is kept.
const THREADS: &str = "GOMAXPROCS";

/// Minimum number of threads. With one thread per processor, connections wait in the server's own
/// queue behind one that floods it. With more threads, the kernel gives each a share.
const LEAST_THREADS: usize = 16;

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
    pub(crate) fn spawn(&self) -> Result<OwnedProcess> {
        let port = match self.port {
            Some(port) => port,
            None => ports::free(ports::CLIENTS, 1)
                .map_err(BrokerError::io("finding a port for", self.paths.root()))?[0],
        };
        spawn(&self.server, &self.paths, port, self.lifetime)
    }
}

/// True if another process took the port between the search and the start.
pub(crate) fn is_taken(error: &BrokerError) -> bool {
    let BrokerError::Start { log, .. } = error else {
        return false;
    };
    log.iter()
        .any(|line| line.contains("address already in use"))
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
