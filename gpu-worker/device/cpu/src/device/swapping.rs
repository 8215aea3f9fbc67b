//! Sessions whose memory leaves the device, and those that come back.
//!
//! A session that moves is out of the device's table: it is the mover's, with all that it has. So kernels
//! of others run meanwhile, and nothing that a session knows of another one can be wrong for it moved.

use super::CpuDevice;
use super::session::Session;
use crate::error::MemoryError;
use bus_schemas::{Code, Failure, SessionId, Window};
use device::{Device as _, Moved};
use device_swap::{Away, Keep, Movable, SwapSpace};
use std::cell::RefCell;

impl CpuDevice {
    /// The device, with this room for the memory of sessions that is not on it. Without any its sessions'
    /// memory stays.
    #[must_use]
    pub fn swapping(mut self, space: Option<SwapSpace>) -> Self {
        self.away = Away::new(space);
        self
    }

    /// Bytes that are allocated on the device, those of sessions on their way among them.
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
                "a session whose memory others use, or that uses theirs, stays on the device",
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

    /// Takes the sessions back that are here again, and says how all moves ended.
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

/// Whether a session shows a unit that it has shown.
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

    /// What it shows is copied first, and shown until all the rest is out: so long nothing is lost.
    fn take_out(&mut self, keep: &mut Keep<'_>) -> Result<(), Failure> {
        let memory = &mut self.memory;
        let (shown, mut unit) = (memory.shown(), Vec::new());
        for (address, bytes) in shown.iter().copied() {
            // Once the session is closed, others may be given what is shown here.
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
            // It never went.
            return Ok(());
        }
        Ok(self.memory.bring_in(address, bytes)?)
    }
}
