//! The most urgent session runs. A preempted session is parked between instructions and resumes
//! there, with the results that it would have had alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{Code, Op, SessionId};
use device::{Completion, CopyBytes, Device, Slice};
use device_conformance::TestProgram;
use device_cpu::{CpuConfig, CpuDevice};

/// `mill` applies `n` rounds of a number generator to each of 32 words of a block. `dust` has no
/// backward jumps; `endless` has nothing else.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry mill(.param .u64 data, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [data]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r2, %r2, 32, %r3;
    mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2; ld.global.u32 %r4, [%d1];
again: mad.lo.u32 %r4, %r4, 1664525, 1013904223; sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p, %r1, 0; @%p bra again;
    st.global.u32 [%d1], %r4; ret;
}
.visible .entry dust(.param .u64 data) {
    .reg .b32 %r<3>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [data]; atom.global.add.u32 %r1, [%d1], 1; ret;
}
.visible .entry endless() { again: bra again; }";

const THREADS: u64 = 32;

fn config(threads: usize) -> CpuConfig {
    CpuConfig {
        threads,
        capacity: 256 << 20,
        ..CpuConfig::default()
    }
}

fn launch(function: u32, blocks: u32) -> Op {
    device_conformance::flat_launch(function, blocks, THREADS as u32)
}

/// A session's program, and the address of its data.
struct Tenant {
    program: TestProgram,
    data: u64,
}

impl Tenant {
    /// Opens session `n`, all slices of this priority; its first slice loads the module and fills
    /// `blocks` blocks of data.
    fn open(device: &mut CpuDevice, (n, priority): (u64, u8), blocks: u64) -> Self {
        let (program, load) = TestProgram::opened(device, n, PTX);
        let mut program = program.at(priority);
        let (address, bytes) = (program.window().base, blocks * THREADS * 4);
        let fill = Op::Set {
            address,
            count: blocks * THREADS,
            value: n as u32,
            width: 4,
        };
        let alloc = Op::Alloc { address, bytes };
        let slice = program.slice(&[(load, &[]), (alloc, &[]), (fill, &[])]);
        let prepared = device_conformance::complete(device, slice);
        assert_eq!(prepared.fault, None);
        Self {
            program,
            data: address,
        }
    }

    fn session(&self) -> SessionId {
        self.program.session()
    }

    /// A slice with `mill` for that many rounds, and its result.
    fn mill(&mut self, blocks: u32, rounds: u32) -> Slice {
        let mut params = self.data.to_le_bytes().to_vec();
        params.extend(rounds.to_le_bytes());
        let (address, bytes) = (self.data, u64::from(blocks) * THREADS * 4);
        let out = Op::CopyOut { address, bytes };
        self.program
            .slice(&[(launch(0, blocks), &params), (out, &[])])
    }
}

/// The result of `mill` for words that are all `word`.
fn milled(word: u64, blocks: u32, rounds: u32) -> Vec<u8> {
    let step = |word: u32, _| word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let word = (0..rounds).fold(word as u32, step);
    word.to_le_bytes()
        .repeat(blocks as usize * THREADS as usize)
}

fn read(completion: &Completion) -> Vec<u8> {
    assert_eq!(completion.fault, None);
    completion.results[0].copied().expect("a copy")
}

/// Polls as the worker's device thread does, until nothing is left.
fn drain(device: &mut CpuDevice) -> Vec<Completion> {
    let interrupt = device.interrupt().expect("preemptive");
    let mut completions = Vec::new();
    while device.is_busy() {
        interrupt.lower();
        device.poll(Duration::from_micros(100), &mut completions);
    }
    completions
}

/// Lets a slice begin and be parked.
fn begin(device: &mut CpuDevice) {
    let mut completions = Vec::new();
    device.poll(Duration::from_micros(1), &mut completions);
    assert!(completions.is_empty(), "it has ended already");
}

