//! Devices: their list and their properties.

use super::Known;
use crate::abi::{Handle, Out, OutList, OutText, Text};
use crate::guard::api;
use crate::layout::{Attributes, FieldValue, PciV2, PciV3};
use crate::library::{Wanted, view};
use crate::snapshot::DeviceState;
use crate::status::{Result, Status};

/// Size of a name buffer that programs have used since the first version. In a buffer of at least
/// this size, a longer name is truncated.
const NAME_ROOM: u32 = 64;
/// `NVML_BRAND_UNKNOWN`.
const BRAND: u32 = 0;
/// `NVML_COMPUTEMODE_DEFAULT`: many processes share a device.
const SHARED: u32 = 0;
/// `NVML_FEATURE_ENABLED`, `NVML_FEATURE_DISABLED`.
const ENABLED: u32 = 1;
const DISABLED: u32 = 0;
/// `NVML_DEVICE_ARCH_UNKNOWN`.
const ARCHITECTURE: u32 = u32::MAX;
/// `NVML_P2P_STATUS_NOT_SUPPORTED`: no device can access the memory of another.
const NO_PEERS: u32 = 5;

/// Answers with the handle of the first device that fits.
fn find(to: &Out<'_, Handle>, fits: impl Fn(&DeviceState) -> bool) -> Result {
    to.check()?;
    let view = view(Wanted::Properties)?;
    let found = view.devices.iter().find(|device| fits(device));
    to.put(Handle::of(found.ok_or(Status::NOT_FOUND)?.gpu))
}

/// Writes a property of a device, after a check of the destination.
fn tell<T>(
    to: &Out<'_, T>,
    handle: Handle,
    what: impl FnOnce(&DeviceState) -> Result<T>,
) -> Result {
    to.check()?;
    to.put(what(Known::of(handle)?.device()?)?)
}

/// A value of a device; 0 means that it has none.
fn some(value: u32) -> Result<u32> {
    Some(value)
        .filter(|value| *value > 0)
        .ok_or(Status::NOT_SUPPORTED)
}

/// A text in a fixed-size field, padded with zeros.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    // The last byte stays zero.
    field
        .iter_mut()
        .take(N.saturating_sub(1))
        .zip(text.bytes())
        .for_each(|(to, byte)| *to = byte);
    field
}

/// True if a text is the device's PCI bus id: with a domain of four or eight digits, or without
/// one.
fn is_place(device: &DeviceState, text: &str) -> bool {
    let own = device.bus_id();
    let short = text.to_ascii_lowercase();
    let bare = short
        .strip_prefix("0000")
        .filter(|rest| rest.starts_with("0000:"));
    let bare = bare.unwrap_or(&short);
    bare == own || own.strip_prefix("0000:").is_some_and(|rest| rest == bare)
}

/// NVIDIA's number of a GPU generation, by compute capability; the CPU device has none.
fn architecture(device: &DeviceState) -> u32 {
    match (&*device.properties.kind, device.properties.compute) {
        ("cpu", _) => ARCHITECTURE,
        (_, (7, 0 | 2)) => 5,
        (_, (7, 5)) => 6,
        (_, (8, 9)) => 8,
        (_, (8, _)) => 7,
        (_, (9, _)) => 9,
        (_, (10 | 12, _)) => 10,
        _ => ARCHITECTURE,
    }
}

fn place_v2(device: &DeviceState) -> PciV2 {
    let place = place(device);
    PciV2 {
        bus_id: place.bus_id_legacy,
        domain: place.domain,
        bus: place.bus,
        device: place.device,
        pci_device: place.pci_device,
        pci_subsystem: place.pci_subsystem,
        reserved: [0; 4],
    }
}

/// Its PCI bus id; there is no physical card, and so no card number.
fn place(device: &DeviceState) -> PciV3 {
    let text = device.bus_id();
    PciV3 {
        bus_id_legacy: field(&text),
        domain: 0,
        bus: device.gpu & 0xff,
        device: 0,
        pci_device: 0,
        pci_subsystem: 0,
        bus_id: field(&format!("0000{text}")),
    }
}

