//! The instruction that is being decoded.

use super::form::{GuardSlot, Op, Slot};
use ptx::Position;

/// The current instruction of a body.
pub(super) struct Current {
    position: Position,
    guard: Option<GuardSlot>,
    /// Conversions to emit behind it.
    behind: Vec<(Op, [Slot; 2])>,
}

impl Current {
    /// Begins an instruction, without a guard.
    pub(super) fn new(position: Position) -> Self {
        Self {
            position,
            guard: None,
            behind: Vec::new(),
        }
    }

    /// Its position in the text.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Its guard.
    pub(super) fn guard(&self) -> Option<GuardSlot> {
        self.guard
    }

    /// Gives it a guard.
    pub(super) fn guarded(&mut self, guard: GuardSlot) {
        self.guard = Some(guard);
    }

    /// Adds a conversion to emit behind it.
    pub(super) fn convert(&mut self, op: Op, slots: [Slot; 2]) {
        self.behind.push((op, slots));
    }

    /// Takes the conversions to emit now.
    pub(super) fn take_behind(&mut self) -> Vec<(Op, [Slot; 2])> {
        std::mem::take(&mut self.behind)
    }
}
