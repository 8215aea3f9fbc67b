//! Allocations that a session lets others use.

use bus_schemas::{ExportPlace, Failure, SessionId};

/// The part of a device by which a session uses an allocation of another session, at addresses of its own.
///
/// The allocation stays its owner's, who is charged for it. When it is freed, or its session closed,
/// importers reach nothing there any more: their accesses then fail like any access outside of their memory.
/// A session that exports or imports anything does not leave the device ([`crate::Device::swap_out`] fails).
pub trait ExportMemory {
    /// Lets other sessions use the allocation of `session` that begins at `address` from now on; `export` is
    /// a unique number. An allocation may be exported once.
    ///
    /// # Errors
    /// When no allocation of its own begins there. Also when its memory is not on the device just now; that
    /// is retryable.
    fn export(
        &mut self,
        session: SessionId,
        address: u64,
        export: u64,
    ) -> Result<ExportPlace, Failure>;

    /// Maps an export so that its first byte is at `address` of `session` as well from now on. The session
    /// has nothing in the room that [`ExportPlace`] asks for. The session may be the owner, which then has
    /// the allocation twice.
    ///
    /// # Errors
    /// When the export is gone, or the room is not free or not in the window. Also when a session's memory is
    /// not on the device just now; that is retryable.
    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure>;

    /// Unmaps the session's import at `address`. Its launches are done.
    ///
    /// # Errors
    /// When it has imported nothing there.
    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure>;

    /// Appends the exports that are gone since the last call: freed, or closed with their sessions.
    fn take_gone(&mut self, gone: &mut Vec<u64>);
}
