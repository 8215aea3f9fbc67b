//! Contexts.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use super::device::device;
use crate::abi::Out;
use crate::context::Context;
use crate::current_context::{self, current, current_device};
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

fn create(handle: Out<'_, usize>, flags: u32, number: c_int) -> Result {
    let device = device(number)?;
    handle.check()?;
    let made = process()?.contexts.create(device.ordinal, flags)?;
    handle.put(made)
}

/// Waits for everything of the current context's device.
pub(super) fn synchronize() -> Result {
    crate::work::sync(current_device()?)
}

api! {
    fn cuCtxCreate_v2(handle: Out<'_, usize>, flags: u32, number: c_int) also cuCtxCreate {
        create(handle, flags, number)
    }

    fn cuCtxCreate_v3(
        handle: Out<'_, usize>,
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

    fn cuCtxCreate_v4(handle: Out<'_, usize>, parameters: *mut c_void, flags: u32, number: c_int) {
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
        current_context::push(handle)
    }

    fn cuCtxPopCurrent_v2(handle: Out<'_, usize>) also cuCtxPopCurrent {
        let popped = current_context::pop()?;
        handle.put_if(popped);
        Ok(())
    }

    fn cuCtxSetCurrent(handle: usize) {
        current_context::set(handle)
    }

    fn cuCtxGetCurrent(handle: Out<'_, usize>) {
        process()?;
        handle.put(crate::stack::top())
    }

    fn cuCtxGetDevice(number: Out<'_, c_int>) {
        let ordinal = current_device()?.ordinal;
        number.put(ordinal as c_int)
    }

    fn cuCtxGetDevice_v2(number: Out<'_, c_int>, handle: usize) {
        let ordinal = match handle {
            0 => current_device()?.ordinal,
            handle => process()?.contexts.get(handle)?.device,
        };
        number.put(ordinal as c_int)
    }

    fn cuCtxGetFlags(flags: Out<'_, u32>) {
        let set = current()?.1.flags.load(Ordering::Relaxed);
        flags.put(set)
    }

    fn cuCtxSetFlags(flags: u32) {
        current()?.1.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(handle: usize, id: Out<'_, u64>) {
        let context = match handle {
            0 => current()?.1,
            handle => process()?.contexts.get(handle)?,
        };
        id.put(context.handle as u64)
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

    fn cuCtxGetApiVersion(handle: usize, version: Out<'_, u32>) {
        if handle != 0 {
            process()?.contexts.get(handle)?;
        }
        version.put(3020)
    }

    fn cuCtxGetLimit(value: Out<'_, usize>, number: c_int) {
        let (_, context) = current()?;
        value.put(limit(&context, number)?)
    }

    fn cuCtxSetLimit(limit: c_int, value: usize) {
        let (_, context) = current()?;
        let at = limit_of(limit)?;
        context.limits[at].store(value, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: Out<'_, c_int>) also cuCtxGetSharedMemConfig {
        current()?;
        config.put(0)
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
