//! The program as a client needs it: the ops that it pushes, and its use of the answers.

use bus_schemas::subject::ToWorker;
use bus_schemas::{IpcAnswer, MemoryAnswer, OpNumber, Opened};
use client_agent_core::{Outbox, OutboxSettings};

use crate::Nanos;
use crate::node::Io;

/// Timing of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// Time after which it repeats a request without an answer.
    pub ask_again: Nanos,
    /// Time for which pushed ops may linger before they are sent. With `None` they are sent at once, and
    /// the outbox is told the time whenever the program continues.
    pub linger: Option<Nanos>,
    /// Time after which a new leader, or a new connection, gets a sign of life. With `None` the client
    /// gives one when its session opens instead.
    pub settling: Option<Nanos>,
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramProgress {
    /// The step is done.
    On,
    /// The session is to be closed.
    Close,
    /// The program waits, until a time or for an answer.
    Rest(Option<Nanos>),
    /// The program waits for room in the outbox.
    Full,
}

/// The program of one session.
pub trait ClientProgram: Sized {
    /// Timing of its client.
    const HABITS: Habits;

    /// Number by which it asks for its session.
    fn nonce(&self) -> u64;
    /// Time at which it asks for its session.
    fn start(&self) -> Nanos;
    /// Number of devices, each on another worker, all or none.
    fn devices(&self) -> u32 {
        1
    }
    /// True if it means its session to fail.
    fn is_doomed(&self) -> bool {
        false
    }
    /// The program for another of its devices.
    fn on_another(&mut self, index: u64) -> Self;

    /// Notes that its session is open. Returns the settings of the outbox.
    fn opened(&mut self, opened: &Opened) -> OutboxSettings;
    /// Continues by a step.
    fn step(&mut self, io: &mut Io, outbox: &mut Outbox) -> ProgramProgress;
    /// True if no step is left.
    fn is_done(&self) -> bool;
    /// True if it waits for answers.
    fn is_waiting(&self) -> bool;
    /// Takes an answer. Returns true if the answer is right.
    fn answered(&mut self, now: Nanos, op: OpNumber, bytes: &[u8]) -> bool;

    /// Takes the next request to its worker that is due, about memory of its own or of other sessions.
    fn request(&mut self, _now: Nanos) -> Option<(ToWorker, Vec<u8>)> {
        None
    }
    /// Time at which a request is due.
    fn next_request(&self) -> Option<Nanos> {
        None
    }
    /// Takes its worker's answer about memory, behind the op that was pushed last.
    fn promised(&mut self, _now: Nanos, _after: OpNumber, _answer: &MemoryAnswer) {}
    /// Takes its worker's answer about memory of other sessions.
    fn exchanged(&mut self, _now: Nanos, _answer: IpcAnswer) {}

    /// Changes a batch up to this op before it is sent; `None` drops it.
    fn batch(&self, _last: OpNumber, bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
    /// Changes an intent before it is sent.
    fn intent(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}
