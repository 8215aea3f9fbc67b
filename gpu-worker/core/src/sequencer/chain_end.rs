//! The end of the chain: the last accepted position.

use bus_schemas::{Chain, ChainEntry, GlobalPosition, GpuPosition, invariant};

/// The last accepted position, and the chain there.
#[derive(Debug, Default)]
pub(super) struct ChainEnd {
    position: GpuPosition,
    chain: Chain,
    /// The highest global position of an accepted grant.
    global: GlobalPosition,
}

impl ChainEnd {
    /// The last gpu position.
    pub(super) fn position(&self) -> GpuPosition {
        self.position
    }

    /// The chain there.
    pub(super) fn chain(&self) -> Chain {
        self.chain
    }

    /// The highest global position.
    pub(super) fn global(&self) -> GlobalPosition {
        self.global
    }

    /// Notes the global position of a grant.
    pub(super) fn raise(&mut self, global: GlobalPosition) {
        self.global = self.global.max(global);
    }

    /// Adds the next position to the chain.
    pub(super) fn enter(&mut self, entry: &ChainEntry<'_>) {
        let (position, accepted) = (entry.position, self.position);
        invariant!(
            I2,
            position == accepted + 1,
            "position {position} is accepted behind {accepted}"
        );
        self.chain = self.chain.then(entry);
        self.position = position;
    }
}
