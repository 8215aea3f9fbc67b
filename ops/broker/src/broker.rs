//! A running broker of one server or several: started, reloaded, restarted, stopped.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::binary::NatsServer;
use crate::config::{BrokerConfig, Lifetime, StatePaths};
use crate::credentials::{Credentials, Login, TenantLogin};
use crate::permissions::render_accounts;
use crate::process::ForeignProcess;
use crate::routes::Routes;
use crate::server::Server;
use crate::start::Start;
use crate::{BrokerError, Result, files, store_limit};

/// The nats-servers of a state directory: started by this process, or attached to.
pub struct Broker {
    paths: StatePaths,
    credentials: Credentials,
    timeout: Duration,
    servers: Vec<Server>,
}

impl Broker {
    /// Finds or installs a server, writes configurations and credentials, and starts one server or
    /// several. Returns when all listen; several servers then elect a leader for their stores,
    /// which takes about a second. Existing logins in the state directory are kept.
    ///
    /// # Errors
    /// Any [`BrokerError`].
    pub fn start(config: &BrokerConfig) -> Result<Broker> {
        let server = NatsServer::find(config.server.as_deref(), config.tools_dir.as_deref())?;
        config.check()?;
        let paths = StatePaths::new(&config.state_dir)?;
        files::private_dir(paths.root())?;
        let _lock = files::lock(&paths.lock())?;
        refuse_others(config, &paths)?;
        let mut credentials = prepare_credentials(config, &paths)?;
        let users = render_accounts(&credentials, config.servers > 1)?;
        files::write_private(&paths.users(), &users)?;
        let starts = prepare_servers(config, &paths, &server)?;
        let servers = Server::start_all(starts)?;
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        credentials.url = urls.join(",").into();
        credentials.save(&paths.credentials())?;
        Ok(Broker {
            paths,
            credentials,
            timeout: config.timeout,
            servers,
        })
    }

    /// Attaches to the servers that run on `state_dir`, even if another process started them.
    /// Dropping the result leaves them running.
    ///
    /// # Errors
    /// `E-BROKER-NOT-RUNNING` if none runs.
    pub fn attach(state_dir: &Path) -> Result<Broker> {
        let paths = StatePaths::new(state_dir)?;
        let timeout = BrokerConfig::new(state_dir, "").timeout;
        let not_running = || BrokerError::NotRunning {
            state_dir: paths.root().to_owned(),
        };
        let found: Vec<_> = paths
            .found()
            .into_iter()
            .filter(|server| ForeignProcess::find(&server.pid(), &server.config()).is_some())
            .collect();
        if found.is_empty() {
            return Err(not_running());
        }
        let credentials = Credentials::load(&paths.credentials())?;
        let named = BrokerConfig::new(state_dir, &credentials.cluster);
        let urls = credentials.urls();
        let servers = found.into_iter().filter_map(|server| {
            let name = named.server_name(server.number());
            let url = urls.get(server.number().unwrap_or(1) - 1);
            let url = url.copied().unwrap_or_default().to_owned();
            Server::attach(server, name, url, timeout)
        });
        let servers: Vec<_> = servers.collect();
        Ok(Broker {
            paths,
            credentials,
            timeout,
            servers,
        })
    }

    /// Address of the broker, such as `nats://127.0.0.1:41237`; several servers are separated by
    /// commas.
    #[must_use]
    pub fn url(&self) -> &str {
        self.credentials.url.with_login()
    }

    /// Every login, as in the credentials file.
    #[must_use]
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The credentials file, mode 0600.
    #[must_use]
    pub fn credentials_path(&self) -> PathBuf {
        self.paths.credentials()
    }

    /// Its servers.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Its servers, mutably.
    pub fn servers_mut(&mut self) -> &mut [Server] {
        &mut self.servers
    }

