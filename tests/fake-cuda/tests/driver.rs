//! The library as a program sees it: through the driver API, in virtual time.
//!
//! Each test runs in a process of its own. Costs are those of `tests/gpu/costs.json`.

#![expect(unsafe_code, reason = "calls of the driver API")]

use std::ffi::{CString, c_void};
use std::time::Duration;

use cudarc::driver::sys::{self, CUresult};
use fake_cuda::{FakeCuda, Planned, in_own_process};

const TEXT: &str = "
.version 7.0
.target sm_75
.address_size 64

.visible .entry nothing()
{
    ret;
}

.visible .entry spin_100us()
{
    ret;
}

.visible .entry increment(.param .u64 data, .param .u32 n)
{
    ret;
}
";

/// Nanoseconds of a launch, and of the kernel `spin_100us`.
const LAUNCH: u64 = 4_376;
const SPIN: u64 = 100_000;
/// Bytes of memory that is mapped.
const GRANULE: usize = 2 << 20;

/// Calls a function of the driver API, which succeeds.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(code!($name($($argument),*)), CUresult::CUDA_SUCCESS, stringify!($name))
    };
}

/// Calls a function of the driver API; returns its code.
macro_rules! code {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: pointers are to locals that outlive the call, or to nothing.
        unsafe { sys::$name($($argument),*) }
    }};
}

/// Enters the context of the only device.
fn enter() {
    let (mut device, mut context) = (0, std::ptr::null_mut());
    ok!(cuInit(0));
    ok!(cuDeviceGet(&raw mut device, 0));
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, device));
    ok!(cuCtxSetCurrent(context));
}

fn stream(priority: i32) -> sys::CUstream {
    let mut stream = std::ptr::null_mut();
    ok!(cuStreamCreateWithPriority(&raw mut stream, 1, priority));
    stream
}

fn event(flags: u32) -> sys::CUevent {
    let mut event = std::ptr::null_mut();
    ok!(cuEventCreate(&raw mut event, flags));
    event
}

