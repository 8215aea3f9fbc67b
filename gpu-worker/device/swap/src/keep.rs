//! The receiver of a session's bytes when they leave the device.

use std::collections::VecDeque;
use std::sync::Arc;

use bus_schemas::Failure;

use crate::gate::Gate;
use crate::progress::Part;
use crate::space::{SwapSpace, SwappedBytes};

/// Stored bytes of a session, with their addresses. If two overlap, the later is right.
pub(crate) type Kept = VecDeque<(u64, SwappedBytes)>;

/// The receiver of a session's bytes, piece by piece.
#[derive(Debug)]
pub struct Keep<'m> {
    pub(crate) space: &'m Arc<SwapSpace>,
    pub(crate) gate: &'m Gate,
    pub(crate) part: Part<'m>,
    pub(crate) kept: &'m mut Kept,
}

impl Keep<'_> {
    /// Stores the bytes at an address, which may then leave the device.
    ///
    /// # Errors
    /// If there is no room for them, the host fails, or the session was closed meanwhile. Then they must stay
    /// where they are.
    pub fn piece(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.gate.through(|| ())?;
        self.kept.push_back((address, self.space.put(bytes)?));
        self.part.count(bytes.len() as u64);
        Ok(())
    }

    /// Runs an action that must not run after the session was closed. Closing waits for it, so it must be
    /// short.
    ///
    /// # Errors
    /// If the session was closed.
    pub fn while_open<T>(&self, what: impl FnOnce() -> T) -> Result<T, Failure> {
        self.gate.through(what)
    }
}