    /// The process id of the first server; after [`Broker::stop`], that of the ended process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.servers.first().map_or(0, Server::pid)
    }

    /// True if the processes of all servers live.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.servers.iter().all(Server::is_running)
    }

    /// The last `lines` lines of each server's log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> Vec<String> {
        let tails = self.servers.iter().map(|server| server.log_tail(lines));
        tails.flatten().collect()
    }

    /// Adds a tenant and makes the running servers accept it. An existing tenant keeps its
    /// password. Connections of others stay up.
    ///
    /// # Errors
    /// `E-BROKER-NAME`, `E-BROKER-RELOAD`, or a file that cannot be written.
    pub fn add_tenant(&mut self, tenant: &str) -> Result<TenantLogin> {
        let mut added = None;
        self.change_users(|credentials| {
            added = Some(credentials.add_tenant(tenant)?);
            Ok(())
        })?;
        added.ok_or_else(|| BrokerError::UnknownTenant {
            tenant: tenant.to_owned(),
        })
    }

    /// Gives a tenant a new password. The old password stops working, and the servers close the
    /// connections that used it. Connections of others stay up.
    ///
    /// # Errors
    /// `E-BROKER-TENANT`, `E-BROKER-RELOAD`, or a file that cannot be written.
    pub fn renew_tenant(&mut self, tenant: &str) -> Result<TenantLogin> {
        let mut renewed = None;
        self.change_users(|credentials| {
            renewed = Some(credentials.renew_tenant(tenant)?);
            Ok(())
        })?;
        renewed.ok_or_else(|| BrokerError::UnknownTenant {
            tenant: tenant.to_owned(),
        })
    }

    /// Removes a tenant's login; the servers close its connections.
    ///
    /// # Errors
    /// `E-BROKER-TENANT`, `E-BROKER-RELOAD`, or a file that cannot be written.
    pub fn remove_tenant(&mut self, tenant: &str) -> Result<()> {
        self.change_users(|credentials| {
            let before = credentials.tenants.len();
            credentials.tenants.retain(|login| login.tenant != tenant);
            match credentials.tenants.len() < before {
                true => Ok(()),
                false => Err(BrokerError::UnknownTenant {
                    tenant: tenant.to_owned(),
                }),
            }
        })
    }

    /// Replaces the list of tenants: new tenants get a login, missing ones lose theirs.
    ///
    /// # Errors
    /// `E-BROKER-NAME`, `E-BROKER-RELOAD`, or a file that cannot be written.
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

    /// Changes the users in the file and reloads. Reads the file first, for other processes may
    /// have changed it.
    fn change_users(&mut self, change: impl FnOnce(&mut Credentials) -> Result<()>) -> Result<()> {
        let _lock = files::lock(&self.paths.lock())?;
        let before = Credentials::load(&self.paths.credentials())?;
        let mut after = before.clone();
        change(&mut after)?;
        if after != before {
            // Servers started by an earlier build have no limit.
            let limited = self.paths.account().is_file();
            let users = render_accounts(&after, limited)?;
            files::write_private(&self.paths.users(), &users)?;
            after.save(&self.paths.credentials())?;
            if self.servers.iter().any(Server::is_running) {
                self.reload()?;
            }
        }
        self.credentials = after;
        Ok(())
    }

    /// Makes all running servers read their configuration again; returns when they have. Servers
    /// that do not run read it at their next start.
    ///
    /// # Errors
    /// `E-BROKER-NOT-RUNNING` if none runs, `E-BROKER-RELOAD` if a server did not reload.
    pub fn reload(&self) -> Result<()> {
        let running = self.servers.iter().filter(|server| server.is_running());
        let asked: Vec<_> = running
            .map(|server| (server, server.log_length()))
            .collect();
        if asked.is_empty() {
            return Err(BrokerError::NotRunning {
                state_dir: self.paths.root().to_owned(),
            });
        }
        for (server, _) in &asked {
            server.ask_to_reload()?;
        }
        let deadline = Instant::now() + self.timeout;
        asked
            .iter()
            .try_for_each(|(server, offset)| server.wait_until_reloaded(*offset, deadline))
    }

    /// Stops all servers gracefully (SIGTERM; SIGKILL if a server does not react). Servers that
    /// have already ended are no error.
    ///
    /// # Errors
    /// If a server cannot be signalled.
    pub fn stop(&mut self) -> Result<()> {
        self.servers.iter().try_for_each(Server::ask_to_stop)?;
        self.servers.iter_mut().try_for_each(Server::stop)
    }

    /// Kills all servers (SIGKILL) and waits for their end, to simulate a crash.
    ///
    /// # Errors
    /// If a server cannot be signalled.
    pub fn kill(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::kill)
    }

    /// Restarts all servers on the same ports and data; running servers are stopped first. Only for
    /// servers that this process started.
    ///
    /// # Errors
    /// As [`Server::restart`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let _lock = files::lock(&self.paths.lock())?;
        self.servers.iter_mut().try_for_each(Server::start_again)?;
        self.servers
            .iter()
            .try_for_each(Server::wait_until_listening)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let lifetime = self.servers.first().map(Server::lifetime);
        // No caller can receive the error; at worst the parent-death signal stops the servers
        // later.
        let _ = match lifetime {
            Some(Lifetime::Owned) => self.stop(),
            Some(Lifetime::Ephemeral) => self.kill(),
            Some(Lifetime::Detached) | None => Ok(()),
        };
    }
}

