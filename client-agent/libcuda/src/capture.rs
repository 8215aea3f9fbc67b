//! Stream capture: what is called on a stream becomes nodes of a graph instead of work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::abi::Handle;
use crate::event::Event;
use crate::graph::{Graph, Node, Work};
use crate::lock::lock;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// A capture under way.
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) graph: Arc<Graph>,
    /// The stream that began it, here and below by its identity.
    origin: Handle<Stream>,
    /// The graph was there before.
    pub(crate) borrowed: bool,
    /// Something was called that cannot be captured: the capture comes to nothing.
    invalid: bool,
    /// What the next call on each stream that takes part comes behind.
    tails: HashMap<Handle<Stream>, Vec<Handle<Node>>>,
    /// What waiting for an event that was recorded here comes behind.
    events: HashMap<Handle<Event>, Vec<Handle<Node>>>,
}

static CAPTURES: LazyLock<Mutex<Vec<Capture>>> = LazyLock::new(Mutex::default);
/// How many there are: the usual program has none, and pays one look.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// Whether a stream is captured.
#[inline]
pub(crate) fn is_captured(stream: Handle<Stream>) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && lock(&CAPTURES).iter().any(|capture| capture.has(stream))
}

/// Looks at the capture of a stream, or changes it; `None` where it is not captured.
pub(crate) fn with<R>(stream: Handle<Stream>, body: impl FnOnce(&mut Capture) -> R) -> Option<R> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut captures = lock(&CAPTURES);
    let found = captures.iter_mut().find(|capture| capture.has(stream));
    found.map(body)
}

/// Does the work now, or records it where the stream is captured.
#[inline]
pub(crate) fn or_capture(
    stream: Handle<Stream>,
    work: impl FnOnce() -> Result<Work>,
    now: impl FnOnce() -> Result,
) -> Result {
    if !is_captured(stream) {
        return now();
    }
    let work = work()?;
    with(stream, |capture| capture.add(stream, work)).unwrap_or(Err(Status::ILLEGAL_STATE))
}

/// Refuses what cannot be captured.
#[inline]
pub(crate) fn refuse(stream: Handle<Stream>) -> Result {
    match with(stream, |capture| capture.invalid = true) {
        Some(()) => Err(Status::STREAM_CAPTURE_UNSUPPORTED),
        None => Ok(()),
    }
}

/// Begins the capture of a stream, into a graph of the program's behind nodes of it, or into a new
/// one.
pub(crate) fn begin(
    stream: Handle<Stream>,
    graph: Option<(Arc<Graph>, Vec<Handle<Node>>)>,
) -> Result {
    if stream.is_legacy() {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    if is_captured(stream) {
        return Err(Status::ILLEGAL_STATE);
    }
    let borrowed = graph.is_some();
    let (graph, after) = graph.unwrap_or_else(|| (Graph::create(), Vec::new()));
    let mut captures = lock(&CAPTURES);
    captures.push(Capture {
        id: NEXT.fetch_add(1, Ordering::Relaxed) as u64,
        graph,
        origin: stream.identity(),
        invalid: false,
        borrowed,
        tails: HashMap::from([(stream.identity(), after)]),
        events: HashMap::new(),
    });
    COUNT.store(captures.len(), Ordering::Release);
    Ok(())
}

/// Ends a capture; its graph.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNJOINED`] where another stream's work was not waited for.
pub(crate) fn end(stream: Handle<Stream>) -> Result<Arc<Graph>> {
    let mut captures = lock(&CAPTURES);
    let at = captures.iter().position(|capture| capture.has(stream));
    let at = at.ok_or(Status::ILLEGAL_STATE)?;
    if captures[at].origin != stream.identity() {
        return Err(Status::STREAM_CAPTURE_UNMATCHED);
    }
    let capture = captures.swap_remove(at);
    COUNT.store(captures.len(), Ordering::Release);
    drop(captures);
    if capture.invalid {
        if !capture.borrowed {
            capture.graph.destroy();
        }
        return Err(Status::STREAM_CAPTURE_INVALIDATED);
    }
    if capture.is_joined() {
        return Ok(capture.graph);
    }
    if !capture.borrowed {
        capture.graph.destroy();
    }
    Err(Status::STREAM_CAPTURE_UNJOINED)
}

/// An event is recorded on a captured stream; false where the stream is not captured.
pub(crate) fn record(event: Handle<Event>, stream: Handle<Stream>) -> bool {
    let noted = with(stream, |capture| {
        let tail = capture.tail(stream).clone();
        capture.events.insert(event, tail);
    });
    noted.is_some()
}

/// A stream waits for an event; false where the event was not recorded in a capture.
pub(crate) fn wait(event: Handle<Event>, stream: Handle<Stream>) -> Result<bool> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Ok(false);
    }
    let mut captures = lock(&CAPTURES);
    let own = captures.iter().position(|capture| capture.has(stream));
    let of = captures
        .iter()
        .position(|capture| capture.events.contains_key(&event));
    match (own, of) {
        (None, None) => Ok(false),
        (Some(_), None) => Err(Status::STREAM_CAPTURE_ISOLATION),
        (Some(own), Some(of)) if own != of => Err(Status::STREAM_CAPTURE_MERGE),
        (_, Some(_)) if stream.is_legacy() => Err(Status::STREAM_CAPTURE_IMPLICIT),
        (_, Some(of)) => {
            let capture = &mut captures[of];
            let recorded = capture.events[&event].clone();
            let tail = capture.tail(stream);
            tail.extend(recorded);
            tail.sort_unstable();
            tail.dedup();
            Ok(true)
        }
    }
}

