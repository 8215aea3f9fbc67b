//! The pager's side of the claims on memory: the one open claim, asked again until the pager grants or
//! refuses it.

use bus_schemas::{Failure, OpNumber, SessionId};

use crate::Pager;
use crate::pager::{MemoryDecision, Need};

/// A slice's claim on memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its session.
    pub session: SessionId,
    /// Its first op.
    pub first: OpNumber,
    /// Needs of its ops, in op order.
    pub needs: Vec<Need>,
}

/// The pager's decision about a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimAnswer {
    /// Its session.
    pub session: SessionId,
    /// Its first op.
    pub first: OpNumber,
    /// The op that does not get its memory, with the failure.
    pub refused: Option<(OpNumber, Failure)>,
    /// Bytes that the blocks of launches may take from these ops on, in op order. Before the first op it is
    /// [`Limits::small_launch`](super::Limits::small_launch).
    pub launch_bytes: Vec<(OpNumber, u64)>,
    /// The pager did not decide: ask again once the session's memory is on the device or there is room.
    pub later: bool,
}

/// The open claim.
#[derive(Debug)]
pub struct Claims {
    small_launch: u64,
    waiting: Option<Claim>,
}

impl Claims {
    /// Creates an empty set; launches may take `small_launch` bytes without asking.
    #[must_use]
    pub fn new(small_launch: u64) -> Self {
        Self {
            small_launch,
            waiting: None,
        }
    }

    /// Asks the pager. If it does not answer, the claim stays open and the slice waits for memory.
    pub fn ask(&mut self, pager: &mut Pager, claim: Claim) -> Option<ClaimAnswer> {
        let Claim { session, first, .. } = claim;
        let mut later = false;
        let refused = match pager.admit(first, session, &claim.needs) {
            MemoryDecision::Later => {
                later = true;
                None
            }
            MemoryDecision::Wait => {
                self.waiting = Some(claim);
                return None;
            }
            MemoryDecision::Fits => None,
            MemoryDecision::Refused(op, failure) => Some((op, failure)),
        };
        let mut launch_bytes = pager.take_granted();
        for (_, bytes) in &mut launch_bytes {
            // 0 stands for a launch that needs no admission, behind one that did.
            *bytes = (*bytes).max(self.small_launch);
        }
        Some(ClaimAnswer {
            session,
            first,
            refused,
            launch_bytes,
            later,
        })
    }

    /// Asks again if a claim is open, because a slice has completed or a session has ended.
    pub fn ask_again(&mut self, pager: &mut Pager) -> Option<ClaimAnswer> {
        let claim = self.waiting.take()?;
        self.ask(pager, claim)
    }

    /// Drops the session's claim; it needs no answer any more. Returns true if there was one.
    pub fn withdraw(&mut self, session: SessionId) -> bool {
        self.waiting
            .take_if(|claim| claim.session == session)
            .is_some()
    }

    /// True if a slice waits for memory.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }
}
