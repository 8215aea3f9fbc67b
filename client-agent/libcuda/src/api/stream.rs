//! Streams.

use std::ffi::{c_int, c_uint};
use std::sync::Mutex;

use crate::abi::{Data, Function, In, Out};
use crate::capture::{self, or_capture};
use crate::current_context::{current, current_device};
use crate::event::wait;
use crate::graph::Work;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::{STREAMS, Stream, device_of, number, number_of};
use crate::work;

/// `CUstreamCallback`.
type Callback = unsafe extern "C" fn(usize, c_int, Data);
/// `CUlaunchAttributeValue`.
pub(crate) type AttributeValue = [u64; 8];
/// The attribute of a stream's priority.
const PRIORITY: c_int = 8;
/// Attributes that say how, and never what: of caches, of waiting, of memory's domains.
const HINTS: [c_int; 4] = [1, 3, 9, 10];

fn create(handle: Out<'_, usize>, flags: c_uint, priority: c_int) -> Result {
    let (_, context) = current()?;
    handle.check()?;
    if flags > 1 {
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
    handle.put(made)
}

/// The device that a stream's work goes to.
pub(super) fn device(stream: usize) -> Result<&'static crate::device::Device> {
    match device_of(stream)? {
        Some(device) => process()?.devices.get(device).ok_or(Status::INVALID_DEVICE),
        None => current_device(),
    }
}

api! {
    fn cuStreamCreate(handle: Out<'_, usize>, flags: c_uint) {
        create(handle, flags, 0)
    }

    fn cuStreamCreateWithPriority(handle: Out<'_, usize>, flags: c_uint, priority: c_int) {
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
        let last = device.with(|session| session.channel().last());
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

    fn cuStreamGetFlags(stream: usize, flags: Out<'_, c_uint>) also cuStreamGetFlags_ptsz {
        number_of(stream)?;
        let found = STREAMS.get(stream).map_or(0, |stream| stream.flags);
        flags.put(found)
    }

    fn cuStreamGetPriority(stream: usize, priority: Out<'_, c_int>) also cuStreamGetPriority_ptsz {
        number_of(stream)?;
        let found = STREAMS.get(stream).map_or(0, |stream| stream.priority);
        priority.put(found)
    }

    fn cuStreamGetCtx(stream: usize, context: Out<'_, usize>) also cuStreamGetCtx_ptsz {
        number_of(stream)?;
        let found = match STREAMS.get(stream) {
            Some(stream) => stream.context,
            None => current()?.1.handle,
        };
        context.put(found)
    }

    fn cuStreamGetDevice(stream: usize, number: Out<'_, c_int>) also cuStreamGetDevice_ptsz {
        let ordinal = device(stream)?.ordinal;
        number.put(ordinal as c_int)
    }

    fn cuStreamGetId(stream: usize, id: Out<'_, u64>) also cuStreamGetId_ptsz {
        number_of(stream)?;
        id.put(stream as u64)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<'_, c_int>) {
        process()?;
        mode.put(0)
    }

    fn cuStreamAddCallback(
        stream: usize,
        function: Function<Callback>,
        data: Data,
        flags: c_uint,
    ) also cuStreamAddCallback_ptsz {
        let _ = flags;
        capture::refuse(stream)?;
        let function = function.take()?;
        let status = match work::sync(device(stream)?) {
            Ok(()) => 0,
            Err(status) => status.0,
        };
        // SAFETY: the program names its function and data for this call, and the work ahead is done.
        unsafe { function(stream, status, data) };
        Ok(())
    }

    fn cuStreamAttachMemAsync(stream: usize, address: u64, length: usize, flags: c_uint)
        also cuStreamAttachMemAsync_ptsz
    {
        let _ = (address, length, flags);
        number_of(stream).map(|_| ())
    }

    fn cuStreamGetGreenCtx(stream: usize, green: Out<'_, usize>) {
        number_of(stream)?;
        // No context here is a part of a device.
        green.put(0)
    }

    fn cuStreamGetCtx_v2(stream: usize, context: Out<'_, usize>, green: Out<'_, usize>)
        also cuStreamGetCtx_v2_ptsz
    {
        number_of(stream)?;
        let found = match STREAMS.get(stream) {
            Some(stream) => stream.context,
            None => current()?.1.handle,
        };
        // No context here is a part of a device.
        green.put_if(0);
        context.put(found)
    }

    fn cuStreamGetAttribute(stream: usize, attribute: c_int, value: Out<'_, AttributeValue>)
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
        value.put(found)
    }

    fn cuStreamSetAttribute(stream: usize, attribute: c_int, value: In<'_, AttributeValue>)
        also cuStreamSetAttribute_ptsz
    {
        number_of(stream)?;
        // A stream's priority is fixed when it is made.
        if !HINTS.contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        let value = value.take()?;
        if let Some(stream) = STREAMS.get(stream) {
            stream.hints().insert(attribute, value);
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
