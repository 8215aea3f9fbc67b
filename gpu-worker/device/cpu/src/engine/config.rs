//! The engine's configuration.

/// The configuration of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Maximum number of worker threads of a launch; launches of few blocks use one.
    pub threads: usize,
    /// Maximum number of warp instructions of a launch; beyond it the launch ends as a timeout.
    pub fuel: u64,
    /// Maximum number of blocks that a worker thread keeps in progress when they wait for one
    /// another.
    pub resident: usize,
    /// Order in which blocks begin.
    pub order: BlockOrder,
}

/// Order in which the blocks of a launch begin. CUDA promises none, so a kernel that depends on it
/// is wrong. Tests find such kernels with the unusual orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// By index.
    #[default]
    Ascending,
    /// The last one first.
    Descending,
    /// Spread over the grid.
    Scattered,
}

impl BlockOrder {
    /// The index of the block that begins as number `place` of `blocks`.
    pub(super) fn index(self, place: u64, blocks: u64) -> u64 {
        match self {
            Self::Ascending => place,
            Self::Descending => blocks - 1 - place,
            Self::Scattered => {
                // Steps of a prime reach every index unless the prime divides the count.
                let prime = [7919, 104_729]
                    .into_iter()
                    .find(|prime| !u128::from(blocks).is_multiple_of(*prime))
                    .unwrap_or(1);
                (u128::from(place) * prime % u128::from(blocks)) as u64
            }
        }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            fuel: 1 << 40,
            // Enough for a grid with a block for each multiprocessor of any model that this device
            // reports, even on one thread. Programs launch that many if the blocks wait for one
            // another.
            resident: 192,
            order: BlockOrder::default(),
        }
    }
}
