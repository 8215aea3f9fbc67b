//! A broker for tests: a real nats-server in its own directory, removed when dropped.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::OnceLock;

use broker::{Broker, BrokerConfig, Lifetime, NatsServer, Result};

use crate::folder::TempDir;

/// A [`Broker`] with a fresh state directory on a free port. Any number can run at once.
pub struct TestBroker {
    // Dropped before the directory that it runs in.
    broker: Broker,
    dir: TempDir,
}

impl TestBroker {
    /// Cluster `test` with tenants `a` and `b`.
    ///
    /// # Panics
    /// With the error's text if no server can be found, installed or started, because a test cannot
    /// go on without one.
    #[must_use]
    pub fn start() -> TestBroker {
        TestBroker::with("test", &["a", "b"], |_| ())
    }

    /// A cluster with these tenants, and any other setting changed by `adjust`.
    ///
    /// # Panics
    /// As [`TestBroker::start`].
    #[must_use]
    pub fn with(
        cluster: &str,
        tenants: &[&str],
        adjust: impl FnOnce(&mut BrokerConfig),
    ) -> TestBroker {
        TestBroker::try_with(cluster, tenants, adjust).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`TestBroker::with`], but returns the error.
    ///
    /// # Errors
    /// As [`Broker::start`].
    ///
    /// # Panics
    /// If no folder can be created for it.
    pub fn try_with(
        cluster: &str,
        tenants: &[&str],
        adjust: impl FnOnce(&mut BrokerConfig),
    ) -> Result<TestBroker> {
        let dir = TempDir::new().expect("a folder");
        let mut config = BrokerConfig::new(dir.path().join("broker"), cluster);
        config.tenants = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
        config.lifetime = Lifetime::Ephemeral;
        adjust(&mut config);
        if config.server.is_none() {
            config.server = Some(found_server()?.path);
        }
        let broker = Broker::start(&config)?;
        Ok(TestBroker { broker, dir })
    }

    /// A directory for the test's other files, removed with the broker.
    #[must_use]
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

/// The server, searched for once per process.
fn found_server() -> Result<NatsServer> {
    static FOUND: OnceLock<NatsServer> = OnceLock::new();
    if let Some(server) = FOUND.get() {
        return Ok(server.clone());
    }
    let server = NatsServer::find(None, None)?;
    Ok(FOUND.get_or_init(|| server).clone())
}
