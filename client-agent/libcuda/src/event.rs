//! Events: a place in a session's order, and when the device got there.

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

/// The flag of an event that takes no time.
pub(crate) const DISABLE_TIMING: u32 = 2;

/// The flag of an event of several processes.
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
    /// It was last recorded on a captured stream.
    pub(crate) captured: AtomicBool,
}

table!(Event, INVALID_HANDLE);
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Event {
    /// A new event of a context.
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

    /// Whether it takes its time.
    pub(crate) fn is_timed(&self) -> bool {
        self.flags & DISABLE_TIMING == 0
    }

    /// When it was reached last, as far as answers say.
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
            // For other processes it is reached when this returns.
            _ => work::sync_through(device, op),
        }
    })?
}

/// Work of a device from now on comes behind an event: what runs in one order does already, another
/// device's event is waited for here.
pub(crate) fn wait(event: Handle<Event>, device: &Device) -> Result {
    let event = event.get()?;
    if event.device == device.ordinal {
        return Ok(());
    }
    let op = event.op.load(Ordering::Relaxed);
    work::sync_through(&process()?.devices[event.device], op)
}
