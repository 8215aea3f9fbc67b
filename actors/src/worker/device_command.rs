//! Commands to the device's thread.

use std::sync::Arc;

use bus_schemas::{Failure, ModuleHash, SessionId, Tenant, Window};
use device::{SharingDomain, Slice, TenantNumber};
use gpu_worker_core::exports::DeviceAction;

/// Whose a session is, as far as the device divides things.
pub(super) struct Owner {
    pub(super) tenant: TenantNumber,
    pub(super) domain: Option<SharingDomain>,
}

/// What the device is to do.
pub(super) enum Command {
    Open(SessionId, Window, Owner),
    /// Ends what the session has under way: see [`Device::stop`].
    Stop(SessionId, Failure),
    Close(SessionId),
    /// Prepare an image for a tenant.
    Prepare(Tenant, ModuleHash, Arc<[u8]>),
    /// Give an image up that is not prepared yet.
    Cancel(ModuleHash),
    Forget(ModuleHash),
    Submit(Slice),
    /// Move a session's memory to the swap space, or back: see [`Device::swap_out`].
    SwapOut(SessionId),
    SwapIn(SessionId),
    /// Something about memory that sessions use of one another: see [`device::ExportMemory`].
    Exchange(SessionId, DeviceAction),
    /// Something is likely to come soon.
    Wake,
}

impl Command {
    /// How what runs is interrupted for it: `None` for at once, else if it is less urgent.
    pub(super) fn urgency(&self) -> Option<u8> {
        match self {
            Self::Submit(slice) => Some(slice.priority),
            Self::Open(..) | Self::Stop(..) | Self::Close(_) | Self::Prepare(..) => None,
            Self::SwapOut(_) | Self::SwapIn(_) | Self::Exchange(..) => None,
            Self::Forget(_) | Self::Cancel(_) | Self::Wake => Some(u8::MAX),
        }
    }
}
