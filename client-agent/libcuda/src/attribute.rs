//! Properties of a virtual device: `CUdevice_attribute` and the like.

use bus_schemas::{DeviceProperties, Opened, Window};

use crate::fatbin::Target;
use crate::uuid::Uuid;

/// Properties of a device.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub(crate) gpu: i32,
    /// What the tenant may hold of the device's memory, bytes.
    pub(crate) memory: u64,
    /// Whether programs find room for the ranges of addresses that they reserve.
    reserves: bool,
    device: DeviceProperties,
}

/// A number of the device's as CUDA has it; what is too large is the largest.
fn int(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

/// Sizes of arrays, textures and surfaces: those of an A100, whatever the device is. Which of them a
/// number counts is in CUDA's list; cubemaps and mipmaps have theirs, though there are none.
fn texture(number: i32) -> i32 {
    match number {
        21 | 22 | 56 | 70 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        29 | 43 | 62 | 65 => 2048,
        47 | 48 => 8192,
        54 | 68 => 2046,
        69 => LINEAR,
        71 => 65_000,
        72 => 2_097_120,
        // Layered ones, gathered ones, cubemaps, mipmaps, and the depth of the other kind of volume.
        _ => 32_768,
    }
}

/// The largest range that programs are known to reserve before they ask what there is (llama.cpp does).
const LARGE_RANGE: u64 = 32 << 30;

/// Whether a session's window has room for a large range of addresses beside all of the memory. A window is as
/// large as the memory asks for, so that a small one has not.
fn has_room(window: Window, memory: u64) -> bool {
    let addresses = window.worker_part().saturating_sub(window.base);
    addresses.saturating_sub(memory) >= LARGE_RANGE
}

/// Most elements of a texture of linear memory.
pub(crate) const LINEAR: i32 = 1 << 28;

impl Properties {
    /// The device of a session; an older cluster does not say what it is.
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

    /// What images for it may be made for.
    pub(crate) fn target(&self) -> Target {
        let (major, minor) = self.device.compute;
        Target {
            capability: major * 10 + minor,
            newer: self.is_cpu(),
            code: self.device.machine_code,
            grids: self.device.launch_attributes,
        }
    }

    /// Whether its sessions may use memory of one another.
    pub(crate) fn shares_memory(&self) -> bool {
        self.device.answers_ipc
    }

    /// True where launches may have attributes, and programs tensor maps.
    pub(crate) fn takes_launch_attributes(&self) -> bool {
        self.device.launch_attributes
    }

    /// True where blocks run in clusters.
    pub(crate) fn takes_clusters(&self) -> bool {
        self.device.launch_attributes && self.device.compute.0 >= 9
    }

    /// Clusters of so many blocks that run at a time, where so many blocks run on a multiprocessor.
    pub(crate) fn clusters_at_a_time(&self, occupancy: i32, cluster: i64) -> i32 {
        let occupancy = u32::try_from(occupancy).unwrap_or(0);
        let cluster = u32::try_from(cluster).unwrap_or(u32::MAX);
        int(self.device.clusters_at_a_time(occupancy, cluster))
    }

    /// Whether its worker computes with a processor, by our own compiler.
    pub(crate) fn is_cpu(&self) -> bool {
        self.device.kind == "cpu"
    }

    /// Multiprocessors.
    pub(crate) fn multiprocessors(&self) -> i32 {
        int(self.device.sms)
    }

    /// Blocks of one launch that run beside one another at most, whatever the other figures say.
    pub(crate) fn resident_blocks(&self) -> Option<u32> {
        Some(self.device.resident_blocks).filter(|blocks| *blocks > 0)
    }

    /// Shared bytes of a block that opts in to more.
    pub(crate) fn shared_optin(&self) -> i32 {
        int(self.device.block_shared_optin)
    }

    /// The value of an attribute by its number; `None` for a number that CUDA does not have.
    pub(crate) fn attribute(&self, number: i32) -> Option<i32> {
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
            // What it is.
            13 => int(device.clock_khz),
            33 => self.gpu,
            75 => self.compute().0,
            76 => self.compute().1,
            87 => 2,
            14 | 30 => 512,
            44 => 1,
            51 => 32,
            21..=29 | 42..=49 | 52..=74 | 77 => texture(number),
            // What it can: overlap, mapped host memory, concurrent kernels, copies beside kernels,
            // unified addresses, stream priorities, caches, managed memory, preemption,
            // cooperative launches, registering host memory, memory pools.
            15 | 19 | 31 | 40 | 41 | 78 | 79 | 80 | 83 | 90 | 95 | 99 | 115 => 1,
            // Mapping memory at reserved addresses. Programs that are told of it reserve large ranges.
            102 => i32::from(self.reserves),
            // Memory and events of other processes: names of memory as files, events.
            103 | 125 => i32::from(device.answers_ipc),
            // Clusters of blocks, tensor maps.
            120 | 127 => i32::from(self.takes_clusters()),
            // Domains of memory synchronisation: one before Hopper, and launches here name none.
            126 => 1,
            // Everything else there is: no.
            17..=161 => 0,
            _ => return None,
        };
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_room_for_a_large_range_where_it_is_large_enough() {
        const GIB: u64 = 1 << 30;
        // Windows as they are handed out for so much memory.
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
