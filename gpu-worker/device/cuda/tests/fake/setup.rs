//! The device on the fake driver, and programs for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{Failure, ModuleHash, Op};
use device::{Completion, Device, PreparedModule, Unwatched};
use device_conformance::{TestProgram, flat_launch};
use device_cuda::{CudaDevice, DeviceClock};
use fake_cuda::FakeCuda;

/// Bytes of the device that sessions may have.
pub(crate) const CAPACITY: u64 = 1 << 30;
/// A poll's budget.
pub(crate) const BUDGET: Duration = Duration::from_micros(100);
/// Polls after which a test has hung, in virtual time some seconds.
const POLLS: usize = 100_000;

/// Kernels with names that say how long they last; `increment` adds 1 to each of `n` words.
pub(crate) const KERNELS: &str = "
.version 7.0
.target sm_75
.address_size 64

.visible .entry nothing()
{
    ret;
}

.visible .entry spin_50us()
{
    ret;
}

.visible .entry long_5ms()
{
    ret;
}

.visible .entry held_1s()
{
    ret;
}

.visible .entry increment(.param .u64 data, .param .u32 n)
{
    ret;
}
";

/// Their numbers.
pub(crate) const NOTHING: u32 = 0;
pub(crate) const SPIN: u32 = 1;
pub(crate) const LONG: u32 = 2;
pub(crate) const HELD: u32 = 3;
pub(crate) const INCREMENT: u32 = 4;

/// An op with its payload.
pub(crate) type OpBytes = (Op, Vec<u8>);

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

/// Opens the device on the fake driver, unless the driver fails.
pub(crate) fn try_open(fake: &Arc<FakeCuda>, capacity: u64) -> Result<CudaDevice, Failure> {
    let clock = VirtualClock {
        fake: Arc::clone(fake),
        base: Instant::now(),
    };
    CudaDevice::open_in_time(Arc::new(clock), 0, Some(capacity))
}

/// Opens the device on the fake driver.
pub(crate) fn open(fake: &Arc<FakeCuda>, capacity: u64) -> CudaDevice {
    try_open(fake, capacity).expect("a device")
}

/// Returns the fake driver in a process of its own; `None` in the process that cargo has started.
pub(crate) fn enter(module: &str, test: &str) -> Option<Arc<FakeCuda>> {
    let module = module.split_once("::").map_or("", |(_, module)| module);
    fake_cuda::in_own_process(&format!("{module}::{test}")).map(Arc::new)
}

/// Prepares an image on a thread of its own; returns when that has ended.
pub(crate) fn compile(
    device: &CudaDevice,
    image: &'static [u8],
) -> Result<PreparedModule, Failure> {
    let compiler = device.compiler().expect("it has one");
    let compiles = move || compiler.compile(ModuleHash::of(image), image, &Unwatched);
    std::thread::spawn(compiles).join().expect("no panic")
}

/// Submits a program's ops as a slice.
pub(crate) fn submit(device: &mut CudaDevice, program: &mut TestProgram, ops: &[OpBytes]) {
    let ops: Vec<(Op, &[u8])> = ops.iter().map(|(op, bytes)| (*op, &bytes[..])).collect();
    device.submit(program.slice(&ops));
}

/// Polls until the device has nothing to do; returns what has completed.
pub(crate) fn finish(device: &mut CudaDevice) -> Vec<Completion> {
    let mut done = Vec::new();
    for _ in 0..POLLS {
        if !device.is_busy() {
            return done;
        }
        device.poll(BUDGET, &mut done);
    }
    panic!("a slice hangs");
}

/// Polls until a slice of a program has completed.
pub(crate) fn completes(device: &mut CudaDevice, program: &TestProgram) -> Completion {
    let mut done = Vec::new();
    for _ in 0..POLLS {
        device.poll(BUDGET, &mut done);
        if let Some(at) = done.iter().position(|it| it.session == program.session()) {
            return done.swap_remove(at);
        }
    }
    panic!("a slice hangs");
}

/// Runs a program's ops as a slice, none of which fails.
pub(crate) fn run(
    device: &mut CudaDevice,
    program: &mut TestProgram,
    ops: &[OpBytes],
) -> Completion {
    submit(device, program, ops);
    let done = finish(device).pop().expect("a completion");
    assert_eq!(done.fault, None);
    done
}

/// A session with the kernels in slot 0.
pub(crate) fn opened(device: &mut CudaDevice, number: u64) -> TestProgram {
    let (mut program, load) = TestProgram::opened(device, number, KERNELS);
    run(device, &mut program, &[bare(load)]);
    program
}

/// An op without a payload.
pub(crate) fn bare(op: Op) -> OpBytes {
    (op, Vec::new())
}

/// A launch of one block.
pub(crate) fn launch(kernel: u32) -> OpBytes {
    bare(flat_launch(kernel, 1, 32))
}

/// A launch that adds 1 to each of `n` words.
pub(crate) fn increment(address: u64, n: u32) -> OpBytes {
    let params = [&address.to_le_bytes()[..], &n.to_le_bytes()].concat();
    (flat_launch(INCREMENT, n.div_ceil(64), 64), params)
}

pub(crate) fn alloc(address: u64, bytes: u64) -> OpBytes {
    bare(Op::Alloc { address, bytes })
}

pub(crate) fn free(address: u64) -> OpBytes {
    bare(Op::Free { address })
}

pub(crate) fn copy_in(address: u64, bytes: &[u8]) -> OpBytes {
    let copy = Op::CopyIn {
        address,
        bytes: bytes.len() as u64,
        transfer: 0,
    };
    (copy, bytes.to_vec())
}

pub(crate) fn copy_out(address: u64, bytes: u64) -> OpBytes {
    bare(Op::CopyOut { address, bytes })
}

/// A fill with bytes.
pub(crate) fn set(address: u64, count: u64, value: u8) -> OpBytes {
    bare(Op::Set {
        address,
        count,
        value: u32::from(value),
        width: 1,
    })
}
