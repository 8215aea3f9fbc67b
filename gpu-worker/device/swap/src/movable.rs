//! The interface of a device's session for moves of its memory.

use bus_schemas::{Failure, Window};

use crate::keep::Keep;

/// A session with memory that can leave the device and come back. Another thread than the device's moves it,
/// and has it alone meanwhile.
pub trait Movable: Send + 'static {
    /// Returns its address window.
    fn window(&self) -> Window;

    /// Bytes of the device that it takes while its memory is there.
    fn allocated(&self) -> u64;

    /// The fault of its slices, if it has ended with one.
    fn fault(&self) -> Option<Failure>;

    /// Ends it: each later slice completes with this fault.
    fn stop(&mut self, why: Failure);

    /// Takes the output of its kernels that was not reported yet.
    fn printed(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Bytes that would leave the device.
    fn bytes(&self) -> u64;

    /// Gives all bytes to `keep` and their memory back to the device, piece by piece: given pieces leave the
    /// device then.
    ///
    /// # Errors
    /// The failure of `keep`, or of the device. Bytes given to `keep` may still be on the device.
    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure>;

    /// Puts a piece back that `keep` was given, even if it has not left.
    ///
    /// # Errors
    /// If the device has no memory for it, or fails.
    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure>;
}
