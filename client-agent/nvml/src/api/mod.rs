//! The functions of NVML that work. They are thin: each reads its arguments and answers from the
//! newest view.

#![expect(unsafe_code, reason = "exports of a C interface")]

mod device;
mod memory;
mod process;
mod system;

pub(crate) use device::*;
pub(crate) use memory::*;
pub(crate) use process::*;
pub(crate) use system::*;

use std::sync::Arc;

use crate::abi::Handle;
use crate::library::{View, Wanted, view};
use crate::snapshot::DeviceState;
use crate::status::{Result, Status};

/// A known device: the view, and the device's index in it.
struct Known(Arc<View>, usize);

impl Known {
    /// The device of a handle, for its properties.
    fn of(handle: Handle) -> Result<Self> {
        Self::wanting(Wanted::Properties, handle)
    }

    /// The device of a handle, for its memory, activity, processes or index.
    fn now(handle: Handle) -> Result<Self> {
        Self::wanting(Wanted::Figures, handle)
    }

    fn wanting(wanted: Wanted, handle: Handle) -> Result<Self> {
        let gpu = handle.gpu()?;
        let view = view(wanted)?;
        let at = view.devices.iter().position(|device| device.gpu == gpu);
        // It existed when the program got its handle.
        at.map(|at| Self(view, at)).ok_or(Status::GPU_IS_LOST)
    }

    fn device(&self) -> Result<&DeviceState> {
        self.0.devices.get(self.1).ok_or(Status::GPU_IS_LOST)
    }
}
