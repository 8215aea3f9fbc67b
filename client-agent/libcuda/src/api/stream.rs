//! Streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

use super::put;
use crate::capture::{self, or_capture};
use crate::current::{current, current_device};
use crate::event::wait;
use crate::graph::Work;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::{STREAMS, Stream, device_of, number, number_of};
use crate::work;

/// `CUlaunchAttributeValue`.
pub(crate) type AttributeValue = [u64; 8];
/// The attribute of a stream's priority.
const PRIORITY: c_int = 8;
/// Attributes that say how, and never what: of caches, of waiting, of memory's domains.
const HINTS: [c_int; 4] = [1, 3, 9, 10];

fn create(handle: *mut usize, flags: c_uint, priority: c_int) -> Result {
    let (_, context) = current()?;
    if handle.is_null() || flags > 1 {
        return Err(Status::INVALID_VALUE);
    }
    let made = STREAMS.add(Stream {
        number: number(),
        flags,
        priority: priority.clamp(-5, 0),
        context: context.handle,
        device: context.device,
        hints: Mutex::default(),
    });
    // SAFETY: the caller's pointer.
    unsafe { put(handle, made) }
}

/// The device that a stream's work goes to.
pub(super) fn device(stream: usize) -> Result<&'static crate::device::Device> {
    match device_of(stream)? {
        Some(device) => process()?.devices.get(device).ok_or(Status::INVALID_DEVICE),
        None => current_device(),
    }
}

api! {
    fn cuStreamCreate(handle: *mut usize, flags: c_uint) {
        create(handle, flags, 0)
    }

    fn cuStreamCreateWithPriority(handle: *mut usize, flags: c_uint, priority: c_int) {
        create(handle, flags, priority)
    }

    fn cuStreamDestroy_v2(handle: usize) also cuStreamDestroy {
        process()?;
        STREAMS.remove(handle).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuStreamSynchronize(stream: usize) also cuStreamSynchronize_ptsz {
        capture::refuse(stream)?;
        work::sync(device(stream)?)
    }

    fn cuStreamQuery(stream: usize) also cuStreamQuery_ptsz {
        capture::refuse(stream)?;
        let device = device(stream)?;
        let last = device.with(|session| session.line().last());
        match work::is_done(device, last)? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) also cuStreamWaitEvent_ptsz {
        number_of(stream)?;
        let own = device(stream)?;
        // An event of the outside world is a node of its own.
        if flags & 1 != 0 {
            return or_capture(stream, || Ok(Work::Wait(event)), || wait(event, own));
        }
        match capture::wait(event, stream)? {
            true => Ok(()),
            false => wait(event, own),
        }
    }

    fn cuStreamGetFlags(stream: usize, flags: *mut c_uint) also cuStreamGetFlags_ptsz {
        number_of(stream)?;
        let found = STREAMS.get(stream).map_or(0, |stream| stream.flags);
        // SAFETY: the caller's pointer.
        unsafe { put(flags, found) }
    }

    fn cuStreamGetPriority(stream: usize, priority: *mut c_int) also cuStreamGetPriority_ptsz {
        number_of(stream)?;
        let found = STREAMS.get(stream).map_or(0, |stream| stream.priority);
        // SAFETY: the caller's pointer.
        unsafe { put(priority, found) }
    }

    fn cuStreamGetCtx(stream: usize, context: *mut usize) also cuStreamGetCtx_ptsz {
        number_of(stream)?;
        let found = match STREAMS.get(stream) {
            Some(stream) => stream.context,
            None => current()?.1.handle,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(context, found) }
    }

    fn cuStreamGetDevice(stream: usize, number: *mut c_int) also cuStreamGetDevice_ptsz {
        let ordinal = device(stream)?.ordinal;
        // SAFETY: the caller's pointer.
        unsafe { put(number, ordinal as c_int) }
    }

    fn cuStreamGetId(stream: usize, id: *mut u64) also cuStreamGetId_ptsz {
        number_of(stream)?;
        // SAFETY: the caller's pointer.
        unsafe { put(id, stream as u64) }
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(mode, 0) }
    }

    fn cuStreamAddCallback(
        stream: usize,
        function: Option<unsafe extern "C" fn(usize, c_int, *mut c_void)>,
        data: *mut c_void,
        flags: c_uint,
    ) also cuStreamAddCallback_ptsz {
        let _ = flags;
        capture::refuse(stream)?;
        let function = function.ok_or(Status::INVALID_VALUE)?;
        let status = match work::sync(device(stream)?) {
            Ok(()) => 0,
            Err(status) => status.0,
        };
        // SAFETY: the caller's function.
        unsafe { function(stream, status, data) };
        Ok(())
    }

    fn cuStreamAttachMemAsync(stream: usize, address: u64, length: usize, flags: c_uint)
        also cuStreamAttachMemAsync_ptsz
    {
        let _ = (address, length, flags);
        number_of(stream).map(|_| ())
    }

    fn cuStreamGetGreenCtx(stream: usize, green: *mut usize) {
        number_of(stream)?;
        // SAFETY: the caller's pointer. No context here is a part of a device.
        unsafe { put(green, 0) }
    }

    fn cuStreamGetCtx_v2(stream: usize, context: *mut usize, green: *mut usize)
        also cuStreamGetCtx_v2_ptsz
    {
        number_of(stream)?;
        let found = match STREAMS.get(stream) {
            Some(stream) => stream.context,
            None => current()?.1.handle,
        };
        // SAFETY: the caller's pointers. No context here is a part of a device.
        unsafe {
            super::put_if(green, 0);
            put(context, found)
        }
    }

    fn cuStreamGetAttribute(stream: usize, attribute: c_int, value: *mut AttributeValue)
        also cuStreamGetAttribute_ptsz
    {
        number_of(stream)?;
        let priority = STREAMS.get(stream).map_or(0, |stream| stream.priority);
        let mut found = [0; 8];
        match attribute {
            PRIORITY => found[0] = u64::from(priority as u32),
            attribute if HINTS.contains(&attribute) => {
                let set = STREAMS.get(stream).and_then(|it| it.hints().get(&attribute).copied());
                found = set.unwrap_or(found);
            }
            _ => return Err(Status::INVALID_VALUE),
        }
        // SAFETY: the caller's pointer.
        unsafe { put(value, found) }
    }

    fn cuStreamSetAttribute(stream: usize, attribute: c_int, value: *const AttributeValue)
        also cuStreamSetAttribute_ptsz
    {
        number_of(stream)?;
        // A stream's priority is fixed when it is made.
        if !HINTS.contains(&attribute) || value.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        if let Some(stream) = STREAMS.get(stream) {
            // SAFETY: the caller's pointer.
            stream.hints().insert(attribute, unsafe { value.read_unaligned() });
        }
        Ok(())
    }

    fn cuStreamCopyAttributes(to: usize, from: usize) also cuStreamCopyAttributes_ptsz {
        number_of(from)?;
        number_of(to)?;
        if let (Some(from), Some(to)) = (STREAMS.get(from), STREAMS.get(to)) {
            let hints = from.hints().clone();
            *to.hints() = hints;
        }
        Ok(())
    }
}
