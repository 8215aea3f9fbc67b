//! Names of connections, and their logins.

use crate::id::{IdError, Incarnation, Tenant};

/// Prefix of the user of a tenant's login; the tenant's name follows.
const TENANT_USER: &str = "tenant-";

/// Returns the user of a tenant's login, if Warploom names it.
#[must_use]
pub fn tenant_user(tenant: &Tenant) -> String {
    format!("{TENANT_USER}{tenant}")
}

/// Owner of a connection's login, as reported by the broker. The client chooses a connection's
/// name, but not its owner.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// The cluster's own user: leaders, workers, operators.
    Cluster,
    /// A tenant.
    Tenant(Tenant),
    /// A user that the cluster does not know.
    Unknown,
}

impl Author {
    /// True if it may speak for a tenant's sessions.
    #[must_use]
    pub fn speaks_for(&self, tenant: &Tenant) -> bool {
        match self {
            Self::Cluster => true,
            Self::Tenant(own) => own == tenant,
            Self::Unknown => false,
        }
    }
}

/// The users of a broker and their owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users {
    cluster: Option<String>,
    tenants: std::collections::BTreeMap<String, Tenant>,
}

impl Users {
    /// Creates the users of a broker to which leaders and workers connect as `cluster`; `None` if
    /// it requires no login.
    #[must_use]
    pub fn new(cluster: Option<String>) -> Self {
        let tenants = std::collections::BTreeMap::new();
        Self { cluster, tenants }
    }

    /// Adds a tenant's user with a name other than that of [`tenant_user`].
    #[must_use]
    pub fn with_tenant(mut self, user: String, tenant: Tenant) -> Self {
        self.tenants.insert(user, tenant);
        self
    }

    /// Returns the owner of a connection's login, by the broker's report of its user.
    #[must_use]
    pub fn author(&self, user: Option<&str>) -> Author {
        let user = user.filter(|user| !user.is_empty());
        if user == self.cluster.as_deref() {
            return Author::Cluster;
        }
        let Some(user) = user else {
            return Author::Unknown;
        };
        let named = || user.strip_prefix(TENANT_USER)?.parse().ok();
        let tenant = self.tenants.get(user).cloned().or_else(named);
        tenant.map_or(Author::Unknown, Author::Tenant)
    }
}

/// Names of connections, as in the broker's disconnect events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionName {
    /// `leader-<id>`.
    Leader(crate::LeaderId),
    /// `worker-<incarnation>`.
    Worker(Incarnation),
}

impl std::fmt::Display for ConnectionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Leader(id) => write!(f, "leader-{id}"),
            Self::Worker(incarnation) => write!(f, "worker-{incarnation}"),
        }
    }
}

impl std::str::FromStr for ConnectionName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.split_once('-') {
            Some(("leader", id)) => id.parse().map(Self::Leader),
            Some(("worker", id)) => id.parse().map(Self::Worker),
            _ => Err(IdError::NotHex(text.chars().take(40).collect())),
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeaderId;

    #[test]
    fn connection_names_parse_back() {
        for name in [
            ConnectionName::Leader(LeaderId(3)),
            ConnectionName::Worker(Incarnation(4)),
        ] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert!("client-x".parse::<ConnectionName>().is_err());
    }

    #[test]
    fn a_user_is_the_clusters_a_tenants_or_unknown() {
        let tenant: Tenant = "chat".parse().unwrap();
        let foreign: Tenant = "train".parse().unwrap();
        let users = Users::new(Some("cluster".into())).with_tenant("bob".into(), foreign.clone());
        assert_eq!(users.author(Some("cluster")), Author::Cluster);
        let chat = users.author(Some(&tenant_user(&tenant)));
        assert_eq!(chat, Author::Tenant(tenant.clone()));
        assert_eq!(users.author(Some("bob")), Author::Tenant(foreign.clone()));
        for user in [
            None,
            Some(""),
            Some("tenant-"),
            Some("tenant-a.b"),
            Some("root"),
        ] {
            assert_eq!(users.author(user), Author::Unknown, "{user:?}");
        }
        assert!(chat.speaks_for(&tenant) && !chat.speaks_for(&foreign));
        assert!(Author::Cluster.speaks_for(&foreign) && !Author::Unknown.speaks_for(&foreign));
        // A broker without logins names no user.
        let open = Users::new(None);
        assert_eq!(open.author(None), Author::Cluster);
        assert_eq!(open.author(Some("somebody")), Author::Unknown);
    }
}
