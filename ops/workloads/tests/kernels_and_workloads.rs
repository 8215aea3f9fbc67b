//! Every kernel under tests/kernels, every workload of the demo and every fault, each against its
//! reference. All run with one thread, with two, and on a device that parks its kernels
//! continuously.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus_schemas::{Failure, ModuleHash, SessionId, Window};
use device::{Completion, Device, DeviceInfo, Interrupt, PreparedModule, SharingDomain, Slice};
use device_cpu::{CpuConfig, CpuDevice};
use workloads::local::{Endless, suite};

fn device(threads: usize) -> CpuDevice {
    // Enough for the slowest of the other kernels on a busy machine.
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

/// A device that is interrupted continuously.
struct Stormy {
    device: CpuDevice,
    interrupt: Arc<Interrupt>,
}

impl Device for Stormy {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }
    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
    ) -> Result<(), Failure> {
        self.device.open(session, window, domain)
    }
    fn close(&mut self, session: SessionId) {
        self.device.close(session);
    }
    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure> {
        self.device.prepare(hash, image)
    }
    fn forget(&mut self, hash: ModuleHash) {
        self.device.forget(hash);
    }
    fn submit(&mut self, slice: Slice) {
        self.device.submit(slice);
    }
    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>) {
        self.interrupt.lower();
        self.device.poll(budget, completions);
    }
    fn is_busy(&self) -> bool {
        self.device.is_busy()
    }
}

#[test]
fn every_kernel_gives_the_same_bits_however_often_it_is_parked() {
    for threads in [1, 2] {
        let device = CpuDevice::new(CpuConfig {
            threads,
            capacity: 4 << 30,
            ..CpuConfig::default()
        });
        let interrupt = device.interrupt().expect("preemptive");
        let (storm, over) = (Arc::clone(&interrupt), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    storm.raise();
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let result = suite(Stormy { device, interrupt }, Endless::Skipped);
            over.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|failure| panic!("{failure}"));
        });
    }
}
