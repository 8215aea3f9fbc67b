//! Module images that tenants gave this worker, as the device knows them.

use std::sync::Arc;

use bus_schemas::{Failure, FunctionFingerprint, ModuleHash, Tenant};
use dashmap::{DashMap, DashSet};
use device::ModuleInfo;

/// What a launch needs to know of its module.
#[derive(Debug)]
pub(super) struct Module {
    /// By function index: what kernel keys are made of.
    pub(super) fingerprints: Vec<FunctionFingerprint>,
}

/// What became of an image.
#[derive(Debug, Clone)]
pub(super) enum ModuleState {
    /// The device is at it.
    Preparing,
    /// The device has it.
    Ready(Arc<Module>),
    /// The device cannot run it.
    Refused(Failure),
}

/// Every image is decoded once, whoever gave it; a tenant may use those it gave itself.
#[derive(Debug, Default)]
pub(super) struct Modules {
    given: DashSet<(Tenant, ModuleHash)>,
    states: DashMap<ModuleHash, ModuleState>,
}

impl Modules {
    /// Whether the tenant gave this image before.
    pub(super) fn is_given(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.contains(&(tenant.clone(), hash))
    }

    /// The tenant gave the image; whether the device must still be asked to prepare it.
    pub(super) fn give(&self, tenant: &Tenant, hash: ModuleHash) -> bool {
        self.given.insert((tenant.clone(), hash));
        let mut new = false;
        self.states.entry(hash).or_insert_with(|| {
            new = true;
            ModuleState::Preparing
        });
        new
    }

    /// The device has answered.
    pub(super) fn prepared(&self, hash: ModuleHash, answer: Result<ModuleInfo, Failure>) {
        let state = match answer {
            Ok(info) => ModuleState::Ready(Arc::new(Module {
                fingerprints: info
                    .functions
                    .iter()
                    .map(|function| FunctionFingerprint::new(&hash, &function.name))
                    .collect(),
            })),
            Err(failure) => ModuleState::Refused(failure),
        };
        self.states.insert(hash, state);
    }

    /// What the tenant's image is; `None` if it never gave it.
    pub(super) fn state(&self, tenant: &Tenant, hash: ModuleHash) -> Option<ModuleState> {
        let given = self.is_given(tenant, hash);
        given.then(|| self.states.get(&hash).map(|state| state.clone()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_prepared_once_and_used_by_those_who_gave_it() {
        let modules = Modules::default();
        let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let hash = ModuleHash::of(b"image");
        assert!(modules.give(&a, hash), "new");
        assert!(
            modules.state(&b, hash).is_none(),
            "a hash alone proves nothing"
        );
        modules.prepared(
            hash,
            Ok(ModuleInfo {
                functions: Vec::new(),
            }),
        );
        assert!(!modules.give(&b, hash), "prepared before");
        assert!(matches!(
            modules.state(&b, hash),
            Some(ModuleState::Ready(_))
        ));
    }
}
