//! Names, keys and sizes that are common to all parties of one cluster.

use std::sync::Arc;

use bus_schemas::subject::Subjects;
use bus_schemas::{GpuId, Incarnation, KernelKey, Tenant, TenantSettings};

use crate::scenario::{Scenario, SimulationError, TenantSetup};

/// The only worker.
pub(super) const WORKER: Incarnation = Incarnation(1);
/// Its device.
pub(super) const GPU: GpuId = 1;
/// Memory of that device in bytes, and its number of multiprocessors.
pub(super) const CAPACITY: u64 = 1 << 36;
pub(super) const SMS: u32 = 80;

/// Data common to all parties of one cluster.
pub(super) struct Place {
    pub(super) subjects: Subjects,
    pub(super) tenants: Vec<Tenant>,
    /// Kernel keys of each tenant; tenants that run the same model share them.
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

    /// Index of a tenant.
    pub(super) fn index(&self, tenant: &Tenant) -> Option<usize> {
        self.tenants.iter().position(|other| other == tenant)
    }
}

/// Kernel keys of a model; each kernel is launched with arguments of its own.
fn keys(setup: &TenantSetup) -> Arc<[KernelKey]> {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let model = setup.model.name.bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let count = setup.model.kernels.len() as u64;
    let key = |index: u64| KernelKey(index.to_le_bytes().into_iter().fold(model, fold));
    (0..count).map(key).collect()
}

/// Settings that an administrator would give a tenant.
pub(super) fn settings(setup: &TenantSetup) -> TenantSettings {
    TenantSettings {
        priority: setup.priority,
        weight: setup.weight,
        ..TenantSettings::default()
    }
}
