//! Memory that a program holds beside its working memory, so that a run's sessions do not fit on a device
//! together. It is swapped out and back, and its bytes are compared.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus_schemas::Code;
use client_agent::{Error, Session};
use workloads::SplitMix64;

use super::calls::Calls;

/// Bytes compared in a round, and bytes rewritten in it.
const PIECE: u64 = 64 << 10;
/// Time between two attempts to allocate memory that other sessions still hold.
const AGAIN: Duration = Duration::from_millis(20);

/// An allocation and its expected bytes.
pub(super) struct Holding<'a> {
    session: &'a Session,
    address: u64,
    expected: Vec<u8>,
}

impl<'a> Holding<'a> {
    /// Allocates `bytes` bytes, and retries while memory is short: killed programs hold theirs for a while.
    /// Returns `None` if it is stopped before that.
    pub(super) fn begin(
        session: &'a Session,
        bytes: u64,
        random: &mut SplitMix64,
        calls: &Calls,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, Error> {
        let address = loop {
            match calls.watch("alloc", || session.alloc(bytes)) {
                Ok(address) => break address,
                Err(error) if error.code() == Code::OutOfMemory => {}
                Err(error) => return Err(error),
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(AGAIN);
        };
        let mut expected = vec![0; bytes as usize];
        fill(&mut expected, random);
        calls.watch("copy in", || session.copy_in(address, &expected))?;
        Ok(Some(Self {
            session,
            address,
            expected,
        }))
    }

    /// Compares one piece and rewrites another.
    pub(super) fn round(&mut self, random: &mut SplitMix64, calls: &Calls) -> Result<bool, Error> {
        let mut place = || random.below(self.expected.len() as u32) as u64;
        let (read, written) = (place(), place());
        let right = self.compare(read, PIECE, calls)?;
        let written = self.piece(written, PIECE);
        let piece = &mut self.expected[written.clone()];
        fill(piece, random);
        let to = self.address + written.start as u64;
        calls.watch("copy in", || self.session.copy_in(to, piece))?;
        Ok(right)
    }

    /// Compares the whole allocation.
    pub(super) fn is_right(&self, calls: &Calls) -> Result<bool, Error> {
        self.compare(0, self.expected.len() as u64, calls)
    }

    fn compare(&self, from: u64, bytes: u64, calls: &Calls) -> Result<bool, Error> {
        let piece = self.piece(from, bytes);
        let mut found = vec![0; piece.len()];
        let at = self.address + piece.start as u64;
        calls.watch("copy out", || self.session.copy_out(at, &mut found))?;
        Ok(found == self.expected[piece])
    }

    /// The range of `bytes` bytes from `from`, cut off at the end of the allocation.
    fn piece(&self, from: u64, bytes: u64) -> std::ops::Range<usize> {
        let end = (from + bytes).min(self.expected.len() as u64);
        from as usize..end as usize
    }
}

fn fill(bytes: &mut [u8], random: &mut SplitMix64) {
    for chunk in bytes.chunks_mut(8) {
        let word = random.bits().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}
