//! The needs of a slice, and the answer to them.

use bus_schemas::{Failure, OpNumber};

/// The effect of one op of a slice on its session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// See [`bus_schemas::Op::Alloc`].
    Alloc {
        /// The op.
        op: OpNumber,
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// See [`bus_schemas::Op::Free`].
    Free {
        /// First address.
        address: u64,
    },
    /// See [`bus_schemas::Op::Move`]: the charge is of other addresses.
    Move {
        /// Where it begins from now on.
        to: u64,
        /// Where it began.
        from: u64,
    },
    /// See [`bus_schemas::Op::LoadModule`]: its variables, or the heap of kernels.
    Load {
        /// The op.
        op: OpNumber,
        /// What they are held for.
        holder: VariableHolder,
        /// Bytes; they take the place of what it held before.
        bytes: u64,
    },
    /// See [`bus_schemas::Op::UnloadModule`].
    Unload {
        /// The slot.
        slot: u32,
    },
    /// See [`bus_schemas::Op::Launch`]: launches from this op on.
    Launch {
        /// The op.
        op: OpNumber,
        /// Bytes that one block takes; 0 where launches take what any may.
        least: u64,
        /// Bytes that its blocks in progress can use at most.
        most: u64,
    },
}

/// What a session holds memory for beside its allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariableHolder {
    /// The variables of the module in a slot.
    Slot(u32),
    /// The heap of kernels, as long as the session lives.
    Heap,
}

/// The answer to a slice's needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryDecision {
    /// The slice may run.
    Fits,
    /// Ask again once something that runs has completed; nothing is charged yet.
    Wait,
    /// Ask again once the session's memory has returned, or there is room on the device: that will be
    /// said. Nothing is charged yet, and others may be asked about.
    Later,
    /// The slice may run up to this op, which fails.
    Refused(OpNumber, Failure),
}
