//! Kinds of mutants: what can be wrong with a node.

use serde::{Deserialize, Serialize};

/// What a mutated node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// A worker's device runs an op twice.
    RunsTwice,
    /// A worker's device leaves an op out.
    SkipsAnOp,
    /// A worker takes any leader's orders for its own leader's.
    IgnoresEpochs,
    /// A worker swaps two slices of different sessions.
    SwapsStarts,
    /// A worker reports a chain that is not that of its grants.
    WrongChain,
    /// A worker never reports anything done.
    NeverReports,
    /// Leaders grant a hundred windows.
    WideWindow,
    /// Leaders take every tenant's weight for 1 (in a cluster where weights differ).
    EqualWeights,
    /// Leaders take every tenant for one without a target.
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
    /// A worker reports of sessions that it opened that they were gone.
    MisreportsOpens,
    /// A worker's meter forgets a session's use.
    ForgetsUse,
    /// A worker's meter forgets that memory came back.
    ForgetsMoves,
    /// The leader's grants name ops that nobody submitted.
    InventsOps,
    /// Leaders take every tenant for one that is bound to all groups.
    IgnoresGroups,
    /// Leaders take exclusive workers for such that several tenants may use at a time.
    SharesExclusive,
    /// Leaders take every worker for an exclusive one.
    RefusesPlaces,
    /// The leader's answers leave out the last of several devices.
    LosesADevice,
    /// The leader's answers name the first of several devices twice.
    RepeatsADevice,
    /// The leader tells clients of every end that the device is lost.
    BlamesDevices,
    /// Leaders say of workers that they are drained, and place sessions there.
    IgnoresDrains,
    /// Leaders tell workers to leave as soon as they are drained.
    DismissesAtOnce,
    /// Leaders do not read what their predecessors were told to drain.
    ForgetsDrains,
    /// Leaders keep whatever is not recorded, however much it is.
    KeepsAll,
    /// Leaders leave inputs unrecorded though they have room to keep them.
    GivesUpEarly,
    /// Leaders do not name what went unrecorded.
    HidesGaps,
    /// Leaders name one position too few of what went unrecorded.
    NamesTooLittle,
    /// Leaders give no reason for what went unrecorded.
    GivesNoReason,
    /// Leaders append what they have cut only much later.
    AppendsLate,
    /// A worker's device does not stop what a closed session runs.
    IgnoresStop,
    /// Candidates take a leader for dead that was silent for a tenth of a second.
    DeposesTheSlow,
    /// Leaders take a worker for lost that was silent for a fifth of a second.
    LosesTheSlow,
    /// Leaders take a closed connection for whose its name says, whatever login it was made with.
    BelievesNames,
}

impl Mutant {
    /// Whether it is a worker's.
    #[must_use]
    pub fn of_worker(self) -> bool {
        !self.of_leader() && self != Self::LosesBlock
    }

    /// Whether it is a leader's.
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
