//! The GPU that the driver describes: the recorded one.

use std::collections::BTreeMap;

use serde::Deserialize;

const RECORDED: &str = include_str!("../../gpu/driver.json");

/// Granularity of device memory, bytes.
pub(crate) const GRANULE: u64 = 2 << 20;
/// Priorities of streams: the least, and the greatest.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

const MULTIPROCESSORS: u32 = 16;
const SM_THREADS: u32 = 39;
const SM_BLOCKS: u32 = 106;
const SM_SHARED: u32 = 81;
const BLOCK_RESERVED: u32 = 111;
const BLOCK_THREADS: u32 = 1;

#[derive(Debug, Deserialize)]
struct Recording {
    name: Value<String>,
    driver_version: Value<i32>,
    total_memory: Value<u64>,
    attributes: BTreeMap<u32, Value<i32>>,
}

#[derive(Debug, Deserialize)]
struct Value<T> {
    value: T,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) name: String,
    pub(crate) version: i32,
    pub(crate) memory: u64,
    attributes: BTreeMap<u32, i32>,
}

impl Gpu {
    pub(crate) fn recorded() -> Self {
        let recording: Recording = serde_json::from_str(RECORDED).expect("a recording");
        let attributes = recording.attributes.into_iter();
        Self {
            name: recording.name.value,
            version: recording.driver_version.value,
            memory: recording.total_memory.value,
            attributes: attributes.map(|(which, it)| (which, it.value)).collect(),
        }
    }

    pub(crate) fn attribute(&self, which: u32) -> Option<i32> {
        self.attributes.get(&which).copied()
    }

    fn number(&self, which: u32) -> u64 {
        let value = self.attribute(which).unwrap_or(1);
        u64::try_from(value).unwrap_or(1).max(1)
    }

    /// Number of multiprocessors.
    pub(crate) fn sms(&self) -> u64 {
        self.number(MULTIPROCESSORS)
    }

    /// Maximum number of threads of a block.
    pub(crate) fn block_threads(&self) -> u64 {
        self.number(BLOCK_THREADS)
    }

    /// Number of blocks of this many threads and bytes of shared memory that run on a multiprocessor at a
    /// time. Registers do not count.
    pub(crate) fn resident(&self, threads: u64, shared: u64) -> u64 {
        let whole_warps = threads.max(1).next_multiple_of(32);
        let by_threads = self.number(SM_THREADS) / whole_warps;
        let by_shared = self.number(SM_SHARED) / (shared + self.number(BLOCK_RESERVED));
        by_threads.min(by_shared).min(self.number(SM_BLOCKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_recorded_one() {
        let gpu = Gpu::recorded();
        assert_eq!((gpu.name.as_str(), gpu.version), ("NVIDIA H200", 13_000));
        assert_eq!((gpu.sms(), gpu.block_threads()), (132, 1_024));
        assert_eq!(gpu.attribute(100_000), None);
    }

    #[test]
    fn blocks_fit_as_they_did_on_the_recorded_one() {
        let gpu = Gpu::recorded();
        for (threads, shared, blocks) in [
            (32, 0, 32),
            (32, 16_384, 13),
            (32, 102_400, 2),
            (96, 0, 21),
            (256, 0, 8),
            (1_024, 0, 2),
        ] {
            assert_eq!(gpu.resident(threads, shared), blocks, "{threads} {shared}");
        }
    }
}
