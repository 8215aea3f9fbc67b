//! The program as a client needs it: what it pushes, and what it makes of the answers.

use bus_schemas::{OpNumber, Opened};
use client_agent_core::{Outbox, OutboxSettings};

use crate::Nanos;
use crate::node::Io;

/// How a client goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Habits {
    /// How long it waits before it repeats a request that got no answer.
    pub ask_again: Nanos,
    /// Until what was pushed and may linger is sent. `None`: it is sent at once, and the outbox is
    /// told the time whenever the program goes on.
    pub linger: Option<Nanos>,
    /// How long a new leader, or a new connection, takes to be there for a sign of life. `None`: it
    /// gives one when its session opens instead.
    pub settling: Option<Nanos>,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramProgress {
    /// It is done.
    On,
    /// The session is to be closed.
    Close,
    /// It waits, until a time or for an answer.
    Rest(Option<Nanos>),
    /// It waits for room in the outbox.
    Full,
}

/// The program of one session.
pub trait ClientProgram: Sized {
    /// How its client goes about it.
    const HABITS: Habits;

    /// By this number it asks for its session.
    fn nonce(&self) -> u64;
    /// When it asks for its session.
    fn start(&self) -> Nanos;
    /// Devices, each on another worker, all or none.
    fn devices(&self) -> u32 {
        1
    }
    /// Whether it means its session to fail.
    fn is_doomed(&self) -> bool {
        false
    }
    /// What runs on another of its devices.
    fn on_another(&mut self, index: u64) -> Self;

    /// Its session is open.
    fn opened(&mut self, opened: &Opened) -> OutboxSettings;
    /// Goes on by a step.
    fn step(&mut self, io: &mut Io, outbox: &mut Outbox) -> ProgramProgress;
    /// Whether nothing is left of it.
    fn is_done(&self) -> bool;
    /// Whether it waits for answers.
    fn is_waiting(&self) -> bool;
    /// An answer has come. Says whether it is right.
    fn answered(&mut self, now: Nanos, op: OpNumber, bytes: &[u8]) -> bool;

    /// A batch up to this op, as it is sent, if it is.
    fn batch(&self, _last: OpNumber, bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
    /// An intent, as it is sent.
    fn intent(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}
