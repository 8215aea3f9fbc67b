//! Allocations that get other addresses, and allocations that get additional ones.

use super::failure::memory_failure;
use super::moves::{PIECE, in_pieces};
use super::session::{Progressing, Run, Session, Step};
use super::sharing::Shares as _;
use crate::error::MemoryError;
use bus_schemas::{Code, Failure, limits};

impl Session {
    /// Moves an allocation to another address; `keep` leaves a map at the old one.
    pub(super) fn relocate(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        (to, from, bytes): (u64, u64, u64),
        keep: bool,
    ) -> Result<Step, Failure> {
        if progress.moved == 0 {
            self.has_room_for_maps(keep)?;
            self.keep_apart(run, from, bytes)?;
            let begun = self.memory.begin_move((to, from), bytes);
            begun.map_err(memory_failure)?;
        }
        let step = in_pieces(run, &mut progress.moved, (bytes, PIECE), |offset, len| {
            self.memory.move_bytes((to + offset, from + offset), len)
        })?;
        if let Step::Parked = step {
            return Ok(step);
        }
        self.memory.end_move(from, bytes).map_err(memory_failure)?;
        if let Some(guest) = self.guest() {
            let mut sharing = run.sharing.borrow_mut();
            sharing.freed(guest.id, from..from + bytes);
        }
        if keep {
            let mapped = self.memory.map((from, to), bytes);
            mapped.map_err(memory_failure)?;
        }
        Ok(Step::Done)
    }

    /// Maps an allocation at a second address.
    pub(super) fn map_memory(
        &mut self,
        run: &Run<'_>,
        (to, from, bytes): (u64, u64, u64),
    ) -> Result<(), Failure> {
        self.has_room_for_maps(true)?;
        self.keep_apart(run, from, bytes)?;
        let mapped = self.memory.map((to, from), bytes);
        mapped.map_err(memory_failure)
    }

    /// Ends sharing within the range: from now on the session has all of its pages to itself.
    fn keep_apart(&mut self, run: &Run<'_>, address: u64, bytes: u64) -> Result<(), Failure> {
        let end = address.checked_add(bytes);
        let Some(range) = end.map(|end| address..end) else {
            return Err(memory_failure(MemoryError::NotAllocated(address)));
        };
        let Some(mut guest) = self.guest() else {
            return Ok(());
        };
        match run.sharing.borrow_mut().keep_apart(&mut guest, range) {
            true => Ok(()),
            false => Err(memory_failure(MemoryError::OutOfMemory(bytes))),
        }
    }

    /// Fails if the session has no room for another map.
    fn has_room_for_maps(&self, maps: bool) -> Result<(), Failure> {
        let most = limits::MAPS;
        if !maps || self.memory.maps() < most {
            return Ok(());
        }
        let why = format!("a session maps its memory {most} times at most");
        Err(Failure::new(Code::OutOfMemory, why))
    }
}
