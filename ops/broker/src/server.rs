//! One server of a broker: started, paused, restarted, emptied, stopped.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use crate::binary::NatsServer;
use crate::config::{Lifetime, ServerPaths};
use crate::process::{ForeignProcess, OwnedProcess, Signal};
use crate::start::{Start, spawn, wait_until_listening};
use crate::{BrokerError, Result, files, store_limit};

/// Maximum time for a server to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A nats-server, started by this process or attached to.
pub struct Server {
    name: String,
    url: String,
    paths: ServerPaths,
    timeout: Duration,
    process: Process,
}

enum Process {
    /// Started by this process, with the parameters to restart it.
    Owned {
        process: OwnedProcess,
        server: NatsServer,
        lifetime: Lifetime,
        port: u16,
    },
    /// Started by another process.
    Attached(ForeignProcess),
}

impl Server {
    /// Starts all servers; returns when all listen.
    pub(crate) fn start_all(starts: Vec<Start>) -> Result<Vec<Server>> {
        let mut started = Vec::with_capacity(starts.len());
        for start in starts {
            let server = start.spawn()?;
            started.push((start, server));
        }
        let mut servers = Vec::with_capacity(started.len());
        for (start, server) in started {
            let (process, port) = start.listening(server)?;
            servers.push(Server {
                name: start.name,
                url: format!("nats://127.0.0.1:{port}"),
                paths: start.paths,
                timeout: start.timeout,
                process: Process::Owned {
                    process,
                    server: start.server,
                    lifetime: start.lifetime,
                    port,
                },
            });
        }
        Ok(servers)
    }

    /// Attaches to the server that runs on these files, even if another process started it.
    pub(crate) fn attach(
        paths: ServerPaths,
        name: String,
        url: String,
        timeout: Duration,
    ) -> Option<Server> {
        let process = ForeignProcess::find(&paths.pid(), &paths.config())?;
        Some(Server {
            name,
            url,
            paths,
            timeout,
            process: Process::Attached(process),
        })
    }

