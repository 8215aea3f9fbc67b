//! The pager's end of the claims on memory: the one claim that is open, asked again until the
//! pager lets it pass or refuses it.

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
    /// What its ops need, in op order.
    pub needs: Vec<Need>,
}

/// The pager's decision about a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimAnswer {
    /// Its session.
    pub session: SessionId,
    /// Its first op.
    pub first: OpNumber,
    /// The op that does not get what it needs, and why.
    pub refused: Option<(OpNumber, Failure)>,
    /// Bytes that the blocks of launches may take from these ops on, in op order; before the first
    /// [`Limits::small_launch`](super::Limits::small_launch).
    pub launch_bytes: Vec<(OpNumber, u64)>,
    /// Nothing was decided: ask again once that is said.
    pub later: bool,
}

/// The open claim.
#[derive(Debug)]
pub struct Claims {
    small_launch: u64,
    waiting: Option<Claim>,
}

impl Claims {
    /// No claim; launches may take so much without asking.
    #[must_use]
    pub fn new(small_launch: u64) -> Self {
        Self {
            small_launch,
            waiting: None,
        }
    }

    /// Asks the pager. Without an answer the claim stays open: the slice waits for memory.
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
            // 0 is a launch that needs no admission behind one that did.
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

    /// Asks again, if a claim is open: a slice has completed, or a session has ended.
    pub fn ask_again(&mut self, pager: &mut Pager) -> Option<ClaimAnswer> {
        let claim = self.waiting.take()?;
        self.ask(pager, claim)
    }

    /// The session's claim needs no answer any more.
    pub fn withdraw(&mut self, session: SessionId) {
        self.waiting.take_if(|claim| claim.session == session);
    }

    /// Whether a slice waits for memory.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }
}
