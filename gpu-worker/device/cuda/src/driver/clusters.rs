//! The number of clusters that run at a time, by the driver's figures.

use bus_schemas::{CLUSTER_BLOCKS, CLUSTER_OCCUPANCY, Failure};
use cudarc::driver::sys::{self, CUresult};

use super::check;
use super::module::{Function, Module};

/// A kernel that does nothing.
const NOTHING: &[u8] =
    b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n\0";

/// Granularity of shared memory, bytes.
const STEP: u32 = 128;

/// A multiprocessor's shared memory, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedMemory {
    /// Total bytes.
    pub(crate) all: u32,
    /// Maximum bytes of a block.
    pub(crate) block: u32,
    /// Bytes that each block needs beside its own.
    pub(crate) reserved: u32,
}

/// Returns the number of clusters that run at a time: for 1 to 8 blocks on a multiprocessor, and each time
/// for clusters of 1 to 16 blocks. Shared memory limits the blocks, so that no more run on one
/// multiprocessor.
pub(crate) fn active(memory: SharedMemory) -> Result<Vec<u32>, Failure> {
    let module = Module::load(NOTHING)?;
    let function = module.function("nothing")?;
    function.allow_large_clusters()?;
    function.allow_shared(memory.block)?;
    let mut all = Vec::with_capacity(CLUSTER_OCCUPANCY * CLUSTER_BLOCKS);
    for blocks in 1..=CLUSTER_OCCUPANCY as u32 {
        let each = memory.all / blocks / STEP * STEP;
        let shared = each.saturating_sub(memory.reserved).min(memory.block);
        for cluster in 1..=CLUSTER_BLOCKS as u32 {
            all.push(active_of(function, cluster, shared)?);
        }
    }
    Ok(all)
}

/// Number of clusters of this many blocks with this much shared memory each; 0 for an unsupported size.
fn active_of(function: Function, cluster: u32, shared: u32) -> Result<u32, Failure> {
    use sys::CUlaunchAttributeID as Id;
    // SAFETY: structures of numbers and pointers, for which zero is a value.
    let mut attribute: sys::CUlaunchAttribute = unsafe { std::mem::zeroed() };
    attribute.id = Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = cluster;
    attribute.value.clusterDim.y = 1;
    attribute.value.clusterDim.z = 1;
    // SAFETY: as above.
    let mut config: sys::CUlaunchConfig = unsafe { std::mem::zeroed() };
    (config.gridDimX, config.gridDimY, config.gridDimZ) = (cluster, 1, 1);
    (config.blockDimX, config.blockDimY, config.blockDimZ) = (32, 1, 1);
    config.sharedMemBytes = shared;
    config.attrs = &raw mut attribute;
    config.numAttrs = 1;
    let mut count = 0;
    // SAFETY: an out-pointer to a local; the configuration and its attribute live until the call has
    // returned.
    let result =
        unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut count, function.0, &raw const config) };
    if result == CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE {
        return Ok(0);
    }
    check(result, "asking for active clusters")?;
    Ok(u32::try_from(count).unwrap_or(0))
}
