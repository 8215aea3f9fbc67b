//! What a session may hold of its device's memory by its worker's word.
//!
//! Within the commitment allocations need no question. Beyond it the worker is asked, for somewhat more
//! than is needed, and what is not used for long is given back. The worker may recall it before.

use bus_schemas::{
    ClientProcess, Failure, MemoryAnswer, MemoryRequest, OpNumber, WIRE_VERSION, encode,
};

use crate::address::charged;
use crate::event::Nanos;
use crate::retry::Retry;

/// First wait before a request is sent again, and the longest.
const RESEND: (Nanos, Nanos) = (5_000_000, 200_000_000);
/// Bytes that a session is committed beside what it holds: an eighth of that, within these bounds.
const SPARE: (u64, u64) = (2 << 20, 64 << 20);

/// What a tenant has of the device's memory, as the worker said last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownMemory {
    /// Bytes that it may hold.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes that it may still allocate.
    pub free: u64,
}

/// A request that is to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its number.
    pub number: u64,
    /// It was made for who asks now; else for somebody before, and its answer is theirs.
    pub is_own: bool,
}

/// The state of a session's program at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    bytes: u64,
    after: OpNumber,
}

/// What is committed to a session. Messages for the worker are taken by [`Commitment::message`].
#[derive(Debug)]
pub struct Commitment {
    committed: u64,
    number: u64,
    /// The request that is not answered, and when it was made.
    asked: Option<(MemoryRequest, Nanos)>,
    /// It is to be sent.
    unsent: bool,
    /// Something was freed while it was under way, which nothing has told the worker.
    untold: bool,
    /// What the last request was refused with.
    refused: Option<(u64, Failure)>,
    known: KnownMemory,
    /// Bytes that callers wait for.
    needs: u64,
    /// Bytes among them that are kept for allocations which will come.
    promised: u64,
    /// The newest recall heard, and the newest that a request said was obeyed.
    recalled: u64,
    obeyed: u64,
    retry: Retry,
    /// Until the worker has answered: whose session it is.
    process: Option<ClientProcess>,
    /// Its memory is never to be swapped out.
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
    /// That of a session which begins: it says which process it is, and asks for as much as most
    /// programs allocate first, if there is room. Memory that is pinned is never swapped out.
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

    /// Whether a session that holds so much may allocate `bytes` more.
    #[inline]
    #[must_use]
    pub fn has_room(&self, held: u64, bytes: u64) -> bool {
        let held = held.saturating_add(self.promised);
        held.saturating_add(charged(bytes)) <= self.committed
    }

    /// Keeps room for an allocation of so many bytes, which will come: there is room for it.
    pub fn promise(&mut self, bytes: u64) {
        self.promised = self.promised.saturating_add(charged(bytes));
        self.needs(bytes);
    }

    /// It comes now, or never.
    pub fn redeem(&mut self, bytes: u64) {
        self.promised = self.promised.saturating_sub(charged(bytes));
        self.needs_no_more(bytes);
    }

