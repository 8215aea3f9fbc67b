//! The kernel keys of a tenant that are counted by themselves: so many, and all others as one. A program
//! whose shapes never repeat would else fill profiles, records and bills with keys that ran once.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{KernelKey, Tenant};

/// Keys of one tenant at most.
pub const KEYS: usize = 8_192;

/// The keys that are kept, by tenant: those that ran first.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    by_tenant: BTreeMap<Tenant, BTreeSet<KernelKey>>,
    /// Of any tenant.
    all: BTreeSet<KernelKey>,
}

/// The place of a key that has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It ran for the first time, of all tenants.
    First,
    /// It ran before.
    Again,
    /// It is one of the others.
    Other,
}

impl KeptKeys {
    /// A launch of a tenant has run.
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

    /// Says whether a key is kept for any tenant.
    pub(crate) fn has(&self, key: KernelKey) -> bool {
        self.all.contains(&key)
    }
}
