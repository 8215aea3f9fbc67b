//! Devices.

use std::ffi::{c_char, c_int, c_void};

use super::put;
use crate::attribute::Properties;
use crate::current;
use crate::device::Device;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

pub(super) fn device(number: c_int) -> Result<&'static Device> {
    let found = usize::try_from(number)
        .ok()
        .and_then(|number| process().ok()?.devices.get(number));
    process()?;
    found.ok_or(Status::INVALID_DEVICE)
}

fn properties(number: c_int) -> Result<&'static Properties> {
    device(number).map(|device| &device.properties)
}

api! {
    fn cuDeviceGetCount(count: *mut c_int) {
        let devices = process()?.devices.len();
        // SAFETY: the caller's pointer.
        unsafe { put(count, devices as c_int) }
    }

    fn cuDeviceGet(handle: *mut c_int, ordinal: c_int) {
        device(ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, ordinal) }
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, number: c_int) {
        let properties = properties(number)?;
        let room = usize::try_from(length).map_err(|_| Status::INVALID_VALUE)?;
        if name.is_null() || room == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let bytes = properties.name().as_bytes();
        let count = bytes.len().min(room - 1);
        // SAFETY: the caller has room for so many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), name, count);
            name.add(count).write(0);
        }
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: *mut [u8; 16], number: c_int) also cuDeviceGetUuid_v2 {
        // SAFETY: the caller's pointer.
        unsafe { put(uuid, properties(number)?.uuid()) }
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(bytes, properties(number)?.memory as usize) }
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, number: c_int) {
        let found = properties(number)?.attribute(attribute).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, found) }
    }

    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, number: c_int) {
        let (high, low) = properties(number)?.compute();
        // SAFETY: the caller's pointers.
        unsafe {
            put(major, high)?;
            put(minor, low)
        }
    }

    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, number: c_int) {
        let text = format!("0000:{:02x}:00.0\0", properties(number)?.gpu & 0xff);
        if id.is_null() || (length as usize) < text.len() || length < 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller has room for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), id, text.len()) };
        Ok(())
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, number: c_int, peer: c_int) {
        properties(number)?;
        properties(peer)?;
        // SAFETY: the caller's pointer.
        unsafe { put(can, 0) }
    }

    fn cuDevicePrimaryCtxRetain(handle: *mut usize, number: c_int) {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, primary.handle)? };
        primary.retain();
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(number: c_int) also cuDevicePrimaryCtxRelease {
        process()?.contexts.primary(device(number)?.ordinal)?.release()
    }

    fn cuDevicePrimaryCtxReset_v2(number: c_int) also cuDevicePrimaryCtxReset {
        crate::reset::primary(device(number)?)
    }

    fn cuDevicePrimaryCtxGetState(number: c_int, flags: *mut u32, active: *mut c_int) {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        let set = primary.flags.load(std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the caller's pointers.
        unsafe {
            put(flags, set)?;
            put(active, c_int::from(primary.is_active()))
        }
    }

    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, flags: u32) also cuDevicePrimaryCtxSetFlags {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        primary.flags.store(flags, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(handle: *mut c_int, id: *const c_char) {
        // SAFETY: the caller's pointer.
        let wanted = unsafe { super::text(id)? };
        let bus = wanted.rsplit(':').nth(1).and_then(|bus| i32::from_str_radix(bus, 16).ok());
        let found = process()?.devices.iter().find(|it| Some(it.properties.gpu & 0xff) == bus);
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found.ok_or(Status::INVALID_DEVICE)?.ordinal as c_int) }
    }

    fn cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, number: c_int, peer: c_int) {
        let _ = attribute;
        properties(number)?;
        properties(peer)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, 0) }
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        current::current()?;
        // SAFETY: the caller's pointers. Streams of a session are scheduled as one.
        unsafe {
            super::put_if(least, 0);
            super::put_if(greatest, -5);
        }
        Ok(())
    }

    fn cuDeviceGetLuid(luid: *mut c_void, mask: *mut u32, number: c_int) {
        let _ = (luid, mask);
        properties(number)?;
        Err(Status::NOT_SUPPORTED)
    }
}