    /// Asks for room for `bytes` more. A request on its way that raises the commitment is waited for
    /// first.
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
        self.request(now, Held { bytes: held, after }, wanted, least);
        // Until the answer it takes no more.
        self.committed = self.committed.min(held);
        Asked {
            number: self.number,
            is_own: true,
        }
    }

    /// Asks how things are. A request on its way that says what is held now will do. One that raises the
    /// commitment is waited for, and where it says other than what is held, [`Commitment::tells`] says so.
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

    /// Whether the answer to a request on its way tells of a session that holds so much.
    #[must_use]
    pub fn tells(&self, number: u64, held: u64) -> bool {
        self.asked
            .is_some_and(|(request, _)| request.number == number && request.held == held)
    }

    /// Something was freed: gives back what is not used, if that is much. While a request is on its way, its
    /// answer is waited for.
    pub fn freed(&mut self, now: Nanos, held: u64, after: OpNumber) {
        self.untold = self.asked.is_some();
        let unused = self.committed.saturating_sub(held);
        let unused = unused.saturating_sub(self.needs);
        if !self.untold && unused > 2 * spare(held) {
            let more = spare(held).saturating_add(self.needs);
            self.lower(now, Held { bytes: held, after }, more);
        }
    }

    /// A caller begins to wait for so many bytes: a recall leaves them here.
    pub fn needs(&mut self, bytes: u64) {
        self.needs = self.needs.saturating_add(charged(bytes));
    }

    /// It waits no longer.
    pub fn needs_no_more(&mut self, bytes: u64) {
        self.needs = self.needs.saturating_sub(charged(bytes));
    }

    /// The worker's answer, or its recall.
    pub fn answered(&mut self, now: Nanos, held: u64, after: OpNumber, answer: &MemoryAnswer) {
        let at = Held { bytes: held, after };
        if answer.number == 0 {
            self.recalled = self.recalled.max(answer.recall);
        } else if self
            .asked
            .take_if(|(request, _)| request.number == answer.number)
            .is_some()
        {
            self.retry.arm(now, false);
            self.unsent = false;
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

    /// Lowers the commitment to what is held and so much more.
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

    /// Whether a request has been answered, or given up for a newer one.
    #[must_use]
    pub fn is_answered(&self, number: u64) -> bool {
        self.asked
            .is_none_or(|(request, _)| request.number > number)
    }

    /// How long the request on its way has waited.
    #[must_use]
    pub fn waits(&self, now: Nanos) -> Nanos {
        self.asked.map_or(0, |(_, since)| now.saturating_sub(since))
    }

    /// Why a request was refused, if it was.
    #[must_use]
    pub fn refusal(&self, number: u64) -> Option<&Failure> {
        let refused = self.refused.as_ref().filter(|(of, _)| *of == number);
        refused.map(|(_, failure)| failure)
    }

    /// What the worker said last.
    #[must_use]
    pub fn known(&self) -> KnownMemory {
        self.known
    }

    /// A message for the worker, if one is due: what was asked just now, or what was not answered.
    pub fn message(&mut self, now: Nanos) -> Option<Vec<u8>> {
        let (request, _) = self.asked?;
        let due = std::mem::take(&mut self.unsent) || self.retry.fire(now);
        due.then(|| encode(&request))
    }

    /// The connection is back: what was under way may be lost.
    pub fn hurry(&mut self, now: Nanos) {
        self.retry.hurry(now);
    }

    /// When [`Commitment::message`] is to be called, if nothing happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        self.retry.due()
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Code, ShortText, decode};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn sent(commitment: &mut Commitment, now: Nanos) -> MemoryRequest {
        let bytes = commitment.message(now).expect("a message");
        decode(&bytes).expect("a request")
    }

    fn answer(request: &MemoryRequest, committed: u64) -> MemoryAnswer {
        MemoryAnswer {
            v: WIRE_VERSION,
            number: request.number,
            recall: 0,
            committed,
            total: 64 * MIB,
            held: request.held,
            free: 64 * MIB - request.held,
            failure: None,
        }
    }

    #[test]
    fn what_is_promised_is_there_whatever_else_is_asked_for_and_recalled() {
        let mut commitment = Commitment::default();
        commitment.ask(0, 0, 0, 4 * MIB);
        let request = sent(&mut commitment, 0);
        assert_eq!(request.least, 4 * MIB);
        commitment.answered(0, 0, 0, &answer(&request, 4 * MIB));
        assert!(commitment.has_room(0, 4 * MIB));
        commitment.promise(3 * MIB);
        assert!(commitment.has_room(0, MIB) && !commitment.has_room(0, 2 * MIB));
        // Others need what is not used: what is promised stays.
        let recall = MemoryAnswer {
            number: 0,
            recall: 1,
            ..answer(&request, 4 * MIB)
        };
        commitment.answered(0, 0, 0, &recall);
        let request = sent(&mut commitment, 0);
        assert_eq!((request.wanted, request.recall), (3 * MIB, 1));
        commitment.answered(0, 0, 0, &answer(&request, 3 * MIB));
        // Who asks for more asks beside it.
        commitment.ask(0, 0, 0, MIB);
        let request = sent(&mut commitment, 0);
        assert_eq!(request.least, 4 * MIB);
        commitment.answered(0, 0, 0, &answer(&request, 3 * MIB));
        commitment.redeem(3 * MIB);
        assert!(commitment.has_room(0, 3 * MIB));
    }

    #[test]
    fn somewhat_more_is_asked_for_than_is_needed_and_again_until_it_is_answered() {
        let mut commitment = Commitment::default();
        assert!(!commitment.has_room(0, 1));
        let asked = commitment.ask(0, 0, 7, 100);
        assert!(asked.is_own);
        let request = sent(&mut commitment, 0);
        let as_asked = (request.held, request.after, request.least, request.wanted);
        assert_eq!(as_asked, (0, 7, 256, 256 + 2 * MIB));
        assert_eq!(commitment.message(1), None);
        // Whoever comes meanwhile waits for that answer first.
        let other = commitment.ask(2, 0, 8, MIB);
        assert_eq!((other.number, other.is_own), (asked.number, false));
        assert_eq!(commitment.next_wakeup(), Some(RESEND.0));
        assert_eq!(sent(&mut commitment, RESEND.0), request);
        let mut stale = answer(&request, MIB);
        stale.number = 9;
        commitment.answered(9, 0, 8, &stale);
        assert!(!commitment.is_answered(asked.number));
        commitment.answered(9, 0, 8, &answer(&request, request.wanted));
        assert!(commitment.is_answered(asked.number));
        assert!(commitment.has_room(0, 2 * MIB + 256));
        assert!(!commitment.has_room(1, 2 * MIB + 256));
        assert_eq!(
            (commitment.next_wakeup(), commitment.message(99)),
            (None, None)
        );
        assert_eq!(commitment.known().free, 64 * MIB);
    }

    #[test]
    fn a_session_says_who_it_is_and_has_room_before_its_first_allocation() {
        let process = ClientProcess {
            host: ShortText::new("node-7"),
            pid: 4_711,
            name: ShortText::new("train"),
        };
        let mut commitment = Commitment::begin(0, process, false);
        let request = sent(&mut commitment, 0);
        let asked = (request.number, request.held, request.wanted, request.least);
        assert_eq!(asked, (1, 0, 2 * MIB, 0));
        assert_eq!(request.process, Some(process));
        assert_eq!(sent(&mut commitment, RESEND.0), request);
        // Who allocates meanwhile waits for that answer.
        let other = commitment.ask(RESEND.0, 0, 0, 100);
        assert_eq!((other.number, other.is_own), (1, false));
        commitment.answered(RESEND.0, 0, 0, &answer(&request, 2 * MIB));
        assert!(commitment.has_room(0, 2 * MIB) && !commitment.has_room(0, 3 * MIB));
        // Said once, and with none to spare the program asks as ever.
        commitment.look(RESEND.0, 0, 0);
        assert_eq!(sent(&mut commitment, RESEND.0).process, None);
        let mut full = Commitment::begin(0, process, false);
        let request = sent(&mut full, 0);
        full.answered(1, 0, 0, &answer(&request, 0));
        assert!(full.ask(1, 0, 0, 100).is_own);
    }

    #[test]
    fn a_look_behind_several_frees_tells_of_all_of_them() {
        let mut commitment = Commitment::default();
        commitment.ask(0, 0, 0, 64 * MIB);
        let request = sent(&mut commitment, 0);
        commitment.answered(1, 0, 0, &answer(&request, 72 * MIB));
        // The first free is told at once, the second one while that is on its way.
        commitment.freed(2, 32 * MIB, 5);
        let first = sent(&mut commitment, 2);
        assert_eq!(first.held, 32 * MIB);
        commitment.freed(3, 0, 6);
        let looked = commitment.look(4, 0, 6);
        assert!(looked.is_own && commitment.tells(looked.number, 0));
        let second = sent(&mut commitment, 4);
        assert_eq!((second.held, second.after), (0, 6));
        // Another look at the same time is the same.
        let other = commitment.look(4, 0, 6);
        assert_eq!((other.number, other.is_own), (looked.number, false));
        commitment.answered(5, 0, 6, &answer(&first, 36 * MIB));
        assert!(!commitment.is_answered(looked.number), "that was the first");
        commitment.answered(6, 0, 6, &answer(&second, 36 * MIB));
        assert!(commitment.is_answered(looked.number));
        assert_eq!(commitment.known().free, 64 * MIB);
        // What was freed meanwhile is given back behind the answer.
        assert_eq!(sent(&mut commitment, 6).wanted, spare(0));
    }

    #[test]
    fn a_look_beside_an_allocation_waits_for_it_and_asks_again() {
        let mut commitment = Commitment::default();
        commitment.needs(64 * MIB);
        let asked = commitment.ask(0, 32 * MIB, 0, 64 * MIB);
        let request = sent(&mut commitment, 0);
        let looked = commitment.look(1, 0, 1);
        assert_eq!((looked.number, looked.is_own), (asked.number, false));
        assert!(!commitment.tells(looked.number, 0), "32 MiB were held then");
        commitment.freed(1, 0, 1);
        commitment.answered(2, 0, 1, &answer(&request, 108 * MIB));
        // What the allocation waits for stays, the rest is given back.
        let lowered = sent(&mut commitment, 2);
        assert_eq!(lowered.wanted, 64 * MIB + spare(0));
        let looked = commitment.look(3, 0, 1);
        assert!(commitment.tells(looked.number, 0));
    }

    #[test]
    fn a_refusal_is_the_answer_to_its_request_alone() {
        let mut commitment = Commitment::default();
        let asked = commitment.ask(0, 0, 0, MIB);
        let request = sent(&mut commitment, 0);
        let refused = MemoryAnswer {
            failure: Some(Failure::new(Code::Quota, "no")),
            ..answer(&request, 0)
        };
        commitment.answered(1, 0, 0, &refused);
        let code = commitment.refusal(asked.number).map(|it| it.code);
        assert_eq!(code, Some(Code::Quota));
        let again = commitment.ask(2, 0, 0, 256);
        assert_eq!(commitment.refusal(again.number), None);
    }

    #[test]
    fn what_is_not_used_is_given_back_when_it_is_much_or_recalled() {
        let mut commitment = Commitment::default();
        commitment.ask(0, 0, 0, 32 * MIB);
        let request = sent(&mut commitment, 0);
        commitment.answered(1, 0, 1, &answer(&request, 36 * MIB));
        commitment.freed(2, 32 * MIB, 2);
        assert_eq!(commitment.message(2), None, "an eighth may stay");
        commitment.freed(3, MIB, 3);
        let request = sent(&mut commitment, 3);
        assert_eq!((request.wanted, request.least), (3 * MIB, MIB));
        // It goes on within that while the worker is told.
        assert!(commitment.has_room(MIB, 2 * MIB) && !commitment.has_room(MIB, 3 * MIB));
        commitment.answered(4, MIB, 3, &answer(&request, 3 * MIB));
        let recall = |recall| MemoryAnswer {
            number: 0,
            recall,
            ..answer(&request, 0)
        };
        commitment.needs(512);
        commitment.answered(5, MIB, 3, &recall(1));
        let obeyed = sent(&mut commitment, 5);
        let asked = (obeyed.wanted, obeyed.least, obeyed.recall);
        assert_eq!(asked, (MIB + 512, MIB, 1));
        // The same recall again is no other.
        commitment.answered(5, MIB, 3, &recall(1));
        // A recall while a request is on its way is obeyed behind the answer.
        commitment.needs_no_more(512);
        commitment.answered(6, MIB, 3, &recall(2));
        assert_eq!(commitment.message(6), None);
        commitment.answered(7, MIB, 3, &answer(&obeyed, MIB + 512));
        let obeyed = sent(&mut commitment, 7);
        let asked = (obeyed.number, obeyed.wanted, obeyed.recall);
        assert_eq!(asked, (4, MIB, 2));
        commitment.answered(8, MIB, 3, &answer(&obeyed, MIB));
        commitment.answered(8, MIB, 3, &recall(2));
        assert_eq!(commitment.message(8), None);
    }
}
