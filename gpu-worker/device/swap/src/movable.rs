//! A session of a device, as far as its memory can be moved.

use bus_schemas::{Failure, Window};

use crate::keep::Keep;

/// A session whose memory can leave the device and come back. It is moved on another thread than the
/// device's, and nothing else has it meanwhile.
pub trait Movable: Send + 'static {
    /// Its addresses.
    fn window(&self) -> Window;

    /// Bytes of the device that it takes while its memory is there.
    fn allocated(&self) -> u64;

    /// What its slices fail with, if something has ended it.
    fn fault(&self) -> Option<Failure>;

    /// Ends it: each slice that comes completes with this fault.
    fn stop(&mut self, why: Failure);

    /// What its kernels have printed and nobody was told of, which is so given away.
    fn printed(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Bytes that would leave the device.
    fn bytes(&self) -> u64;

    /// Gives all bytes to `keep` and their memory back to the device, piece by piece: what it was given
    /// goes then.
    ///
    /// # Errors
    /// What `keep` says, or that the device fails. What `keep` was given may be on the device still.
    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure>;

    /// Puts a piece back that `keep` was given, also where it has not left.
    ///
    /// # Errors
    /// If the device has no memory for it, or fails.
    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure>;
}
