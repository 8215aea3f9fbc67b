//! A session's memory that leaves the GPU and comes back, extent by extent.
//!
//! All of it is the mover's thread's, which may wait. The driver has the variables of modules, outside of
//! the window: they stay.

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

    /// Whole extents, whatever of them is allocated or was touched.
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

    /// All pieces of an extent together overwrite all of it, so that nothing of what was in its physical
    /// memory before is left.
    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.context.enter()?;
        self.memory.restore(&self.context, address)?;
        self.stream.copy_in(address, bytes)?;
        self.stream.wait()
    }
}