fn module() -> sys::CUmodule {
    let text = CString::new(TEXT).expect("a text");
    let mut module = std::ptr::null_mut();
    ok!(cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    module
}

fn function(module: sys::CUmodule, name: &str) -> sys::CUfunction {
    let name = CString::new(name).expect("a name");
    let mut function = std::ptr::null_mut();
    ok!(cuModuleGetFunction(
        &raw mut function,
        module,
        name.as_ptr()
    ));
    function
}

/// Launches a kernel of so many blocks of 1,024 threads.
fn launch(function: sys::CUfunction, blocks: u32, on: sys::CUstream) -> CUresult {
    let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    code!(cuLaunchKernel(
        function, blocks, 1, 1, 1_024, 1, 1, 0, on, none, nothing
    ))
}

/// Launches one block, which succeeds.
fn launched(function: sys::CUfunction, on: sys::CUstream) {
    assert_eq!(launch(function, 1, on), CUresult::CUDA_SUCCESS);
}

/// Maps memory; returns its address.
fn memory() -> u64 {
    let location = sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: 0,
    };
    // SAFETY: a structure of numbers and pointers, for which zero is a value.
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location;
    let access = sys::CUmemAccessDesc {
        location,
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    let (mut address, mut handle) = (0, 0);
    ok!(cuMemAddressReserve(&raw mut address, GRANULE, 0, 0, 0));
    ok!(cuMemCreate(
        &raw mut handle,
        GRANULE,
        &raw const properties,
        0
    ));
    ok!(cuMemMap(address, GRANULE, 0, handle, 0));
    ok!(cuMemSetAccess(address, GRANULE, &raw const access, 1));
    address
}

/// Time that some calls take in this thread.
fn took(fake: &FakeCuda, calls: impl FnOnce()) -> u64 {
    let began = fake.now();
    calls();
    fake.now() - began
}

#[test]
fn calls_take_their_recorded_time() {
    let Some(fake) = in_own_process("calls_take_their_recorded_time") else {
        return;
    };
    enter();
    let (stream, module) = (stream(0), module());
    let nothing = function(module, "nothing");
    ok!(cuStreamSynchronize(stream));
    assert_eq!(took(&fake, || launched(nothing, stream)), LAUNCH);
    let timed = event(0);
    assert_eq!(took(&fake, || ok!(cuEventRecord(timed, stream))), 1_175);
    // A launch and a wait take what they took on the recorded device.
    fake.pass(Duration::from_millis(1));
    let waited = took(&fake, || {
        launched(nothing, stream);
        ok!(cuStreamSynchronize(stream));
    });
    assert_eq!(waited, 9_672);
    fake.slow("cuLaunchKernel", Duration::from_micros(7));
    assert_eq!(took(&fake, || launched(nothing, stream)), LAUNCH + 7_000);
    assert_eq!(fake.count("cuLaunchKernel"), 3);
    assert_eq!(fake.took("cuLaunchKernel"), 3 * LAUNCH + 7_000);
    fake.clear();
    assert_eq!((fake.count("cuLaunchKernel"), fake.all_calls()), (0, 0));
    assert_eq!(took(&fake, || launched(nothing, stream)), LAUNCH);
}

#[test]
fn a_log_has_waits_and_the_work_of_others() {
    let Some(fake) = in_own_process("a_log_has_waits_and_the_work_of_others") else {
        return;
    };
    enter();
    let (one, two, first) = (stream(0), stream(0), module());
    let spin = function(first, "spin_100us");
    fake.log();
    launched(spin, one);
    launched(spin, two);
    assert_eq!(fake.busy(), 2);
    assert_eq!(code!(cuStreamQuery(two)), CUresult::CUDA_ERROR_NOT_READY);
    let second = module();
    ok!(cuModuleUnload(second));
    let calls = fake.logged();
    let seen: Vec<_> = calls
        .iter()
        .map(|it| (it.function.as_str(), it.others, it.code))
        .collect();
    assert_eq!(
        seen,
        [
            ("cuLaunchKernel", 0, 0),
            ("cuLaunchKernel", 1, 0),
            ("cuStreamQuery", 1, 600),
            ("cuModuleLoadData", 2, 0),
            ("cuModuleUnload", 0, 0),
        ]
    );
    // A load waits for the whole device.
    let load = &calls[3];
    assert!(
        load.waited > SPIN / 2 && load.took - load.waited == 11_513_903,
        "{load:?}"
    );
    assert!(calls[4].waited == 0 && calls[0].waited == 0);
    assert!(fake.logged().is_empty());
}

/// Time at which an event was passed behind another, nanoseconds.
fn between(first: sys::CUevent, last: sys::CUevent) -> f64 {
    let mut ms = 0.0;
    ok!(cuEventElapsedTime(&raw mut ms, first, last));
    (f64::from(ms) * 1e6).round()
}

#[test]
fn streams_keep_order_and_wait_for_one_another() {
    let Some(fake) = in_own_process("streams_keep_order_and_wait_for_one_another") else {
        return;
    };
    enter();
    let (one, two, module) = (stream(0), stream(0), module());
    let (nothing, spin) = (function(module, "nothing"), function(module, "spin_100us"));
    let [begin, middle, end, other] = [(); 4].map(|()| event(0));
    ok!(cuEventRecord(begin, one));
    launched(spin, one);
    ok!(cuEventRecord(middle, one));
    launched(spin, one);
    ok!(cuEventRecord(end, one));
    ok!(cuStreamWaitEvent(two, middle, 0));
    launched(nothing, two);
    ok!(cuEventRecord(other, two));
    assert_eq!(code!(cuEventQuery(begin)), CUresult::CUDA_SUCCESS);
    assert_eq!(code!(cuEventQuery(end)), CUresult::CUDA_ERROR_NOT_READY);
    fake.pass(Duration::from_micros(300));
    assert_eq!(code!(cuEventQuery(end)), CUresult::CUDA_SUCCESS);
    // The second kernel begins behind the gap that a timing event makes.
    assert!((between(middle, end) - (SPIN as f64 + 3_581.0)).abs() < 20.0);
    assert!((between(middle, other) - 1_000.0).abs() < 20.0);
}

#[test]
fn the_more_urgent_stream_goes_first() {
    let Some(_fake) = in_own_process("the_more_urgent_stream_goes_first") else {
        return;
    };
    enter();
    let (mut least, mut greatest) = (9, 9);
    ok!(cuCtxGetStreamPriorityRange(
        &raw mut least,
        &raw mut greatest
    ));
    assert!(greatest < least, "{least} {greatest}");
    let (one, two, urgent) = (stream(least), stream(least), stream(greatest));
    let spin = function(module(), "spin_100us");
    let [begin, later, sooner] = [(); 3].map(|()| event(0));
    ok!(cuEventRecord(begin, one));
    for stream in [one, two, urgent] {
        // All multiprocessors.
        launch(spin, 264, stream);
    }
    ok!(cuEventRecord(later, two));
    ok!(cuEventRecord(sooner, urgent));
    ok!(cuCtxSynchronize());
    let (later, sooner) = (between(begin, later), between(begin, sooner));
    assert!(
        sooner < 2.5 * SPIN as f64 && later > 2.9 * SPIN as f64,
        "{sooner} {later}"
    );
}

#[test]
fn two_threads_exclude_one_another() {
    let Some(fake) = in_own_process("two_threads_exclude_one_another") else {
        return;
    };
    enter();
    let began = fake.now() + 1_000_000;
    // Each thread makes a call that holds the lock, from the same time on.
    let call = || {
        enter();
        fake.pass(Duration::from_nanos(began.saturating_sub(fake.now())));
        let mut pinned = std::ptr::null_mut();
        ok!(cuMemHostAlloc(&raw mut pinned, 1 << 20, 0));
        fake.now() - began
    };
    let step = std::sync::Barrier::new(2);
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            enter();
            step.wait();
            step.wait();
            call()
        });
        // The other's clock has begun before this thread calls, and it calls afterwards.
        step.wait();
        let first = call();
        step.wait();
        (first, second.join().expect("it ends"))
    });
    assert_eq!(first, 1_137_752);
    assert_eq!(second, 2 * 1_137_752);
}

