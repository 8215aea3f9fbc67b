//! The trace: events in words, either printed or with the last lines kept.

use std::collections::VecDeque;

use sim_cluster::{Nanos, NodeFact, NodeId, NodeInput, Packet};

use crate::wire;

/// Use of a line.
#[derive(Debug)]
pub(crate) enum Trace {
    /// Dropped: the line is not even made.
    Off,
    /// Printed.
    Print,
    /// Kept, up to this number of last lines.
    Tail(usize, VecDeque<String>),
}

impl Trace {
    /// Adds a line of the simulation itself.
    pub(crate) fn note(&mut self, now: Nanos, line: impl FnOnce() -> String) {
        let seconds = now as f64 / 1e9;
        match self {
            Self::Off => {}
            Self::Print => println!("{seconds:.6} {}", line()),
            Self::Tail(most, lines) => {
                if lines.len() >= *most {
                    lines.pop_front();
                }
                lines.push_back(format!("{seconds:.6} {}", line()));
            }
        }
    }

    /// Adds a published message.
    pub(crate) fn published(&mut self, now: Nanos, from: NodeId, packet: &Packet) {
        self.note(now, || {
            let said = wire::words(&packet.subject, &packet.bytes);
            format!("{} -> {} {said}", from.0, packet.subject)
        });
    }

    /// Adds an arriving message.
    pub(crate) fn packet(&mut self, now: Nanos, to: NodeId, packet: &Packet) {
        self.note(now, || {
            let said = wire::words(&packet.subject, &packet.bytes);
            format!("{} <- {} {} {said}", to.0, packet.from.0, packet.subject)
        });
    }

    /// Adds another input of a node.
    pub(crate) fn input(&mut self, now: Nanos, to: NodeId, input: &NodeInput) {
        let poll = matches!(input, NodeInput::Later(_) | NodeInput::Store(2 | 3, _));
        if !poll {
            self.note(now, || format!("{} told {input:?}", to.0));
        }
    }

    /// Adds a fact that a node tells the checkers.
    pub(crate) fn fact(&mut self, now: Nanos, from: NodeId, fact: &NodeFact) {
        self.note(now, || format!("{} fact {fact:?}", from.0));
    }

    /// Returns the kept lines.
    #[must_use]
    pub(crate) fn into_tail(self) -> Vec<String> {
        match self {
            Self::Tail(_, lines) => lines.into(),
            _ => Vec::new(),
        }
    }
}
