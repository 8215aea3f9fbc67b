//! Stream capture: calls on a stream become nodes of a graph instead of work.

mod captures;
mod mode;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use driver_api::DuringCapture;

use self::captures::{Captures, Origin, Seen};
use self::mode::Caller;
pub(crate) use self::mode::Mode;
use crate::abi::Handle;
use crate::context::Context;
use crate::event::Event;
use crate::graph::{Graph, Node, Work};
use crate::lock::lock;
use crate::stack;
use crate::status::{Result, Status};
use crate::stream::{NON_BLOCKING, Stream, thread_number};

pub(crate) use self::captures::Capture;

static CAPTURES: LazyLock<Mutex<Captures>> = LazyLock::new(Mutex::default);
/// Number of captures. The usual program has none, and pays for one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Says whether any stream is captured.
#[inline]
fn is_any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Changes the set of captures.
fn change<R>(body: impl FnOnce(&mut Captures) -> R) -> R {
    let mut captures = lock(&CAPTURES);
    let changed = body(&mut captures);
    COUNT.store(captures.count(), Ordering::Release);
    changed
}

fn seen(stream: Handle<Stream>) -> Seen {
    // A default stream blocks. The caller refuses an unknown stream.
    let made = stream.made().ok().flatten();
    Seen {
        stream: stream.identity(),
        blocking: made.is_none_or(|it| it.flags & NON_BLOCKING == 0),
        context: stream.context().unwrap_or(Handle::NULL),
    }
}

/// Replaces the calling thread's mode.
pub(crate) fn exchange(mode: Mode) -> Mode {
    MODE.replace(mode)
}

/// Refuses a call that takes no stream if a capture forbids it; such captures are invalidated.
#[inline]
pub(crate) fn permit(class: DuringCapture) -> Result {
    if class == DuringCapture::Allowed || !is_any() {
        return Ok(());
    }
    permit_beside(class)
}

#[cold]
fn permit_beside(class: DuringCapture) -> Result {
    let caller = Caller {
        thread: thread_number(),
        mode: MODE.get(),
    };
    let mut captures = lock(&CAPTURES);
    if class == DuringCapture::OnLegacy {
        captures.use_legacy(stack::top())?;
    }
    captures.call_unsafely(caller)
}

/// Refuses a wait for a context if one of its streams is captured.
pub(crate) fn wait_for_context(context: Handle<Context>) -> Result {
    match is_any() {
        true => lock(&CAPTURES).wait_for(context),
        false => Ok(()),
    }
}

/// The captures, for a call on a stream; `None` if there are none.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_IMPLICIT`] if the stream is the legacy one, and one that it waits for
/// is captured.
fn beside(stream: Handle<Stream>) -> Result<Option<MutexGuard<'static, Captures>>> {
    if !is_any() {
        return Ok(None);
    }
    let mut captures = lock(&CAPTURES);
    if stream.is_legacy() {
        captures.use_legacy(stack::top())?;
    }
    Ok(Some(captures))
}

/// Inspects or changes the capture of a stream; `None` if it is not captured.
///
/// # Errors
/// Same as [`beside`].
pub(crate) fn with<R>(
    stream: Handle<Stream>,
    body: impl FnOnce(&mut Capture) -> R,
) -> Result<Option<R>> {
    let mut captures = beside(stream)?;
    let captured = captures.as_mut().and_then(|it| it.of(stream));
    Ok(captured.map(body))
}

/// `CUstreamCaptureStatus` of a stream: 0 for none, 1 for an active capture, 2 for an invalidated
/// one.
///
/// # Errors
/// Same as [`beside`]; the captures go on.
pub(crate) fn status(stream: Handle<Stream>) -> Result<c_int> {
    if !is_any() {
        return Ok(0);
    }
    let mut captures = lock(&CAPTURES);
    if stream.is_legacy() && captures.block(stack::top()) {
        return Err(Status::STREAM_CAPTURE_IMPLICIT);
    }
    Ok(match captures.of(stream).map(|it| it.is_valid()) {
        None => 0,
        Some(Ok(())) => 1,
        Some(Err(_)) => 2,
    })
}

/// Does the work now, or records it if the stream is captured.
#[inline]
pub(crate) fn or_capture(
    stream: Handle<Stream>,
    work: impl FnOnce() -> Result<Work>,
    now: impl FnOnce() -> Result,
) -> Result {
    if !is_any() {
        return now();
    }
    match with(stream, |it| it.is_valid())? {
        None => now(),
        Some(valid) => {
            valid?;
            let work = work()?;
            let added = with(stream, |it| it.add(stream, work))?;
            added.unwrap_or(Err(Status::ILLEGAL_STATE))
        }
    }
}

/// Refuses a call that cannot be captured.
#[inline]
pub(crate) fn refuse(stream: Handle<Stream>) -> Result {
    match with(stream, Capture::refuse)? {
        Some(status) => Err(status),
        None => Ok(()),
    }
}

/// Begins the capture of a stream, either into the program's graph behind given nodes, or into a
/// new graph.
pub(crate) fn begin(
    stream: Handle<Stream>,
    mode: Mode,
    graph: Option<(Arc<Graph>, Vec<Handle<Node>>)>,
) -> Result {
    if stream.is_legacy() {
        return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
    }
    let origin = Origin {
        seen: seen(stream),
        thread: thread_number(),
        mode,
    };
    change(|captures| captures.begin(origin, graph))
}

/// Ends a capture and returns its graph.
///
/// # Errors
/// If the capture was invalidated or is not this thread's to end, and
/// [`Status::STREAM_CAPTURE_UNJOINED`] if another stream's work was not waited for.
pub(crate) fn end(stream: Handle<Stream>) -> Result<Arc<Graph>> {
    change(|captures| captures.take(stream, thread_number()))?.ended()
}

/// Forgets the capture that a destroyed stream began.
pub(crate) fn forget(stream: Handle<Stream>) {
    if is_any() {
        change(|captures| captures.forget(|origin| origin.stream == stream));
    }
}

/// Forgets the captures of a destroyed context.
pub(crate) fn forget_context(context: Handle<Context>) {
    if is_any() {
        change(|captures| captures.forget(|origin| origin.context == context));
    }
}

/// Records an event on a captured stream; false if the stream is not captured.
pub(crate) fn record(event: Handle<Event>, stream: Handle<Stream>) -> Result<bool> {
    match with(stream, |it| it.record(event, stream))? {
        Some(recorded) => recorded.map(|()| true),
        None => Ok(false),
    }
}

/// Lets a stream wait for an event; false if neither is captured.
///
/// # Errors
/// If only one of them is captured, or each in another capture.
pub(crate) fn wait(event: Handle<Event>, stream: Handle<Stream>) -> Result<bool> {
    match beside(stream)? {
        Some(mut captures) => captures.wait(event, seen(stream)),
        None => Ok(false),
    }
}
