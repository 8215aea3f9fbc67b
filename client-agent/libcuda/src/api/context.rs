//! Contexts.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::device::device;
use super::{put, put_if};
use crate::context::Context;
use crate::current::{self, current, current_device};
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

/// The place of a limit among a context's.
fn limit_of(limit: c_int) -> Result<usize> {
    let at = usize::try_from(limit)
        .ok()
        .filter(|at| *at < crate::context::LIMITS.len());
    at.ok_or(Status::UNSUPPORTED_LIMIT)
}

/// Limits that say whether kernels share the device with graphics (`CU_LIMIT_CIG_ENABLED`), and whether
/// shared memory then falls back (`CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED`): they do not.
const SHARED_WITH_GRAPHICS: [c_int; 2] = [8, 9];

/// What a limit of a context is.
fn limit(context: &Context, limit: c_int) -> Result<usize> {
    if SHARED_WITH_GRAPHICS.contains(&limit) {
        return Ok(0);
    }
    Ok(context.limits[limit_of(limit)?].load(Ordering::Relaxed))
}

fn create(handle: *mut usize, flags: u32, number: c_int) -> Result {
    let device = device(number)?;
    if handle.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let made = process()?.contexts.create(device.ordinal, flags)?;
    // SAFETY: the caller's pointer.
    unsafe { put(handle, made) }
}

/// Waits for everything of the current context's device.
pub(super) fn synchronize() -> Result {
    crate::work::sync(current_device()?)
}

api! {
    fn cuCtxCreate_v2(handle: *mut usize, flags: u32, number: c_int) also cuCtxCreate {
        create(handle, flags, number)
    }

    fn cuCtxCreate_v3(
        handle: *mut usize,
        affinity: *mut c_void,
        count: c_int,
        flags: u32,
        number: c_int,
    ) {
        if !affinity.is_null() && count > 0 {
            return Err(Status::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(handle, flags, number)
    }

    fn cuCtxCreate_v4(handle: *mut usize, parameters: *mut c_void, flags: u32, number: c_int) {
        if !parameters.is_null() {
            return Err(Status::NOT_SUPPORTED);
        }
        create(handle, flags, number)
    }

    fn cuCtxDestroy_v2(handle: usize) also cuCtxDestroy {
        let contexts = &process()?.contexts;
        if !contexts.get(handle)?.primary {
            // Destructors of the program's: the context is still there for them.
            crate::tables::end_context(handle);
        }
        contexts.destroy(handle)
    }

    fn cuCtxPushCurrent_v2(handle: usize) also cuCtxPushCurrent {
        current::push(handle)
    }

    fn cuCtxPopCurrent_v2(handle: *mut usize) also cuCtxPopCurrent {
        let popped = current::pop()?;
        // SAFETY: the caller's pointer.
        unsafe { put_if(handle, popped) };
        Ok(())
    }

    fn cuCtxSetCurrent(handle: usize) {
        current::set(handle)
    }

    fn cuCtxGetCurrent(handle: *mut usize) {
        process()?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, crate::stack::top()) }
    }

    fn cuCtxGetDevice(number: *mut c_int) {
        let ordinal = current_device()?.ordinal;
        // SAFETY: the caller's pointer.
        unsafe { put(number, ordinal as c_int) }
    }

    fn cuCtxGetDevice_v2(number: *mut c_int, handle: usize) {
        let ordinal = match handle {
            0 => current_device()?.ordinal,
            handle => process()?.contexts.get(handle)?.device,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(number, ordinal as c_int) }
    }

    fn cuCtxGetFlags(flags: *mut u32) {
        let set = current()?.1.flags.load(Ordering::Relaxed);
        // SAFETY: the caller's pointer.
        unsafe { put(flags, set) }
    }

    fn cuCtxSetFlags(flags: u32) {
        current()?.1.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(handle: usize, id: *mut u64) {
        let context = match handle {
            0 => current()?.1,
            handle => process()?.contexts.get(handle)?,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(id, context.handle as u64) }
    }

    fn cuCtxSynchronize() {
        synchronize()
    }

    fn cuCtxSynchronize_v2(handle: usize) {
        let process = process()?;
        let context = match handle {
            0 => current()?.1,
            handle => process.contexts.get(handle)?,
        };
        crate::work::sync(&process.devices[context.device])
    }

    fn cuCtxGetApiVersion(handle: usize, version: *mut u32) {
        if handle != 0 {
            process()?.contexts.get(handle)?;
        }
        // SAFETY: the caller's pointer.
        unsafe { put(version, 3020) }
    }

    fn cuCtxGetLimit(value: *mut usize, number: c_int) {
        let (_, context) = current()?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, limit(&context, number)?) }
    }

    fn cuCtxSetLimit(limit: c_int, value: usize) {
        let (_, context) = current()?;
        let at = limit_of(limit)?;
        context.limits[at].store(value, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: *mut c_int) also cuCtxGetSharedMemConfig {
        current()?;
        // SAFETY: the caller's pointer.
        unsafe { put(config, 0) }
    }

    fn cuCtxSetCacheConfig(config: c_int) also cuCtxSetSharedMemConfig {
        let _ = config;
        current().map(|_| ())
    }

    fn cuCtxEnablePeerAccess(peer: usize, flags: u32) {
        let _ = (peer, flags);
        current()?;
        Err(Status::PEER_ACCESS_UNSUPPORTED)
    }

    fn cuCtxDisablePeerAccess(peer: usize) {
        let _ = peer;
        current()?;
        Err(Status::PEER_ACCESS_NOT_ENABLED)
    }
}
