//! Interprocess memory and events.
//!
//! An interprocess event is recorded only once its work is done: the call that records it waits for
//! the work before it. So a process that uses such an event need not ask about the progress of
//! another.

use std::ffi::c_uint;

use super::memory::range;
use crate::abi::{Handle, Out, Word};
use crate::current_context::current;
use crate::event::{DISABLE_TIMING, Event, INTERPROCESS};
use crate::exchange;
use crate::guard::api;
use crate::handle::Object;
use crate::ipc::{NAME, Name};
use crate::process::{holder, process};
use crate::status::{Result, Status, note};

/// `CUipcMemHandle` and `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle([u8; NAME]);

/// Prefixes of a name of memory and of a name of an event.
const MEMORY: [u8; 8] = *b"WLIPCMEM";
const EVENT: [u8; 8] = *b"WLIPCEVT";
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag there is.
const LAZY: c_uint = 1;

/// The name of the allocation that contains an address. Mapped memory is exported by a file
/// instead; managed memory cannot be exported.
fn exported(address: u64) -> Result<Name> {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let (base, _) = range(address)?;
    if device.managed.holds(address) || device.with(|session| session.channel().is_mapped(base)) {
        let why = "only memory of cuMemAlloc is exported by cuIpcGetMemHandle";
        note(Status::INVALID_VALUE, why.into());
        return Err(Status::INVALID_VALUE);
    }
    exchange::export(device, base)
}

fn opened(handle: IpcHandle, flags: c_uint) -> Result<u64> {
    if flags & !LAZY != 0 {
        return Err(Status::INVALID_VALUE);
    }
    let name = Name::read(&handle.0, MEMORY).ok_or(Status::INVALID_VALUE)?;
    let device = exchange::device_of(name)?;
    if device.with(|session| name.is_of(session)) {
        let why = "a process does not open what it exported itself";
        note(Status::INVALID_CONTEXT, why.into());
        return Err(Status::INVALID_CONTEXT);
    }
    exchange::open(device, name)
}

api! {
    fn cuIpcGetMemHandle(handle: Out<'_, IpcHandle>, address: u64)
        => handle.put_made(|| Ok(IpcHandle(exported(address)?.bytes(MEMORY))));

    fn cuIpcOpenMemHandle_v2(address: Out<'_, u64>, handle: IpcHandle, flags: c_uint) also cuIpcOpenMemHandle {
        current()?;
        address.put_made(|| opened(handle, flags))
    }

    fn cuIpcCloseMemHandle(address: u64) {
        let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
        exchange::close(device, address)
    }

    fn cuIpcGetEventHandle(handle: Out<'_, IpcHandle>, event: Handle<Event>) {
        handle.put_made(|| {
            let event = event.get()?;
            if event.flags & INTERPROCESS == 0 {
                return Err(Status::INVALID_HANDLE);
            }
            let device = process()?.devices.get(event.device).ok_or(Status::INVALID_DEVICE)?;
            Ok(IpcHandle(Name::new(&device.session()).bytes(EVENT)))
        })
    }

    fn cuIpcOpenEventHandle(event: Out<'_, Handle<Event>>, handle: IpcHandle) {
        let (_, context) = current()?;
        event.put_made(|| {
            let name = Name::read(&handle.0, EVENT).ok_or(Status::INVALID_VALUE)?;
            if exchange::device_of(name)?.with(|session| name.is_of(session)) {
                return Err(Status::INVALID_CONTEXT);
            }
            Ok(Event::table().add(Event::new(INTERPROCESS | DISABLE_TIMING, &context)))
        })
    }
}

impl Word for IpcHandle {
    fn word(&self) -> u64 {
        0
    }
}
