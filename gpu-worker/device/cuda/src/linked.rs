//! A module as the device keeps it for its sessions.

use bus_schemas::ModuleHash;
use device::PreparedModule;

/// A module linked for this GPU.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) hash: ModuleHash,
    pub(crate) code: Vec<u8>,
    pub(crate) info: PreparedModule,
    /// Its variables, where it was PTX: the driver does not name those of device code.
    pub(crate) variables: Vec<ptx::GlobalInfo>,
}
