//! The bytes of device memory that a session may hold, as committed by its worker.
//!
//! Within the commitment, allocations need no request. Beyond it, the worker is asked for somewhat
//! more than is needed. After a free, unused memory is given back if it is much. The worker may
//! recall it earlier.

use bus_schemas::{
    ClientProcess, Failure, MemoryAnswer, MemoryRequest, OpNumber, WIRE_VERSION, encode,
};

use crate::address::charged;
use crate::event::Nanos;
use crate::retry::Retry;

/// First wait before a request is sent again, and the longest.
const RESEND: (Nanos, Nanos) = (5_000_000, 200_000_000);
/// Bytes that a session is committed beyond those it holds: an eighth of these, within these
/// bounds.
const SPARE: (u64, u64) = (2 << 20, 64 << 20);

/// A program that asks for more within this time after it gave memory back would have needed that
/// memory.
const SOON: Nanos = 1_000_000_000;

/// A tenant's share of the device's memory, as last reported by the worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownMemory {
    /// Bytes that the tenant may hold.
    pub total: u64,
    /// Bytes that the tenant's sessions have allocated.
    pub held: u64,
    /// Bytes that the tenant may still allocate.
    pub free: u64,
}

/// A request that the caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Number of the request.
    pub number: u64,
    /// True if it was made for this caller; else it was made for an earlier caller, who gets the
    /// answer.
    pub is_own: bool,
}

/// The state of a session's program at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    bytes: u64,
    after: OpNumber,
}

/// The commitment of a session. [`Commitment::message`] takes its messages for the worker.
#[derive(Debug)]
pub struct Commitment {
    committed: u64,
    number: u64,
    /// The request that is not answered, and the time at which it was made.
    asked: Option<(MemoryRequest, Nanos)>,
    /// True if the request must be sent.
    unsent: bool,
    /// True if memory was freed during the request, and the worker has not been told.
    untold: bool,
    /// The value of `committed` for which more was asked ahead of need, in vain; it is not asked
    /// for again.
    ahead_of: Option<u64>,
    /// The time at which memory was last given back, and the commitment before that.
    given_back: Option<(Nanos, u64)>,
    /// Bytes that are kept although unused, because they were given back and asked for again soon
    /// after.
    keeps: u64,
    /// The refused request, and the reason.
    refused: Option<(u64, Failure)>,
    known: KnownMemory,
    /// Bytes that callers wait for.
    needs: u64,
    /// Bytes among them that are reserved for later allocations.
    promised: u64,
    /// The newest recall received, and the newest that a request reported as obeyed.
    recalled: u64,
    obeyed: u64,
    retry: Retry,
    /// The client process of the session; cleared once the worker has answered.
    process: Option<ClientProcess>,
    /// True if the session's memory must never be swapped out.
    pinned: bool,
}

impl Default for Commitment {
    fn default() -> Self {
        Self {
            committed: 0,
            number: 0,
            asked: None,
            unsent: false,
            untold: false,
            ahead_of: None,
            given_back: None,
            keeps: 0,
            refused: None,
            known: KnownMemory::default(),
            needs: 0,
            promised: 0,
            recalled: 0,
            obeyed: 0,
            retry: Retry::new(RESEND.0, RESEND.1),
            process: None,
            pinned: false,
        }
    }
}

fn spare(bytes: u64) -> u64 {
    (bytes / 8).clamp(SPARE.0, SPARE.1)
}

impl Commitment {
    /// The commitment of a new session. Its first request names the client process, and asks for as
    /// much as most programs allocate first, if there is room. Pinned memory is never swapped out.
    #[must_use]
    pub fn begin(now: Nanos, process: ClientProcess, pinned: bool) -> Self {
        let mut commitment = Self {
            process: Some(process),
            pinned,
            ..Self::default()
        };
        commitment.request(now, Held { bytes: 0, after: 0 }, spare(0), 0);
        commitment
    }

    /// True if a session that holds `held` bytes may allocate `bytes` more.
    #[inline]
    #[must_use]
    pub fn has_room(&self, held: u64, bytes: u64) -> bool {
        let held = held.saturating_add(self.promised);
        held.saturating_add(charged(bytes)) <= self.committed
    }

