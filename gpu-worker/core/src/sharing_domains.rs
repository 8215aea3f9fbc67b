//! Sharing domains: the sessions that may share memory with each other.

use std::collections::BTreeMap;
use std::str::FromStr;

use bus_schemas::Tenant;
use device::{SharingDomain, TenantNumber};

use crate::content::Pool;

/// Scope in which sessions share equal memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// All sessions on the device: by timing, a tenant can find out if another one holds the same
    /// bytes.
    All,
    /// Sessions of the same tenant.
    #[default]
    Tenant,
    /// No sharing.
    Off,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "tenant" => Ok(Self::Tenant),
            "off" => Ok(Self::Off),
            _ => Err(format!(
                "{text:?} is no scope of sharing: all, tenant or off"
            )),
        }
    }
}

/// The owner of a session, for the device's division among owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Number of the tenant.
    pub tenant: TenantNumber,
    /// The domain of the session, if it shares memory at all.
    pub domain: Option<SharingDomain>,
}

/// The domains of one worker.
#[derive(Debug)]
pub struct SharingDomains {
    share: Share,
    /// Tenants that have had a session here.
    tenants: BTreeMap<Tenant, TenantNumber>,
}

impl SharingDomains {
    /// Makes the domains of a worker that no tenant has used.
    #[must_use]
    pub fn new(share: Share) -> Self {
        Self {
            share,
            tenants: BTreeMap::new(),
        }
    }

    /// Returns the owner of a tenant's sessions.
    pub fn owner(&mut self, tenant: &Tenant) -> Owner {
        Owner {
            tenant: self.number(tenant),
            domain: self.of(tenant),
        }
    }

    /// Returns the number of a tenant, starting at one.
    fn number(&mut self, tenant: &Tenant) -> TenantNumber {
        let next = TenantNumber(self.tenants.len() as u64 + 1);
        *self.tenants.entry(tenant.clone()).or_insert(next)
    }

    /// Returns the domain of a tenant's sessions, if they share at all.
    pub fn of(&mut self, tenant: &Tenant) -> Option<SharingDomain> {
        match self.share {
            Share::All => Some(SharingDomain(0)),
            Share::Off => None,
            Share::Tenant => Some(SharingDomain(self.number(tenant).0)),
        }
    }

    /// Returns the pool of kept chunks that a tenant's copies are compared with.
    #[must_use]
    pub fn pool(&self, tenant: &Tenant) -> Pool {
        match self.share {
            Share::All => Pool::All,
            Share::Tenant | Share::Off => Pool::Tenant(tenant.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_apart_where_they_are_to_be() {
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().expect("a name"));
        let mut all = SharingDomains::new("all".parse().expect("known"));
        assert!(all.of(&a).is_some() && all.of(&a) == all.of(&b));
        assert_eq!(
            "tenant".parse(),
            Ok(Share::default()),
            "unless others are trusted"
        );
        let mut apart = SharingDomains::new(Share::default());
        let (of_a, of_b) = (apart.of(&a), apart.of(&b));
        assert!(of_a.is_some() && of_b.is_some() && of_a != of_b);
        assert_eq!((apart.of(&a), apart.of(&b)), (of_a, of_b));
        let mut off = SharingDomains::new("off".parse().expect("known"));
        assert_eq!(off.of(&a), None);
        assert!("some".parse::<Share>().is_err());
    }
}
