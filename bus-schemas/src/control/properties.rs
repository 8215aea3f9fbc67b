//! The properties of a session's device, which its client gets when the session opens.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::text;
use crate::id::{GpuId, Tenant};

/// A device's properties, named as CUDA names its attributes. An unknown one is 0, and one that a
/// sender does not name has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceProperties {
    /// `cpu` or `cuda`.
    #[serde(with = "text")]
    pub kind: String,
    /// Name for people: `AMD EPYC (cpu, 2 threads)`, `NVIDIA H200`.
    #[serde(with = "text")]
    pub name: String,
    /// UUID of the device, the same after every start of its worker.
    #[serde(with = "serde_bytes")]
    pub uuid: [u8; 16],
    /// Compute capability for which PTX is compiled: major, minor.
    pub compute: (u32, u32),
    /// Version of the driver API, as `cuDriverGetVersion` gives it: 13000 is 13.0.
    pub driver: u32,
    /// Newest PTX ISA version that it accepts: major, minor.
    pub ptx: (u32, u32),
    /// Newest target of PTX that it accepts: 90 is `sm_90`.
    pub target: u32,
    /// Number of streaming multiprocessors; a CPU device counts its threads.
    pub sms: u32,
    /// The device's memory, bytes. A tenant may hold its quota of it.
    pub memory: u64,
    /// Clock rate of the multiprocessors, kHz.
    pub clock_khz: u32,
    /// Clock rate of the memory, kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus, bits.
    pub memory_bus_bits: u32,
    /// Size of the last-level cache, bytes.
    pub l2_bytes: u64,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Maximum threads of a block.
    pub block_threads: u32,
    /// Maximum threads of a multiprocessor.
    pub sm_threads: u32,
    /// Maximum blocks of a multiprocessor.
    pub sm_blocks: u32,
    /// Maximum dimensions of a block.
    pub block_dim: [u32; 3],
    /// Maximum dimensions of a grid.
    pub grid_dim: [u32; 3],
    /// Shared memory of a block, bytes.
    pub block_shared: u32,
    /// Shared memory of a block that opts in to more, bytes.
    pub block_shared_optin: u32,
    /// Shared memory of a block that the device reserves, bytes.
    pub block_shared_reserved: u32,
    /// True if the worker answers [`crate::MemoryRequest`]s. A worker of an earlier build does not,
    /// and refuses an allocation only when it reaches it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answers_memory: bool,
    /// True if the worker answers [`crate::CopyOffer`]s. If it does not, a client that offers a
    /// copy sends everything in the end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answers_offers: bool,
    /// True if the worker answers [`crate::IpcRequest`]s.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub answers_ipc: bool,
    /// True if it runs machine code of its architecture. A GPU worker of an earlier build takes
    /// only PTX.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub machine_code: bool,
    /// True if it takes launches with [`crate::LaunchAttributes`] and [`crate::TensorMap`]s. A
    /// worker of an earlier build takes only plain launches.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub launch_attributes: bool,
    /// True if it takes [`crate::Op::Move`] and [`crate::Op::Map`]. Older workers know neither.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub maps_memory: bool,
    /// Shared memory of a multiprocessor, bytes.
    pub sm_shared: u32,
    /// Registers of a block.
    pub block_registers: u32,
    /// Registers of a multiprocessor.
    pub sm_registers: u32,
    /// Maximum number of blocks of one launch that really run concurrently; 0 means as many as the
    /// values above imply.
    pub resident_blocks: u32,
    /// Number of clusters that run at a time: for 1 to [`CLUSTER_OCCUPANCY`] blocks on a
    /// multiprocessor, and for each of these for clusters of 1 to [`CLUSTER_BLOCKS`] blocks. Empty
    /// if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active_clusters: Vec<u32>,
}

/// Maximum number of blocks on a multiprocessor in [`DeviceProperties::active_clusters`].
pub const CLUSTER_OCCUPANCY: usize = 8;

/// Maximum number of blocks of a cluster.
pub const CLUSTER_BLOCKS: usize = 16;

impl DeviceProperties {
    /// Returns true if the device is a GPU with NVIDIA's driver.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        self.kind == "cuda"
    }

    /// Returns the version of the GPU's driver; `None` for a CPU, and if the worker does not report
    /// it.
    #[must_use]
    pub fn gpu_driver(&self) -> Option<u32> {
        (self.is_gpu() && self.driver > 0).then_some(self.driver)
    }

    /// Returns the number of clusters of `cluster` blocks that run at a time, with `occupancy`
    /// blocks on a multiprocessor. Values that the worker does not report are estimated, as if all
    /// multiprocessors were neighbours. 0 for more than [`CLUSTER_BLOCKS`].
    #[must_use]
    pub fn clusters_at_a_time(&self, occupancy: u32, cluster: u32) -> u32 {
        if occupancy == 0 || !(1..=CLUSTER_BLOCKS as u32).contains(&cluster) {
            return 0;
        }
        let told = occupancy.min(CLUSTER_OCCUPANCY as u32);
        let at = (told as usize - 1) * CLUSTER_BLOCKS + cluster as usize - 1;
        let scaled = |count: u32, by: u32| u64::from(count) * u64::from(occupancy) / u64::from(by);
        let clusters = match self.active_clusters.get(at) {
            Some(known) => scaled(*known, told),
            None => scaled(self.sms, cluster),
        };
        u32::try_from(clusters).unwrap_or(u32::MAX)
    }

    /// Returns the UUID of a cluster's device without its own one, of version 8 of RFC 9562.
    #[must_use]
    pub fn uuid_of(cluster: &Tenant, gpu: GpuId) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"warploom device\0");
        hasher.update(cluster.padded());
        hasher.update(&gpu.to_le_bytes());
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        uuid[6] = (uuid[6] & 0x0f) | 0x80;
        uuid[8] = (uuid[8] & 0x3f) | 0x80;
        uuid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gpu_has_a_driver_of_its_own() {
        let of = |kind: &str, driver| DeviceProperties {
            kind: kind.into(),
            driver,
            ..DeviceProperties::default()
        };
        assert_eq!(of("cuda", 12_080).gpu_driver(), Some(12_080));
        assert_eq!(of("cuda", 0).gpu_driver(), None);
        assert_eq!(of("cpu", 13_000).gpu_driver(), None);
        assert!(!of("", 13_000).is_gpu());
    }

    #[test]
    fn clusters_are_those_that_the_worker_tells_or_an_estimate() {
        let mut device = DeviceProperties {
            sms: 132,
            ..DeviceProperties::default()
        };
        assert_eq!(device.clusters_at_a_time(1, 2), 66);
        assert_eq!(device.clusters_at_a_time(2, 8), 33);
        let row = |occupancy: u32| (1..=16).map(move |cluster| 120 * occupancy / cluster);
        device.active_clusters = (1..=8).flat_map(row).collect();
        assert_eq!(device.clusters_at_a_time(1, 2), 60);
        assert_eq!(device.clusters_at_a_time(8, 16), 60);
        assert_eq!(
            device.clusters_at_a_time(32, 16),
            240,
            "four times that of 8"
        );
        for (occupancy, cluster) in [(0, 2), (1, 0), (1, 17), (u32::MAX, u32::MAX)] {
            assert_eq!(device.clusters_at_a_time(occupancy, cluster), 0);
        }
    }
}