#[test]
fn three_levels_deep_each_ends_before_what_it_overtook() {
    for threads in [1, 2] {
        let mut device = CpuDevice::new(config(threads));
        let (blocks, rounds) = (16, 20_000);
        let mut tenants: Vec<_> = [(1, 4), (2, 2), (3, 0)]
            .map(|id| Tenant::open(&mut device, id, u64::from(blocks)))
            .into();
        for tenant in &mut tenants {
            device.submit(tenant.mill(blocks, rounds));
            begin(&mut device);
        }
        let completions = drain(&mut device);
        let order: Vec<_> = completions.iter().map(|done| done.session.0).collect();
        assert_eq!(order, [3, 2, 1]);
        for done in &completions {
            assert_eq!(read(done), milled(done.session.0, blocks, rounds));
        }
        // Each began before the one that preempted it, and is charged only its own time.
        let began = |at: usize| completions[at].began.expect("known");
        assert!(began(2) < began(1) && began(1) < began(0));
        let whole = began(2).elapsed().as_nanos() as u64;
        let sum: u64 = completions.iter().map(|done| done.device_ns).sum();
        assert!(sum <= whole, "{sum} of {whole} ns");
    }
}

#[test]
fn many_sessions_end_by_priority() {
    let mut device = CpuDevice::new(config(2));
    let mut tenants: Vec<_> = (1..=60)
        .map(|n| Tenant::open(&mut device, (n, (n * 7 % 5) as u8), 2))
        .collect();
    for tenant in &mut tenants {
        device.submit(tenant.mill(2, 100));
        device.submit(tenant.mill(2, 50));
    }
    let completions = drain(&mut device);
    assert_eq!(completions.len(), 120);
    let priorities: Vec<_> = completions.iter().map(|it| it.session.0 * 7 % 5).collect();
    assert!(priorities.is_sorted(), "{priorities:?}");
    for done in &completions {
        // The second slice continues the result of the first.
        let rounds = if done.position % 1_000 == 2 { 100 } else { 150 };
        assert_eq!(read(done), milled(done.session.0, 2, rounds), "{done:?}");
    }
}

#[test]
fn a_session_closed_while_parked_leaves_nothing() {
    let mut device = CpuDevice::new(config(2));
    let mut low = Tenant::open(&mut device, (1, 4), 16);
    let mut high = Tenant::open(&mut device, (2, 0), 16);
    device.submit(low.mill(16, 50_000_000));
    begin(&mut device);
    device.submit(high.mill(16, 20_000));
    begin(&mut device);
    device.close(low.session());
    let completions = drain(&mut device);
    assert_eq!(completions.len(), 1, "nothing of what was closed");
    assert_eq!(read(&completions[0]), milled(2, 16, 20_000));
    // All memory is free again, except for the other session's.
    let mut next = TestProgram::new(1);
    device
        .open(next.session(), next.window(), None)
        .expect("free");
    let address = next.window().base;
    let bytes = (256 << 20) - completions[0].resident;
    let slice = next.slice(&[(Op::Alloc { address, bytes }, &[])]);
    assert_eq!(device_conformance::complete(&mut device, slice).fault, None);
}

#[test]
fn the_watchdog_counts_a_kernels_own_time() {
    let watchdog = Duration::from_millis(250);
    let mut device = CpuDevice::new(CpuConfig {
        watchdog,
        ..config(1)
    });
    let mut low = Tenant::open(&mut device, (1, 4), 1);
    let mut high = Tenant::open(&mut device, (2, 0), 16);
    device.submit(low.program.slice(&[(launch(2, 1), &[])]));
    begin(&mut device);
    let started = Instant::now();
    let (mut ran, mut rounds) = (0, 0);
    while started.elapsed() < 2 * watchdog {
        // More urgent work is present all the time.
        device.submit(high.mill(16, 1_000));
        let mut completions = Vec::new();
        while completions.is_empty() {
            device.poll(Duration::from_millis(1), &mut completions);
        }
        assert_eq!(completions[0].session, high.session(), "low was parked");
        (ran, rounds) = (ran + 1, rounds + 1_000);
    }
    assert!(ran > 1, "high ran");
    device.submit(high.mill(16, 1));
    let completions = drain(&mut device);
    assert_eq!(read(&completions[0]), milled(2, 16, rounds + 1));
    let fault = completions[1].fault.as_ref().expect("ended");
    assert_eq!(fault.1.code, Code::Watchdog);
}

