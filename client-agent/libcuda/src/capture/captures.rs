//! The captures of a process: the nodes that each has recorded, and the calls that invalidate it.

use std::collections::HashMap;
use std::sync::Arc;

use super::mode::{Caller, Mode};
use crate::abi::Handle;
use crate::context::Context;
use crate::event::Event;
use crate::graph::{Graph, Node, Work};
use crate::status::{Result, Status};
use crate::stream::Stream;

/// A stream as a capture sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Identity of the stream.
    pub(super) stream: Handle<Stream>,
    /// True if the stream and the legacy stream wait for each other.
    pub(super) blocking: bool,
    /// Context of the stream's work.
    pub(super) context: Handle<Context>,
}

/// The begin of a capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// The stream that is captured.
    pub(super) seen: Seen,
    /// The thread that began it.
    pub(super) thread: usize,
    /// The mode, which determines the forbidden calls.
    pub(super) mode: Mode,
}

/// A capture under way.
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) graph: Arc<Graph>,
    origin: Origin,
    /// True if the graph existed before the capture.
    borrowed: bool,
    /// True if a call was made that cannot be captured: the capture is invalidated.
    invalid: bool,
    /// Nodes that the next call on each participating stream depends on, by the stream's identity.
    tails: HashMap<Handle<Stream>, Vec<Handle<Node>>>,
    /// True if the legacy stream waits for a participating stream.
    blocking: bool,
    /// Nodes that a wait for an event depends on, for events recorded in this capture.
    events: HashMap<Handle<Event>, Vec<Handle<Node>>>,
}

impl Capture {
    /// Fails if the capture is invalidated.
    pub(crate) fn is_valid(&self) -> Result {
        match self.invalid {
            true => Err(Status::STREAM_CAPTURE_INVALIDATED),
            false => Ok(()),
        }
    }

    /// Adds work of a stream.
    pub(super) fn add(&mut self, stream: Handle<Stream>, work: Work) -> Result {
        self.is_valid()?;
        let tail = self.tail(stream);
        let behind = std::mem::take(tail);
        let node = self.graph.add(work, &behind);
        *self.tail(stream) = match node {
            Ok(node) => vec![node],
            Err(_) => behind,
        };
        node.map(|_| ())
    }

    /// Nodes that the next call on a stream depends on.
    pub(crate) fn tail(&mut self, stream: Handle<Stream>) -> &mut Vec<Handle<Node>> {
        self.tails.entry(stream.identity()).or_default()
    }

    /// Notes an event after a stream's calls.
    pub(super) fn record(&mut self, event: Handle<Event>, stream: Handle<Stream>) -> Result {
        self.is_valid()?;
        let tail = self.tail(stream).clone();
        self.events.insert(event, tail);
        Ok(())
    }

    /// Refuses a call that cannot be captured, and invalidates the capture.
    pub(super) fn refuse(&mut self) -> Status {
        match self.is_valid() {
            Err(status) => status,
            Ok(()) => self.end_by(Status::STREAM_CAPTURE_UNSUPPORTED),
        }
    }

    fn end_by(&mut self, status: Status) -> Status {
        self.invalid = true;
        status
    }

    fn has(&self, stream: Handle<Stream>) -> bool {
        self.tails.contains_key(&stream.identity())
    }

    /// Ends the capture and returns its graph.
    ///
    /// # Errors
    /// If it was invalidated, and [`Status::STREAM_CAPTURE_UNJOINED`] if another stream's work was
    /// not waited for. Its graph is destroyed then.
    pub(super) fn ended(self) -> Result<Arc<Graph>> {
        let seen = self.is_valid().and(match self.is_joined() {
            true => Ok(()),
            false => Err(Status::STREAM_CAPTURE_UNJOINED),
        });
        match seen {
            Ok(()) => Ok(self.graph),
            Err(status) => {
                self.discard();
                Err(status)
            }
        }
    }

    fn discard(self) {
        if !self.borrowed {
            self.graph.destroy();
        }
    }

    /// Says whether the origin's last call depends on the last calls of all other streams.
    fn is_joined(&self) -> bool {
        let edges = self.graph.edges();
        let mut seen: Vec<_> = self.tails[&self.origin.seen.stream].clone();
        let mut at = 0;
        while let Some(node) = seen.get(at).copied() {
            let before = edges.iter().filter(|edge| edge.1 == node);
            for (from, _) in before {
                if !seen.contains(from) {
                    seen.push(*from);
                }
            }
            at += 1;
        }
        let mut others = self.tails.values().flatten();
        others.all(|node| seen.contains(node))
    }
}

/// The captures under way.
#[derive(Default)]
pub(super) struct Captures {
    all: Vec<Capture>,
    begun: u64,
}

impl Captures {
    /// Number of captures.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The capture in which a stream takes part.
    pub(super) fn of(&mut self, stream: Handle<Stream>) -> Option<&mut Capture> {
        self.all.iter_mut().find(|it| it.has(stream))
    }

