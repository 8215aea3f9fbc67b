//! Streams.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Mutex;

use crate::abi::{Data, Function, Handle, In, Out};
use crate::capture::{self, or_capture};
use crate::context::Context;
use crate::current_context::current;
use crate::event::{Event, wait};
use crate::graph::Work;
use crate::guard::api;
use crate::handle::Object;
use crate::status::{Result, Status};
use crate::stream::{AttributeValue, Stream, number};
use crate::thread_form::Argument;
use crate::work;

/// `CUstreamCallback`.
type Callback = unsafe extern "C" fn(Handle<Stream>, c_int, *mut c_void);
/// The attribute of a stream's priority.
const PRIORITY: c_int = 8;
/// Attributes that affect only how work is done: caches, waiting, memory domains.
const HINTS: [c_int; 4] = [1, 3, 9, 10];

fn create(stream: Out<'_, Handle<Stream>>, flags: c_uint, priority: c_int) -> Result {
    let (_, context) = current()?;
    stream.put_made(|| {
        if flags > 1 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Stream::table().add(Stream {
            number: number(),
            flags,
            priority: priority.clamp(-5, 0),
            context: context.handle,
            device: context.device,
            hints: Mutex::default(),
        }))
    })
}

/// The priority of a stream; 0 for a default stream.
fn priority(stream: Handle<Stream>) -> Result<c_int> {
    Ok(stream.made()?.map_or(0, |stream| stream.priority))
}

/// Calls a function of the program after the work of a stream, with the name that the program uses
/// for the stream.
fn call_back<'c>(
    stream: Handle<Stream>,
    named: Handle<Stream>,
    function: Function<'c, Callback>,
    data: Data<'c>,
) -> Result {
    capture::refuse(stream)?;
    let function = function.take()?;
    let status = work::sync(stream.device()?).map_or_else(|status| status.0, |()| 0);
    // SAFETY: the program names its function and data for this call, and the work ahead is done.
    unsafe { function(named, status, data.pointer()) };
    Ok(())
}

api! {
    fn cuStreamCreate(stream: Out<'_, Handle<Stream>>, flags: c_uint) => create(stream, flags, 0);
    fn cuStreamCreateWithPriority(stream: Out<'_, Handle<Stream>>, flags: c_uint, priority: c_int)
        => create(stream, flags, priority);
    fn cuStreamDestroy_v2(stream: Handle<Stream>) also cuStreamDestroy {
        stream.remove()?;
        capture::forget(stream);
        Ok(())
    }

    fn cuStreamSynchronize(stream: Handle<Stream>) ptsz cuStreamSynchronize_ptsz {
        capture::refuse(stream)?;
        work::sync(stream.device()?)
    }

    fn cuStreamQuery(stream: Handle<Stream>) ptsz cuStreamQuery_ptsz {
        capture::refuse(stream)?;
        let device = stream.device()?;
        let last = device.with(|session| session.channel().last());
        match work::is_done(device, last)? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    fn cuStreamWaitEvent(stream: Handle<Stream>, event: Handle<Event>, flags: c_uint)
        ptsz cuStreamWaitEvent_ptsz
    {
        let device = stream.device()?;
        // An external event is a node of its own.
        if flags & 1 != 0 {
            return or_capture(stream, || Ok(Work::Wait(event)), || wait(event, device));
        }
        match capture::wait(event, stream)? {
            true => Ok(()),
            false => wait(event, device),
        }
    }

    fn cuStreamGetFlags(stream: Handle<Stream>, flags: Out<'_, c_uint>) ptsz cuStreamGetFlags_ptsz
        => flags.put(stream.made()?.map_or(0, |stream| stream.flags));
    fn cuStreamGetPriority(stream: Handle<Stream>, number: Out<'_, c_int>) ptsz cuStreamGetPriority_ptsz
        => number.put(priority(stream)?);
    fn cuStreamGetCtx(stream: Handle<Stream>, context: Out<'_, Handle<Context>>) ptsz cuStreamGetCtx_ptsz
        => context.put(stream.context()?);

    fn cuStreamGetCtx_v2(
        stream: Handle<Stream>, context: Out<'_, Handle<Context>>, green: Out<'_, Handle<Context>>,
    ) ptsz cuStreamGetCtx_v2_ptsz {
        let found = stream.context()?;
        // No context here is a green context.
        green.put_if(Handle::NULL);
        context.put(found)
    }

    fn cuStreamGetGreenCtx(stream: Handle<Stream>, green: Out<'_, Handle<Context>>) {
        stream.op_number()?;
        green.put(Handle::NULL)
    }

    fn cuStreamGetDevice(stream: Handle<Stream>, number: Out<'_, c_int>) ptsz cuStreamGetDevice_ptsz
        => number.put(stream.device()?.ordinal as c_int);

    fn cuStreamGetId(stream: Handle<Stream>, id: Out<'_, u64>) ptsz cuStreamGetId_ptsz {
        stream.op_number()?;
        id.put(stream.identity().number() as u64)
    }

    fn cuStreamAddCallback<'c>(
        stream: Handle<Stream>, function: Function<'c, Callback>, data: Data<'c>, _flags: c_uint,
    ) => call_back(stream, stream, function, data);
    // The callback gets the stream under the name that the program used.
    fn cuStreamAddCallback_ptsz<'c>(
        stream: Handle<Stream>, function: Function<'c, Callback>, data: Data<'c>, _flags: c_uint,
    ) => call_back(stream.of_thread(), stream, function, data);

    fn cuStreamAttachMemAsync(stream: Handle<Stream>, _address: u64, _length: usize, _flags: c_uint)
        ptsz cuStreamAttachMemAsync_ptsz
    {
        stream.op_number()?;
        capture::refuse(stream)
    }

    fn cuStreamGetAttribute(stream: Handle<Stream>, attribute: c_int, value: Out<'_, AttributeValue>)
        ptsz cuStreamGetAttribute_ptsz
    {
        let mut found = [0; 8];
        match attribute {
            PRIORITY => found[0] = u64::from(priority(stream)? as u32),
            attribute if HINTS.contains(&attribute) => {
                let set = stream.made()?.and_then(|it| it.hints().get(&attribute).copied());
                found = set.unwrap_or(found);
            }
            _ => return stream.op_number().and(Err(Status::INVALID_VALUE)),
        }
        value.put(found)
    }

    fn cuStreamSetAttribute(stream: Handle<Stream>, attribute: c_int, value: In<'_, AttributeValue>)
        ptsz cuStreamSetAttribute_ptsz
    {
        let stream = stream.made()?;
        // A stream's priority is fixed at its creation.
        if !HINTS.contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        let value = value.take()?;
        if let Some(stream) = stream {
            stream.hints().insert(attribute, value);
        }
        Ok(())
    }

    fn cuStreamCopyAttributes(to: Handle<Stream>, from: Handle<Stream>) ptsz cuStreamCopyAttributes_ptsz {
        if let (Some(from), Some(to)) = (from.made()?, to.made()?) {
            let hints = from.hints().clone();
            *to.hints() = hints;
        }
        Ok(())
    }
}
