//! The device on the fake driver, and programs for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use device_cuda::{CudaDevice, DeviceClock};
use fake_cuda::FakeCuda;

/// Bytes of the device that sessions may have.
pub(crate) const CAPACITY: u64 = 1 << 30;

/// The fake driver's virtual time, as a device's clock.
#[derive(Debug)]
struct VirtualClock {
    fake: Arc<FakeCuda>,
    base: Instant,
}

impl DeviceClock for VirtualClock {
    fn now(&self) -> Instant {
        self.base + Duration::from_nanos(self.fake.now())
    }

    fn pass(&self, time: Duration) {
        self.fake.pass(time);
    }
}

/// Opens the device on the fake driver.
pub(crate) fn open(fake: &Arc<FakeCuda>, capacity: u64) -> CudaDevice {
    let clock = VirtualClock {
        fake: Arc::clone(fake),
        base: Instant::now(),
    };
    let opened = CudaDevice::open_in_time(Arc::new(clock), 0, Some(capacity));
    opened.expect("a device")
}

/// Returns the fake driver in a process of its own; `None` in the process that cargo has started.
pub(crate) fn enter(module: &str, test: &str) -> Option<Arc<FakeCuda>> {
    let module = module.split_once("::").map_or("", |(_, module)| module);
    fake_cuda::in_own_process(&format!("{module}::{test}")).map(Arc::new)
}
