//! Structures of NVML, in the layouts that programs are compiled with.

/// Memory of a device, bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// The same, with the reserved memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemoryV2 {
    pub(crate) version: u32,
    pub(crate) total: u64,
    pub(crate) reserved: u64,
    pub(crate) free: u64,
    pub(crate) used: u64,
}

/// Percent of the time.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Utilization {
    pub(crate) gpu: u32,
    pub(crate) memory: u32,
}

/// A process with memory on a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessV1 {
    pub(crate) pid: u32,
    pub(crate) used: u64,
}

/// The same, with the part of the device that the process is bound to.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessV2 {
    pub(crate) pid: u32,
    pub(crate) used: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

/// The time that a process kept a device busy.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProcessSample {
    pub(crate) pid: u32,
    /// Microseconds since 1970.
    pub(crate) time: u64,
    pub(crate) sm: u32,
    pub(crate) memory: u32,
    pub(crate) encoder: u32,
    pub(crate) decoder: u32,
}

/// A PCI address, as first published.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PciV2 {
    pub(crate) bus_id: [u8; 16],
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) pci_device: u32,
    pub(crate) pci_subsystem: u32,
    pub(crate) reserved: [u32; 4],
}

/// The same, with a longer text at the end.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PciV3 {
    pub(crate) bus_id_legacy: [u8; 16],
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    pub(crate) pci_device: u32,
    pub(crate) pci_subsystem: u32,
    pub(crate) bus_id: [u8; 32],
}

/// The units of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) multiprocessors: u32,
    /// Engines and slices: copies, decoders, encoders, JPEG, optical flow, GPU and compute instances.
    pub(crate) others: [u32; 7],
    /// MiB.
    pub(crate) memory: u64,
}

/// A field of a device, asked for by number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FieldValue {
    pub(crate) field: u32,
    pub(crate) scope: u32,
    pub(crate) time: i64,
    pub(crate) latency: i64,
    pub(crate) kind: u32,
    pub(crate) status: i32,
    pub(crate) value: u64,
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;

    #[test]
    fn structures_are_as_large_as_programs_take_them_to_be() {
        let sizes = [
            size_of::<Memory>(),
            size_of::<MemoryV2>(),
            size_of::<Utilization>(),
            size_of::<ProcessV1>(),
            size_of::<ProcessV2>(),
            size_of::<ProcessSample>(),
            size_of::<PciV2>(),
            size_of::<PciV3>(),
            size_of::<Attributes>(),
            size_of::<FieldValue>(),
        ];
        assert_eq!(sizes, [24, 40, 8, 16, 24, 32, 52, 68, 40, 40]);
    }
}
