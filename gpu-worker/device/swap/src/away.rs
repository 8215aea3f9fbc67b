//! The sessions of a device with their memory off it, or on its way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{Code, Failure, SessionId, Window};
use device::{Completion, Moved, Slice, SwapUse};

use crate::gate::Gate;
use crate::keep::Kept;
use crate::movable::Movable;
use crate::mover::{Move, Mover};
use crate::space::SwapSpace;

/// The place of an away session.
#[derive(Debug)]
enum Place<M> {
    /// In the mover's hands.
    Moving(Arc<Gate>),
    Out(M, Kept),
}

#[derive(Debug)]
struct Entry<M> {
    place: Place<M>,
    window: Window,
    /// Bytes of the device that it takes while it is there, or moves.
    allocated: u64,
    /// Bytes that it is charged.
    charged: u64,
    /// Slices that came meanwhile.
    slices: Vec<Slice>,
    fault: Option<Failure>,
}

/// A move that has ended.
#[derive(Debug)]
pub struct Returned<M> {
    /// The report to its worker. If the device has the session again, the device fills in the session's
    /// charge.
    pub moved: Moved,
    /// The session, if its memory is on the device now.
    pub session: Option<M>,
    /// The slices that came for it meanwhile, in order.
    pub slices: Vec<Slice>,
}

/// The away sessions, and the thread that moves them.
#[derive(Debug)]
pub struct Away<M: Movable> {
    mover: Option<Mover<M>>,
    sessions: BTreeMap<SessionId, Entry<M>>,
    /// Completed slices of sessions that have ended with a fault.
    completed: Vec<Completion>,
    /// Reports of moves that did not begin.
    refused: Vec<Moved>,
}

