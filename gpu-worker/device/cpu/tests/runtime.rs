//! Functions that kernels call without a definition in the module: `printf`, `malloc`, `free`,
//! `assert`. The kernels are NVRTC's; the expectations are the output of C.

use bus_schemas::{Code, Op};
use device::{Completion, Device};
use device_conformance::{TestProgram, complete, flat_launch};
use device_cpu::{CpuConfig, CpuDevice};

const PTX: &str = include_str!("../../../../tests/kernels/runtime.ptx");

const PRINT: u32 = 0;
const PRINTED: u32 = 1;
const HEAP: u32 = 2;
const ASSERT: u32 = 3;

fn device(threads: usize) -> CpuDevice {
    CpuDevice::new(CpuConfig {
        threads,
        capacity: 1 << 30,
        ..CpuConfig::default()
    })
}

/// Loads the module into a new session, with two buffers.
fn begin(device: &mut dyn Device, n: u64) -> TestProgram {
    let (mut program, load) = TestProgram::opened(device, n, PTX);
    let address = program.window().base;
    let bytes = 1 << 16;
    let slice = program.slice(&[(load, &[]), (Op::Alloc { address, bytes }, &[])]);
    assert_eq!(complete(device, slice).fault, None);
    program
}

fn printed(done: &Completion) -> String {
    let sync = done.results.last().expect("a sync");
    String::from_utf8(sync.printed.clone()).expect("ASCII")
}

fn print_some(threads: usize, grid: u32, n: u32) -> String {
    let mut device = device(threads);
    let mut program = begin(&mut device, 1);
    let base = program.window().base;
    let floats: Vec<u8> = (0..n)
        .flat_map(|i| (i as f32 / 4.0).to_le_bytes())
        .collect();
    let mut params = [base.to_le_bytes(), (base + 64).to_le_bytes()].concat();
    params.extend(n.to_le_bytes());
    let name = |bytes: u64| Op::CopyIn {
        address: base,
        bytes,
        transfer: 0,
    };
    let numbers = Op::CopyIn {
        address: base + 64,
        bytes: floats.len() as u64,
        transfer: 0,
    };
    let slice = program.slice(&[
        (name(5), b"list\0"),
        (numbers, &floats),
        (flat_launch(PRINT, grid, 64), &params),
        (Op::Sync, &[]),
    ]);
    let done = complete(&mut device, slice);
    assert_eq!(done.fault, None);
    let again = program.slice(&[(Op::Sync, &[])]);
    assert_eq!(printed(&complete(&mut device, again)), "", "once is enough");
    printed(&done)
}

#[test]
fn what_is_printed_comes_with_the_sync_in_the_order_of_blocks() {
    let n = 1000;
    let one = print_some(1, 16, n);
    let lines: Vec<_> = one.lines().collect();
    assert_eq!(lines.len(), n as usize);
    assert_eq!(
        lines[0],
        "list[0] =    0.000 0.000000e+00 0|0     |000000|a|1099511627776|%"
    );
    assert_eq!(
        lines[30],
        "list[30] =    7.500 7.500000e+10 7.5|-30   |01e01e|e|1125899906842624|%"
    );
    for threads in [2, 5] {
        assert!(print_some(threads, 16, n) == one, "{threads} threads");
    }
}

#[test]
fn printf_returns_the_count_of_its_arguments() {
    let mut device = device(1);
    let mut program = begin(&mut device, 1);
    let address = program.window().base;
    let slice = program.slice(&[
        (flat_launch(PRINTED, 1, 1), &address.to_le_bytes()),
        (Op::CopyOut { address, bytes: 8 }, &[]),
        (Op::Sync, &[]),
    ]);
    let done = complete(&mut device, slice);
    assert_eq!(
        done.results[0].copied().as_deref(),
        Some(&[0, 0, 0, 0, 2, 0, 0, 0][..])
    );
    assert_eq!(printed(&done), "plain\n1 two\n");
}

/// As in CUDA, output comes before the error of the next sync, including that of earlier launches.
#[test]
fn what_was_printed_before_a_fault_comes_with_it() {
    let mut device = device(1);
    let mut program = begin(&mut device, 1);
    let address = program.window().base;
    let slice = program.slice(&[
        (flat_launch(PRINTED, 1, 1), &address.to_le_bytes()),
        (flat_launch(PRINTED, 1, 1), &0_u64.to_le_bytes()),
        (Op::Sync, &[]),
    ]);
    let done = complete(&mut device, slice);
    let (_, failure) = done.fault.expect("null");
    assert_eq!(failure.code, Code::IllegalAddress);
    assert_eq!(done.printed, b"plain\n1 two\nplain\n");
    assert!(done.results.is_empty());
    let slice = program.slice(&[(Op::Sync, &[])]);
    let again = complete(&mut device, slice);
    assert!(again.fault.is_some() && again.printed.is_empty());
}

/// As in CUDA: of more than a mebibyte, the newest part is kept.
#[test]
fn the_oldest_records_make_room() {
    let mut device = device(2);
    let mut program = begin(&mut device, 1);
    let address = program.window().base;
    let slice = program.slice(&[
        (flat_launch(PRINTED, 3000, 32), &address.to_le_bytes()),
        (Op::Sync, &[]),
    ]);
    let text = printed(&complete(&mut device, slice));
    assert!(
        text.len() <= 1 << 20 && text.len() > (1 << 20) - 8,
        "{}",
        text.len()
    );
    assert!(text.ends_with("1 two\n"));
}

