//! Results that do not depend on timing: the order of a block's warps, the reported fault, and the
//! output before it.

use device_cpu::{Engine, EngineConfig, Fault, Grid, Instance, Memory, Program, Progress, Running};
use std::sync::atomic::AtomicBool;

const BASE: u64 = 0x1000_0000_0000;
const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

struct Bench {
    memory: Memory,
    running: Box<Running>,
}

impl Bench {
    fn new(text: &str, threads: usize, [blocks, block]: [u32; 2], params: &[u8]) -> Self {
        let program =
            Program::build(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{error}"));
        let mut memory = Memory::new(BASE, 64 << 20, 32 << 20).expect("reserved");
        memory.alloc(BASE, 4096).expect("room");
        let instance = Instance::new(&program, &mut memory).expect("placed");
        let engine = Engine::new(EngineConfig {
            threads,
            ..EngineConfig::default()
        });
        let grid = Grid::flat(blocks, block);
        let running = engine.start(&instance, 0, grid, params).expect("fits");
        Self { memory, running }
    }

    /// Runs to the end, with a stop after every `budget` instructions; returns the number of stops.
    fn run(&mut self, budget: u64) -> Result<u64, Box<Fault>> {
        let kill = AtomicBool::new(false);
        let mut stops = 0;
        while self.running.step(&mut self.memory, budget, &kill)? == Progress::Running {
            stops += 1;
        }
        Ok(stops)
    }
}

/// Threads number their visits of a counter; each keeps a hash of the numbers it drew.
const DRAWS: &str = ".entry k(.param .u64 out) {
    .reg .b64 %out, %at; .reg .b32 %tid, %hash, %drawn, %left; .reg .pred %p;
    .shared .align 4 .b32 counter;
    ld.param.u64 %out, [out]; mov.u32 %tid, %tid.x; mul.wide.u32 %at, %tid, 4;
    add.u64 %at, %at, %out; mov.u32 %hash, 0; mad.lo.u32 %left, %tid, 7, 3000;
    again: atom.shared.add.u32 %drawn, [counter], 1; mad.lo.u32 %hash, %hash, 31, %drawn;
    sub.u32 %left, %left, 1; setp.ne.u32 %p, %left, 0; @%p bra again;
    st.global.u32 [%at], %hash; ret; }";

#[test]
fn the_order_of_warps_does_not_depend_on_interruptions() {
    let draw = |budget| {
        let mut bench = Bench::new(DRAWS, 1, [1, 128], &BASE.to_le_bytes());
        let stops = bench.run(budget).expect("no fault");
        let mut out = vec![0; 512];
        bench.memory.read(BASE, &mut out).expect("live");
        (stops, out)
    };
    let (stops, whole) = draw(u64::MAX);
    assert_eq!(stops, 0);
    for budget in [1, 100, 12_345] {
        let (stops, pieces) = draw(budget);
        assert!(stops > 3, "{stops} stops");
        assert!(pieces == whole, "with a stop after {budget} instructions");
    }
}

/// Each thread adds up the contents of shared memory, of its local memory and of that of a called
/// function. It leaves data with its block's number there.
const LEFTOVERS: &str = ".func (.reg .b32 %sum) depth(.reg .b32 %mark) {
    .reg .b32 %a, %b; .local .align 4 .b8 own[24];
    ld.local.u32 %a, [own+8]; ld.local.u32 %b, [own+20]; add.u32 %sum, %a, %b;
    st.local.u32 [own+8], %mark; st.local.u32 [own+20], %mark; ret; }
    .entry k(.param .u64 out) {
    .reg .b64 %out, %at; .reg .b32 %tid, %block, %mark, %sum, %v, %place; .reg .pred %p;
    .shared .align 4 .b8 tile[4000]; .local .align 4 .b8 own[36];
    ld.param.u64 %out, [out]; mov.u32 %tid, %tid.x; mov.u32 %block, %ctaid.x;
    mad.lo.u32 %v, %block, 64, %tid; mul.wide.u32 %at, %v, 4; add.u64 %at, %at, %out;
    mad.lo.u32 %mark, %block, 1000, %tid; add.u32 %mark, %mark, 1;
    mul.lo.u32 %place, %tid, 60; mov.u32 %v, tile; add.u32 %place, %place, %v;
    ld.shared.u32 %sum, [%place]; ld.local.u32 %v, [own+32]; add.u32 %sum, %sum, %v;
    st.shared.u32 [%place], %mark; st.local.u32 [own+32], %mark;
    and.b32 %v, %block, 1; setp.eq.u32 %p, %v, 0; @%p bra done;
    call (%v), depth, (%mark); add.u32 %sum, %sum, %v;
    done: st.global.u32 [%at], %sum; ret; }";