impl<M: Movable> Away<M> {
    /// Creates an empty set; without a swap space no session can be away.
    #[must_use]
    pub fn new(space: Option<SwapSpace>) -> Self {
        Self {
            mover: space.map(Mover::new),
            sessions: BTreeMap::new(),
            completed: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Starts the mover if needed.
    ///
    /// # Errors
    /// The reason for which sessions cannot be moved.
    pub fn ready(&mut self) -> Result<(), Failure> {
        match &mut self.mover {
            Some(mover) => mover.start(),
            None => Err(Failure::new(
                Code::OutOfMemory,
                "this worker has no swap space: let it have some of the host's memory for that, or a file",
            )),
        }
    }

    /// Refuses to move a session with this charge, which stays where it is.
    pub fn refuse(&mut self, session: SessionId, out: bool, resident: u64, why: Failure) {
        self.refused.push(Moved {
            session,
            out,
            bytes: 0,
            took: Duration::ZERO,
            resident,
            failure: Some(why),
        });
    }

    /// Begins to swap out a session with this charge. Gives the session back if none can be moved, which
    /// [`Away::ready`] has reported.
    pub fn swap_out(&mut self, session: SessionId, what: M, charged: u64) -> Option<M> {
        let Some(mover) = &self.mover else {
            return Some(what);
        };
        let gate = Arc::new(Gate::default());
        let entry = Entry {
            place: Place::Moving(Arc::clone(&gate)),
            window: what.window(),
            allocated: what.allocated(),
            charged,
            slices: Vec::new(),
            fault: what.fault(),
        };
        self.sessions.insert(session, entry);
        mover.begin(Move {
            session,
            what,
            out: true,
            kept: Kept::new(),
            gate,
        });
        None
    }

    /// Begins to bring a session back, if it is out and fits into `room` bytes of the device.
    pub fn swap_in(&mut self, session: SessionId, room: u64) {
        let (Some(mover), Some(entry)) = (&self.mover, self.sessions.get_mut(&session)) else {
            return;
        };
        if !matches!(entry.place, Place::Out(..)) {
            return;
        }
        if entry.allocated > room {
            let (bytes, detail) = (
                entry.allocated,
                "is swapped out, and the device has room for",
            );
            let why = format!("a session of {bytes} bytes {detail} {room}");
            self.refuse(session, false, 0, Failure::new(Code::OutOfMemory, why));
            return;
        }
        let gate = Arc::new(Gate::default());
        let moving = Place::Moving(Arc::clone(&gate));
        if let Place::Out(what, kept) = std::mem::replace(&mut entry.place, moving) {
            mover.begin(Move {
                session,
                what,
                out: false,
                kept,
                gate,
            });
        }
    }

    /// Appends the reports of moves that did not begin, and returns the moves that have ended.
    pub fn ended(&mut self, refused: &mut Vec<Moved>) -> Vec<Returned<M>> {
        refused.append(&mut self.refused);
        let ended = self.mover.as_ref().map(Mover::ended).unwrap_or_default();
        let mut all = Vec::with_capacity(ended.len());
        for ended in ended {
            let Move {
                session,
                mut what,
                out,
                kept,
                ..
            } = ended.of;
            let moved = Moved {
                session,
                out,
                bytes: ended.bytes,
                took: ended.took,
                resident: 0,
                failure: ended.failure,
            };
            let is_out = out == moved.failure.is_none();
            let (session, slices) = match self.sessions.get_mut(&session) {
                Some(entry) if is_out => {
                    entry.place = Place::Out(what, kept);
                    entry.charged = 0;
                    (None, Vec::new())
                }
                _ => {
                    let entry = self.sessions.remove(&session);
                    let (slices, fault) = entry.map(|it| (it.slices, it.fault)).unwrap_or_default();
                    fault.into_iter().for_each(|why| what.stop(why));
                    (Some(what), slices)
                }
            };
            all.push(Returned {
                moved,
                session,
                slices,
            });
        }
        all
    }

    /// True if a session is on its way.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        let mut entries = self.sessions.values();
        entries.any(|entry| matches!(entry.place, Place::Moving(_)))
    }

    /// Bytes of the device that sessions on their way take, each counted as if it were there.
    #[must_use]
    pub fn moving(&self) -> u64 {
        let moving = self.sessions.values();
        let moving = moving.filter(|entry| matches!(entry.place, Place::Moving(_)));
        moving.map(|entry| entry.allocated).sum()
    }

    /// True if a session is away.
    #[must_use]
    pub fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Returns a session that is out; `None` if it is moving, or not away.
    #[must_use]
    pub fn get(&self, session: SessionId) -> Option<&M> {
        match &self.sessions.get(&session)?.place {
            Place::Out(what, _) => Some(what),
            Place::Moving(_) => None,
        }
    }

    /// The address windows of the away sessions.
    pub fn windows(&self) -> impl Iterator<Item = Window> {
        self.sessions.values().map(|entry| entry.window)
    }

    /// Keeps a slice of an away session; gives it back if the session is not away.
    pub fn submit(&mut self, slice: Slice) -> Option<Slice> {
        let session = slice.session;
        let Some(entry) = self.sessions.get_mut(&session) else {
            return Some(slice);
        };
        entry.slices.push(slice);
        entry.complete(&mut self.completed);
        None
    }

    /// Ends an away session: its slices complete with this fault from now on. Returns true if it is away.
    pub fn stop(&mut self, session: SessionId, why: Failure) -> bool {
        let Some(entry) = self.sessions.get_mut(&session) else {
            return false;
        };
        entry.fault.get_or_insert(why);
        entry.complete(&mut self.completed);
        true
    }

    /// Drops a session that has ended, so that it has nothing on the device. A moving session is waited for,
    /// for as long as a piece takes to move and the rest to be given back. The mover soon frees its bytes in
    /// the swap space.
    pub fn close(&mut self, session: SessionId) {
        let entry = self.sessions.remove(&session);
        if let (Some(entry), Some(mover)) = (entry, &self.mover) {
            match entry.place {
                Place::Moving(gate) => drop(mover.close(&gate)),
                Place::Out(what, kept) => mover.drop_session(what, kept),
            }
        }
        self.completed.retain(|done| done.session != session);
        self.refused.retain(|moved| moved.session != session);
    }

    /// Waits until nothing is left of closed sessions that were away: for as long as a piece of one takes to
    /// move.
    pub fn wait_for_closed(&self) {
        if let Some(mover) = &self.mover {
            mover.wait_for_closed();
        }
    }

    /// True while bytes of closed sessions are freed: [`Away::used`] still counts them.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.mover.as_ref().is_some_and(Mover::is_leaving)
    }

    /// True if slices of away sessions have completed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Appends completed slices of away sessions, each with its session's fault.
    pub fn completed(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completed);
    }

    /// Returns the use of the swap space, if there is one.
    #[must_use]
    pub fn used(&self) -> Option<SwapUse> {
        self.mover.as_ref().map(Mover::used)
    }
}

impl<M: Movable> Entry<M> {
    /// Completes the slices that came, if the session has ended with a fault: nothing more of it runs.
    fn complete(&mut self, completed: &mut Vec<Completion>) {
        let Some(fault) = &self.fault else {
            return;
        };
        for slice in self.slices.drain(..) {
            completed.push(Completion {
                position: slice.position,
                session: slice.session,
                resident: self.charged,
                // A moving session cannot be asked; its output is not waited for.
                printed: match &mut self.place {
                    Place::Moving(_) => Vec::new(),
                    Place::Out(what, _) => what.printed(),
                },
                fault: Some((slice.first, fault.clone())),
                ..Completion::default()
            });
        }
    }
}

#[cfg(test)]
mod tests;
