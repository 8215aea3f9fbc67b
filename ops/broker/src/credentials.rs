//! Credentials, the logins of a cluster: one file, readable only by its owner.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use bus_schemas::subject::{Subjects, Users, tenant_user};
use bus_schemas::{BrokerUrl, Tenant};
use serde::{Deserialize, Serialize, Serializer};

use crate::{BrokerError, Result, files};

/// The account that holds the cluster's traffic and its JetStream state.
pub const ACCOUNT: &str = "WL";

/// The account of the system user.
pub const SYSTEM_ACCOUNT: &str = "SYS";

/// A user name and its password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The password: 32 hex digits if Warploom generated it.
    pub password: String,
}

impl Login {
    pub(crate) fn random(user: String) -> Result<Login> {
        let path = Path::new("/dev/urandom");
        let mut bytes = [0; 16];
        File::open(path)
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(BrokerError::io("reading", path))?;
        let password = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Login { user, password })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Logs and panics must not reveal passwords.
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A tenant's login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantLogin {
    /// The tenant's name, as in its subjects.
    #[serde(rename = "name")]
    pub tenant: String,
    /// Its user and password.
    #[serde(flatten)]
    pub login: Login,
}

/// Credentials for a broker, one of ours or an external one.
///
/// A broker without users has URL and cluster only; a tenant's own file has only its login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Address of the broker, such as `nats://127.0.0.1:4222`; several are separated by commas.
    #[serde(serialize_with = "whole")]
    pub url: BrokerUrl,
    /// The cluster's name, the third token of every subject.
    pub cluster: String,
    /// The account that the cluster's users belong to, as in `$SYS.ACCOUNT.<account>.DISCONNECT`.
    #[serde(default = "default_account")]
    pub account: String,
    /// Login of leaders, workers and operators; `None` if the broker needs no login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_user: Option<Login>,
    /// Login that may receive the server's events; `None` if there is no system account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_user: Option<Login>,
    /// The public half of the key that signs the cluster's evidence, 64 hexadecimal digits. `None`
    /// if no command such as `up` created a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_key: Option<String>,
    /// One login per tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantLogin>,
}

/// Serializes the URL with its login, for a file readable only by its owner.
fn whole<S: Serializer>(url: &BrokerUrl, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(url.with_login())
}

impl Credentials {
    /// Credentials for a broker that needs no login.
    pub fn open(url: impl Into<BrokerUrl>, cluster: impl Into<String>) -> Credentials {
        Credentials {
            url: url.into(),
            cluster: cluster.into(),
            account: ACCOUNT.to_owned(),
            cluster_user: None,
            system_user: None,
            evidence_key: None,
            tenants: Vec::new(),
        }
    }

    /// Fresh random logins for a cluster: one cluster user, one system user if `system`.
    pub fn generate(cluster: &str, system: bool) -> Result<Credentials> {
        cluster_name(cluster)?;
        let mut credentials = Credentials::open("", cluster);
        credentials.cluster_user = Some(Login::random("cluster".into())?);
        if system {
            credentials.system_user = Some(Login::random("system".into())?);
        }
        Ok(credentials)
    }

    /// Addresses of the broker, one URL per server.
    #[must_use]
    pub fn urls(&self) -> Vec<&str> {
        self.url.servers()
    }

    /// The part of a total connect timeout that each server gets.
    #[must_use]
    pub fn entry_patience(&self, all: Duration) -> Duration {
        all / u32::try_from(self.urls().len()).unwrap_or(u32::MAX)
    }

    /// The tenant's login, if there is one.
    pub fn tenant(&self, tenant: &str) -> Option<&TenantLogin> {
        self.tenants.iter().find(|login| login.tenant == tenant)
    }

    /// Adds a tenant with a random password; an existing tenant keeps its own.
    pub fn add_tenant(&mut self, tenant: &str) -> Result<TenantLogin> {
        let user = tenant_user(&tenant_name(tenant)?);
        if let Some(login) = self.tenant(tenant) {
            return Ok(login.clone());
        }
        let login = Login::random(user)?;
        let login = TenantLogin {
            tenant: tenant.to_owned(),
            login,
        };
        self.tenants.push(login.clone());
        Ok(login)
    }

    /// Gives an existing tenant a new password.
    pub(crate) fn renew_tenant(&mut self, tenant: &str) -> Result<TenantLogin> {
        let mut logins = self.tenants.iter_mut();
        let login = logins.find(|login| login.tenant == tenant);
        let login = login.ok_or_else(|| BrokerError::UnknownTenant {
            tenant: tenant.to_owned(),
        })?;
        login.login = Login::random(login.login.user.clone())?;
        Ok(login.clone())
    }

    /// The credentials to give to a tenant: URL, cluster and this one login.
    pub fn for_tenant(&self, tenant: &str) -> Result<Credentials> {
        let login = self.tenant(tenant).cloned();
        let login = login.ok_or_else(|| BrokerError::UnknownTenant {
            tenant: tenant.to_owned(),
        })?;
        Ok(Credentials {
            cluster_user: None,
            system_user: None,
            tenants: vec![login],
            ..self.clone()
        })
    }

    /// The subjects of this cluster.
    pub fn subjects(&self) -> Result<Subjects> {
        cluster_name(&self.cluster).map(|cluster| Subjects::new(&cluster))
    }

    /// The prefix that a tenant's client must use for its reply inboxes; it may subscribe to no
    /// other.
    pub fn tenant_inbox(&self, tenant: &str) -> Result<String> {
        Ok(self.subjects()?.tenant_inbox(&tenant_name(tenant)?))
    }

