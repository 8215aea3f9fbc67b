//! Devices.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use client_session::bus_id;

use crate::abi::{Count, Handle, Out, OutList, Text, Unused};
use crate::attribute::Properties;
use crate::context::Context;
use crate::device::Device;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

/// The device with a number.
pub(super) fn device(number: c_int) -> Result<&'static Device> {
    let devices = &process()?.devices;
    let number = usize::try_from(number).ok();
    let found = number.and_then(|number| devices.get(number));
    found.ok_or(Status::INVALID_DEVICE)
}

fn properties(number: c_int) -> Result<&'static Properties> {
    device(number).map(|device| &device.properties)
}

/// The primary context of a device.
pub(super) fn primary(number: c_int) -> Result<&'static Arc<Context>> {
    process()?.contexts.of(device(number)?.ordinal)
}

/// Answers that no device can access the memory of another.
fn between_peers(can: Out<'_, c_int>, number: c_int, peer: c_int) -> Result {
    properties(number)?;
    properties(peer)?;
    can.put(0)
}

/// PCI address: domain, bus, device and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PciId([u32; 4]);

impl PciId {
    /// Reads `domain:bus:device.function`; the domain and the function may be left out.
    fn read(text: &str) -> Option<Self> {
        let (place, function) = text.split_once('.').unwrap_or((text, "0"));
        let mut parts: Vec<&str> = place.split(':').collect();
        if parts.len() == 2 {
            parts.insert(0, "0");
        }
        let [domain, bus, device] = parts.try_into().ok()?;
        let mut numbers = [0; 4];
        for (number, text) in numbers.iter_mut().zip([domain, bus, device, function]) {
            *number = u32::from_str_radix(text, 16).ok()?;
        }
        Some(Self(numbers))
    }
}

api! {
    fn cuDeviceGetCount(count: Out<'_, c_int>) => count.put(process()?.devices.len() as c_int);

    fn cuDeviceGet(handle: Out<'_, c_int>, ordinal: c_int) {
        device(ordinal)?;
        handle.put(ordinal)
    }

    fn cuDeviceGetName<'c>(name: OutList<'c, u8>, length: Count<'c, c_int>, number: c_int) {
        let properties = properties(number)?;
        let room = length.whole()?;
        if room.number() == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let bytes = properties.name().bytes().take(room.number() - 1);
        name.put(room, bytes.chain([0]))
    }

    fn cuDeviceGetUuid(uuid: Out<'_, [u8; 16]>, number: c_int) also cuDeviceGetUuid_v2
        => uuid.put(properties(number)?.uuid());
    fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, number: c_int)
        => bytes.put(properties(number)?.memory as usize);
    fn cuDeviceGetAttribute(value: Out<'_, c_int>, attribute: c_int, number: c_int)
        => value.put(properties(number)?.attribute(attribute).ok_or(Status::INVALID_VALUE)?);

    fn cuDeviceComputeCapability(major: Out<'_, c_int>, minor: Out<'_, c_int>, number: c_int) {
        let (high, low) = properties(number)?.compute();
        minor.check()?;
        major.put(high)?;
        minor.put(low)
    }

    fn cuDeviceGetPCIBusId<'c>(id: OutList<'c, u8>, length: Count<'c, c_int>, number: c_int) {
        let text = bus_id(properties(number)?.gpu as u32) + "\0";
        let room = length.whole()?;
        if room.number() < text.len() {
            return Err(Status::INVALID_VALUE);
        }
        id.put(room, text.into_bytes())
    }

    fn cuDeviceGetByPCIBusId(handle: Out<'_, c_int>, id: Text<'_>) {
        let wanted = PciId::read(id.take()?).ok_or(Status::INVALID_VALUE)?;
        let is_it = |it: &&Device| PciId::read(&bus_id(it.properties.gpu as u32)) == Some(wanted);
        let found = process()?.devices.iter().find(is_it);
        handle.put(found.ok_or(Status::INVALID_DEVICE)?.ordinal as c_int)
    }

    fn cuDeviceCanAccessPeer(can: Out<'_, c_int>, number: c_int, peer: c_int)
        => between_peers(can, number, peer);
    fn cuDeviceGetP2PAttribute(value: Out<'_, c_int>, _attribute: c_int, number: c_int, peer: c_int) {
        if number == peer {
            return Err(Status::INVALID_DEVICE);
        }
        between_peers(value, number, peer)
    }

    fn cuDevicePrimaryCtxRetain(context: Out<'_, Handle<Context>>, number: c_int) {
        let primary = primary(number)?;
        context.put(primary.handle)?;
        primary.retain();
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(number: c_int, flags: Out<'_, u32>, active: Out<'_, c_int>) {
        let primary = primary(number)?;
        active.check()?;
        flags.put(primary.flags.load(Ordering::Relaxed))?;
        active.put(c_int::from(primary.is_active()))
    }

    fn cuDevicePrimaryCtxSetFlags_v2(number: c_int, flags: u32) also cuDevicePrimaryCtxSetFlags {
        primary(number)?.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    fn cuDeviceGetExecAffinitySupport(value: Out<'_, c_int>, _kind: c_int, number: c_int) {
        device(number)?;
        value.put(0)
    }

    fn cuDeviceGetLuid(_luid: Unused<'_>, _mask: Out<'_, u32>, number: c_int)
        => device(number).and(Status::NOT_SUPPORTED.err());
}
