//! Memory and activity: the tenant's, not the device's.

use super::Known;
use crate::abi::{Handle, Out};
use crate::guard::api;
use crate::layout::{Memory, MemoryV2, Utilization};
use crate::snapshot::{Share, percent};
use crate::status::{Result, Status};

/// The version of a [`MemoryV2`], as programs set it: its size, and which it is.
const VERSION_2: u32 = 2 << 24 | size_of::<MemoryV2>() as u32;

/// The tenant's share of a device, by its worker's word.
fn share(handle: Handle) -> Result<Share> {
    // The leader knows of the device and its worker does not answer.
    Known::of(handle)?.device()?.share.ok_or(Status::TIMEOUT)
}

api! {
    fn nvmlDeviceGetMemoryInfo(handle: Handle, memory: Out<'_, Memory>) {
        memory.check()?;
        let share = share(handle)?;
        memory.put(Memory { total: share.total, free: share.free, used: share.held })
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, memory: Out<'_, MemoryV2>) {
        let version = memory.take()?.version;
        if version != VERSION_2 {
            return Err(Status::ARGUMENT_VERSION_MISMATCH);
        }
        let Share { total, held, free, .. } = share(handle)?;
        // What is neither its own nor to be had: others have it.
        let reserved = total.saturating_sub(held.saturating_add(free));
        memory.put(MemoryV2 { version, total, reserved, free, used: held })
    }

    fn nvmlDeviceGetUtilizationRates(handle: Handle, rates: Out<'_, Utilization>) {
        rates.check()?;
        let gpu = percent(share(handle)?.busy_ppm);
        // How much of the time memory was read or written is not measured.
        rates.put(Utilization { gpu, memory: 0 })
    }
}
