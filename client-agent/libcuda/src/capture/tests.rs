use super::*;
use crate::capture::captures::Captures;

const ONE: Handle<Stream> = Handle::new(0x1000);
const TWO: Handle<Stream> = Handle::new(0x1010);
const EVENT: Handle<Event> = Handle::new(0x1020);
const HERE: Handle<Context> = Handle::new(0x1030);
const THERE: Handle<Context> = Handle::new(0x1040);

fn seen_in(stream: Handle<Stream>, blocking: bool) -> Seen {
    Seen {
        stream,
        blocking,
        context: HERE,
    }
}

fn captured(mode: Mode, blocking: bool) -> Captures {
    let mut captures = Captures::default();
    let origin = Origin {
        seen: seen_in(ONE, blocking),
        thread: 1,
        mode,
    };
    captures.begin(origin, None).expect("it begins");
    captures
}

fn empty(captures: &mut Captures, stream: Handle<Stream>) -> Result {
    let capture = captures.of(stream);
    capture.map_or(Err(Status::UNKNOWN), |it| it.add(stream, Work::Empty))
}

fn record(captures: &mut Captures, stream: Handle<Stream>) -> Result {
    let capture = captures.of(stream);
    capture.map_or(Err(Status::UNKNOWN), |it| it.record(EVENT, stream))
}

fn end(captures: &mut Captures, stream: Handle<Stream>) -> Result<Arc<Graph>> {
    captures.take(stream, 1)?.ended()
}

#[test]
fn events_bring_other_streams_into_a_capture_and_back() {
    let mut captures = captured(Mode::Global, false);
    let all = &mut captures;
    empty(all, ONE).expect("captured");
    record(all, ONE).expect("recorded");
    assert_eq!(empty(all, TWO), Err(Status::UNKNOWN), "not captured");
    assert_eq!(all.wait(EVENT, seen_in(TWO, false)), Ok(true));
    empty(all, TWO).expect("captured too");
    empty(all, ONE).expect("beside it");
    assert_eq!(end(all, TWO).err(), Some(Status::STREAM_CAPTURE_UNMATCHED));
    record(all, TWO).expect("recorded");
    assert_eq!(all.wait(EVENT, seen_in(ONE, false)), Ok(true));
    empty(all, ONE).expect("behind both");
    let graph = end(all, ONE).expect("joined");
    let nodes = graph.nodes();
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(a, b)| (nodes[a], nodes[b]));
    assert_eq!(graph.edges(), edges);
    assert_eq!(all.count(), 0);
}

#[test]
fn a_stream_that_was_not_waited_for_ends_a_capture_without_a_graph() {
    let mut captures = captured(Mode::Global, false);
    let all = &mut captures;
    record(all, ONE).expect("recorded");
    all.wait(EVENT, seen_in(TWO, false)).expect("it takes part");
    empty(all, TWO).expect("captured");
    assert_eq!(end(all, ONE).err(), Some(Status::STREAM_CAPTURE_UNJOINED));
    assert_eq!(empty(all, TWO), Err(Status::UNKNOWN), "over");
}

#[test]
fn a_stream_is_captured_once_and_ended_by_its_thread() {
    let mut captures = captured(Mode::Thread, false);
    let origin = Origin {
        seen: seen_in(ONE, false),
        thread: 2,
        mode: Mode::Relaxed,
    };
    let again = captures.begin(origin, None);
    assert_eq!(again, Err(Status::ILLEGAL_STATE));
    let by_another = captures.take(ONE, 2).map(|_| ());
    assert_eq!(by_another, Err(Status::STREAM_CAPTURE_WRONG_THREAD));
    assert!(end(&mut captures, ONE).is_ok());
    captures.begin(origin, None).expect("it begins");
    assert!(end(&mut captures, ONE).is_ok(), "a relaxed one by any");
    assert_eq!(
        end(&mut captures, ONE).err(),
        Some(Status::ILLEGAL_STATE),
        "ended"
    );
}

#[test]
fn conflicts_end_the_captures_that_they_are_of_and_no_other() {
    type Call = fn(&mut Captures) -> Result;
    let unsafely: Call = |it| {
        it.call_unsafely(Caller {
            thread: 1,
            mode: Mode::Global,
        })
    };
    let legacy: Call = |it| it.use_legacy(HERE);
    let elsewhere: Call = |it| it.use_legacy(THERE);
    let waited: Call = |it| it.wait_for(HERE);
    let isolated: Call = |it| it.wait(EVENT, seen_in(ONE, false)).map(|_| ());
    for (mode, blocking, call, status) in [
        (
            Mode::Thread,
            false,
            unsafely,
            Some(Status::STREAM_CAPTURE_UNSUPPORTED),
        ),
        (Mode::Relaxed, true, unsafely, None),
        (
            Mode::Relaxed,
            true,
            legacy,
            Some(Status::STREAM_CAPTURE_IMPLICIT),
        ),
        (Mode::Global, false, legacy, None),
        (Mode::Global, true, elsewhere, None),
        (
            Mode::Relaxed,
            false,
            waited,
            Some(Status::STREAM_CAPTURE_UNSUPPORTED),
        ),
        (
            Mode::Relaxed,
            false,
            isolated,
            Some(Status::STREAM_CAPTURE_ISOLATION),
        ),
    ] {
        let mut captures = captured(mode, blocking);
        assert_eq!(call(&mut captures).err(), status);
        let over = status.map(|_| Status::STREAM_CAPTURE_INVALIDATED);
        assert_eq!(empty(&mut captures, ONE).err(), over);
        assert_eq!(record(&mut captures, ONE).err(), over);
        // An invalidated capture forbids nothing more.
        if status.is_some_and(|it| it != Status::STREAM_CAPTURE_ISOLATION) {
            assert_eq!(call(&mut captures), Ok(()));
        }
        assert_eq!(end(&mut captures, ONE).err(), over);
    }
}

#[test]
fn a_stream_that_joins_may_be_one_that_the_legacy_stream_waits_for() {
    let mut captures = captured(Mode::Relaxed, false);
    record(&mut captures, ONE).expect("recorded");
    assert!(!captures.block(HERE));
    captures.wait(EVENT, seen_in(TWO, true)).expect("it joins");
    assert!(captures.block(HERE) && !captures.block(THERE));
}

#[test]
fn two_captures_are_not_merged() {
    let mut captures = captured(Mode::Relaxed, false);
    let origin = Origin {
        seen: seen_in(TWO, false),
        thread: 1,
        mode: Mode::Relaxed,
    };
    captures.begin(origin, None).expect("it begins");
    record(&mut captures, ONE).expect("recorded");
    let merged = captures.wait(EVENT, seen_in(TWO, false));
    assert_eq!(merged, Err(Status::STREAM_CAPTURE_MERGE));
    for stream in [ONE, TWO] {
        let ended = end(&mut captures, stream).err();
        assert_eq!(ended, Some(Status::STREAM_CAPTURE_INVALIDATED));
    }
}

#[test]
fn captures_of_streams_that_are_gone_are_gone() {
    let mut captures = captured(Mode::Global, false);
    captures.forget(|origin| origin.stream == TWO);
    assert_eq!(captures.count(), 1);
    captures.forget(|origin| origin.context == HERE);
    assert_eq!(captures.count(), 0);
}

#[test]
fn the_legacy_stream_is_not_captured() {
    let begun = begin(Handle::NULL, Mode::Global, None);
    assert_eq!(begun, Err(Status::STREAM_CAPTURE_UNSUPPORTED));
}
