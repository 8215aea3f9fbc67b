//! The settings of the broker, and the configuration files written from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::credentials::{cluster_name, tenant_name};
use crate::permissions::{ACCOUNT_FILE, quote};
use crate::routes::{RouteBlock, Routes};
use crate::{BrokerError, Result};

/// Time at which JetStream writes reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SyncInterval {
    /// Every two minutes, the server's own default: survives a crash of the server, but not of the
    /// machine.
    #[default]
    Relaxed,
    /// Before every ack: survives power loss, at about a millisecond per write.
    Always,
}

/// Lifetime of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// The server is terminated (SIGTERM) when the [`Broker`](crate::Broker) is dropped or this
    /// process dies.
    #[default]
    Owned,
    /// As owned, but killed (SIGKILL), even while paused: its data does not matter.
    Ephemeral,
    /// The server runs until it is stopped explicitly.
    Detached,
}

/// Configuration of a broker.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// The folder for configuration, credentials, log and JetStream data; created if missing, with
    /// access for the owner only.
    pub state_dir: PathBuf,
    /// The cluster's name. A state directory belongs to one cluster permanently.
    pub cluster: String,
    /// Tenants that get logins; those already in the state directory stay.
    pub tenants: Vec<String>,
    /// Number of servers: 1, or 3 or 5 with replicated stores. A state directory keeps its number.
    pub servers: usize,
    /// The port of the first server on 127.0.0.1; the others take the following ports. Free ports
    /// if `None`.
    pub port: Option<u16>,
    /// Ports by which several servers connect to one another; free ports if `None`.
    pub routes: Option<Routes>,
    /// The server binary to use, before `$NATS_SERVER` and PATH.
    pub server: Option<PathBuf>,
    /// The folder for an installed server; see [`tools_dir`](crate::tools_dir).
    pub tools_dir: Option<PathBuf>,
    /// Time at which JetStream writes reach the disk.
    pub sync: SyncInterval,
    /// Maximum size of a message, bytes.
    pub max_payload: u32,
    /// Maximum bytes queued for one connection; above it the server drops the connection as too
    /// slow.
    pub max_pending: u64,
    /// Maximum bytes that JetStream may keep on disk. If `None`, the bytes it already keeps and
    /// three quarters of the free space.
    pub max_file_store: Option<u64>,
    /// True to create a system user, which receives disconnect events. Without it, only heartbeats
    /// detect a loss.
    pub system_account: bool,
    /// The public half of the key that signs the cluster's evidence, for its credentials.
    pub evidence_key: Option<String>,
    /// Lifetime of the server.
    pub lifetime: Lifetime,
    /// Timeout for the server to listen, and to reload.
    pub timeout: Duration,
}

