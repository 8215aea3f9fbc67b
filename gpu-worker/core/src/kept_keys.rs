//! The kernel keys of a tenant that are counted by themselves: a limited number, and all others as one.
//! Otherwise a program with shapes that never repeat would fill profiles, records and bills with keys that
//! ran once.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{KernelKey, Tenant};

/// Maximum number of keys of one tenant.
pub const KEYS: usize = 8_192;

/// The kept keys by tenant: those that ran first.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    by_tenant: BTreeMap<Tenant, BTreeSet<KernelKey>>,
    /// Keys kept for any tenant.
    all: BTreeSet<KernelKey>,
}

/// The count to which a key that has run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The key's own; it ran for the first time, over all tenants.
    First,
    /// The key's own; it ran before.
    Again,
    /// The count of all other keys.
    Other,
}

impl KeptKeys {
    /// Notes that a launch of a tenant has run.
    pub(crate) fn ran(&mut self, tenant: &Tenant, key: KernelKey) -> Kept {
        if !self.by_tenant.contains_key(tenant) {
            self.by_tenant.insert(tenant.clone(), BTreeSet::new());
        }
        let Some(keys) = self.by_tenant.get_mut(tenant) else {
            return Kept::Other;
        };
        if !keys.contains(&key) {
            if keys.len() >= KEYS {
                return Kept::Other;
            }
            keys.insert(key);
        }
        match self.all.insert(key) {
            true => Kept::First,
            false => Kept::Again,
        }
    }

    /// True if a key is kept for any tenant.
    pub(crate) fn has(&self, key: KernelKey) -> bool {
        self.all.contains(&key)
    }
}