    /// Reserves room, which exists, for a later allocation of `bytes` bytes.
    pub fn promise(&mut self, bytes: u64) {
        self.promised = self.promised.saturating_add(charged(bytes));
        self.needs(bytes);
    }

    /// Ends such a reservation: the allocation comes now, or never.
    pub fn redeem(&mut self, bytes: u64) {
        self.promised = self.promised.saturating_sub(charged(bytes));
        self.needs_no_more(bytes);
    }

    /// Asks for room for `bytes` more. If a request on its way raises the commitment, its answer is
    /// waited for first.
    pub fn ask(&mut self, now: Nanos, held: u64, after: OpNumber, bytes: u64) -> Asked {
        let more = self.promised.saturating_add(charged(bytes));
        let least = held.saturating_add(more);
        let raises = |request: &MemoryRequest| request.wanted > self.committed;
        if let Some((request, _)) = self.asked.filter(|(request, _)| raises(request)) {
            return Asked {
                number: request.number,
                is_own: false,
            };
        }
        let wanted = least.saturating_add(spare(least));
        self.asked_again(now);
        self.request(now, Held { bytes: held, after }, wanted, least);
        // Until the answer it allocates no more.
        self.committed = self.committed.min(held);
        Asked {
            number: self.number,
            is_own: true,
        }
    }

    /// Says whether [`Commitment::ask_ahead`] is due for a session that holds `held` bytes. It is
    /// due if less than half of a request's usual amount is left, none is under way, and more was
    /// not already refused.
    #[inline]
    #[must_use]
    pub fn runs_low(&self, held: u64) -> bool {
        let left = self
            .committed
            .saturating_sub(held.saturating_add(self.promised));
        left < spare(held) / 2
            && self.asked.is_none()
            && self.obeyed == self.recalled
            && self.ahead_of != Some(self.committed)
    }

    /// Asks for more before it is needed. The session goes on within its commitment. If there is no
    /// more, it keeps that, and other sessions are not asked to make room.
    pub fn ask_ahead(&mut self, now: Nanos, after: OpNumber) {
        let committed = self.committed;
        // The worker counts as held now what the session may allocate before the answer.
        let at = Held {
            bytes: committed,
            after,
        };
        self.ahead_of = Some(committed);
        self.asked_again(now);
        self.request(
            now,
            at,
            committed.saturating_add(spare(committed)),
            committed,
        );
    }

    /// Asks for the current numbers. A request on its way that reports the current `held` is
    /// enough. One that raises the commitment is waited for; [`Commitment::tells`] says if it
    /// reports another number.
    pub fn look(&mut self, now: Nanos, held: u64, after: OpNumber) -> Asked {
        let will_do = |it: &MemoryRequest| it.held == held || it.wanted > self.committed;
        if let Some((request, _)) = self.asked.filter(|(request, _)| will_do(request)) {
            return Asked {
                number: request.number,
                is_own: false,
            };
        }
        let (committed, at) = (self.committed, Held { bytes: held, after });
        self.request(now, at, committed, held.min(committed));
        Asked {
            number: self.number,
            is_own: true,
        }
    }

    /// True if the request on its way reports `held` bytes.
    #[must_use]
    pub fn tells(&self, number: u64, held: u64) -> bool {
        self.asked
            .is_some_and(|(request, _)| request.number == number && request.held == held)
    }

    /// Gives back unused memory after a free, if it is much. If a request is on its way, its answer
    /// is waited for.
    pub fn freed(&mut self, now: Nanos, held: u64, after: OpNumber) {
        self.untold = self.asked.is_some();
        if !self.untold && self.has_much_unused(held) {
            let more = spare(held).saturating_add(self.needs);
            self.given_back = Some((now, self.committed));
            self.lower(now, Held { bytes: held, after }, more);
        }
    }

    /// Says whether [`Commitment::freed`] has anything to do.
    #[inline]
    #[must_use]
    pub fn gives_back(&self, held: u64) -> bool {
        self.asked.is_some() || self.has_much_unused(held)
    }

