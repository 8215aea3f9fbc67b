//! Kinds of mutants: errors that a node can have.

use serde::{Deserialize, Serialize};

/// Error of a mutated node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// A worker's device runs an op twice.
    RunsTwice,
    /// A worker's device leaves an op out.
    SkipsAnOp,
    /// A worker accepts any leader's orders.
    IgnoresEpochs,
    /// A worker swaps two slices of different sessions.
    SwapsStarts,
    /// A worker reports a chain that is not that of its grants.
    WrongChain,
    /// A worker never reports anything done.
    NeverReports,
    /// Leaders grant a hundred windows.
    WideWindow,
    /// Leaders take every tenant's weight to be 1 (in a cluster with different weights).
    EqualWeights,
    /// Leaders treat every tenant as one without a target.
    IgnoresTargets,
    /// The record loses a block in the middle, unnoticed.
    LosesBlock,
    /// A worker lets every allocation through.
    IgnoresQuota,
    /// A worker's device does not check addresses.
    SkipsAddressCheck,
    /// A worker's answers to seals do not name the closed sessions of their tails.
    ForgetsNames,
    /// A worker's answers to seals leave out the tail.
    ForgetsTail,
    /// A worker reports opened sessions as gone.
    MisreportsOpens,
    /// A worker's meter forgets a session's use.
    ForgetsUse,
    /// A worker's meter forgets that memory was swapped in.
    ForgetsMoves,
    /// The leader's grants name ops that no client submitted.
    InventsOps,
    /// Leaders treat every tenant as bound to all groups.
    IgnoresGroups,
    /// Leaders treat exclusive workers as shared: several tenants may use them at a time.
    SharesExclusive,
    /// Leaders treat every worker as exclusive.
    RefusesPlaces,
    /// The leader's answers leave out the last of several devices.
    LosesADevice,
    /// The leader's answers name the first of several devices twice.
    RepeatsADevice,
    /// The leader reports every end to clients as a lost device.
    BlamesDevices,
    /// Leaders report workers as drained, but place sessions there.
    IgnoresDrains,
    /// Leaders tell workers to leave as soon as they are drained.
    DismissesAtOnce,
    /// Leaders do not read the drains of their predecessors.
    ForgetsDrains,
    /// Leaders keep all unrecorded inputs, however many there are.
    KeepsAll,
    /// Leaders leave inputs unrecorded although they have room to keep them.
    GivesUpEarly,
    /// Leaders do not name unrecorded positions.
    HidesGaps,
    /// Leaders name one position too few of the unrecorded ones.
    NamesTooLittle,
    /// Leaders give no reason for unrecorded positions.
    GivesNoReason,
    /// Leaders append their blocks much too late.
    AppendsLate,
    /// A worker's device does not stop a closed session's slice.
    IgnoresStop,
    /// A worker promises sessions more memory than it has for them.
    PromisesTooMuch,
    /// A worker says that it has the first chunk of every offered transfer.
    ClaimsChunks,
    /// A worker's meter forgets the bytes that clients need not send.
    ForgetsUnsent,
    /// A worker finds an export under every key.
    InventsExports,
    /// A worker's device keeps imports of freed memory.
    KeepsImports,
    /// Candidates declare a leader dead after a tenth of a second of silence.
    DeposesTheSlow,
    /// Leaders declare a worker lost after a fifth of a second of silence.
    LosesTheSlow,
    /// Leaders attribute a closed connection by its name, regardless of its login.
    BelievesNames,
}

impl Mutant {
    /// True if it is a worker's.
    #[must_use]
    pub fn of_worker(self) -> bool {
        !self.of_leader() && self != Self::LosesBlock
    }

    /// True if it is a leader's.
    #[must_use]
    pub fn of_leader(self) -> bool {
        matches!(
            self,
            Self::WideWindow
                | Self::EqualWeights
                | Self::IgnoresTargets
                | Self::InventsOps
                | Self::IgnoresGroups
                | Self::SharesExclusive
                | Self::RefusesPlaces
                | Self::LosesADevice
                | Self::RepeatsADevice
                | Self::BlamesDevices
                | Self::IgnoresDrains
                | Self::DismissesAtOnce
                | Self::ForgetsDrains
                | Self::KeepsAll
                | Self::GivesUpEarly
                | Self::HidesGaps
                | Self::NamesTooLittle
                | Self::GivesNoReason
                | Self::AppendsLate
                | Self::DeposesTheSlow
                | Self::LosesTheSlow
                | Self::BelievesNames
        )
    }
}
