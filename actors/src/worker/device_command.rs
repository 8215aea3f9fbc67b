//! Commands to the device's thread.

use std::sync::Arc;

use bus_schemas::{Failure, ModuleHash, SessionId, Tenant, Window};
use device::Slice;
use gpu_worker_core::exports::DeviceAction;
use gpu_worker_core::sharing_domains::Owner;

/// A command to the device.
pub(super) enum Command {
    Open(SessionId, Window, Owner),
    /// Stops what the session has under way: see [`device::Device::stop`].
    Stop(SessionId, Failure),
    Close(SessionId),
    /// Prepare an image for a tenant.
    Prepare(Tenant, ModuleHash, Arc<[u8]>),
    /// Give up an image that is not prepared yet.
    Cancel(ModuleHash),
    Forget(ModuleHash),
    Submit(Slice),
    /// Move a session's memory to the swap space, or back: see [`device::Device::swap_out`].
    SwapOut(SessionId),
    SwapIn(SessionId),
    /// An action on memory shared between sessions: see [`device::ExportMemory`].
    Exchange(SessionId, DeviceAction),
    /// A command is likely to come soon.
    Wake,
}

impl Command {
    /// Urgency with which the command interrupts running work. `None` interrupts at once, else only
    /// less urgent work is interrupted.
    pub(super) fn urgency(&self) -> Option<u8> {
        match self {
            Self::Submit(slice) => Some(slice.priority),
            Self::Open(..) | Self::Stop(..) | Self::Close(_) | Self::Prepare(..) => None,
            Self::SwapOut(_) | Self::SwapIn(_) | Self::Exchange(..) => None,
            Self::Forget(_) | Self::Cancel(_) | Self::Wake => Some(u8::MAX),
        }
    }
}
