//! Events: a place in a session's order, and the time at which the device reached it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::abi::Handle;
use crate::context::Context;
use crate::current_context::current_device;
use crate::device::Device;
use crate::handle::table;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::{event_times, work};

/// The flag of an event that records no time.
pub(crate) const DISABLE_TIMING: u32 = 2;

/// The flag of an interprocess event.
pub(crate) const INTERPROCESS: u32 = 4;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its number in the session.
    pub(crate) number: u32,
    pub(crate) flags: u32,
    pub(crate) device: usize,
    pub(crate) context: Handle<Context>,
    /// The op that recorded it last; 0 if none did.
    pub(crate) op: AtomicU64,
    /// True if the event was last recorded on a captured stream.
    pub(crate) captured: AtomicBool,
}

table!(Event, INVALID_HANDLE);
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Event {
    /// Makes an event of a context.
    pub(crate) fn new(flags: u32, of: &Context) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        if flags & DISABLE_TIMING == 0 {
            event_times::begin(number);
        }
        Self {
            number,
            flags,
            device: of.device,
            context: of.handle,
            op: AtomicU64::new(0),
            captured: AtomicBool::new(false),
        }
    }

    /// True if the event records a time.
    pub(crate) fn is_timed(&self) -> bool {
        self.flags & DISABLE_TIMING == 0
    }

    /// The time at which the event was last reached, as reported by answers.
    pub(crate) fn time(&self) -> Option<u64> {
        event_times::time(self.number)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        event_times::forget(self.number);
    }
}

/// Records an event on a stream.
pub(crate) fn record(event: Handle<Event>, stream: Handle<Stream>) -> Result {
    let number = stream.op_number()?;
    let device = current_device()?;
    event.with(|event| {
        if event.device != device.ordinal {
            return Err(Status::INVALID_HANDLE);
        }
        let op = device.with(|session| session.record(event.number, number, event.is_timed()))?;
        event.op.store(op, Ordering::Relaxed);
        event.captured.store(false, Ordering::Relaxed);
        match event.flags & INTERPROCESS {
            0 => Ok(()),
            // An interprocess event is complete when this returns.
            _ => work::sync_through(device, op),
        }
    })?
}

/// Makes later work of a device wait for an event. An event of the same device needs no wait,
/// because its ops run in one order. An event of another device is waited for here.
pub(crate) fn wait(event: Handle<Event>, device: &Device) -> Result {
    let event = event.get()?;
    if event.device == device.ordinal {
        return Ok(());
    }
    let op = event.op.load(Ordering::Relaxed);
    work::sync_through(&process()?.devices[event.device], op)
}