    /// Maps the users in the broker's events to their owners.
    pub fn users(&self) -> Result<Users> {
        let own = self.cluster_user.as_ref().map(|login| login.user.clone());
        self.tenants.iter().try_fold(Users::new(own), |users, it| {
            Ok(users.with_tenant(it.login.user.clone(), tenant_name(&it.tenant)?))
        })
    }

    /// The subject on which the system user is told that a client of the cluster disconnected.
    pub fn disconnect_subject(&self) -> String {
        format!("$SYS.ACCOUNT.{}.DISCONNECT", self.account)
    }

    /// Reads a credentials file. Refuses a file that others than its owner can read.
    pub fn load(path: &Path) -> Result<Credentials> {
        let file = File::open(path).map_err(BrokerError::io("opening", path))?;
        // Checked on the open file, so that the file cannot be swapped between check and read.
        let meta = file
            .metadata()
            .map_err(BrokerError::io("examining", path))?;
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(BrokerError::CredentialsOpen {
                path: path.to_owned(),
                mode,
            });
        }
        const LIMIT: u64 = 16 << 20;
        let mut text = String::new();
        file.take(LIMIT)
            .read_to_string(&mut text)
            .map_err(BrokerError::io("reading", path))?;
        let wrong = |reason| BrokerError::Credentials {
            path: path.to_owned(),
            reason,
        };
        // toml's full message quotes the offending line, which may hold a password.
        let parsed: Credentials =
            toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
        cluster_name(&parsed.cluster)?;
        for login in &parsed.tenants {
            tenant_name(&login.tenant)?;
        }
        Ok(parsed)
    }

    /// Writes the file atomically, with mode 0600.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|error| BrokerError::Credentials {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        files::write_private(
            path,
            &format!("# Who may connect to this broker. Keep it to yourself.\n{text}"),
        )
    }

    /// Reads the file if it exists.
    pub(crate) fn load_if_present(path: &Path) -> Result<Option<Credentials>> {
        match fs::exists(path).map_err(BrokerError::io("examining", path))? {
            true => Credentials::load(path).map(Some),
            false => Ok(None),
        }
    }
}

fn default_account() -> String {
    ACCOUNT.to_owned()
}

/// Names become subject tokens and user names, so wildcards, dots and quotes are out.
pub(crate) fn tenant_name(name: &str) -> Result<Tenant> {
    parse_name("tenant", name)
}

/// A cluster's name obeys the same rules.
pub(crate) fn cluster_name(name: &str) -> Result<Tenant> {
    parse_name("cluster", name)
}

fn parse_name(what: &'static str, name: &str) -> Result<Tenant> {
    name.parse().map_err(|_| BrokerError::Name {
        what,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_cluster::TempDir;

    fn example() -> Credentials {
        let mut credentials = Credentials::generate("demo", true).unwrap();
        credentials.url = "nats://127.0.0.1:4222".into();
        credentials.add_tenant("chat").unwrap();
        credentials.add_tenant("train").unwrap();
        credentials
    }

    #[test]
    fn a_file_gives_back_what_was_saved_and_is_the_owners_alone() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("credentials.toml");
        let credentials = example();
        credentials.save(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert_eq!(Credentials::load(&path).unwrap(), credentials);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("credentials.toml");
        example().save(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Credentials::load(&path).unwrap_err();
        assert_eq!(error.code(), "E-BROKER-CREDENTIALS-OPEN");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_broken_file_is_reported_without_its_passwords() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("credentials.toml");
        files::write_private(&path, "url = 1 # hunter2\n").unwrap();
        let error = Credentials::load(&path).unwrap_err();
        assert_eq!(error.code(), "E-BROKER-CREDENTIALS");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn passwords_are_random_and_never_printed() {
        let (one, other) = (example(), example());
        let password = |credentials: &Credentials| credentials.tenants[0].login.password.clone();
        assert_eq!(password(&one).len(), 32);
        assert_ne!(password(&one), password(&other));
        assert!(!format!("{one:?}").contains(&password(&one)));
    }

    #[test]
    fn a_tenants_file_holds_its_own_login_only() {
        let credentials = example();
        let own = credentials.for_tenant("chat").unwrap();
        assert!(own.cluster_user.is_none() && own.system_user.is_none());
        assert_eq!(own.tenants, [credentials.tenant("chat").unwrap().clone()]);
        assert_eq!(
            credentials.for_tenant("nobody").unwrap_err().code(),
            "E-BROKER-TENANT"
        );
    }

    #[test]
    fn adding_a_tenant_twice_keeps_its_password() {
        let mut credentials = example();
        let before = credentials.tenant("chat").unwrap().clone();
        assert_eq!(credentials.add_tenant("chat").unwrap(), before);
        assert_eq!(credentials.tenants.len(), 2);
    }

    #[test]
    fn names_that_are_no_subject_token_are_refused() {
        for name in [
            "",
            "a.b",
            "*",
            ">",
            "a b",
            "a\"b",
            "ü",
            "A",
            "1a",
            &"x".repeat(33),
        ] {
            assert_eq!(
                tenant_name(name).unwrap_err().code(),
                "E-BROKER-NAME",
                "{name}"
            );
        }
    }

    #[test]
    fn a_hand_written_file_needs_url_and_cluster_only() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("credentials.toml");
        files::write_private(&path, "url = \"nats://nats:4222\"\ncluster = \"prod\"\n").unwrap();
        let credentials = Credentials::load(&path).unwrap();
        assert_eq!(credentials, Credentials::open("nats://nats:4222", "prod"));
        assert_eq!(
            credentials.disconnect_subject(),
            "$SYS.ACCOUNT.WL.DISCONNECT"
        );
    }
}
