//! Every kernel under tests/kernels, every workload of the demo and every fault, each against its
//! reference, with one thread and with two.

use std::time::Duration;

use device_cpu::{CpuConfig, CpuDevice};
use workloads::local::{Endless, suite};

fn device(threads: usize) -> CpuDevice {
    // What a busy machine needs for the slowest of the others.
    let watchdog = Duration::from_secs(3);
    CpuDevice::new(CpuConfig {
        threads,
        watchdog,
        ..CpuConfig::default()
    })
}

#[test]
fn one_thread() {
    suite(device(1), Endless::Watched).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn two_threads() {
    suite(device(2), Endless::Skipped).unwrap_or_else(|failure| panic!("{failure}"));
}