#[test]
fn a_thread_that_waits_does_not_hold_up_the_work_of_another() {
    let Some(fake) = in_own_process("a_thread_that_waits_does_not_hold_up_the_work_of_another")
    else {
        return;
    };
    enter();
    let (one, two, first) = (stream(0), stream(0), module());
    let spin = function(first, "spin_100us");
    let [begin, end] = [(); 2].map(|()| event(0));
    launched(spin, one);
    let began = fake.now();
    // The load waits for the kernel, in virtual time far beyond this thread's.
    let loaded = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            enter();
            ok!(cuModuleUnload(module()));
            fake.now()
        });
        load.join().expect("it ends")
    });
    assert!(loaded > began + SPIN + 11_000_000 && fake.now() == began);
    ok!(cuEventRecord(begin, two));
    launched(spin, two);
    ok!(cuEventRecord(end, two));
    assert_eq!(
        (code!(cuStreamQuery(one)), fake.busy()),
        (CUresult::CUDA_ERROR_NOT_READY, 2)
    );
    ok!(cuStreamSynchronize(two));
    // Beside the first kernel, and long before the load has returned.
    assert!(fake.now() < began + SPIN + 20_000, "{}", fake.now() - began);
    assert!((between(begin, end) - SPIN as f64).abs() < 10_000.0);
}

