//! Ops that move many bytes, in pieces, so that more urgent work need not wait for a gigabyte.

use super::failure::memory_failure;
use super::session::{Progressing, Run, Session, Step};
use super::sharing::Shares;
use crate::error::MemoryError;
use crate::memory::PAGE;
use crate::shared::{LEAST, Slot, UNIT};
use bus_schemas::{Code, Failure, OpRef};
use device::{Chunk, CopyBytes};
use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes written between two checks for waiting sessions: a few hundred microseconds, including the
/// first touch of pages. Equal to the unit of sharing, so that each piece of a copy is one unit.
pub(super) const PIECE: u64 = UNIT;
/// Bytes given back to the host between two checks: below a millisecond.
pub(super) const FREED: u64 = 4 << 20;

/// Source of the bytes of a copy from the host.
#[derive(Clone, Copy)]
enum Source<'s> {
    /// Sent with its op.
    Sent(&'s [u8]),
    /// Staged ahead of its op.
    Staged(&'s CopyBytes),
}

impl<'s> Source<'s> {
    /// The bytes of a range, in pieces.
    fn slices(self, offset: u64, len: u64) -> impl Iterator<Item = &'s [u8]> {
        let (offset, len) = (offset as usize, len as usize);
        let (sent, staged) = match self {
            Self::Sent(bytes) => (Some(&bytes[offset..offset + len]), None),
            Self::Staged(staged) => (None, Some(staged.slices(offset, len))),
        };
        sent.into_iter().chain(staged.into_iter().flatten())
    }

    /// The slot that stores the bytes from an offset on, if any.
    fn slot(self, offset: u64) -> Option<Arc<Slot>> {
        let Self::Staged(staged) = self else {
            return None;
        };
        let chunk: Arc<dyn Chunk> = Arc::clone(staged.chunk_at(offset as usize)?);
        let chunk: Arc<dyn Any + Send + Sync> = chunk;
        chunk.downcast().ok()
    }
}

/// Moves the rest of `total` bytes: `each` gets the offset and length of a piece.
pub(super) fn in_pieces(
    run: &Run<'_>,
    moved: &mut u64,
    (total, piece): (u64, u64),
    mut each: impl FnMut(u64, u64) -> Result<(), MemoryError>,
) -> Result<Step, Failure> {
    while *moved < total {
        let bytes = piece.min(total - *moved);
        each(*moved, bytes).map_err(memory_failure)?;
        *moved += bytes;
        if *moved < total && run.is_over() {
            return Ok(Step::Parked);
        }
    }
    *moved = 0;
    Ok(Step::Done)
}

impl Session {
    fn live(&self, addr: u64, len: u64) -> Result<(), Failure> {
        match self.memory.contains(addr, len) || self.memory.covers(addr, len) {
            true => Ok(()),
            false => Err(memory_failure(MemoryError::IllegalAddress { addr, len })),
        }
    }

    pub(super) fn copy_in(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        op: &OpRef<'_>,
        (address, bytes, transfer): (u64, u64, u64),
    ) -> Result<Step, Failure> {
        let given = |len: usize| match len as u64 == bytes {
            true => Ok(()),
            false => {
                let detail = format!("{len} bytes given, {bytes} announced");
                Err(Failure::new(Code::Protocol, detail))
            }
        };
        if transfer == 0 {
            given(op.payload.len())?;
            self.live(address, bytes)?;
            let sent = Source::Sent(op.payload);
            return self.bring(run, &mut progress.moved, sent, (address, bytes));
        }
        let mut known = progress.slice.transfers.iter();
        let Some(index) = known.position(|(known, _)| *known == transfer) else {
            let detail = format!("transfer {transfer} was not staged");
            return Err(Failure::new(Code::Protocol, detail));
        };
        let staged = &progress.slice.transfers[index].1;
        given(staged.len())?;
        self.live(address, bytes)?;
        let source = Source::Staged(staged);
        let step = self.bring(run, &mut progress.moved, source, (address, bytes))?;
        if let Step::Done = step {
            // An op names a transfer once, so it is not needed any more.
            let (_, staged) = progress.slice.transfers.swap_remove(index);
            if let Ok(CopyBytes::Sent(parcel)) = Arc::try_unwrap(staged) {
                run.spares().take_apart(parcel);
            }
        }
        Ok(step)
    }