    fn has_much_unused(&self, held: u64) -> bool {
        let unused = self.committed.saturating_sub(held);
        unused.saturating_sub(self.needs) > self.keeps.max(2 * spare(held))
    }

    /// Notes that more is asked for. A program that frees and allocates in turn keeps the memory
    /// that it needs for that.
    fn asked_again(&mut self, now: Nanos) {
        if let Some((at, before)) = self.given_back.take()
            && now.saturating_sub(at) < SOON
        {
            self.keeps = self.keeps.max(before.min(SPARE.1));
        }
    }

    /// Notes that a caller begins to wait for `bytes` bytes: a recall leaves them here.
    pub fn needs(&mut self, bytes: u64) {
        self.needs = self.needs.saturating_add(charged(bytes));
    }

    /// Notes that the caller no longer waits.
    pub fn needs_no_more(&mut self, bytes: u64) {
        self.needs = self.needs.saturating_sub(charged(bytes));
    }

    /// Handles the worker's answer, or its recall.
    pub fn answered(&mut self, now: Nanos, held: u64, after: OpNumber, answer: &MemoryAnswer) {
        let at = Held { bytes: held, after };
        if answer.number == 0 {
            self.recalled = self.recalled.max(answer.recall);
            (self.given_back, self.keeps) = (None, 0);
        } else if self
            .asked
            .take_if(|(request, _)| request.number == answer.number)
            .is_some()
        {
            self.retry.arm(now, false);
            self.unsent = false;
            self.ahead_of.take_if(|of| answer.committed > *of);
            self.committed = answer.committed;
            self.process = None;
            self.known = KnownMemory {
                total: answer.total,
                held: answer.held,
                free: answer.free,
            };
            let failure = answer.failure.clone();
            self.refused = failure.map(|failure| (answer.number, failure));
        }
        if self.asked.is_none() && self.obeyed < self.recalled {
            self.lower(now, at, self.needs);
        } else if self.asked.is_none() && self.untold {
            self.freed(now, held, after);
        }
    }

    /// Lowers the commitment to the held bytes plus `more`.
    fn lower(&mut self, now: Nanos, held: Held, more: u64) {
        let wanted = held.bytes.saturating_add(more).min(self.committed);
        self.request(now, held, wanted, held.bytes.min(wanted));
        self.committed = wanted;
    }

    fn request(&mut self, now: Nanos, held: Held, wanted: u64, least: u64) {
        self.number += 1;
        self.obeyed = self.recalled;
        let request = MemoryRequest {
            v: WIRE_VERSION,
            number: self.number,
            held: held.bytes,
            after: held.after,
            wanted,
            least,
            recall: self.obeyed,
            process: self.process,
            pinned: self.pinned,
        };
        self.asked = Some((request, now));
        self.unsent = true;
        self.retry.arm(now, false);
        self.retry.arm(now, true);
    }

    /// True if a request has been answered, or replaced by a newer one.
    #[must_use]
    pub fn is_answered(&self, number: u64) -> bool {
        self.asked
            .is_none_or(|(request, _)| request.number > number)
    }

    /// Time that the request on its way has waited.
    #[must_use]
    pub fn waits(&self, now: Nanos) -> Nanos {
        self.asked.map_or(0, |(_, since)| now.saturating_sub(since))
    }

    /// The reason why a request was refused, if it was.
    #[must_use]
    pub fn refusal(&self, number: u64) -> Option<&Failure> {
        let refused = self.refused.as_ref().filter(|(of, _)| *of == number);
        refused.map(|(_, failure)| failure)
    }

    /// The numbers last reported by the worker.
    #[must_use]
    pub fn known(&self) -> KnownMemory {
        self.known
    }

    /// A message for the worker, if one is due: a new request, or an unanswered one.
    pub fn message(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let (request, _) = self.asked?;
        let due = std::mem::take(&mut self.unsent) || self.retry.fire(now);
        due.then(|| encode(&request))
    }

    /// Resends soon: the connection is back, and a request under way may be lost.
    pub fn hurry(&mut self, now: Nanos) {
        self.retry.hurry(now);
    }

    /// The time at which [`Commitment::message`] must be called, if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.retry.due()
    }
}

#[cfg(test)]
mod tests;