api! {
    fn nvmlDeviceGetCount_v2(count: Out<'_, u32>) also nvmlDeviceGetCount {
        count.check()?;
        count.put(view(Wanted::Properties)?.devices.len() as u32)
    }

    fn nvmlDeviceGetHandleByIndex_v2(index: u32, handle: Out<'_, Handle>) also nvmlDeviceGetHandleByIndex {
        handle.check()?;
        let view = view(Wanted::Figures)?;
        let found = view.devices.get(index as usize);
        handle.put(Handle::of(found.ok_or(Status::INVALID_ARGUMENT)?.gpu))
    }

    fn nvmlDeviceGetHandleByUUID(uuid: Text<'_>, handle: Out<'_, Handle>) {
        let uuid = uuid.take()?;
        find(&handle, |device| device.uuid() == uuid)
    }

    fn nvmlDeviceGetHandleByPciBusId_v2(place: Text<'_>, handle: Out<'_, Handle>)
        also nvmlDeviceGetHandleByPciBusId {
        let place = place.take()?;
        find(&handle, |device| is_place(device, place))
    }

    fn nvmlDeviceGetName(handle: Handle, text: OutText<'_>, room: u32) {
        let known = Known::of(handle)?;
        let name = &known.device()?.properties.name;
        match room >= NAME_ROOM {
            true => text.put_cut(room, name),
            false => text.put(room, name),
        }
    }

    fn nvmlDeviceGetUUID(handle: Handle, text: OutText<'_>, room: u32) {
        text.put(room, &Known::of(handle)?.device()?.uuid())
    }

    fn nvmlDeviceGetIndex(handle: Handle, index: Out<'_, u32>) {
        index.put(Known::now(handle)?.1 as u32)
    }

    fn nvmlDeviceGetMinorNumber(handle: Handle, number: Out<'_, u32>) {
        tell(&number, handle, |device| Ok(device.gpu))
    }

    fn nvmlDeviceGetBrand(handle: Handle, brand: Out<'_, u32>) {
        tell(&brand, handle, |_| Ok(BRAND))
    }

    fn nvmlDeviceGetArchitecture(handle: Handle, number: Out<'_, u32>) {
        tell(&number, handle, |device| Ok(architecture(device)))
    }

    fn nvmlDeviceGetPciInfo_v3(handle: Handle, info: Out<'_, PciV3>) {
        tell(&info, handle, |device| Ok(place(device)))
    }

    fn nvmlDeviceGetPciInfo_v2(handle: Handle, info: Out<'_, PciV2>) also nvmlDeviceGetPciInfo {
        tell(&info, handle, |device| Ok(place_v2(device)))
    }

    fn nvmlDeviceGetCudaComputeCapability(handle: Handle, major: Out<'_, i32>, minor: Out<'_, i32>) {
        minor.check()?;
        let known = Known::of(handle)?;
        let (high, low) = known.device()?.properties.compute;
        major.put(high as i32)?;
        minor.put(low as i32)
    }

    fn nvmlDeviceGetMemoryBusWidth(handle: Handle, bits: Out<'_, u32>) {
        tell(&bits, handle, |device| some(device.properties.memory_bus_bits))
    }

    fn nvmlDeviceGetMaxClockInfo(handle: Handle, which: u32, mhz: Out<'_, u32>) {
        tell(&mhz, handle, |device| match which {
            // Graphics and multiprocessors; memory.
            0 | 1 => some(device.properties.clock_khz / 1_000),
            2 => some(device.properties.memory_clock_khz / 1_000),
            3 => Err(Status::NOT_SUPPORTED),
            _ => Err(Status::INVALID_ARGUMENT),
        })
    }

    fn nvmlDeviceGetComputeMode(handle: Handle, mode: Out<'_, u32>) {
        tell(&mode, handle, |_| Ok(SHARED))
    }

    fn nvmlDeviceGetPersistenceMode(handle: Handle, mode: Out<'_, u32>) {
        tell(&mode, handle, |_| Ok(ENABLED))
    }

    fn nvmlDeviceGetDisplayMode(handle: Handle, mode: Out<'_, u32>) {
        tell(&mode, handle, |_| Ok(DISABLED))
    }

    fn nvmlDeviceGetDisplayActive(handle: Handle, active: Out<'_, u32>) {
        tell(&active, handle, |_| Ok(DISABLED))
    }

    fn nvmlDeviceGetMultiGpuBoard(handle: Handle, is: Out<'_, u32>) {
        tell(&is, handle, |_| Ok(0))
    }

    fn nvmlDeviceOnSameBoard(handle: Handle, other: Handle, are: Out<'_, i32>) {
        Known::of(other)?;
        tell(&are, handle, |_| Ok(0))
    }

    fn nvmlDeviceGetP2PStatus(handle: Handle, other: Handle, _what: u32, status: Out<'_, u32>) {
        Known::of(other)?;
        tell(&status, handle, |_| Ok(NO_PEERS))
    }

    fn nvmlDeviceIsMigDeviceHandle(handle: Handle, is: Out<'_, u32>) {
        tell(&is, handle, |_| Ok(0))
    }

    fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, count: Out<'_, u32>) {
        tell(&count, handle, |_| Ok(0))
    }

    fn nvmlDeviceGetAttributes_v2(handle: Handle, attributes: Out<'_, Attributes>)
        also nvmlDeviceGetAttributes {
        tell(&attributes, handle, |device| Ok(Attributes {
            multiprocessors: device.properties.sms,
            others: [0; 7],
            memory: device.total() >> 20,
        }))
    }

    fn nvmlDeviceGetFieldValues(handle: Handle, count: i32, values: OutList<'_, FieldValue>) {
        Known::of(handle)?;
        let count = usize::try_from(count).map_err(|_| Status::INVALID_ARGUMENT)?;
        let status = Status::NOT_SUPPORTED.0;
        values.change(count, |value| FieldValue { status, ..value })
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{DeviceProperties, Incarnation};

    use super::*;

    fn device(kind: &str, compute: (u32, u32)) -> DeviceState {
        let kind = kind.into();
        DeviceState {
            gpu: 10,
            worker: Incarnation(1),
            properties: DeviceProperties {
                kind,
                compute,
                ..DeviceProperties::default()
            },
            allowed: 0,
            share: None,
            processes: Vec::new(),
        }
    }

    #[test]
    fn a_place_is_found_however_it_is_written() {
        let device = device("cpu", (9, 0));
        for text in [
            "0000:0a:00.0",
            "0000:0A:00.0",
            "00000000:0A:00.0",
            "0a:00.0",
        ] {
            assert!(is_place(&device, text), "{text}");
        }
        for text in [
            "",
            "0000",
            "0000:0b:00.0",
            "0001:0a:00.0",
            "00010000:0a:00.0",
            "a:00.0",
        ] {
            assert!(!is_place(&device, text), "{text}");
        }
        let place = place(&device);
        assert_eq!(&place.bus_id_legacy, b"0000:0a:00.0\0\0\0\0");
        assert_eq!(&place.bus_id[..17], b"00000000:0a:00.0\0");
        assert_eq!(place.bus, 10);
    }

    #[test]
    fn a_processor_is_of_no_generation_of_gpus() {
        assert_eq!(architecture(&device("cpu", (9, 0))), ARCHITECTURE);
        let of = |compute| architecture(&device("cuda", compute));
        assert_eq!(
            [of((7, 5)), of((8, 0)), of((8, 9)), of((9, 0)), of((10, 0))],
            [6, 7, 8, 9, 10]
        );
        assert_eq!(of((99, 0)), ARCHITECTURE);
    }
}
