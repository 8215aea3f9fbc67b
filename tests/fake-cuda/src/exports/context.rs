//! The driver, its device and the context.

use std::ffi::c_char;

use super::abi::Out;
use crate::codes::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, name};
use crate::driver::{CallKind, call};
use crate::gpu::PRIORITIES;
use crate::threads::this_thread;

/// The handle of the device's only context.
const CONTEXT: u64 = 0x10;

/// The UUID of the device.
const UUID: [u8; 16] = *b"fake-cuda-device";

fn known(device: i32) -> Result<(), u32> {
    match device {
        0 => Ok(()),
        _ => Err(INVALID_DEVICE),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: u32) -> u32 {
    call(CallKind::new("cuInit").of_process(), |driver, _| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.initialized = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: Out<i32>) -> u32 {
    let kind = CallKind::new("cuDriverGetVersion").of_process();
    call(kind, |driver, _| version.put(driver.gpu.version))
}

/// Tells a code's name; it never fails for a reason of the context.
#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(code: u32, to: Out<*const c_char>) -> u32 {
    call(CallKind::new("cuGetErrorName").always(), |_, _| {
        let name = name(code).ok_or(INVALID_VALUE)?;
        to.put(name.as_ptr())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: Out<i32>, ordinal: i32) -> u32 {
    call(CallKind::new("cuDeviceGet").of_device(), |_, _| {
        known(ordinal)?;
        device.put(ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(to: Out<c_char>, len: i32, device: i32) -> u32 {
    call(CallKind::new("cuDeviceGetName").of_device(), |driver, _| {
        known(device)?;
        let room = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        let name = driver.gpu.name.bytes().map(|byte| byte as c_char);
        let mut name: Vec<c_char> = name.take(room.saturating_sub(1)).collect();
        name.push(0);
        to.put_all(&name)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(to: Out<[u8; 16]>, device: i32) -> u32 {
    call(CallKind::new("cuDeviceGetUuid_v2").of_device(), |_, _| {
        known(device)?;
        to.put(UUID)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(to: Out<i32>, which: u32, device: i32) -> u32 {
    let kind = CallKind::new("cuDeviceGetAttribute").of_device();
    call(kind, |driver, _| {
        known(device)?;
        to.put(driver.gpu.attribute(which).ok_or(INVALID_VALUE)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(to: Out<u64>, device: i32) -> u32 {
    let kind = CallKind::new("cuDeviceTotalMem_v2").of_device();
    call(kind, |driver, _| {
        known(device)?;
        to.put(driver.gpu.memory)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(to: Out<u64>, device: i32) -> u32 {
    let kind = CallKind::new("cuDevicePrimaryCtxRetain").of_device();
    call(kind, |_, _| {
        known(device)?;
        to.put(CONTEXT)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    call(CallKind::new("cuCtxSetCurrent").of_device(), |driver, _| {
        let thread = driver.threads.get(this_thread());
        match context {
            0 | CONTEXT => {
                thread.entered = context == CONTEXT;
                Ok(())
            }
            _ => Err(INVALID_CONTEXT),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> u32 {
    call(CallKind::new("cuCtxGetStreamPriorityRange"), |_, _| {
        least.put(PRIORITIES.0)?;
        greatest.put(PRIORITIES.1)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> u32 {
    call(CallKind::new("cuCtxSynchronize").waiting(), |_, _| Ok(()))
}