#[test]
fn bytes_are_copied_when_the_device_does_it() {
    let Some(fake) = in_own_process("bytes_are_copied_when_the_device_does_it") else {
        return;
    };
    enter();
    let (stream, module, address) = (stream(0), module(), memory());
    let (spin, increment) = (
        function(module, "spin_100us"),
        function(module, "increment"),
    );
    let mut pinned: *mut c_void = std::ptr::null_mut();
    ok!(cuMemHostAlloc(&raw mut pinned, 4_096, 0));
    let words = pinned.cast::<u32>();
    ok!(cuMemsetD32Async(address, 7, 1_024, stream));
    let (mut data, mut n) = (address, 1_000_u32);
    let mut arguments = [(&raw mut data).cast::<c_void>(), (&raw mut n).cast()];
    let (params, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
    ok!(cuLaunchKernel(
        increment, 16, 1, 1, 64, 1, 1, 0, stream, params, none
    ));
    launched(spin, stream);
    ok!(cuMemcpyDtoHAsync_v2(pinned, address, 4_096, stream));
    // SAFETY: pinned memory of 1,024 words, to which the device writes only during calls.
    let read = |at: usize| unsafe { words.add(at).read() };
    assert_eq!(read(0), 0, "the copy is behind a kernel");
    ok!(cuStreamSynchronize(stream));
    assert_eq!((read(0), read(999), read(1_000)), (8, 8, 7));
    // A copy from memory that is not pinned takes the call as long as a pageable one.
    let bytes = vec![1_u8; 64 << 10];
    let from = bytes.as_ptr().cast();
    let took = took(&fake, || {
        ok!(cuMemcpyHtoDAsync_v2(address, from, 64 << 10, stream))
    });
    assert_eq!(took, 16_962);
}

#[test]
fn wrong_calls_have_the_recorded_codes() {
    let Some(_fake) = in_own_process("wrong_calls_have_the_recorded_codes") else {
        return;
    };
    let bogus: sys::CUstream = std::ptr::without_provenance_mut(0x7777);
    let mut made = std::ptr::null_mut();
    let without = code!(cuStreamCreateWithPriority(&raw mut made, 1, 0));
    assert_eq!(without, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    enter();
    let (mut device, mut value, mut address, mut ms) = (0, 0, 0, 0.0);
    assert_eq!(
        code!(cuDeviceGet(&raw mut device, 9_999)),
        CUresult::CUDA_ERROR_INVALID_DEVICE
    );
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    assert_eq!(code!(cuDeviceGet(std::ptr::null_mut(), 0)), invalid);
    assert_eq!(
        code!(cuMemAddressReserve(&raw mut address, 4_097, 0, 0, 0)),
        invalid
    );
    assert_eq!(code!(cuMemUnmap(1 << 40, GRANULE)), invalid);
    assert_eq!(
        code!(cuEventCreate(&raw mut made as *mut _, 0x1000)),
        invalid
    );
    let handle = CUresult::CUDA_ERROR_INVALID_HANDLE;
    assert_eq!(code!(cuEventQuery(std::ptr::null_mut())), handle);
    assert_eq!(code!(cuStreamSynchronize(bogus)), handle);
    let (first, plain) = (event(0), event(2));
    assert_eq!(
        code!(cuEventElapsedTime(&raw mut ms, first, first)),
        handle,
        "not recorded"
    );
    ok!(cuEventRecord(plain, stream(0)));
    assert_eq!(
        code!(cuEventElapsedTime(&raw mut ms, plain, plain)),
        handle,
        "not timed"
    );
    let module = module();
    let name = c"missing";
    let missing = code!(cuModuleGetFunction(
        &raw mut made as *mut _,
        module,
        name.as_ptr()
    ));
    assert_eq!(missing, CUresult::CUDA_ERROR_NOT_FOUND);
    let nothing = function(module, "nothing");
    assert_eq!(launch(nothing, 0, stream(0)), invalid);
    let which = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    ok!(cuFuncGetAttribute(&raw mut value, which, nothing));
    assert_eq!(value, 1_024);
    ok!(cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &raw mut value,
        nothing,
        256,
        0
    ));
    assert_eq!(value, 8);
}

#[test]
fn a_planned_failure_comes_at_its_call_and_a_sticky_one_stays() {
    let Some(fake) = in_own_process("a_planned_failure_comes_at_its_call_and_a_sticky_one_stays")
    else {
        return;
    };
    enter();
    let (one, module) = (stream(0), module());
    let spin = function(module, "spin_100us");
    let planned = |nth, sticky| Planned {
        nth,
        code: 719,
        sticky,
    };
    let failed = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    fake.fail("cuLaunchKernel", planned(2, false));
    let codes = [(); 3].map(|()| launch(spin, 1, one));
    assert_eq!(
        codes,
        [CUresult::CUDA_SUCCESS, failed, CUresult::CUDA_SUCCESS]
    );
    fake.fail("cuStreamQuery", planned(1, true));
    assert_eq!(code!(cuStreamQuery(one)), failed);
    assert_eq!(
        (launch(spin, 1, one), code!(cuStreamSynchronize(one))),
        (failed, failed)
    );
    let mut name = std::ptr::null();
    ok!(cuGetErrorName(failed, &raw mut name));
    assert_eq!(fake.busy(), 0, "the work is gone");
    fake.reset();
    enter();
    ok!(cuStreamSynchronize(stream(0)));
}
