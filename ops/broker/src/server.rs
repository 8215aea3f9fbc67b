//! A running broker: started, reloaded, restarted, stopped.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::binary::NatsServer;
use crate::config::{BrokerConfig, Lifetime, StatePaths};
use crate::credentials::{Credentials, TenantLogin};
use crate::permissions::render_accounts;
use crate::process::{ForeignProcess, OwnedProcess, Signal};
use crate::{Error, Result, files};

/// How long a server that was asked to stop may take before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A nats-server on a state directory: one that this process started, or one it attached to.
pub struct Broker {
    paths: StatePaths,
    credentials: Credentials,
    timeout: Duration,
    process: Process,
}

enum Process {
    /// Ours, with what is needed to start it again.
    Owned {
        process: OwnedProcess,
        server: NatsServer,
        lifetime: Lifetime,
        port: u16,
    },
    /// Started by another process.
    Attached(ForeignProcess),
}

impl Broker {
    /// Finds or installs a server, writes its configuration and credentials, and starts it.
    /// Returns when it listens. Logins already in the state directory are kept.
    pub fn start(config: &BrokerConfig) -> Result<Broker> {
        let server = NatsServer::find(config.server.as_deref(), config.tools_dir.as_deref())?;
        Broker::start_with(server, config)
    }

    /// [`Broker::start`] with a server found before.
    pub(crate) fn start_with(server: NatsServer, config: &BrokerConfig) -> Result<Broker> {
        config.check()?;
        let paths = StatePaths::new(&config.state_dir)?;
        for dir in [paths.root(), &paths.store(), &paths.ports_dir()] {
            files::private_dir(dir)?;
        }
        let _lock = files::lock(&paths.lock())?;
        if let Some(running) = ForeignProcess::find(&paths.pid(), &paths.config()) {
            let state_dir = paths.root().to_owned();
            return Err(Error::Running {
                state_dir,
                pid: running.pid(),
            });
        }
        let mut credentials = prepare_credentials(config, &paths)?;
        files::write_private(&paths.config(), &config.render(&paths)?)?;
        files::write_private(&paths.users(), &render_accounts(&credentials)?)?;

        let process = spawn(&server, &paths, config.port, config.lifetime)?;
        let port = wait_until_listening(&process, &paths, config.timeout)?;
        credentials.url = format!("nats://127.0.0.1:{port}");
        credentials.save(&paths.credentials())?;
        let process = Process::Owned {
            process,
            server,
            lifetime: config.lifetime,
            port,
        };
        Ok(Broker {
            paths,
            credentials,
            timeout: config.timeout,
            process,
        })
    }

    /// Takes hold of the server that runs on `state_dir`, whoever started it; dropping this
    /// leaves it running.
    pub fn attach(state_dir: &Path) -> Result<Broker> {
        let paths = StatePaths::new(state_dir)?;
        let process = ForeignProcess::find(&paths.pid(), &paths.config()).ok_or_else(|| {
            Error::NotRunning {
                state_dir: paths.root().to_owned(),
            }
        })?;
        let credentials = Credentials::load(&paths.credentials())?;
        let timeout = BrokerConfig::new(state_dir, "").timeout;
        Ok(Broker {
            paths,
            credentials,
            timeout,
            process: Process::Attached(process),
        })
    }

    /// Where it listens, such as `nats://127.0.0.1:41237`.
    pub fn url(&self) -> &str {
        &self.credentials.url
    }

    /// Every login, as in the credentials file.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The credentials file, mode 0600.
    pub fn credentials_path(&self) -> PathBuf {
        self.paths.credentials()
    }

