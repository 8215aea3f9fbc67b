//! The engine's configuration.

/// The configuration of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Worker threads a launch may use; launches of few blocks use one.
    pub threads: usize,
    /// Warp instructions a launch may run before it is ended as a timeout.
    pub fuel: u64,
    /// Blocks a worker thread keeps in progress at most, when they wait for one another.
    pub resident: usize,
    /// In which order blocks begin.
    pub order: BlockOrder,
}

/// In which order the blocks of a launch begin. CUDA promises none: a kernel that depends on it
/// is wrong, and tests find that by the orders other than the usual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// By index.
    #[default]
    Ascending,
    /// The last one first.
    Descending,
    /// All over the grid.
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
            // A grid with a block for each multiprocessor of any device that this one says it is, also on
            // one thread: programs launch as many where blocks wait for one another.
            resident: 192,
            order: BlockOrder::default(),
        }
    }
}