#[test]
fn what_fails_on_top_of_a_parked_kernel_fails_alone() {
    let mut device = CpuDevice::new(config(2));
    let mut low = Tenant::open(&mut device, (1, 4), 16);
    let mut high = Tenant::open(&mut device, (2, 0), 1);
    let mut stray = Tenant::open(&mut device, (3, 0), 1);
    device.submit(low.mill(16, 20_000));
    begin(&mut device);
    let address = high.data + (1 << 20);
    let bytes = 256 << 20;
    device.submit(high.program.slice(&[(Op::Alloc { address, bytes }, &[])]));
    let params = [&8_u64.to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
    device.submit(stray.program.slice(&[(launch(0, 1), &params)]));
    let completions = drain(&mut device);
    let codes: Vec<_> = completions
        .iter()
        .map(|done| done.fault.as_ref().map(|(_, failure)| failure.code))
        .collect();
    let expected = [Some(Code::OutOfMemory), Some(Code::IllegalAddress), None];
    assert_eq!(codes, expected);
    assert_eq!(read(&completions[2]), milled(1, 16, 20_000));
}

#[test]
fn blocks_without_a_loop_are_parked_between_blocks() {
    for threads in [1, 2] {
        let mut device = CpuDevice::new(config(threads));
        let mut low = Tenant::open(&mut device, (1, 4), 1);
        let (interrupt, blocks) = (device.interrupt().expect("preemptive"), 100_000);
        let params = low.data.to_le_bytes();
        let (address, bytes) = (low.data, 4);
        let ops: [(Op, &[u8]); 2] = [
            (launch(1, blocks), &params),
            (Op::CopyOut { address, bytes }, &[]),
        ];
        device.submit(low.program.slice(&ops));
        let mut completions = Vec::new();
        interrupt.raise();
        for _ in 0..100 {
            // The interrupt is raised before it begins, so it does next to nothing, whatever the
            // budget.
            device.poll(Duration::from_secs(60), &mut completions);
        }
        assert!(completions.is_empty());
        let completions = drain(&mut device);
        let count = 1 + blocks * THREADS as u32;
        assert_eq!(read(&completions[0]), count.to_le_bytes());
    }
}

#[test]
fn large_copies_are_parked_between_pieces() {
    let mut device = CpuDevice::new(config(1));
    let mut tenant = Tenant::open(&mut device, (1, 4), 1);
    let interrupt = device.interrupt().expect("preemptive");
    let (address, bytes) = (tenant.data + (1 << 20), 24 << 20);
    let given: Vec<u8> = (0..bytes as u32 / 4)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    let (ahead, back) = (address + (5 << 20) + 4, address + (2 << 20));
    let count = (3 << 20) + 1;
    let ops = [
        Op::Alloc {
            address,
            bytes: 2 * bytes,
        },
        Op::CopyIn {
            address,
            bytes,
            transfer: 9,
        },
        Op::Copy {
            to: ahead,
            from: address,
            bytes,
        },
        Op::Copy {
            to: back,
            from: ahead,
            bytes,
        },
        Op::Set {
            address,
            count,
            value: 0xabcd,
            width: 2,
        },
        Op::CopyOut {
            address,
            bytes: 2 * bytes,
        },
        Op::Free { address },
    ];
    let ops: Vec<(Op, &[u8])> = ops.into_iter().map(|op| (op, &[][..])).collect();
    let mut slice = tenant.program.slice(&ops);
    slice
        .transfers
        .push((9, Arc::new(CopyBytes::from(&given[..]))));
    device.submit(slice);
    // Whatever is copied, another session always wants to run.
    let (mut completions, mut polls) = (Vec::new(), 0);
    interrupt.raise();
    while device.is_busy() {
        device.poll(Duration::from_secs(60), &mut completions);
        polls += 1;
    }
    assert!(polls > 100, "{polls} polls");
    let mut memory = vec![0; 2 * bytes as usize];
    let at = |there: u64| (there - address) as usize;
    let all = bytes as usize;
    memory[..all].copy_from_slice(&given);
    memory.copy_within(..all, at(ahead));
    memory.copy_within(at(ahead)..at(ahead) + all, at(back));
    for pair in memory[..2 * count as usize].chunks_exact_mut(2) {
        pair.copy_from_slice(&0xabcd_u16.to_le_bytes());
    }
    assert!(read(&completions[0]) == memory, "the same bytes");
    assert_eq!(completions[0].resident, THREADS * 4);
}
