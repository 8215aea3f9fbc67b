//! The properties of a device, by its driver.

use bus_schemas::{DeviceProperties, Failure};
use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::driver::{Context, SharedMemory, active};

/// Returns the device's properties. An attribute that the driver does not know stays 0.
pub(crate) fn of(context: &Context) -> Result<DeviceProperties, Failure> {
    use Attribute as A;
    let get = |which| context.attribute(which).unwrap_or(0);
    let major = context.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = context.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let driver = context.version()?;
    let block = [
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
        A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
    ];
    let grid = [
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
    ];
    Ok(DeviceProperties {
        kind: "cuda".to_owned(),
        name: context.name()?,
        uuid: context.uuid(),
        compute: (major, minor),
        driver,
        ptx: ptx(driver),
        target: 10 * major + minor,
        sms: get(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).max(1),
        memory: context.total_memory()?,
        clock_khz: get(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        memory_clock_khz: get(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        memory_bus_bits: get(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        l2_bytes: u64::from(get(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
        warp_size: get(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        block_threads: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        sm_threads: get(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
        sm_blocks: get(A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
        block_dim: block.map(get),
        grid_dim: grid.map(get),
        block_shared: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        block_shared_optin: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        block_shared_reserved: get(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
        answers_memory: false,
        answers_offers: false,
        answers_ipc: false,
        machine_code: true,
        launch_attributes: driver >= 12_000,
        // Its sessions neither move memory nor map it a second time yet.
        maps_memory: false,
        sm_shared: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        block_registers: get(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        sm_registers: get(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
        resident_blocks: 0,
        active_clusters: active_clusters(context, major),
    })
}

/// Returns the clusters that run at a time; empty if there are no clusters, or the driver does not report
/// them.
fn active_clusters(context: &Context, major: u32) -> Vec<u32> {
    use Attribute as A;
    if major < 9 {
        return Vec::new();
    }
    let get = |which| context.attribute(which).unwrap_or(0);
    let memory = SharedMemory {
        all: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        block: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        reserved: get(A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
    };
    active(memory).unwrap_or_default()
}

/// Returns the PTX ISA version of a driver API version, by the PTX manual's table of releases. A driver newer
/// than the table supports at least its last row.
fn ptx(driver: u32) -> (u32, u32) {
    let releases = [
        (13_000, (9, 0)),
        (12_090, (8, 8)),
        (12_080, (8, 7)),
        (12_070, (8, 6)),
        (12_050, (8, 5)),
        (12_040, (8, 4)),
        (12_030, (8, 3)),
        (12_020, (8, 2)),
        (12_010, (8, 1)),
        (12_000, (8, 0)),
    ];
    let mut known = releases.into_iter();
    known
        .find(|(since, _)| driver >= *since)
        .map_or((7, 8), |(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_take_the_ptx_they_came_with() {
        let takes = [
            (13_010, (9, 0)),
            (13_000, (9, 0)),
            (12_060, (8, 5)),
            (11_080, (7, 8)),
        ];
        for (driver, version) in takes {
            assert_eq!(ptx(driver), version, "{driver}");
        }
    }
}
