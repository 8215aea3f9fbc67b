//! A module as the device keeps it for its sessions.

use bus_schemas::ModuleHash;
use device::PreparedModule;

/// A module as machine code for this GPU.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) hash: ModuleHash,
    pub(crate) code: Vec<u8>,
    pub(crate) info: PreparedModule,
    /// Its variables, as our own parser has them: the driver does not name any.
    pub(crate) variables: Vec<ptx::GlobalInfo>,
}