    /// The server's process id; that of the dead one after [`Broker::stop`].
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Owned { process, .. } => process.pid(),
            Process::Attached(process) => process.pid(),
        }
    }

    /// Whether the server's process lives.
    pub fn is_running(&self) -> bool {
        match &self.process {
            Process::Owned { process, .. } => process.exited().is_none(),
            Process::Attached(process) => process.alive(),
        }
    }

    /// The last `lines` lines of the server's log.
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        log_tail(&self.paths, lines)
    }

    /// Adds a tenant and makes the running server accept it. A tenant that is there keeps its
    /// password. Connections of others stay up.
    pub fn add_tenant(&mut self, tenant: &str) -> Result<TenantLogin> {
        let mut added = None;
        self.change_users(|credentials| {
            added = Some(credentials.add_tenant(tenant)?);
            Ok(())
        })?;
        added.ok_or_else(|| Error::UnknownTenant {
            tenant: tenant.to_owned(),
        })
    }

    /// Removes a tenant's login; its connections are closed by the server.
    pub fn remove_tenant(&mut self, tenant: &str) -> Result<()> {
        self.change_users(|credentials| {
            let before = credentials.tenants.len();
            credentials.tenants.retain(|login| login.tenant != tenant);
            match credentials.tenants.len() < before {
                true => Ok(()),
                false => Err(Error::UnknownTenant {
                    tenant: tenant.to_owned(),
                }),
            }
        })
    }

    /// Makes `tenants` the list of tenants: new ones get a login, those missing lose theirs.
    pub fn set_users(&mut self, tenants: &[&str]) -> Result<()> {
        self.change_users(|credentials| {
            credentials
                .tenants
                .retain(|login| tenants.contains(&login.tenant.as_str()));
            tenants
                .iter()
                .try_for_each(|tenant| credentials.add_tenant(tenant).map(drop))
        })
    }

    /// Changes the users in the file, which other processes may have changed too, and reloads.
    fn change_users(&mut self, change: impl FnOnce(&mut Credentials) -> Result<()>) -> Result<()> {
        let _lock = files::lock(&self.paths.lock())?;
        let before = Credentials::load(&self.paths.credentials())?;
        let mut after = before.clone();
        change(&mut after)?;
        if after != before {
            files::write_private(&self.paths.users(), &render_accounts(&after)?)?;
            after.save(&self.paths.credentials())?;
            if self.is_running() {
                self.reload()?;
            }
        }
        self.credentials = after;
        Ok(())
    }

    /// Makes the server read its configuration again; returns when it has.
    pub fn reload(&self) -> Result<()> {
        let log = self.paths.log();
        let offset = fs::metadata(&log).map_or(0, |meta| meta.len());
        if !self.signal(Signal::Hangup)? {
            return Err(Error::NotRunning {
                state_dir: self.paths.root().to_owned(),
            });
        }
        let deadline = Instant::now() + self.timeout;
        loop {
            let news = files::read_from(&log, offset);
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
            return Err(Error::Reload {
                reason,
                log: self.log_tail(8),
            });
        }
    }

    /// Stops the server in good order (SIGTERM; SIGKILL if it does not heed it). No error if it
    /// has ended already.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::Terminate)?;
        if !self.wait(STOP_PATIENCE) {
            self.signal(Signal::Kill)?;
            self.wait(STOP_PATIENCE);
        }
        Ok(())
    }

    /// Kills the server (SIGKILL) and waits for its end, as a crash would have it.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::Kill)?;
        self.wait(STOP_PATIENCE);
        Ok(())
    }

    /// Starts the server again on the same port and data, stopping it first if it runs.
    /// Only for a server this process started.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let _lock = files::lock(&self.paths.lock())?;
        let Process::Owned {
            process,
            server,
            lifetime,
            port,
        } = &mut self.process
        else {
            return Err(Error::NotRunning {
                state_dir: self.paths.root().to_owned(),
            });
        };
        *process = spawn(server, &self.paths, Some(*port), *lifetime)?;
        wait_until_listening(process, &self.paths, self.timeout).map(drop)
    }

    fn signal(&self, signal: Signal) -> Result<bool> {
        let sent = match &self.process {
            Process::Owned { process, .. } => process.signal(signal),
            Process::Attached(process) => process.signal(signal),
        };
        sent.map_err(Error::io("signalling the server of", self.paths.root()))
    }

    fn wait(&self, limit: Duration) -> bool {
        match &self.process {
            Process::Owned { process, .. } => process.wait(limit).is_some(),
            Process::Attached(process) => process.wait(limit),
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let lifetime = match &self.process {
            Process::Owned { lifetime, .. } => *lifetime,
            Process::Attached(_) => Lifetime::Detached,
        };
        // Nobody is left to tell; at worst the parent-death signal does the same later.
        let _ = match lifetime {
            Lifetime::Owned => self.stop(),
            Lifetime::Ephemeral => self.kill(),
            Lifetime::Detached => Ok(()),
        };
    }
}

/// The logins of an earlier start if there are any, plus what the configuration asks for.
fn prepare_credentials(config: &BrokerConfig, paths: &StatePaths) -> Result<Credentials> {
    let path = paths.credentials();
    let fresh = Credentials::generate(&config.cluster, config.system_account)?;
    let Some(mut credentials) = Credentials::load_if_present(&path)? else {
        let mut credentials = fresh;
        return add_tenants(&mut credentials, config).map(|()| credentials);
    };
    if credentials.cluster != config.cluster {
        let (found, wanted) = (credentials.cluster, config.cluster.clone());
        return Err(Error::Cluster {
            path,
            found,
            wanted,
        });
    }
    credentials.cluster_user = credentials.cluster_user.or(fresh.cluster_user);
    credentials.system_user = match config.system_account {
        true => credentials.system_user.or(fresh.system_user),
        false => None,
    };
    add_tenants(&mut credentials, config).map(|()| credentials)
}

fn add_tenants(credentials: &mut Credentials, config: &BrokerConfig) -> Result<()> {
    config
        .tenants
        .iter()
        .try_for_each(|tenant| credentials.add_tenant(tenant).map(drop))
}

fn spawn(
    server: &NatsServer,
    paths: &StatePaths,
    port: Option<u16>,
    lifetime: Lifetime,
) -> Result<OwnedProcess> {
    // Ports files of killed servers stay behind.
    for entry in fs::read_dir(paths.ports_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let _ = fs::remove_file(entry.path());
    }
    let _ = fs::remove_file(paths.pid());
    let output = paths.output();
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&output)
        .map_err(Error::io("opening", &output))?;
    let errors = file.try_clone().map_err(Error::io("opening", &output))?;
    let mut command = Command::new(&server.path);
    let port = port.map_or("-1".to_owned(), |port| port.to_string());
    command
        .arg("--config")
        .arg(paths.config())
        .args(["--port", &port]);
    command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .current_dir(paths.root());
    let at_our_death = match lifetime {
        Lifetime::Owned => Some(Signal::Terminate),
        Lifetime::Ephemeral => Some(Signal::Kill),
        Lifetime::Detached => None,
    };
    OwnedProcess::spawn(command, at_our_death).map_err(Error::io("starting", &server.path))
}

/// Waits for the ports file and gives the port; kills the server if that takes too long.
fn wait_until_listening(
    process: &OwnedProcess,
    paths: &StatePaths,
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
                let _ = process.signal(Signal::Kill);
                format!("it did not listen within {limit:?}")
            }
        };
        let mut log = files::tail(&paths.output(), 8);
        log.extend(log_tail(paths, 8));
        return Err(Error::Start { reason, log });
    }
}

fn log_tail(paths: &StatePaths, lines: usize) -> Vec<String> {
    files::tail(&paths.log(), lines)
}

/// Reads `<binary>_<pid>.ports`. The server creates it before it fills it, so a file that does
/// not parse yet is one that is not there yet.
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
