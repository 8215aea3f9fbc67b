//! A program's requests for memory to its worker, made by the real commitment of a client.

use bus_schemas::{ClientProcess, MemoryAnswer, OpNumber, ShortText};
use client_agent_core::Commitment;
use sim_cluster::Nanos;

/// Memory for an allocation.
pub(crate) enum Room {
    Enough,
    /// The worker was asked and has not answered.
    Asked,
    Refused,
}

/// A session that asks before it allocates.
pub(crate) struct Asking {
    commitment: Commitment,
    /// The request that its next allocation waits for.
    asked: Option<u64>,
}

impl Asking {
    pub(crate) fn new(now: Nanos) -> Self {
        let process = ClientProcess {
            host: ShortText::new("model"),
            pid: 1,
            name: ShortText::new("program"),
        };
        Self {
            commitment: Commitment::begin(now, process, false),
            asked: None,
        }
    }

    /// Says whether a session that holds `held` bytes may allocate `bytes` more behind op `after`. If not, the
    /// worker is asked.
    pub(crate) fn room(&mut self, now: Nanos, held: u64, after: OpNumber, bytes: u64) -> Room {
        let commitment = &mut self.commitment;
        if let Some(number) = self.asked {
            if !commitment.is_answered(number) {
                return Room::Asked;
            }
            self.asked = None;
            commitment.needs_no_more(bytes);
            if commitment.refusal(number).is_some() {
                return Room::Refused;
            }
        }
        if commitment.has_room(held, bytes) {
            if commitment.runs_low(held) {
                commitment.ask_ahead(now, after);
            }
            return Room::Enough;
        }
        commitment.needs(bytes);
        self.asked = Some(commitment.ask(now, held, after, bytes).number);
        Room::Asked
    }

    /// Notes that an allocation was freed.
    pub(crate) fn freed(&mut self, now: Nanos, held: u64, after: OpNumber) {
        self.commitment.freed(now, held, after);
    }

    /// Takes the worker's answer.
    pub(crate) fn promised(
        &mut self,
        now: Nanos,
        held: u64,
        after: OpNumber,
        answer: &MemoryAnswer,
    ) {
        self.commitment.answered(now, held, after, answer);
    }

    /// Takes the next request, if one is due.
    pub(crate) fn request(&mut self, now: Nanos) -> Option<Vec<u8>> {
        self.commitment.message(now)
    }

    /// Time at which a request is due.
    pub(crate) fn next_request(&self) -> Option<Nanos> {
        self.commitment.next_wakeup()
    }
}
