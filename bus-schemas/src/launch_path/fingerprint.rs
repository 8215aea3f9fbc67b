//! The fingerprint of a function, and the kernel key of a launch made from it.

use crate::id::{KernelKey, ModuleHash};
use crate::launch_path::op::{Dim, Launch};

/// Fingerprint of (module hash, function name). It is computed once per function. Each launch
/// extends it by its dimensions to a kernel key, without access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FunctionFingerprint(pub u64);

impl FunctionFingerprint {
    /// Returns the first 8 bytes (little-endian) of BLAKE3(module hash ‖ function name).
    #[must_use]
    pub fn new(module: &ModuleHash, function: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&module.0);
        hasher.update(function.as_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self(u64::from_le_bytes(first))
    }

    /// Returns the key of a launch with its attributes. Clusters and cooperative grids make a
    /// different kernel for the device; without either the key is [`Self::key`].
    #[inline]
    #[must_use]
    pub fn launch_key(self, launch: &Launch) -> KernelKey {
        let [x, y, z] = launch.attributes.cluster;
        let cooperative = u8::from(launch.attributes.cooperative);
        let attributes = u64::from(u32::from_le_bytes([x, y, z, cooperative]));
        let key = self.key(launch.grid, launch.block, launch.shared);
        match attributes {
            0 => key,
            _ => KernelKey(mix(key.0 ^ attributes)),
        }
    }

    /// Returns the key of a launch: SplitMix64 over the fingerprint and then, in order, grid x, y,
    /// z, block x, y, z and shared bytes.
    #[inline]
    #[must_use]
    pub fn key(self, grid: Dim, block: Dim, shared: u32) -> KernelKey {
        let pairs = [
            u64::from(grid[0]) | u64::from(grid[1]) << 32,
            u64::from(grid[2]) | u64::from(block[0]) << 32,
            u64::from(block[1]) | u64::from(block[2]) << 32,
            u64::from(shared),
        ];
        KernelKey(
            pairs
                .into_iter()
                .fold(self.0, |state, pair| mix(state ^ pair)),
        )
    }
}

/// One step of SplitMix64.
#[inline]
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
