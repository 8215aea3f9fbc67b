//! Allocations that a session lets others use.

use bus_schemas::{ExportPlace, Failure, SessionId};

/// The part of a device by which a session uses an allocation of another's, at addresses of its own.
///
/// The allocation stays its owner's, who is charged for it. When it is freed, or its session closed, those
/// that have imported it reach nothing there any more: what they do with it then fails like any access
/// outside of their memory. A session that exports or imports anything does not leave the device
/// ([`crate::Device::swap_out`] fails).
pub trait ExportMemory {
    /// Others may use the allocation of `session` that begins at `address` from now on; `export` is a number
    /// that no other has. An allocation may be exported once.
    ///
    /// # Errors
    /// When none of its own begins there, or its memory is not on the device just now; that is retryable.
    fn export(
        &mut self,
        session: SessionId,
        address: u64,
        export: u64,
    ) -> Result<ExportPlace, Failure>;

    /// The first byte of what was exported is at `address` of `session` as well from now on. The session has
    /// nothing in the room that [`ExportPlace`] asks for. It may be the owner: it has it twice then.
    ///
    /// # Errors
    /// When the export is gone, the room is not free or not in the window, or a
    /// session's memory is not on the device just now; that is retryable.
    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure>;

    /// The session does not use what it has imported at `address` any more. Its launches are done.
    ///
    /// # Errors
    /// When it has imported nothing there.
    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure>;

    /// Appends the exports that are gone since this was last asked: freed, or closed with their sessions.
    fn take_gone(&mut self, gone: &mut Vec<u64>);
}
