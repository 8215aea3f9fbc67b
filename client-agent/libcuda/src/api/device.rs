//! Devices.

use std::ffi::{c_int, c_void};

use crate::abi::{Count, Out, OutList, Text};
use crate::attribute::Properties;
use crate::current_context;
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
    fn cuDeviceGetCount(count: Out<'_, c_int>) {
        let devices = process()?.devices.len();
        count.put(devices as c_int)
    }

    fn cuDeviceGet(handle: Out<'_, c_int>, ordinal: c_int) {
        device(ordinal)?;
        handle.put(ordinal)
    }

    fn cuDeviceGetName(name: OutList<'_, u8>, length: Count<'_, c_int>, number: c_int) {
        let properties = properties(number)?;
        let room = length.whole()?;
        if room.number() == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let bytes = properties.name().bytes().take(room.number() - 1);
        name.put(room, bytes.chain([0]))
    }

    fn cuDeviceGetUuid(uuid: Out<'_, [u8; 16]>, number: c_int) also cuDeviceGetUuid_v2 {
        uuid.put(properties(number)?.uuid())
    }

    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, number: c_int) {
        bytes.put(properties(number)?.memory as usize)
    }

    fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, number: c_int) {
        let found = properties(number)?.attribute(attribute).ok_or(Status::INVALID_VALUE)?;
        value.put(found)
    }

    fn cuDeviceComputeCapability(major: Out<'_, c_int>, minor: Out<'_, c_int>, number: c_int) {
        let (high, low) = properties(number)?.compute();
        major.put(high)?;
        minor.put(low)
    }

    fn cuDeviceGetPCIBusId(id: OutList<'_, u8>, length: Count<'_, c_int>, number: c_int) {
        let text = format!("0000:{:02x}:00.0\0", properties(number)?.gpu & 0xff);
        let room = length.whole()?;
        if room.number() < text.len() {
            return Err(Status::INVALID_VALUE);
        }
        id.put(room, text.into_bytes())
    }

    fn cuDeviceCanAccessPeer(can: Out<'_, c_int>, number: c_int, peer: c_int) {
        properties(number)?;
        properties(peer)?;
        can.put(0)
    }

    fn cuDevicePrimaryCtxRetain(handle: Out<'_, usize>, number: c_int) {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        handle.put(primary.handle)?;
        primary.retain();
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(number: c_int) also cuDevicePrimaryCtxRelease {
        process()?.contexts.primary(device(number)?.ordinal)?.release()
    }

    fn cuDevicePrimaryCtxReset_v2(number: c_int) also cuDevicePrimaryCtxReset {
        crate::reset::primary(device(number)?)
    }

    fn cuDevicePrimaryCtxGetState(number: c_int, flags: Out<'_, u32>, active: Out<'_, c_int>) {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        let set = primary.flags.load(std::sync::atomic::Ordering::Relaxed);
        flags.put(set)?;
        active.put(c_int::from(primary.is_active()))
    }

    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, flags: u32) also cuDevicePrimaryCtxSetFlags {
        let primary = process()?.contexts.primary(device(number)?.ordinal)?;
        primary.flags.store(flags, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn cuDeviceGetByPCIBusId(handle: Out<'_, c_int>, id: Text<'_>) {
        let wanted = id.take()?;
        let bus = wanted.rsplit(':').nth(1).and_then(|bus| i32::from_str_radix(bus, 16).ok());
        let found = process()?.devices.iter().find(|it| Some(it.properties.gpu & 0xff) == bus);
        handle.put(found.ok_or(Status::INVALID_DEVICE)?.ordinal as c_int)
    }

    fn cuDeviceGetP2PAttribute(value: Out<'_, c_int>, attribute: c_int, number: c_int, peer: c_int) {
        let _ = attribute;
        properties(number)?;
        properties(peer)?;
        value.put(0)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<'_, c_int>, greatest: Out<'_, c_int>) {
        current_context::current()?;
        // Streams of a session are scheduled as one.
        least.put_if(0);
        greatest.put_if(-5);
        Ok(())
    }

    fn cuDeviceGetLuid(luid: *mut c_void, mask: Out<'_, u32>, number: c_int) {
        let _ = (luid, mask);
        properties(number)?;
        Err(Status::NOT_SUPPORTED)
    }
}