impl BrokerConfig {
    /// The defaults: a free port, 8 MiB messages, 64 MiB pending, relaxed sync, a system account.
    pub fn new(state_dir: impl Into<PathBuf>, cluster: impl Into<String>) -> BrokerConfig {
        BrokerConfig {
            state_dir: state_dir.into(),
            cluster: cluster.into(),
            tenants: Vec::new(),
            servers: 1,
            port: None,
            routes: None,
            server: None,
            tools_dir: None,
            sync: SyncInterval::default(),
            max_payload: 8 << 20,
            max_pending: 64 << 20,
            max_file_store: None,
            system_account: true,
            evidence_key: None,
            lifetime: Lifetime::default(),
            // On a loaded machine the recovery of a large store takes seconds.
            timeout: Duration::from_secs(20),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        cluster_name(&self.cluster)?;
        if !SIZES.contains(&self.servers) {
            return Err(BrokerError::Servers {
                servers: self.servers,
            });
        }
        self.tenants
            .iter()
            .try_for_each(|tenant| tenant_name(tenant).map(drop))
    }

    /// The configuration of one server. The port is on the command line and the users are in an
    /// include, so that a restart or a new tenant does not change this file.
    pub(crate) fn render(
        &self,
        paths: &ServerPaths,
        routes: Option<&RouteBlock>,
    ) -> Result<String> {
        let sync = match self.sync {
            SyncInterval::Relaxed => "\"2m\"",
            SyncInterval::Always => "always",
        };
        let users = match routes {
            None => USERS_FILE.to_owned(),
            Some(_) => format!("../{USERS_FILE}"),
        };
        Ok(format!(
            "# Written by warploom at every start; edits are lost.\n\
             server_name: {name}\n\
             host: \"127.0.0.1\"\n\
             max_payload: {payload}\n\
             max_pending: {pending}\n\
             pid_file: {pid}\n\
             ports_file_dir: {ports}\n\
             log_file: {log}\n\
             logfile_size_limit: 16777216\n\
             logfile_max_num: 2\n\
             jetstream {{\n  store_dir: {store}\n  sync_interval: {sync}\n  include {limit}\n}}\n\
             {routes}\
             include {users}\n",
            name = quote(&self.server_name(paths.number())),
            payload = self.max_payload,
            pending = self.max_pending.max(u64::from(self.max_payload)),
            pid = quote_path(&paths.pid())?,
            ports = quote_path(&paths.ports_dir())?,
            log = quote_path(&paths.log())?,
            store = quote_path(&paths.store())?,
            routes = routes.map(RouteBlock::render).unwrap_or_default(),
            limit = quote(LIMIT_FILE),
            users = quote(&users),
        ))
    }

    /// The name of a server. The others recognize the server by it, whatever its port.
    pub(crate) fn server_name(&self, number: Option<usize>) -> String {
        match number {
            None => format!("warploom-{}", self.cluster),
            Some(number) => format!("warploom-{}-{number}", self.cluster),
        }
    }
}

/// Possible numbers of servers: an even number survives no more losses than the odd number below
/// it.
pub const SIZES: [usize; 3] = [1, 3, 5];

const LOCK_FILE: &str = "lock";
const USERS_FILE: &str = "users.conf";
const LIMIT_FILE: &str = "limit.conf";

/// The files of a state directory.
#[derive(Clone, Debug)]
pub(crate) struct StatePaths {
    root: PathBuf,
}

impl StatePaths {
    /// Makes `root` absolute: the server names its files by it, and so does the search for the
    /// server that runs on it.
    pub(crate) fn new(root: &Path) -> Result<StatePaths> {
        let root = std::path::absolute(root).map_err(BrokerError::io("resolving", root))?;
        Ok(StatePaths { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn users(&self) -> PathBuf {
        self.root.join(USERS_FILE)
    }

    /// The file with the limit on what the servers may reserve in all; included by the users' file
    /// of several servers.
    pub(crate) fn account(&self) -> PathBuf {
        self.root.join(ACCOUNT_FILE)
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.root.join("credentials.toml")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(LOCK_FILE)
    }

    /// The files of a single server, in the folder of the cluster's files.
    pub(crate) fn alone(&self) -> ServerPaths {
        ServerPaths {
            root: self.root.clone(),
            number: None,
        }
    }

    /// The files of server `number` of several, counted from 1.
    pub(crate) fn numbered(&self, number: usize) -> ServerPaths {
        ServerPaths {
            root: self.root.join(format!("server-{number}")),
            number: Some(number),
        }
    }

    /// The files of each of `servers` servers.
    pub(crate) fn of(&self, servers: usize) -> Vec<ServerPaths> {
        match servers {
            1 => vec![self.alone()],
            more => (1..=more).map(|number| self.numbered(number)).collect(),
        }
    }

    /// The files of all servers started here before; empty if there was none.
    pub(crate) fn found(&self) -> Vec<ServerPaths> {
        let numbered = |number: &usize| self.numbered(*number).root().is_dir();
        match (1..).take_while(numbered).count() {
            0 if self.alone().config().is_file() => vec![self.alone()],
            0 => Vec::new(),
            several => self.of(several),
        }
    }
}

/// The files of one server.
#[derive(Clone, Debug)]
pub(crate) struct ServerPaths {
    root: PathBuf,
    number: Option<usize>,
}

impl ServerPaths {
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The number of the server, if it is one of several.
    pub(crate) fn number(&self) -> Option<usize> {
        self.number
    }

    /// The files of its broker, if it is one of several servers.
    pub(crate) fn state(&self) -> Option<StatePaths> {
        self.number?;
        let root = self.root.parent()?.to_owned();
        Some(StatePaths { root })
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root.join("nats-server.conf")
    }

    /// The lock file, held while a process starts a server of the broker.
    pub(crate) fn lock(&self) -> PathBuf {
        let broker = match self.number {
            None => Some(self.root.as_path()),
            Some(_) => self.root.parent(),
        };
        broker.unwrap_or(&self.root).join(LOCK_FILE)
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("nats-server.log")
    }

    /// The file for the server's output before it has read its log setting.
    pub(crate) fn output(&self) -> PathBuf {
        self.root.join("nats-server.out")
    }

    pub(crate) fn pid(&self) -> PathBuf {
        self.root.join("nats-server.pid")
    }

    pub(crate) fn ports_dir(&self) -> PathBuf {
        self.root.join("ports")
    }

    /// The file with JetStream's storage limit; written before each start, included by the
    /// configuration.
    pub(crate) fn limit(&self) -> PathBuf {
        self.root.join(LIMIT_FILE)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.root.join("store")
    }
}

fn quote_path(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| BrokerError::Io {
        what: "writing into a configuration file",
        path: path.to_owned(),
        error: std::io::Error::new(std::io::ErrorKind::InvalidInput, "not valid UTF-8"),
    })?;
    Ok(quote(text))
}