    /// Copies bytes from the host to the device: units that other sessions hold alike are shared,
    /// the rest is written.
    fn bring(
        &mut self,
        run: &Run<'_>,
        moved: &mut u64,
        source: Source<'_>,
        (address, bytes): (u64, u64),
    ) -> Result<Step, Failure> {
        let kept = matches!(source, Source::Staged(CopyBytes::Kept(_)));
        let may_share = (bytes >= UNIT || kept)
            && address.is_multiple_of(PAGE)
            && address < self.memory.internal_base();
        in_pieces(run, moved, (bytes, PIECE), |offset, len| {
            let mut done = 0;
            let whole = len / PAGE * PAGE;
            if may_share
                && whole >= LEAST
                && let Some(mut guest) = self.guest()
            {
                let unit = (address + offset, whole);
                let pieces = || source.slices(offset, whole);
                let mut sharing = run.sharing.borrow_mut();
                let there = match source.slot(offset) {
                    Some(slot) if sharing.take_kept(&mut guest, unit, &slot) => true,
                    _ => sharing.take_in(&mut guest, run.neighbours, unit, pieces),
                };
                if there {
                    done = whole;
                }
            }
            let mut to = address + offset + done;
            source
                .slices(offset + done, len - done)
                .try_for_each(|slice| {
                    self.memory.write(to, slice)?;
                    to += slice.len() as u64;
                    Ok(())
                })
        })
    }

    pub(super) fn copy_out(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        (address, bytes): (u64, u64),
    ) -> Result<Step, Failure> {
        // The range is checked before anything of its size is allocated.
        self.live(address, bytes)?;
        if progress.moved == 0 {
            progress.out = run.spares().parcel(bytes as usize);
        }
        let out = &mut progress.out;
        in_pieces(run, &mut progress.moved, (bytes, PIECE), |offset, len| {
            let piece = self.memory.bytes(address + offset, len)?;
            out.write(offset as usize, piece);
            Ok(())
        })
    }

    pub(super) fn copy(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        (to, from, bytes): (u64, u64, u64),
    ) -> Result<Step, Failure> {
        self.live(from, bytes)?;
        self.live(to, bytes)?;
        // If the ranges overlap, bytes are read before they are overwritten.
        let backwards = to > from;
        in_pieces(run, &mut progress.moved, (bytes, PIECE), |offset, len| {
            let at = match backwards {
                true => bytes - offset - len,
                false => offset,
            };
            self.memory.copy(to + at, from + at, len)
        })
    }

    pub(super) fn set(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        (addr, value): (u64, u32),
        (count, width): (u64, u8),
    ) -> Result<Step, Failure> {
        let width = u32::from(width);
        // A fill of no bytes: checks only the width and the address.
        let judged = self.memory.fill(addr, value, width, 0);
        judged.map_err(memory_failure)?;
        let bytes = count.checked_mul(u64::from(width)).ok_or_else(|| {
            let len = u64::MAX;
            memory_failure(MemoryError::IllegalAddress { addr, len })
        })?;
        self.live(addr, bytes)?;
        in_pieces(run, &mut progress.moved, (bytes, PIECE), |offset, len| {
            let count = len / u64::from(width);
            self.memory.fill(addr + offset, value, width, count)
        })
    }

    pub(super) fn free(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        address: u64,
    ) -> Result<Step, Failure> {
        let not_allocated = || memory_failure(MemoryError::NotAllocated(address));
        if address >= self.memory.internal_base() {
            return Err(not_allocated());
        }
        if self.memory.drop_map(address) {
            return Ok(Step::Done);
        }
        let bytes = self.memory.allocated(address).ok_or_else(not_allocated)?;
        if self.memory.is_exported(address) {
            self.end_export(run, address);
        }
        if bytes > FREED {
            // A large allocation's pages go first, in pieces: all at once they take milliseconds.
            let step = in_pieces(run, &mut progress.moved, (bytes, FREED), |offset, len| {
                let at = address + offset;
                if let Some(mut guest) = self.guest() {
                    let mut sharing = run.sharing.borrow_mut();
                    sharing.discard(&mut guest, at..at + len);
                }
                self.memory.discard(at, len)
            })?;
            if let Step::Parked = step {
                return Ok(step);
            }
        }
        self.memory.free(address).map_err(memory_failure)?;
        if let Some(guest) = self.guest() {
            let mut sharing = run.sharing.borrow_mut();
            sharing.freed(guest.id, address..address + bytes);
        }
        Ok(Step::Done)
    }

    /// Ends the export of an allocation that is about to be freed: importers lose access.
    fn end_export(&mut self, run: &Run<'_>, address: u64) {
        let id = self.id();
        for (importer, at) in run.exports.borrow_mut().freed(id, address) {
            let other = run.neighbours.get(&importer).filter(|_| importer != id);
            match other.map(RefCell::borrow_mut) {
                Some(mut other) => other.memory.drop_import(at),
                None => self.memory.drop_import(at),
            };
        }
        self.memory.end_export(address);
    }
}