    /// The name of the server in its cluster.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of the server, such as `nats://127.0.0.1:41237`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server's process id; after [`Server::stop`], that of the ended process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Owned { process, .. } => process.pid(),
            Process::Attached(process) => process.pid(),
        }
    }

    /// True if the server's process lives, paused or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match &self.process {
            Process::Owned { process, .. } => process.exited().is_none(),
            Process::Attached(process) => process.alive(),
        }
    }

    /// The exit status of the server, if this process started it and it has ended.
    #[must_use]
    pub fn exited(&self) -> Option<ExitStatus> {
        match &self.process {
            Process::Owned { process, .. } => process.exited(),
            Process::Attached(_) => None,
        }
    }

    /// Path of the log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.paths.log()
    }

    /// The last `lines` lines of the server's log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        files::tail(&self.paths.log(), lines)
    }

    /// Stops the server gracefully (SIGTERM; SIGKILL if it does not react). A server that has
    /// already ended is no error.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn stop(&mut self) -> Result<()> {
        self.ask_to_stop()?;
        if !self.wait(STOP_TIMEOUT) {
            self.kill()?;
        }
        Ok(())
    }

    /// Asks the server to stop gracefully; does not wait.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn ask_to_stop(&self) -> Result<()> {
        self.signal(Signal::TERM).map(drop)
    }

    /// Kills the server (SIGKILL) and waits for its end, to simulate a crash.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        // It ends only after the write to a busy disk that it is in.
        self.wait(6 * STOP_TIMEOUT);
        Ok(())
    }

    /// Pauses the server (SIGSTOP): its connections stay open, and nothing moves on them. Waits at
    /// most a second until all of its threads have stopped, for a running thread still answers.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let until = Instant::now() + Duration::from_secs(1);
        while !stands_still(self.pid()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT).map(drop)
    }

    /// Restarts the server on the same port and data; a running server is stopped first. Only for a
    /// server that this process started.
    ///
    /// # Errors
    /// `E-BROKER-START` if it does not listen in time, `E-BROKER-NOT-RUNNING` if another process
    /// started it.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.respawn()?;
        self.wait_until_listening()
    }

    /// Starts an ended server again on the same port and data, without waiting until it listens.
    /// [`Server::exited`] shows if the start failed. Does nothing if the server runs. Only for a
    /// server that this process started.
    ///
    /// # Errors
    /// If the process cannot be started, or another process started it.
    pub fn respawn(&mut self) -> Result<()> {
        let _lock = files::lock(&self.paths.lock())?;
        self.start_again()
    }

    /// Restarts the server with an empty store, as after the loss of its disk. In a cluster the
    /// other servers send it its part of the stored data.
    ///
    /// # Errors
    /// As [`Server::restart`], and if the store cannot be removed.
    pub fn restart_empty(&mut self) -> Result<()> {
        self.stop()?;
        let store = self.paths.store();
        fs::remove_dir_all(&store).map_err(BrokerError::io("removing", &store))?;
        files::private_dir(&store)?;
        self.respawn()?;
        self.wait_until_listening()
    }

    /// [`Server::respawn`] for a caller that holds the lock.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        let Process::Owned {
            process,
            server,
            lifetime,
            port,
        } = &mut self.process
        else {
            return Err(self.not_running());
        };
        if process.exited().is_some() {
            *process = spawn(server, &self.paths, *port, *lifetime)?;
        }
        Ok(())
    }

    /// Waits until a restarted process listens.
    pub(crate) fn wait_until_listening(&self) -> Result<()> {
        match &self.process {
            Process::Owned { process, .. } => {
                wait_until_listening(process, &self.paths, self.timeout).map(drop)
            }
            Process::Attached(_) => Ok(()),
        }
    }

    /// Length of the log. The messages of a reload requested now begin there.
    pub(crate) fn log_length(&self) -> u64 {
        fs::metadata(self.paths.log()).map_or(0, |meta| meta.len())
    }

    /// Asks the server to read its configuration again.
    pub(crate) fn ask_to_reload(&self) -> Result<()> {
        match self.signal(Signal::HUP)? {
            true => Ok(()),
            false => Err(self.not_running()),
        }
    }

    /// Raises the storage limit of the server if its disk has more room than at its start.
    ///
    /// # Errors
    /// If the limit cannot be written, or the server does not run.
    pub fn take_room(&self) -> Result<()> {
        store_limit::renew_limits(&self.paths)?;
        self.ask_to_reload()
    }

    /// Waits until the server has reloaded, by its log from `offset` on.
    pub(crate) fn wait_until_reloaded(&self, offset: u64, deadline: Instant) -> Result<()> {
        loop {
            let news = files::read_from(&self.paths.log(), offset);
            if news.contains("Reloaded server configuration") {
                return Ok(());
            }
            let refused = news.lines().find(|line| line.contains("Failed to reload"));
            let reason = match refused {
                Some(line) => line.to_owned(),
                None if !self.is_running() => "it exited".to_owned(),
                None if Instant::now() >= deadline => format!("no answer in {:?}", self.timeout),
                None => {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
            };
            return Err(BrokerError::Reload {
                reason,
                log: self.log_tail(8),
            });
        }
    }

    pub(crate) fn paths(&self) -> &ServerPaths {
        &self.paths
    }

    /// Effect that dropping the handle has on the server.
    pub(crate) fn lifetime(&self) -> Lifetime {
        match &self.process {
            Process::Owned { lifetime, .. } => *lifetime,
            Process::Attached(_) => Lifetime::Detached,
        }
    }

    fn not_running(&self) -> BrokerError {
        BrokerError::NotRunning {
            state_dir: self.paths.root().to_owned(),
        }
    }

    fn signal(&self, signal: Signal) -> Result<bool> {
        let sent = match &self.process {
            Process::Owned { process, .. } => process.signal(signal),
            Process::Attached(process) => process.signal(signal),
        };
        sent.map_err(BrokerError::io(
            "signalling the server of",
            self.paths.root(),
        ))
    }

    fn wait(&self, limit: Duration) -> bool {
        match &self.process {
            Process::Owned { process, .. } => process.wait(limit).is_some(),
            Process::Attached(process) => process.wait(limit),
        }
    }
}

/// True if every thread of a process is stopped.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let mut states = threads.flatten().map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status"));
        status.unwrap_or_default()
    });
    states.all(|status| status.is_empty() || status.contains("State:\tT"))
}
