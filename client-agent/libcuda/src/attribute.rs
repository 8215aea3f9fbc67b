//! Properties of a virtual device: `CUdevice_attribute` and the like.

mod refused;

use bus_schemas::{DeviceProperties, Opened, Window};

use crate::fatbin::Target;
use crate::uuid::Uuid;
use refused::is_refused;

/// Properties of a device.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub(crate) gpu: i32,
    /// The tenant's quota of the device's memory, bytes.
    pub(crate) memory: u64,
    /// True if programs find room for the address ranges that they reserve.
    reserves: bool,
    device: DeviceProperties,
}

/// A number as CUDA types it; a value that is too large becomes the largest int.
fn int(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

/// Sizes of arrays, textures and surfaces: those of an A100, whatever the device is. CUDA's list
/// says what each number means. Arrays have them also on a GPU, where textures are refused.
fn texture(number: i32) -> i32 {
    match number {
        21 | 22 | 56 | 70 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        29 | 43 | 62 | 65 => 2048,
        47 | 48 => 8192,
        69 => LINEAR,
        71 => 65_000,
        72 => 2_097_120,
        // Layered and gathered textures, and the depth of the alternate volume shape.
        _ => 32_768,
    }
}

/// The largest range that programs are known to reserve before they query the device (llama.cpp
/// does).
const LARGE_RANGE: u64 = 32 << 30;

/// True if a session's window has room for a large range of addresses beside all of the memory. The
/// size of a window follows the memory, so a small window has no such room.
fn has_room(window: Window, memory: u64) -> bool {
    let addresses = window.worker_part().saturating_sub(window.base);
    addresses.saturating_sub(memory) >= LARGE_RANGE
}

/// Maximum number of elements of a texture of linear memory.
pub(crate) const LINEAR: i32 = 1 << 28;

impl Properties {
    /// The device of a session. An older cluster does not report its properties.
    pub(crate) fn of(opened: &Opened) -> Option<Self> {
        let device = opened.properties.clone()?;
        let memory = opened.quota.min(device.memory);
        Some(Self {
            gpu: int(opened.gpu),
            memory,
            reserves: has_room(opened.window, memory),
            device,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.device.name
    }

    pub(crate) fn uuid(&self) -> Uuid {
        self.device.uuid
    }

    /// Compute capability: major, minor.
    pub(crate) fn compute(&self) -> (i32, i32) {
        (int(self.device.compute.0), int(self.device.compute.1))
    }

    /// The target for the images of this device.
    pub(crate) fn target(&self) -> Target {
        let (major, minor) = self.device.compute;
        Target {
            capability: major * 10 + minor,
            newer: self.is_cpu(),
            code: self.device.machine_code,
            grids: self.device.launch_attributes,
        }
    }

    /// True if its sessions may use memory of one another.
    pub(crate) fn shares_memory(&self) -> bool {
        self.device.answers_ipc
    }

    /// True if launches may have attributes, and programs may use tensor maps.
    pub(crate) fn takes_launch_attributes(&self) -> bool {
        self.device.launch_attributes
    }

    /// True if blocks run in clusters.
    pub(crate) fn takes_clusters(&self) -> bool {
        self.device.launch_attributes && self.device.compute.0 >= 9
    }

    /// Number of clusters of `cluster` blocks that run at a time, if `occupancy` blocks run on a
    /// multiprocessor.
    pub(crate) fn clusters_at_a_time(&self, occupancy: i32, cluster: i64) -> i32 {
        let occupancy = u32::try_from(occupancy).unwrap_or(0);
        let cluster = u32::try_from(cluster).unwrap_or(u32::MAX);
        int(self.device.clusters_at_a_time(occupancy, cluster))
    }

    /// True if its worker computes on a processor, with our own compiler.
    pub(crate) fn is_cpu(&self) -> bool {
        self.device.kind == "cpu"
    }

    /// The CUDA version of a GPU's driver; a CPU has none, and an older worker may not say.
    pub(crate) fn gpu_driver(&self) -> Option<u32> {
        self.device.gpu_driver()
    }

    /// Number of multiprocessors.
    pub(crate) fn multiprocessors(&self) -> i32 {
        int(self.device.sms)
    }

    /// Maximum number of blocks of one launch that run at the same time, whatever the other figures
    /// say.
    pub(crate) fn resident_blocks(&self) -> Option<u32> {
        Some(self.device.resident_blocks).filter(|blocks| *blocks > 0)
    }

    /// Maximum shared bytes of a block that opts in to more.
    pub(crate) fn shared_optin(&self) -> i32 {
        int(self.device.block_shared_optin)
    }

    /// The value of an attribute by number; `None` for a number that CUDA does not have.
    pub(crate) fn attribute(&self, number: i32) -> Option<i32> {
        match is_refused(number) {
            true => Some(0),
            false => self.value(number),
        }
    }

    /// The value of an attribute of what is supported.
    fn value(&self, number: i32) -> Option<i32> {
        let device = &self.device;
        let value = match number {
            // Threads and blocks.
            1 => int(device.block_threads),
            2..=4 => int(device.block_dim[number as usize - 2]),
            5..=7 => int(device.grid_dim[number as usize - 5]),
            10 => int(device.warp_size),
            12 => int(device.block_registers),
            82 => int(device.sm_registers),
            16 => self.multiprocessors(),
            39 => int(device.sm_threads),
            106 => int(device.sm_blocks),
            // Memory.
            8 => int(device.block_shared),
            9 => 65_536,
            11 => i32::MAX,
            97 => self.shared_optin(),
            81 => int(device.sm_shared),
            111 => int(device.block_shared_reserved),
            36 => int(device.memory_clock_khz),
            37 => int(device.memory_bus_bits),
            38 => int(device.l2_bytes),
            // Identity and clock.
            13 => int(device.clock_khz),
            33 => self.gpu,
            75 => self.compute().0,
            76 => self.compute().1,
            87 => 2,
            14 | 30 => 512,
            44 => 1,
            51 => 32,
            21..=29 | 42..=49 | 55..=65 | 69..=72 => texture(number),
            // Capabilities: overlap, mapped host memory, concurrent kernels, copies beside kernels,
            // unified addresses, stream priorities, caches, managed memory, preemption, cooperative
            // launches, registration of host memory, memory pools.
            15 | 19 | 31 | 40 | 41 | 78 | 79 | 80 | 83 | 90 | 95 | 99 | 115 => 1,
            // Mapping at reserved addresses. Programs that see it reserve large ranges.
            102 => i32::from(self.reserves),
            // Interprocess memory and events: memory handles as files, events.
            103 | 125 => i32::from(device.answers_ipc),
            // Clusters of blocks, tensor maps.
            120 | 127 => i32::from(self.takes_clusters()),
            // Memory synchronisation domains: devices before Hopper have one, and launches here
            // name none.
            126 => 1,
            // Facts: no time limit but the worker's, not integrated, shared by processes, PCI device
            // and domain 0, no board with several GPUs, no NUMA node. Not known: errors corrected in
            // memory, the driver's model, MPS, PCI ids, domains of locality, 159 and 160.
            17 | 18 | 20 | 32 | 34 | 35 | 50 | 84 | 85 | 130 | 131 | 133 | 134 => 0,
            139 | 140 | 149 | 157 | 159 | 160 => 0,
            _ => return None,
        };
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last attribute of CUDA 13.5.
    const LAST: i32 = 161;

    #[test]
    fn every_attribute_has_a_value_or_is_refused() {
        // A GPU that can do all that a worker may say.
        let device = DeviceProperties {
            kind: "cuda".into(),
            compute: (9, 0),
            launch_attributes: true,
            answers_ipc: true,
            ..DeviceProperties::default()
        };
        let properties = Properties {
            gpu: 0,
            memory: 1 << 30,
            reserves: true,
            device,
        };
        for number in 1..=LAST {
            let value = properties.value(number);
            assert_eq!(value.is_none(), is_refused(number), "{number}");
            let told = properties.attribute(number);
            assert_eq!(told, Some(value.unwrap_or(0)), "{number}");
        }
        for number in [i32::MIN, -1, 0, LAST + 1, i32::MAX] {
            assert_eq!(properties.attribute(number), None, "{number}");
        }
    }

    #[test]
    fn a_window_has_room_for_a_large_range_where_it_is_large_enough() {
        const GIB: u64 = 1 << 30;
        // Windows as the leader assigns them for a given memory size.
        for (memory, size, room) in [
            (1, 4, false),
            (8, 32, false),
            (10, 32, false),
            (11, 64, true),
            (16, 64, true),
            (21, 64, true),
            (22, 128, true),
            (80, 256, true),
        ] {
            let window = Window {
                base: 1 << 44,
                size: size * GIB,
            };
            assert_eq!(has_room(window, memory * GIB), room, "{memory} GiB");
        }
    }
}
