//! The memory needs of a slice, and the pager's decision on them.

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
    /// See [`bus_schemas::Op::Move`]: the charge moves to another address.
    Move {
        /// The new first address.
        to: u64,
        /// The old first address.
        from: u64,
    },
    /// See [`bus_schemas::Op::LoadModule`]: its variables, or the heap of kernels.
    Load {
        /// The op.
        op: OpNumber,
        /// The holder of the bytes.
        holder: VariableHolder,
        /// Bytes; they replace the bytes that it held before.
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
        /// Bytes that one block takes; 0 for launches that fit into the bytes which any launch may take.
        least: u64,
        /// Maximum bytes that its blocks in progress can use.
        most: u64,
    },
}

/// Holders of a session's memory beside its allocations.
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
    /// Ask again once a running slice has completed; nothing is charged yet.
    Wait,
    /// Ask again once the session's memory has returned or there is room on the device, which the pager
    /// reports. Nothing is charged yet, and claims of other sessions may be asked meanwhile.
    Later,
    /// The slice may run up to this op, which fails.
    Refused(OpNumber, Failure),
}
