//! A session's state besides its allocations moves with it when it leaves the device. Kernels of
//! other sessions are not affected.

use std::time::{Duration, Instant};

use bus_schemas::{Code, Failure, Op};
use device::{Completion, Device, Moved};
use device_conformance::{TestProgram, complete, flat_launch};
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapSpace};

/// `grow` takes a block of the heap, writes to it and stores its address. `tell` prints its
/// contents and frees it; `endless` does not end.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.visible .global .align 8 .u64 place = 0;
.global .align 1 .b8 format[5] = {91, 37, 117, 93, 0};
.visible .const .align 4 .b32 step = 3;
.visible .entry grow(.param .u32 value) {
    .reg .b32 %r<3>; .reg .b64 %d<4>; .param .b64 p; .param .b64 r;
    mov.u64 %d1, 1000; st.param.b64 [p], %d1;
    call (r), malloc, (p);
    ld.param.b64 %d2, [r]; ld.param.u32 %r1, [value];
    st.global.u32 [%d2+996], %r1; st.global.u64 [place], %d2; ret;
}
.visible .entry tell() {
    .local .align 8 .b8 pack[8];
    .reg .b32 %r<4>; .reg .b64 %d<6>; .param .b64 p; .param .b64 q; .param .b32 s; .param .b64 b;
    ld.global.u64 %d1, [place]; ld.global.u32 %r1, [%d1+996];
    ld.const.u32 %r2, [step]; add.u32 %r1, %r1, %r2;
    mov.u64 %d2, pack; st.local.u32 [%d2], %r1;
    cvta.local.u64 %d3, %d2; mov.u64 %d4, format; cvta.global.u64 %d4, %d4;
    st.param.b64 [p], %d4; st.param.b64 [q], %d3;
    call (s), vprintf, (p, q);
    st.param.b64 [b], %d1;
    call free, (b);
    ret;
}
.visible .entry endless() { again: bra again; }";

const GROW: u32 = 0;
const TELL: u32 = 1;
const ENDLESS: u32 = 2;
const LARGE: u64 = 192 << 20;

fn device() -> CpuDevice {
    let space = SwapSpace::new(&SwapConfig {
        memory: 256 << 20,
        file: None,
    });
    let device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 1 << 30,
        ..CpuConfig::default()
    });
    device.swapping(space.expect("the host has it"))
}

fn opened(device: &mut CpuDevice, n: u64) -> TestProgram {
    let (mut program, load) = TestProgram::opened(device, n, PTX);
    run(device, &mut program, &[(load, &[])]);
    program
}

fn run(device: &mut CpuDevice, program: &mut TestProgram, ops: &[(Op, &[u8])]) -> Completion {
    let slice = program.slice(ops);
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    done
}

/// A program with much memory, all of it written.
fn large(device: &mut CpuDevice, n: u64) -> TestProgram {
    let mut program = opened(device, n);
    let (address, bytes) = (program.window().base, LARGE);
    let fill = Op::Set {
        address,
        count: bytes,
        value: 1,
        width: 1,
    };
    run(
        device,
        &mut program,
        &[(Op::Alloc { address, bytes }, &[]), (fill, &[])],
    );
    program
}

/// Polls, as the worker's device thread does, until a move has ended.
fn moved(device: &mut CpuDevice, done: &mut Vec<Completion>) -> Moved {
    let mut ended = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while ended.is_empty() {
        assert!(Instant::now() < until, "no move ends");
        device.poll(Duration::from_micros(100), done);
        device.moved(&mut ended);
    }
    assert_eq!((ended.len(), &ended[0].failure), (1, &None));
    ended.remove(0)
}

#[test]
fn heap_variables_and_what_was_printed_go_along() {
    let mut device = device();
    let mut program = opened(&mut device, 1);
    let grow = |value: u32| (flat_launch(GROW, 1, 1), value.to_le_bytes());
    let (op, value) = grow(40);
    run(
        &mut device,
        &mut program,
        &[(op, &value), (flat_launch(TELL, 1, 1), &[])],
    );
    let (op, value) = grow(50);
    run(&mut device, &mut program, &[(op, &value)]);
    for _ in 0..2 {
        device.swap_out(program.session());
        assert!(moved(&mut device, &mut Vec::new()).bytes > 0);
        device.swap_in(program.session());
        assert!(moved(&mut device, &mut Vec::new()).bytes > 0);
    }
    let done = run(
        &mut device,
        &mut program,
        &[(flat_launch(TELL, 1, 1), &[]), (Op::Sync, &[])],
    );
    assert_eq!(done.results[0].printed, b"[43][53]");
    // The output of kernels is also reported if the session is stopped while it is out.
    let (op, value) = grow(60);
    run(
        &mut device,
        &mut program,
        &[(op, &value), (flat_launch(TELL, 1, 1), &[])],
    );
    device.swap_out(program.session());
    moved(&mut device, &mut Vec::new());
    device.stop(program.session(), Failure::new(Code::Killed, "a test"));
    let slice = program.slice(&[(Op::Sync, &[])]);
    let done = complete(&mut device, slice);
    assert_eq!(
        (&done.printed[..], done.fault.is_some()),
        (&b"[63]"[..], true)
    );
}

#[test]
fn a_kernel_runs_while_another_session_moves() {
    let mut device = device();
    let large = large(&mut device, 1);
    let mut other = opened(&mut device, 2);
    let endless = other.slice(&[(flat_launch(ENDLESS, 1, 32), &[])]);
    device.submit(endless);
    let mut done = Vec::new();
    device.poll(Duration::from_micros(1), &mut done);
    for out in [true, false] {
        match out {
            true => device.swap_out(large.session()),
            false => device.swap_in(large.session()),
        }
        let ended = moved(&mut device, &mut done);
        assert_eq!(ended.out, out);
        assert!(ended.bytes >= LARGE, "{} bytes", ended.bytes);
        assert!(
            done.is_empty() && device.is_busy(),
            "it waits for no kernel's end"
        );
    }
    device.stop(other.session(), Failure::new(Code::Killed, "a test"));
    while done.is_empty() {
        device.poll(Duration::from_micros(100), &mut done);
    }
}

#[test]
fn a_kernel_ends_while_another_session_moves() {
    let mut device = device();
    let large = large(&mut device, 1);
    let mut other = opened(&mut device, 2);
    for out in [true, false] {
        match out {
            true => device.swap_out(large.session()),
            false => device.swap_in(large.session()),
        }
        // The move has not ended before it is reported.
        let value = 7_u32.to_le_bytes();
        let kernels = [
            (flat_launch(GROW, 1, 1), &value[..]),
            (flat_launch(TELL, 1, 1), &[]),
        ];
        run(&mut device, &mut other, &kernels);
        assert_eq!(moved(&mut device, &mut Vec::new()).out, out);
    }
}

#[test]
fn a_device_goes_though_a_session_is_moving() {
    let mut device = device();
    let large = large(&mut device, 1);
    device.swap_out(large.session());
    drop(device);
}