/// Refuses a state directory with a running server, or one made for another number of servers.
fn refuse_others(config: &BrokerConfig, paths: &StatePaths) -> Result<()> {
    let found = paths.found();
    let state_dir = || paths.root().to_owned();
    for server in &found {
        if let Some(running) = ForeignProcess::find(&server.pid(), &server.config()) {
            return Err(BrokerError::Running {
                state_dir: state_dir(),
                pid: running.pid(),
            });
        }
    }
    match found.len() {
        0 => Ok(()),
        same if same == config.servers => Ok(()),
        other => Err(BrokerError::OtherServers {
            state_dir: state_dir(),
            found: other,
            wanted: config.servers,
        }),
    }
}

/// Writes the files of all servers and returns the start parameters of each.
fn prepare_servers(
    config: &BrokerConfig,
    paths: &StatePaths,
    server: &NatsServer,
) -> Result<Vec<Start>> {
    let blocks = match config.servers {
        1 => Vec::new(),
        several => {
            let routes = match &config.routes {
                Some(routes) => routes.clone(),
                None => Routes::free(several)
                    .map_err(BrokerError::io("finding free ports for", paths.root()))?,
            };
            routes.check(several)?;
            // Only the servers know the secret, each from its own configuration.
            let secret = Login::random("route".into())?.password;
            routes.blocks(&config.cluster, &secret)
        }
    };
    let mut starts = Vec::with_capacity(config.servers);
    for (index, files) in paths.of(config.servers).into_iter().enumerate() {
        for dir in [files.root(), &files.store(), &files.ports_dir()] {
            files::private_dir(dir)?;
        }
        let text = config.render(&files, blocks.get(index))?;
        files::write_private(&files.config(), &text)?;
        let port = config
            .port
            .map(|first| first.saturating_add(u16::try_from(index).unwrap_or(u16::MAX)));
        starts.push(Start {
            name: config.server_name(files.number()),
            paths: files,
            server: server.clone(),
            lifetime: config.lifetime,
            port,
            timeout: config.timeout,
        });
    }
    let all = paths.of(config.servers);
    all.iter()
        .try_for_each(|files| store_limit::write_limit(files, config.max_file_store))?;
    if config.servers > 1 {
        store_limit::write_account_limit(paths, &all)?;
    }
    Ok(starts)
}

/// The logins of an earlier start, if any, plus those that the configuration requests.
fn prepare_credentials(config: &BrokerConfig, paths: &StatePaths) -> Result<Credentials> {
    let path = paths.credentials();
    let mut fresh = Credentials::generate(&config.cluster, config.system_account)?;
    fresh.evidence_key = config.evidence_key.clone();
    let Some(mut credentials) = Credentials::load_if_present(&path)? else {
        let mut credentials = fresh;
        return add_tenants(&mut credentials, config).map(|()| credentials);
    };
    if credentials.cluster != config.cluster {
        let (found, wanted) = (credentials.cluster, config.cluster.clone());
        return Err(BrokerError::Cluster {
            path,
            found,
            wanted,
        });
    }
    credentials.cluster_user = credentials.cluster_user.or(fresh.cluster_user);
    credentials.evidence_key = fresh.evidence_key.or(credentials.evidence_key);
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
