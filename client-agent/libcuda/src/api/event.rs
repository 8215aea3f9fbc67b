//! Events.

use std::ffi::c_uint;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::{Handle, Out};
use crate::capture::{self, or_capture};
use crate::current_context::current;
use crate::device::Device;
use crate::event::{DISABLE_TIMING, Event, INTERPROCESS, record};
use crate::graph::Work;
use crate::guard::api;
use crate::handle::Object;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work;

/// The flag of `cuEventRecordWithFlags` and `cuStreamWaitEvent` for events outside a capture.
const EXTERNAL: c_uint = 1;

/// An event with its device; an error if a capture recorded it last. It need not be recorded yet.
fn known(event: Handle<Event>) -> Result<(Arc<Event>, &'static Device)> {
    let event = event.get()?;
    if event.captured.load(Ordering::Relaxed) {
        return Err(Status::CAPTURED_EVENT);
    }
    let device = process()?.devices.get(event.device);
    Ok((event, device.ok_or(Status::INVALID_DEVICE)?))
}

/// Records an event, or notes it if the stream is captured.
fn note_or_record(event: Handle<Event>, stream: Handle<Stream>) -> Result {
    stream.op_number()?;
    event.check()?;
    match capture::record(event, stream)? {
        true => event.with(|event| event.captured.store(true, Ordering::Relaxed)),
        false => record(event, stream),
    }
}

/// Milliseconds between two events that have completed.
fn elapsed(start: Handle<Event>, end: Handle<Event>) -> Result<f32> {
    let ((start, device), (end, other)) = (known(start)?, known(end)?);
    let ops = [&start, &end].map(|event| event.op.load(Ordering::Relaxed));
    let timed = start.is_timed() && end.is_timed();
    if !timed || device.ordinal != other.ordinal || ops.contains(&0) {
        return Err(Status::INVALID_HANDLE);
    }
    let last = ops[0].max(ops[1]);
    if !work::is_done(device, last)? {
        return Err(Status::NOT_READY);
    }
    // The times arrive with the answer to a wait.
    work::sync_through(device, last)?;
    match (start.time(), end.time()) {
        (Some(start), Some(end)) => Ok((end as f64 - start as f64) as f32 / 1e6),
        // With many thousand events between two answers, the oldest times are not kept.
        _ => Err(Status::NOT_READY),
    }
}

api! {
    fn cuEventCreate(event: Out<'_, Handle<Event>>, flags: c_uint) {
        let (_, context) = current()?;
        event.put_made(|| match flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
            true => Err(Status::INVALID_VALUE),
            false => Ok(Event::table().add(Event::new(flags, &context))),
        })
    }

    fn cuEventDestroy_v2(event: Handle<Event>) also cuEventDestroy => event.remove();
    fn cuEventRecord(event: Handle<Event>, stream: Handle<Stream>) ptsz cuEventRecord_ptsz
        => note_or_record(event, stream);

    fn cuEventRecordWithFlags(event: Handle<Event>, stream: Handle<Stream>, flags: c_uint)
        ptsz cuEventRecordWithFlags_ptsz
    {
        // An external event is a node of its own.
        match flags & EXTERNAL {
            0 => note_or_record(event, stream),
            _ => or_capture(stream, || Ok(Work::Record(event)), || record(event, stream)),
        }
    }

    fn cuEventQuery(event: Handle<Event>) {
        let (event, device) = known(event)?;
        match work::is_done(device, event.op.load(Ordering::Relaxed))? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    fn cuEventSynchronize(event: Handle<Event>) {
        let (event, device) = known(event)?;
        work::sync_through(device, event.op.load(Ordering::Relaxed))
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<'_, f32>, start: Handle<Event>, end: Handle<Event>)
        also cuEventElapsedTime => milliseconds.put(elapsed(start, end)?);
}
