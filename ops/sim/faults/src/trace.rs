//! The trace: what happened, in words, printed, or the last of it kept.

use std::collections::VecDeque;

use sim_cluster::{Fact, Nanos, NodeId, NodeInput, Packet};

use crate::wire;

/// What becomes of a line.
#[derive(Debug)]
pub(crate) enum Trace {
    /// Nothing: no line is even made.
    Off,
    /// It is printed.
    Print,
    /// The last so many are kept.
    Tail(usize, VecDeque<String>),
}

impl Trace {
    /// A line of the simulation itself.
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

    /// A message is published.
    pub(crate) fn published(&mut self, now: Nanos, from: NodeId, packet: &Packet) {
        self.note(now, || {
            let said = wire::words(&packet.subject, &packet.bytes);
            format!("{} -> {} {said}", from.0, packet.subject)
        });
    }

    /// A message arrives.
    pub(crate) fn packet(&mut self, now: Nanos, to: NodeId, packet: &Packet) {
        self.note(now, || {
            let said = wire::words(&packet.subject, &packet.bytes);
            format!("{} <- {} {} {said}", to.0, packet.from.0, packet.subject)
        });
    }

    /// A node is told something else.
    pub(crate) fn input(&mut self, now: Nanos, to: NodeId, input: &NodeInput) {
        let poll = matches!(input, NodeInput::Later(_) | NodeInput::Store(2 | 3, _));
        if !poll {
            self.note(now, || format!("{} told {input:?}", to.0));
        }
    }

    /// A node says something to the checkers.
    pub(crate) fn fact(&mut self, now: Nanos, from: NodeId, fact: &Fact) {
        self.note(now, || format!("{} fact {fact:?}", from.0));
    }

    /// The lines kept.
    #[must_use]
    pub(crate) fn into_tail(self) -> Vec<String> {
        match self {
            Self::Tail(_, lines) => lines.into(),
            _ => Vec::new(),
        }
    }
}
