//! Properties that the CPU device reports: those of a device of compute capability 8.0, with the
//! limits enforced for launches and the processor's clock and cache.

use crate::engine::launch::{BLOCK_LIMITS, BLOCK_THREADS, GRID_LIMITS, SHARED_LIMIT};
use crate::lane_loop::LANES;
use bus_schemas::DeviceProperties;
use std::path::Path;

/// Shared memory of a kernel that does not opt in to more, on every CUDA device.
const BLOCK_SHARED: u32 = 48 << 10;
/// Registers of a multiprocessor of compute capability 8.0; a block may have them all. The engine
/// has as many as a kernel declares.
const REGISTERS: u32 = 64 << 10;

/// The properties of a device with that many threads and bytes.
pub(super) fn of(threads: usize, memory: u64) -> DeviceProperties {
    let processor = Processor::read();
    DeviceProperties {
        kind: "cpu".to_owned(),
        name: format!("{} (cpu, {threads} threads)", processor.name),
        // It has no identifier of its own.
        uuid: [0; 16],
        compute: (8, 0),
        driver: 13_000,
        ptx: (9, 4),
        target: 90,
        sms: u32::try_from(threads).unwrap_or(u32::MAX),
        memory,
        clock_khz: processor.clock_khz,
        memory_clock_khz: 0,
        memory_bus_bits: 0,
        l2_bytes: processor.cache,
        warp_size: LANES as u32,
        block_threads: BLOCK_THREADS,
        sm_threads: 2 * BLOCK_THREADS,
        sm_blocks: 32,
        block_dim: BLOCK_LIMITS,
        grid_dim: GRID_LIMITS,
        block_shared: BLOCK_SHARED,
        block_shared_optin: SHARED_LIMIT as u32,
        block_shared_reserved: 0,
        answers_memory: false,
        answers_offers: false,
        answers_ipc: false,
        machine_code: false,
        launch_attributes: false,
        maps_memory: true,
        sm_shared: SHARED_LIMIT as u32,
        block_registers: REGISTERS,
        sm_registers: REGISTERS,
        resident_blocks: 0,
        active_clusters: Vec::new(),
    }
}

/// Processor data that the machine reports; 0 if unknown.
struct Processor {
    name: String,
    clock_khz: u32,
    /// Bytes of the last-level cache.
    cache: u64,
}

impl Processor {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let folder = Path::new("/sys/devices/system/cpu/cpu0");
        let number = |path: &str| std::fs::read_to_string(folder.join(path)).ok();
        let highest = number("cpufreq/cpuinfo_max_freq").and_then(|khz| khz.trim().parse().ok());
        let caches =
            (0..8).filter_map(|index| bytes(&number(&format!("cache/index{index}/size"))?));
        Self {
            name: line(&text, "model name")
                .unwrap_or(std::env::consts::ARCH)
                .to_owned(),
            clock_khz: highest
                .or_else(|| khz(line(&text, "cpu MHz")?))
                .unwrap_or(0),
            cache: caches.max().unwrap_or(0),
        }
    }
}

/// The value of a name in `/proc/cpuinfo`.
fn line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split(':').nth(1).map(str::trim)
}

/// Parses `2445.404` (MHz).
fn khz(megahertz: &str) -> Option<u32> {
    let value: f64 = megahertz.parse().ok()?;
    Some((value * 1_000.0) as u32)
}

/// Parses `32768K`, `1M` or `512`.
fn bytes(size: &str) -> Option<u64> {
    let size = size.trim();
    let (digits, unit) = match size.as_bytes().last()? {
        b'K' => (&size[..size.len() - 1], 1 << 10),
        b'M' => (&size[..size.len() - 1], 1 << 20),
        _ => (size, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_says_is_understood() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2445.404\n";
        assert_eq!(line(text, "model name"), Some("AMD EPYC"));
        assert_eq!(line(text, "cpu MHz").and_then(khz), Some(2_445_404));
        assert_eq!(line(text, "bogomips"), None);
        let sizes = ["32768K\n", "1M", "512", "", "K"].map(bytes);
        let wanted = [Some(32 << 20), Some(1 << 20), Some(512), None, None];
        assert_eq!(sizes, wanted);
    }
}
