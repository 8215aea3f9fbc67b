//! A cluster for a test or a measurement: a real nats-server in its own folder, logins for it, and
//! roles. Roles are threads of this process or processes of the binary. When the cluster is
//! dropped, everything ends and the folder is removed.
//!
//! A failure here fails the test: most functions panic with the reason.

mod broker;
mod folder;
mod links;
mod otlp;
#[cfg(feature = "processes")]
mod processes;
mod thread;
mod wait;

use std::ops::{Deref, DerefMut};
use std::path::Path;

use ::broker::{Broker, BrokerConfig, Login};
use async_nats::{Client, ConnectOptions};
use bus_schemas::subject::Subjects;

pub use broker::TestBroker;
pub use folder::TempDir;
pub use links::{Link, Links};
pub use otlp::Receiver;
#[cfg(feature = "processes")]
pub use processes::{Processes, said_by};
pub use thread::{Asked, RoleThread};
pub use wait::within;

/// The running parts of a cluster.
pub trait RunningRole {
    /// Its broker.
    fn broker(&self) -> &Broker;
}

impl RunningRole for TestBroker {
    fn broker(&self) -> &Broker {
        self
    }
}

/// A cluster in one of two forms. It is a broker alone, with roles that the test plays or serves in
/// a [`RoleThread`]; or each role is a process of the binary (`Processes`).
pub struct TestCluster<R = TestBroker> {
    running: R,
}

impl TestCluster {
    /// The broker of cluster `test` with tenants `a` and `b`.
    ///
    /// # Panics
    /// If no server can be found, installed or started.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&["a", "b"], |_| ())
    }

    /// As [`TestCluster::start`], with these tenants, and any other setting changed by `adjust`.
    ///
    /// # Panics
    /// As [`TestCluster::start`].
    #[must_use]
    pub fn with(tenants: &[&str], adjust: impl FnOnce(&mut BrokerConfig)) -> Self {
        Self {
            running: TestBroker::with("test", tenants, adjust),
        }
    }

    /// A folder for the test's own files, removed with the cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.running.dir()
    }
}

impl<R: RunningRole> TestCluster<R> {
    /// The subjects of the cluster.
    ///
    /// # Panics
    /// If its name is invalid.
    #[must_use]
    pub fn subjects(&self) -> Subjects {
        let credentials = self.running.broker().credentials();
        credentials.subjects().expect("the cluster's name")
    }

    /// User and password of leaders and workers.
    ///
    /// # Panics
    /// If the broker has no such user.
    #[must_use]
    pub fn cluster_login(&self) -> (String, String) {
        let credentials = self.running.broker().credentials();
        let Login { user, password } = credentials.cluster_user.clone().expect("a login of roles");
        (user, password)
    }

    /// User and password of a tenant's programs.
    ///
    /// # Panics
    /// If the broker has no such tenant.
    #[must_use]
    pub fn tenant_login(&self, tenant: &str) -> (String, String) {
        let credentials = self.running.broker().credentials();
        let tenant = credentials.tenant(tenant).expect("a login of the tenant");
        (tenant.login.user.clone(), tenant.login.password.clone())
    }

    /// A connection with the login of leaders and workers.
    ///
    /// # Panics
    /// If the broker refuses it.
    pub async fn connect(&self) -> Client {
        let inbox = self.subjects().cluster_inbox();
        self.connected(self.cluster_login(), inbox, None).await
    }

    /// A connection with the login of a tenant's programs, optionally with a connection name.
    ///
    /// # Panics
    /// If the broker refuses it.
    pub async fn connect_tenant(&self, tenant: &str, name: Option<&str>) -> Client {
        let of = tenant.parse().expect("a tenant's name");
        let inbox = self.subjects().tenant_inbox(&of);
        let login = self.tenant_login(tenant);
        self.connected(login, inbox, name).await
    }

    async fn connected(
        &self,
        (user, password): (String, String),
        inbox: String,
        name: Option<&str>,
    ) -> Client {
        let mut options = ConnectOptions::with_user_and_password(user, password);
        options = options.custom_inbox_prefix(inbox);
        if let Some(name) = name {
            options = options.name(name);
        }
        let connected = options.connect(self.running.broker().credentials().urls());
        connected.await.expect("the broker takes the login")
    }
}

impl<R> Deref for TestCluster<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.running
    }
}

impl<R> DerefMut for TestCluster<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.running
    }
}