impl Capture {
    fn add(&mut self, stream: Handle<Stream>, work: Work) -> Result {
        let tail = self.tails.entry(stream.identity()).or_default();
        let node = self.graph.add(work, tail)?;
        *tail = vec![node];
        Ok(())
    }

    /// What the next call on a stream comes behind.
    pub(crate) fn tail(&mut self, stream: Handle<Stream>) -> &mut Vec<Handle<Node>> {
        self.tails.entry(stream.identity()).or_default()
    }

    /// Whether a stream takes part.
    fn has(&self, stream: Handle<Stream>) -> bool {
        self.tails.contains_key(&stream.identity())
    }

    /// Whether the origin's last call comes behind those of all other streams.
    fn is_joined(&self) -> bool {
        let edges = self.graph.edges();
        let mut seen: Vec<_> = self.tails[&self.origin].clone();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(stream: Handle<Stream>) -> Result {
        or_capture(stream, || Ok(Work::Empty), || Err(Status::UNKNOWN))
    }

    #[test]
    fn events_bring_other_streams_into_a_capture_and_back() {
        let (one, two) = (Handle::new(0x1000), Handle::new(0x1010));
        let event = Handle::new(0x1020);
        assert_eq!(empty(one), Err(Status::UNKNOWN), "not captured");
        assert_eq!(
            begin(Handle::NULL, None),
            Err(Status::STREAM_CAPTURE_UNSUPPORTED)
        );
        begin(one, None).expect("it begins");
        assert_eq!(begin(one, None), Err(Status::ILLEGAL_STATE));
        empty(one).expect("captured");
        assert!(record(event, one));
        assert_eq!(wait(event, two), Ok(true));
        empty(two).expect("captured too");
        empty(one).expect("beside it");
        assert_eq!(end(two).err(), Some(Status::STREAM_CAPTURE_UNMATCHED));
        assert!(record(event, two));
        assert_eq!(wait(event, one), Ok(true));
        empty(one).expect("behind both");
        let graph = end(one).expect("joined");
        let nodes = graph.nodes();
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(a, b)| (nodes[a], nodes[b]));
        assert_eq!(graph.edges(), edges);
        begin(one, None).expect("it begins again");
        assert!(record(event, one));
        wait(event, two).expect("it takes part");
        empty(two).expect("captured");
        assert_eq!(end(one).err(), Some(Status::STREAM_CAPTURE_UNJOINED));
        assert_eq!(empty(two), Err(Status::UNKNOWN), "over");
    }
}
