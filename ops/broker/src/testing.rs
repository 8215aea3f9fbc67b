//! A broker for tests: a real nats-server in a directory of its own, gone when dropped.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Broker, BrokerConfig, Error, Lifetime, NatsServer, Result};

/// A directory under the system's temporary one, removed with all it holds when dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes a fresh one, for the owner only.
    pub fn new() -> Result<TempDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("warploom-{}-{number}", std::process::id());
            let path = env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TempDir(path)),
                // Left behind by a dead process with our id, so not ours to use.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("creating the directory", &path)(error)),
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A [`Broker`] with a fresh state directory on a free port. Any number can run at once.
pub struct TestBroker {
    // Dropped before the directory it runs in.
    broker: Broker,
    dir: TempDir,
}

impl TestBroker {
    /// Cluster `test` with tenants `a` and `b`.
    ///
    /// # Panics
    /// With the error's text if no server can be found, installed or started: a test cannot go
    /// on without one.
    pub fn start() -> TestBroker {
        TestBroker::with("test", &["a", "b"], |_| ())
    }

    /// A cluster with these tenants, and any other setting changed by `adjust`.
    ///
    /// # Panics
    /// As [`TestBroker::start`].
    pub fn with(
        cluster: &str,
        tenants: &[&str],
        adjust: impl FnOnce(&mut BrokerConfig),
    ) -> TestBroker {
        TestBroker::try_with(cluster, tenants, adjust).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`TestBroker::with`], with the error given back.
    pub fn try_with(
        cluster: &str,
        tenants: &[&str],
        adjust: impl FnOnce(&mut BrokerConfig),
    ) -> Result<TestBroker> {
        let dir = TempDir::new()?;
        let mut config = BrokerConfig::new(dir.path().join("broker"), cluster);
        config.tenants = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
        config.lifetime = Lifetime::Ephemeral;
        adjust(&mut config);
        let broker = match config.server {
            Some(_) => Broker::start(&config)?,
            None => Broker::start_with(found_server()?, &config)?,
        };
        Ok(TestBroker { broker, dir })
    }

    /// A directory for the test's other files, removed with the broker.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

impl Deref for TestBroker {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.broker
    }
}

impl DerefMut for TestBroker {
    fn deref_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }
}

/// The server, looked for once per process.
fn found_server() -> Result<NatsServer> {
    static FOUND: OnceLock<NatsServer> = OnceLock::new();
    if let Some(server) = FOUND.get() {
        return Ok(server.clone());
    }
    let server = NatsServer::find(None, None)?;
    Ok(FOUND.get_or_init(|| server).clone())
}
