//! The errors of a replay.

use bus_schemas::{Epoch, GpuId, GpuPosition, Incarnation};

/// The reason why a record cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Other rules made the record.
    #[error("epoch {epoch} was ordered by rules {got}, this build has rules {have}")]
    Version {
        /// The epoch.
        epoch: Epoch,
        /// Its rules.
        got: u32,
        /// Ours.
        have: u32,
    },
    /// A block that cannot be read.
    #[error("block {number} of epoch {epoch}: {why}")]
    Block {
        /// The epoch.
        epoch: Epoch,
        /// The block.
        number: u64,
        /// The reason.
        why: String,
    },
    /// The recorded estimates are not those that their leader named.
    #[error("epoch {epoch}, input {input}: the profile is not the one its hash names")]
    Profile {
        /// The epoch.
        epoch: Epoch,
        /// The input.
        input: u64,
    },
    /// A recomputed grant differs from the one that a worker accepted.
    #[error("gpu {gpu} worker {incarnation} position {position}: {why}")]
    Disagrees {
        /// The device.
        gpu: GpuId,
        /// The worker.
        incarnation: Incarnation,
        /// The position.
        position: GpuPosition,
        /// The difference.
        why: String,
    },
}