    /// Begins a capture, either into the program's graph behind given nodes, or into a new graph.
    ///
    /// # Errors
    /// [`Status::ILLEGAL_STATE`] if the stream is already captured.
    pub(super) fn begin(
        &mut self,
        origin: Origin,
        graph: Option<(Arc<Graph>, Vec<Handle<Node>>)>,
    ) -> Result {
        let stream = origin.seen.stream;
        if self.of(stream).is_some() {
            return Err(Status::ILLEGAL_STATE);
        }
        let borrowed = graph.is_some();
        let (graph, after) = graph.unwrap_or_else(|| (Graph::create(), Vec::new()));
        self.begun += 1;
        self.all.push(Capture {
            id: self.begun,
            graph,
            origin,
            borrowed,
            invalid: false,
            tails: HashMap::from([(stream, after)]),
            blocking: origin.seen.blocking,
            events: HashMap::new(),
        });
        Ok(())
    }

    /// Removes and returns the capture that a stream began.
    ///
    /// # Errors
    /// If there is none, if another stream began it, or if another thread began it in a mode that
    /// is not relaxed.
    pub(super) fn take(&mut self, stream: Handle<Stream>, thread: usize) -> Result<Capture> {
        let at = self.all.iter().position(|it| it.has(stream));
        let at = at.ok_or(Status::ILLEGAL_STATE)?;
        let origin = self.all[at].origin;
        if origin.seen.stream != stream.identity() {
            return Err(Status::STREAM_CAPTURE_UNMATCHED);
        }
        if origin.mode != Mode::Relaxed && origin.thread != thread {
            return Err(Status::STREAM_CAPTURE_WRONG_THREAD);
        }
        Ok(self.all.swap_remove(at))
    }

    /// Forgets the captures of removed origins.
    pub(super) fn forget(&mut self, is_gone: impl Fn(Seen) -> bool) {
        let gone = self.all.extract_if(.., |it| is_gone(it.origin.seen));
        gone.for_each(Capture::discard);
    }

    /// Handles a call by a thread that is unsafe during capture. Invalidates the captures that
    /// forbid it.
    pub(super) fn call_unsafely(&mut self, caller: Caller) -> Result {
        self.end_where(Status::STREAM_CAPTURE_UNSUPPORTED, |it| {
            caller.is_forbidden(it.origin.thread, it.origin.mode)
        })
    }

    /// Handles a use of a context's legacy stream. Invalidates the captures of streams that it
    /// waits for.
    pub(super) fn use_legacy(&mut self, context: Handle<Context>) -> Result {
        self.end_where(Status::STREAM_CAPTURE_IMPLICIT, |it| it.blocks(context))
    }

    /// Handles a wait for a context. Invalidates the captures of its streams.
    pub(super) fn wait_for(&mut self, context: Handle<Context>) -> Result {
        self.end_where(Status::STREAM_CAPTURE_UNSUPPORTED, |it| {
            it.origin.seen.context == context
        })
    }

    fn end_where(&mut self, status: Status, conflicts: impl Fn(&Capture) -> bool) -> Result {
        let mut result = Ok(());
        for capture in self.all.iter_mut().filter(|it| !it.invalid) {
            if conflicts(capture) {
                result = Err(capture.end_by(status));
            }
        }
        result
    }

    /// Says whether a context's legacy stream cannot be used.
    pub(super) fn block(&self, context: Handle<Context>) -> bool {
        self.all.iter().any(|it| !it.invalid && it.blocks(context))
    }

    /// Handles a stream's wait for an event; false if neither is captured.
    ///
    /// # Errors
    /// If only one of them is captured, or each in another capture: these captures are invalidated.
    pub(super) fn wait(&mut self, event: Handle<Event>, seen: Seen) -> Result<bool> {
        let own = self.all.iter().position(|it| it.has(seen.stream));
        let of = |it: &Capture| it.events.contains_key(&event);
        let of = self.all.iter().position(of);
        for at in [own, of].into_iter().flatten() {
            self.all[at].is_valid()?;
        }
        let (status, ended) = match (own, of) {
            (None, None) => return Ok(false),
            (Some(own), None) => (Status::STREAM_CAPTURE_ISOLATION, [own, own]),
            (Some(own), Some(of)) if own != of => (Status::STREAM_CAPTURE_MERGE, [own, of]),
            (_, Some(of)) if seen.stream.is_legacy() => (Status::STREAM_CAPTURE_IMPLICIT, [of, of]),
            (_, Some(of)) => {
                self.all[of].join(event, seen);
                return Ok(true);
            }
        };
        for at in ended {
            self.all[at].invalid = true;
        }
        Err(status)
    }
}

impl Capture {
    fn blocks(&self, context: Handle<Context>) -> bool {
        self.blocking && self.origin.seen.context == context
    }

    /// Makes a stream that waits for an event of this capture take part in it.
    fn join(&mut self, event: Handle<Event>, seen: Seen) {
        let recorded = self.events[&event].clone();
        self.blocking |= seen.blocking;
        let tail = self.tail(seen.stream);
        tail.extend(recorded);
        tail.sort_unstable();
        tail.dedup();
    }
}
