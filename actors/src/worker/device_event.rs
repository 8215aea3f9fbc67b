//! Events that the device's thread and the threads that prepare images send to the actor.

use std::time::Duration;

use bus_schemas::{ExportPlace, Failure, ModuleHash, SessionId, Tenant};
use device::{Completion, Moved, PreparedModule, Recharged, SwapUse};

/// Something that the device has done.
pub(super) enum DeviceEvent {
    Opened(SessionId, Option<Failure>),
    Closed(SessionId),
    Prepared(ModuleHash, Result<PreparedModule, Failure>),
    /// Processor time that preparing an image of a tenant took.
    Compiled(Tenant, Duration),
    Completed(Completion),
    /// Moves of sessions' memory that have ended, and how full the swap space is.
    Moved(Vec<Moved>, SwapUse),
    /// What came of something about memory that sessions use of one another; an export has a place.
    Exchanged(SessionId, Result<Option<ExportPlace>, Failure>),
    /// Exported allocations are gone, by the numbers of the exports.
    ExportsGone(Vec<u64>),
    /// The device serves nobody any more, and its thread has ended. What was under way came before.
    Lost(Failure),
    /// What sessions are charged now, and the bytes saved by sharing.
    Recharged(Vec<Recharged>, u64),
}
