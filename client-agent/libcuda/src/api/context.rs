//! Contexts.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::device::{device, primary};
use crate::abi::{Handle, Out, Unused};
use crate::context::Context;
use crate::current_context::{self, current, current_device};
use crate::guard::api;
use crate::process::{is_leaving, process};
use crate::status::{Result, Status};
use crate::{capture, reset, work};

/// The index of a limit in a context's limits.
fn limit_of(limit: c_int) -> Result<usize> {
    let at = usize::try_from(limit)
        .ok()
        .filter(|at| *at < crate::context::LIMITS.len());
    at.ok_or(Status::UNSUPPORTED_LIMIT)
}

/// Limits that say whether kernels share the device with graphics (`CU_LIMIT_CIG_ENABLED`), and
/// whether shared memory then falls back (`CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED`). Both are 0 here.
const SHARED_WITH_GRAPHICS: [c_int; 2] = [8, 9];

/// The value of a limit of a context.
fn limit(context: &Context, limit: c_int) -> Result<usize> {
    if SHARED_WITH_GRAPHICS.contains(&limit) {
        return Ok(0);
    }
    Ok(context.limits[limit_of(limit)?].load(Ordering::Relaxed))
}

/// Waits for all work of a context.
fn synchronize(context: &Context) -> Result {
    capture::wait_for_context(context.handle)?;
    let device = process()?.devices.get(context.device);
    work::sync(device.ok_or(Status::INVALID_DEVICE)?)
}

fn create(context: Out<'_, Handle<Context>>, flags: u32, number: c_int) -> Result {
    let device = device(number)?;
    context.put_made(|| current_context::create(device.ordinal, flags))
}

/// Releases one retain of a primary context; the last release resets it.
fn release(number: c_int) -> Result {
    let context = primary(number)?;
    context.release()?;
    if !context.is_active() && !is_leaving() {
        // A device that no longer answers needs no reset: its session's end frees everything.
        let _ = reset::primary(device(number)?);
    }
    Ok(())
}

api! {
    fn cuDevicePrimaryCtxRelease_v2(number: c_int) also cuDevicePrimaryCtxRelease => release(number);
    fn cuDevicePrimaryCtxReset_v2(number: c_int) also cuDevicePrimaryCtxReset => reset::primary(device(number)?);

    fn cuCtxCreate_v2(context: Out<'_, Handle<Context>>, flags: u32, number: c_int) also cuCtxCreate
        => create(context, flags, number);

    fn cuCtxCreate_v3(
        context: Out<'_, Handle<Context>>, affinity: Unused<'_>, count: c_int, flags: u32, number: c_int,
    ) {
        if !affinity.is_null() && count > 0 {
            return Err(Status::UNSUPPORTED_EXEC_AFFINITY);
        }
        create(context, flags, number)
    }

    fn cuCtxCreate_v4(
        context: Out<'_, Handle<Context>>, parameters: Unused<'_>, flags: u32, number: c_int,
    ) {
        if !parameters.is_null() {
            return Err(Status::NOT_SUPPORTED);
        }
        create(context, flags, number)
    }

    fn cuCtxDestroy_v2(context: Handle<Context>) also cuCtxDestroy => reset::destroy(context);

    fn cuCtxPushCurrent_v2(context: Handle<Context>) also cuCtxPushCurrent => current_context::push(context);

    fn cuCtxPopCurrent_v2(context: Out<'_, Handle<Context>>) also cuCtxPopCurrent {
        let popped = current_context::pop()?;
        context.put_if(popped);
        Ok(())
    }

    fn cuCtxSetCurrent(context: Handle<Context>) => current_context::set(context);
    fn cuCtxGetCurrent(context: Out<'_, Handle<Context>>) => context.put(crate::stack::top());
    fn cuCtxGetDevice(number: Out<'_, c_int>) => number.put(current_device()?.ordinal as c_int);

    fn cuCtxGetDevice_v2(number: Out<'_, c_int>, context: Handle<Context>) {
        let ordinal = match context.is_null() {
            true => current_device()?.ordinal,
            false => context.get()?.device,
        };
        number.put(ordinal as c_int)
    }

    fn cuCtxGetFlags(flags: Out<'_, u32>) => flags.put(current()?.1.flags.load(Ordering::Relaxed));

    fn cuCtxSetFlags(flags: u32) {
        current()?.1.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetId(context: Handle<Context>, id: Out<'_, u64>)
        => id.put(context.or_current()?.handle.number() as u64);
    fn cuCtxSynchronize() => synchronize(&current()?.1);
    fn cuCtxSynchronize_v2(context: Handle<Context>) {
        let context = context.or_current()?;
        synchronize(&context)
    }

    fn cuCtxGetApiVersion(context: Handle<Context>, version: Out<'_, u32>) {
        if !context.is_null() {
            context.check()?;
        }
        version.put(3020)
    }

    fn cuCtxGetLimit(value: Out<'_, usize>, number: c_int) => value.put(limit(&current()?.1, number)?);

    fn cuCtxSetLimit(limit: c_int, value: usize) {
        let (_, context) = current()?;
        context.limits[limit_of(limit)?].store(value, Ordering::Relaxed);
        Ok(())
    }

    fn cuCtxGetCacheConfig(config: Out<'_, c_int>) also cuCtxGetSharedMemConfig {
        current()?;
        config.put(0)
    }

    fn cuCtxSetCacheConfig(_config: c_int) also cuCtxSetSharedMemConfig => current();
    fn cuCtxEnablePeerAccess(_peer: Handle<Context>, _flags: u32)
        => current().and(Status::PEER_ACCESS_UNSUPPORTED.err());
    fn cuCtxDisablePeerAccess(_peer: Handle<Context>) => current().and(Status::PEER_ACCESS_NOT_ENABLED.err());

    fn cuCtxGetStreamPriorityRange(least: Out<'_, c_int>, greatest: Out<'_, c_int>) {
        current()?;
        // CUDA's range; the streams of a session are scheduled as one.
        least.put_if(0);
        greatest.put_if(-5);
        Ok(())
    }

    fn cuCtxResetPersistingL2Cache() => current();
}
