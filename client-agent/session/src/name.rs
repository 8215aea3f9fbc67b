//! Names of devices for programs: the same text in CUDA, in NVML and in our commands.

use bus_schemas::GpuId;

/// The text of a UUID; its bytes are in the order of the text.
#[must_use]
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

/// The UUID of a device with its prefix.
#[must_use]
pub fn gpu_uuid(uuid: &[u8; 16]) -> String {
    format!("GPU-{}", uuid_text(uuid))
}

/// The PCI bus id that is reported for a device with this number.
#[must_use]
pub fn bus_id(gpu: GpuId) -> String {
    format!("0000:{:02x}:00.0", gpu & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_nvidias_tools_write_them() {
        let uuid = [
            0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
            0x9d, 0xf9,
        ];
        assert_eq!(gpu_uuid(&uuid), "GPU-6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
        assert_eq!(bus_id(10), "0000:0a:00.0");
        assert_eq!(bus_id(256), "0000:00:00.0");
    }
}
