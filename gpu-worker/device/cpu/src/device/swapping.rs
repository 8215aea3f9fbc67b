//! Sessions with memory that leaves the device, and their return.
//!
//! A session that moves leaves the device's table; the mover owns it with all of its state. So
//! kernels of other sessions run meanwhile, and the move invalidates nothing that one session knows
//! of another.

use super::CpuDevice;
use super::session::Session;
use crate::error::MemoryError;
use bus_schemas::{Code, Failure, SessionId, Window};
use device::{Device as _, Moved};
use device_swap::{Away, Keep, Movable, SwapSpace};
use std::cell::RefCell;

impl CpuDevice {
    /// The device, with this room for the memory of sessions that are swapped out. Without room,
    /// its sessions' memory stays.
    #[must_use]
    pub fn swapping(mut self, space: Option<SwapSpace>) -> Self {
        self.away = Away::new(space);
        self
    }

    /// Bytes that are allocated on the device, including those of sessions that are being moved.
    pub(super) fn allocated(&self) -> u64 {
        let here = self.sessions.values();
        let here = here.map(|session| session.borrow().allocated());
        here.sum::<u64>() + self.away.moving()
    }

    /// Hands a session to the mover.
    pub(super) fn take_out(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let session = session.get_mut();
        let charged = session.resident(self.sharing.get_mut());
        let ready = match (session.is_idle(), session.memory.has_exchanged()) {
            (true, false) => self.away.ready(),
            (true, true) => Err(Failure::new(
                Code::NotPinned,
                "a session that shares memory with others stays on the device",
            )),
            (false, _) => Err(Failure::new(
                Code::Protocol,
                "a session with work under way cannot be swapped out",
            )),
        };
        if let Err(why) = ready {
            self.away.refuse(id, true, charged, why);
        } else if let Some(session) = self.sessions.remove(&id)
            && let Some(stays) = self.away.swap_out(id, session.into_inner(), charged)
        {
            self.sessions.insert(id, RefCell::new(stays));
        }
    }

    /// Takes back the sessions that have returned, and reports the end of all moves.
    pub(super) fn take_returned(&mut self, told: &mut Vec<Moved>) {
        for mut returned in self.away.ended(told) {
            let id = returned.moved.session;
            let sharing = self.sharing.get_mut();
            match returned.session {
                None => sharing.moved(id, shows(self.away.get(id))),
                Some(session) => {
                    sharing.moved(id, shows(Some(&session)));
                    returned.moved.resident = session.resident(sharing);
                    self.sessions.insert(id, RefCell::new(session));
                }
            }
            for slice in returned.slices {
                self.submit(slice);
            }
            told.push(returned.moved);
        }
    }
}

/// A function that tells if a session still shows a unit at an address.
fn shows(session: Option<&Session>) -> impl Fn(u64) -> bool {
    move |unit| session.is_some_and(|it| it.memory.shows(unit, unit + 1))
}

impl Movable for Session {
    fn window(&self) -> Window {
        self.window
    }

    fn allocated(&self) -> u64 {
        Session::allocated(self)
    }

    fn fault(&self) -> Option<Failure> {
        self.fault.clone()
    }

    fn stop(&mut self, why: Failure) {
        Session::stop(self, why);
    }

    fn printed(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.printed).concat()
    }

    fn bytes(&self) -> u64 {
        let shown = self.memory.shown();
        let shown = shown.iter().map(|(_, bytes)| bytes).sum::<u64>();
        self.memory.resident() + shown
    }

    /// Copies the shown units first; the session shows them until all the rest is out, so that a
    /// failure loses nothing.
    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure> {
        let memory = &mut self.memory;
        let (shown, mut unit) = (memory.shown(), Vec::new());
        for (address, bytes) in shown.iter().copied() {
            // Once the session is closed, the shown slots may be given to other sessions.
            keep.while_open(|| {
                unit.clear();
                let there = memory.bytes(address, bytes)?;
                unit.extend_from_slice(there);
                Ok::<_, Failure>(())
            })??;
            keep.piece(address, &unit)?;
        }
        let (base, size) = (memory.base(), memory.size());
        memory.take_out(base, size, |address, bytes| keep.piece(address, bytes))?;
        for (address, bytes) in shown {
            if !memory.clear(address, bytes) {
                return Err(MemoryError::OutOfMemory(bytes).into());
            }
        }
        Ok(())
    }

    fn bring_in(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let end = address + bytes.len() as u64;
        if self.memory.shows(address, end) {
            // The unit never left.
            return Ok(());
        }
        Ok(self.memory.bring_in(address, bytes)?)
    }
}
