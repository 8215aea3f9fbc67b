//! The tenants that a role knows. Each gets a subscription of its own while another one floods.

use std::collections::BTreeMap;

use bus_schemas::Tenant;

/// Tenants, each with the number of its last sign. If there are too many, the tenant with the
/// oldest sign is dropped, because it may have been deleted long ago.
#[derive(Debug)]
pub(super) struct Known {
    tenants: BTreeMap<Tenant, u64>,
    signs: u64,
    most: usize,
}

impl Known {
    /// Creates room for `most` tenants.
    pub(super) fn with_room_for(most: usize) -> Self {
        Self {
            tenants: BTreeMap::new(),
            signs: 0,
            most: most.max(1),
        }
    }

    /// Notes a sign of a tenant. True if the tenant was not known.
    pub(super) fn note(&mut self, tenant: &Tenant) -> bool {
        self.signs += 1;
        if let Some(last) = self.tenants.get_mut(tenant) {
            *last = self.signs;
            return false;
        }
        if self.tenants.len() >= self.most {
            let oldest = self.tenants.iter().min_by_key(|(_, last)| **last);
            let oldest = oldest.map(|(tenant, _)| tenant.clone());
            oldest.map(|oldest| self.tenants.remove(&oldest));
        }
        self.tenants.insert(tenant.clone(), self.signs);
        true
    }

    /// Iterates over all tenants by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    #[test]
    fn the_tenant_with_the_oldest_sign_makes_room() {
        let mut known = Known::with_room_for(3);
        let signs = ["a", "b", "c", "a", "b"].map(|name| known.note(&tenant(name)));
        assert_eq!(signs, [true, true, true, false, false]);
        assert!(known.note(&tenant("d")));
        let names: Vec<_> = known.iter().map(Tenant::as_str).collect();
        assert_eq!(names, ["a", "b", "d"], "c was not heard any more");
    }
}
