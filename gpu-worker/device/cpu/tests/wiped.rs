//! No session reads data that another one left in the device's memory.

use std::time::Instant;

use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapFile, SwapSpace};

/// A device with memory that fits only into both parts of the swap space together. Half of it fits
/// into memory; there is also room for the pages that are not whole.
fn device() -> CpuDevice {
    let space = SwapSpace::new(&SwapConfig {
        memory: 32 << 20,
        file: Some(SwapFile {
            dir: std::env::temp_dir(),
            bytes: 33 << 20,
        }),
    });
    let device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 64 << 20,
        ..CpuConfig::default()
    });
    device.swapping(space.expect("the host has it"))
}

#[test]
fn who_takes_all_memory_of_a_device_finds_nothing_that_others_left() {
    device_conformance::wiped(&mut device(), 50);
}

#[test]
#[ignore = "twenty minutes: `just wiped`"]
fn who_takes_all_memory_of_a_device_ten_thousand_times_finds_nothing_that_others_left() {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| device_conformance::wiped(&mut device(), 5_000));
        }
    });
    println!("10,000 rounds in {} s", began.elapsed().as_secs());
}
