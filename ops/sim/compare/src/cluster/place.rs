//! Names, keys and sizes that the parties of one cluster know in common.

use std::sync::Arc;

use bus_schemas::subject::Subjects;
use bus_schemas::{GpuId, Incarnation, KernelKey, Tenant, TenantSettings};

use crate::scenario::{Scenario, SimulationError, TenantSetup};

/// The only worker.
pub(super) const WORKER: Incarnation = Incarnation(1);
/// Its device.
pub(super) const GPU: GpuId = 1;
/// That device's memory, bytes, and multiprocessors.
pub(super) const CAPACITY: u64 = 1 << 36;
pub(super) const SMS: u32 = 80;

/// What the parties of one cluster know in common.
pub(super) struct Place {
    pub(super) subjects: Subjects,
    pub(super) tenants: Vec<Tenant>,
    /// Of each tenant, its kernels' keys: tenants that run the same model share them.
    pub(super) keys: Vec<Arc<[KernelKey]>>,
}

impl Place {
    pub(super) fn new(scenario: &Scenario) -> Result<Self, SimulationError> {
        let name = |text: String| {
            let parsed = text.parse::<Tenant>();
            parsed.map_err(|error| SimulationError::Cluster(error.to_string()))
        };
        let tenants = (0..scenario.tenants.len()).map(|index| name(format!("t{index}")));
        Ok(Self {
            subjects: Subjects::new(&name("sim".to_owned())?),
            tenants: tenants.collect::<Result<_, _>>()?,
            keys: scenario.tenants.iter().map(keys).collect(),
        })
    }

    /// Which of the tenants one is.
    pub(super) fn index(&self, tenant: &Tenant) -> Option<usize> {
        self.tenants.iter().position(|other| other == tenant)
    }
}

/// Kernel keys of a model: each kernel of it is one launched with arguments of its own.
fn keys(setup: &TenantSetup) -> Arc<[KernelKey]> {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let model = setup.model.name.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let count = setup.model.kernels.len() as u64;
    let key = |index: u64| KernelKey(index.to_le_bytes().into_iter().fold(model, fold));
    (0..count).map(key).collect()
}

/// What an administrator would set for a tenant.
pub(super) fn settings(setup: &TenantSetup) -> TenantSettings {
    TenantSettings {
        priority: setup.priority,
        weight: setup.weight,
        ..TenantSettings::default()
    }
}
