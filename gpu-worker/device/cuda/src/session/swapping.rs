//! The moves of a session's memory off the GPU and back, extent by extent.
//!
//! All of it runs on the mover's thread, which may wait. The variables of modules lie in the driver's memory
//! outside of the window: they stay.

use bus_schemas::{Code, Failure, Window};
use device_swap::{Keep, Movable};

use super::Session;

/// Bytes that are copied at a time.
const PIECE: usize = 4 << 20;

impl Movable for Session {
    fn window(&self) -> Window {
        self.window
    }

    fn allocated(&self) -> u64 {
        self.memory.resident()
    }

    fn fault(&self) -> Option<Failure> {
        let failed = || Failure::new(Code::SessionGone, "an earlier op of the session failed");
        self.stopped.clone().or_else(|| self.failed.then(failed))
    }

    fn stop(&mut self, why: Failure) {
        self.stopped.get_or_insert(why);
    }

    /// Bytes of whole extents, allocated and touched or not.
    fn bytes(&self) -> u64 {
        self.memory.extents().iter().map(|(_, size)| size).sum()
    }

    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure> {
        self.context.enter()?;
        self.drop_freed()?;
        let mut lease = self.pools.pinned.answer(PIECE)?;
        for (first, size) in self.memory.extents() {
            let (mut from, end) = (first, first + size);
            while from < end {
                let bytes = (end - from).min(PIECE as u64) as usize;
                let piece = self.stream.bring_out(lease.pinned(), (from, bytes))?;
                keep.piece(from, piece)?;
                from += piece.len() as u64;
            }
            self.memory.release(first);
        }
        Ok(())
    }

    /// All pieces of an extent together overwrite all of it, so that none of the previous bytes of its
    /// physical memory are left.
    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.context.enter()?;
        self.memory.restore(&self.context, address)?;
        self.stream.copy_in(address, bytes)?;
        self.stream.wait()
    }
}