#[test]
fn the_heap_serves_every_thread_and_is_free_again() {
    let mut device = device(2);
    let mut program = begin(&mut device, 1);
    let address = program.window().base;
    let n = 700_u32;
    let params = [&address.to_le_bytes()[..], &n.to_le_bytes()].concat();
    let bytes = u64::from(n) * 4;
    for _ in 0..3 {
        let slice = program.slice(&[
            (flat_launch(HEAP, 6, 128), &params),
            (Op::CopyOut { address, bytes }, &[]),
        ]);
        let done = complete(&mut device, slice);
        assert_eq!(done.fault, None);
        let wanted: Vec<u8> = (1..=n)
            .flat_map(|i| (i * (i + 1) / 2).to_le_bytes())
            .collect();
        assert_eq!(done.results[0].copied(), Some(wanted));
    }
}

#[test]
fn a_failed_assertion_says_so_and_harms_nobody_else() {
    let mut device = device(1);
    let mut program = begin(&mut device, 1);
    let mut other = begin(&mut device, 2);
    let slice = program.slice(&[
        (flat_launch(ASSERT, 2, 64), &40_u32.to_le_bytes()),
        (Op::Sync, &[]),
    ]);
    let (_, failure) = complete(&mut device, slice).fault.expect("asserted");
    assert_eq!((failure.code, failure.code.cuda()), (Code::Assert, 710));
    let text = "runtime.cu:53: runtime_assert: assertion `threadIdx.x != at` failed";
    for words in [text, "kernel `runtime_assert`", "thread [40, 0, 0]"] {
        assert!(failure.detail.contains(words), "{failure}");
    }
    let slice = other.slice(&[
        (flat_launch(ASSERT, 1, 32), &40_u32.to_le_bytes()),
        (Op::Sync, &[]),
    ]);
    assert_eq!(complete(&mut device, slice).fault, None);
}

/// Compilers declare `vprintf` without its result if it is unused, and name shared variables
/// without their space. An assembler knows the space by the name.
#[test]
fn printing_needs_no_result_and_a_shared_name_no_space() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64
        .extern .func vprintf(.param .b64 f, .param .b64 a);
        .global .align 1 .b8 text[4] = {37,100,10,0};
        .shared .align 4 .b32 tile[4];
        .visible .entry k() { .reg .b64 %f, %a; .reg .b32 %r<3>; .local .align 8 .b8 args[8];
        .shared .align 4 .b32 own;
        mov.u32 %r0, 41; st.u32 [tile+8], %r0; atom.add.u32 %r1, [tile+8], 1; st.u32 [own], %r1;
        ld.u32 %r1, [own]; ld.shared.u32 %r2, [tile+8]; add.u32 %r2, %r2, %r1;
        mov.u64 %a, args; cvta.local.u64 %a, %a; st.u32 [%a], %r2;
        mov.u64 %f, text; cvta.global.u64 %f, %f;
        { .param .b64 p; .param .b64 q; st.param.b64 [p], %f; st.param.b64 [q], %a;
        call vprintf, (p, q); } ret; }";
    let mut device = device(1);
    let (mut program, load) = TestProgram::opened(&mut device, 1, text);
    let launch = flat_launch(0, 1, 1);
    let slice = program.slice(&[(load, &[]), (launch, &[]), (Op::Sync, &[])]);
    let done = complete(&mut device, slice);
    assert_eq!(done.fault, None);
    assert_eq!(printed(&done), "83\n");
}

/// Text is charged: one call of `printf` can be a million times the work of an addition.
#[test]
fn endless_printing_is_ended() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64
        .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .global .align 1 .b8 wide[41] = {37,52,48,57,53,100,37,52,48,57,53,100,37,52,48,57,53,100,
            37,52,48,57,53,100,37,52,48,57,53,100,37,52,48,57,53,100,10,0};
        .visible .entry k() { .reg .b64 %f, %a; .local .align 8 .b8 args[64];
        mov.u64 %f, wide; cvta.global.u64 %f, %f; mov.u64 %a, args; cvta.local.u64 %a, %a;
        again: { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %f; st.param.b64 [q], %a;
        call (r), vprintf, (p, q); } bra again; }";
    let program = device_cpu::Program::build(text).expect("decodes");
    let mut memory = device_cpu::Memory::new(1 << 44, 64 << 20, 32 << 20).expect("reserved");
    let instance = device_cpu::Instance::new(&program, &mut memory).expect("placed");
    let config = device_cpu::EngineConfig {
        fuel: 1 << 20,
        ..device_cpu::EngineConfig::default()
    };
    let grid = device_cpu::Grid::flat(1, 32);
    let mut running = device_cpu::Engine::new(config)
        .start(&instance, 0, grid, &[])
        .expect("a good launch");
    let kill = std::sync::atomic::AtomicBool::new(false);
    let mut steps = 0;
    let fault = loop {
        steps += 1;
        match running.step(&mut memory, 1 << 14, &kill) {
            Ok(_) => {}
            Err(fault) => break fault,
        }
    };
    assert_eq!(fault.kind, device_cpu::FaultKind::Timeout);
    assert!(steps > 16, "it stops in between: {steps}");
}