#[test]
fn a_block_finds_nothing_of_earlier_blocks() {
    for threads in [1, 3] {
        let mut bench = Bench::new(LEFTOVERS, threads, [16, 64], &BASE.to_le_bytes());
        bench.run(u64::MAX).expect("no fault");
        let mut out = vec![1; 4096];
        bench.memory.read(BASE, &mut out).expect("live");
        assert!(out.iter().all(|byte| *byte == 0), "{threads} threads");
    }
}

/// Every thread prints its block, the lower blocks after more work. In each block with a number
/// that is 7 more than a multiple of 16, thread 40 traps, and does so early.
const TRAPS: &str = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
    .global .align 1 .b8 text[7] = {37, 117, 44, 37, 117, 10, 0};
    .entry k() {
    .reg .b64 %f, %a, %to; .reg .b32 %block, %tid, %left, %rest; .reg .pred %p, %q;
    .local .align 8 .b8 args[8];
    mov.u32 %block, %ctaid.x; mov.u32 %tid, %tid.x; and.b32 %rest, %block, 15;
    setp.eq.u32 %p, %rest, 7; setp.eq.and.u32 %q, %tid, 40, %p;
    @%p bra print;
    sub.u32 %left, 64, %block; mul.lo.u32 %left, %left, 300;
    again: sub.u32 %left, %left, 1; setp.ne.u32 %p, %left, 0; @%p bra again;
    print: mov.u64 %f, text; cvta.global.u64 %f, %f; mov.u64 %to, args; cvta.local.u64 %a, %to;
    st.local.u32 [args], %block; st.local.u32 [args+4], %tid;
    { .param .b64 p; .param .b64 q; .param .b32 r; st.param.b64 [p], %f; st.param.b64 [q], %a;
    call (r), vprintf, (p, q); }
    @%q trap; ret; }";

#[test]
fn what_was_printed_before_the_first_fault_is_kept_and_that_fault_blamed() {
    // The first warp of block 7 is done; the second has printed and trapped.
    let wanted: String = (0..8)
        .flat_map(|block| (0..64).map(move |tid| format!("{block},{tid}\n")))
        .collect();
    for threads in [1, 2, 3, 5] {
        for budget in [u64::MAX, 500] {
            let mut bench = Bench::new(TRAPS, threads, [64, 64], &[]);
            let fault = bench.run(budget).expect_err("it traps");
            assert_eq!((fault.block, fault.thread), ([7, 0, 0], [40, 0, 0]));
            let printed = String::from_utf8(bench.running.printed()).expect("ASCII");
            assert!(printed == wanted, "{threads} threads, {budget}: {printed}");
        }
    }
}

/// Block 0 waits for a value that block 9 would store, had it not trapped.
const WAITS: &str = ".global .b32 flag;
    .entry k() {
    .reg .b32 %block, %seen; .reg .pred %p;
    mov.u32 %block, %ctaid.x; setp.eq.u32 %p, %block, 9; @%p trap;
    setp.ne.u32 %p, %block, 0; @%p ret;
    again: ld.volatile.global.u32 %seen, [flag]; setp.eq.u32 %p, %seen, 0; @%p bra again; ret; }";

#[test]
fn a_block_that_waits_for_the_faulted_one_does_not_hold_up_the_fault() {
    for threads in [1, 2] {
        let fault = Bench::new(WAITS, threads, [16, 32], &[])
            .run(u64::MAX)
            .expect_err("it traps");
        assert_eq!(fault.block, [9, 0, 0], "{threads} threads");
        assert_eq!(fault.kind, device_cpu::FaultKind::Trap);
    }
}
