//! A started slice on its way to the device, and how far it is.

use bus_schemas::{Failure, OpNumber};
use device::Slice;
use gpu_worker_core::pager::Need;

use super::scan::Scanned;

/// A started slice on its way to the device.
pub(super) struct Submission {
    pub(super) slice: Slice,
    /// What its ops must declare, where that is known.
    pub(super) declared: Option<u64>,
    pub(super) cost: u64,
    pub(super) readiness: Readiness,
}

/// How far a slice is.
pub(super) enum Readiness {
    /// What it uses is not here, or nobody has looked.
    Lacks,
    /// It needs this memory, and the pager was not asked.
    Needs(Scanned, Vec<Need>),
    /// The pager was asked and has not answered.
    Asked(Scanned),
    /// It may run, up to the op that does not get what it needs.
    Settled(Scanned, Option<(OpNumber, Failure)>),
    /// Its session is being closed.
    Stopped(Failure),
}
