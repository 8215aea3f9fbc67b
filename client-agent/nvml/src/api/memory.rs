//! Memory and activity of the tenant, not of the whole device.

use super::Known;
use crate::abi::{Handle, Out};
use crate::guard::api;
use crate::layout::{Memory, MemoryV2, Utilization};
use crate::snapshot::{DeviceShare, percent};
use crate::status::{Result, Status};

/// The version of a [`MemoryV2`], as programs set it: its size and its version number.
const VERSION_2: u32 = 2 << 24 | size_of::<MemoryV2>() as u32;

/// The tenant's share of a device, as reported by its worker.
fn share(handle: Handle) -> Result<DeviceShare> {
    // Without a share, the leader knows the device, but its worker does not answer.
    Known::now(handle)?.device()?.share.ok_or(Status::TIMEOUT)
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
        let DeviceShare { total, held, free, .. } = share(handle)?;
        // Memory that is neither the tenant's nor available: other tenants have it.
        let reserved = total.saturating_sub(held.saturating_add(free));
        memory.put(MemoryV2 { version, total, reserved, free, used: held })
    }

    fn nvmlDeviceGetUtilizationRates(handle: Handle, rates: Out<'_, Utilization>) {
        rates.check()?;
        let gpu = percent(share(handle)?.busy_ppm);
        // The time in which memory was read or written is not measured.
        rates.put(Utilization { gpu, memory: 0 })
    }
}
