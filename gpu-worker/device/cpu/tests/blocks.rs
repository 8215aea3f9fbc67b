//! Blocks that take much memory, or much time to start: their memory limits, their turns, and the
//! time until they end.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bus_schemas::{Code, Failure, ModuleHash, Op, OpNumber};
use device::{Completion, Device, Slice};
use device_conformance::{TestProgram as Client, flat_launch};
use device_cpu::{
    CpuConfig, CpuDevice, Engine, EngineConfig, Grid, Instance, LaunchError, Memory, Program,
    Progress,
};

/// `dirty` adds up the contents of its threads' local memory and leaves data there. `deep` calls
/// sixteen functions with half a mebibyte of local memory each; `endless` jumps back.
fn ptx(local: u32) -> String {
    let callee = |n: u32| {
        let call = match n {
            15 => String::new(),
            _ => format!("call f{}, ();", n + 1),
        };
        format!(
            ".func f{n}() {{ .local .align 8 .b8 d[524288]; .reg .b32 %r<2>; mov.u32 %r1, 1; \
             st.local.u32 [d], %r1; {call} ret; }}\n"
        )
    };
    let declared: String = (0..16).map(|n| format!(".func f{n}();\n")).collect();
    let callees: String = (0..16).map(callee).collect();
    format!(
        ".version 7.0\n.target sm_75\n.address_size 64\n{declared}{callees}
.visible .entry dirty(.param .u64 sum) {{
    .local .align 8 .b8 depot[{local}]; .reg .b32 %r<6>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [sum];
    ld.local.u32 %r1, [depot]; ld.local.u32 %r2, [depot+{last}]; or.b32 %r1, %r1, %r2;
    mov.u32 %r3, %tid.x; add.u32 %r3, %r3, 1;
    st.local.u32 [depot], %r3; st.local.u32 [depot+{last}], %r3;
    red.global.add.u32 [%d1], %r1; red.global.add.u32 [%d1+4], 1; ret;
}}
.visible .entry deep() {{ call f0, (); ret; }}
.visible .entry endless() {{ again: bra again; }}",
        last = local - 4
    )
}

struct Tenant {
    client: Client,
    sum: u64,
}

impl Tenant {
    fn open(device: &mut CpuDevice, n: u64, ptx: &str) -> Self {
        let (mut client, load) = Client::opened(device, n, ptx);
        let address = client.window().base;
        let alloc = Op::Alloc { address, bytes: 8 };
        let slice = client.slice(&[(load, &[]), (alloc, &[])]);
        assert_eq!(device_conformance::complete(device, slice).fault, None);
        Self {
            client,
            sum: address,
        }
    }

    fn dirty(&mut self, blocks: u32, threads: u32) -> Slice {
        let params = self.sum.to_le_bytes();
        let (address, bytes) = (self.sum, 8);
        let out = Op::CopyOut { address, bytes };
        self.client
            .slice(&[(flat_launch(0, blocks, threads), &params), (out, &[])])
    }
}

fn device(threads: usize) -> CpuDevice {
    CpuDevice::new(CpuConfig {
        threads,
        capacity: 1 << 30,
        ..CpuConfig::default()
    })
}

fn poll(device: &mut CpuDevice) -> Vec<Completion> {
    let mut completions = Vec::new();
    device.interrupt().expect("preemptive").lower();
    device.poll(Duration::from_micros(100), &mut completions);
    completions
}

fn fault(completion: &Completion) -> Option<(OpNumber, Code)> {
    let fault = completion.fault.as_ref();
    fault.map(|(op, failure)| (*op, failure.code))
}

#[test]
fn equals_take_turns_where_blocks_start_and_while_memory_is_cleared() {
    // Few instructions, and 16 MiB to clear for each of a million blocks: that takes very long.
    for threads in [1, 2] {
        let mut device = device(threads);
        let mut bomb = Tenant::open(&mut device, 1, &ptx(16 << 10));
        let mut other = Tenant::open(&mut device, 2, &ptx(64));
        device.submit(bomb.dirty(1 << 20, 1_024));
        for turn in 0..64 {
            device.submit(other.dirty(1, 32));
            let done = loop {
                if let Some(done) = poll(&mut device).pop() {
                    break done;
                }
            };
            assert_eq!(done.session, other.client.session(), "turn {turn}");
            assert_eq!(done.fault, None);
        }
        let why = Failure::new(Code::SessionGone, "closed");
        device.stop(bomb.client.session(), why);
        let ended = loop {
            if let Some(done) = poll(&mut device).pop() {
                break done.session;
            }
        };
        assert_eq!(ended, bomb.client.session());
    }
}

#[test]
fn a_stopped_session_ends_at_its_next_jump_or_block_whoever_else_is_urgent() {
    let mut device = device(1);
    let mut urgent = Tenant::open(&mut device, 3, &ptx(64));
    urgent.client = urgent.client.at(0);
    for endless in [true, false] {
        let mut bomb = Tenant::open(&mut device, 1, &ptx(16 << 10));
        let slice = match endless {
            true => bomb.client.slice(&[(flat_launch(2, 1, 32), &[])]),
            false => bomb.dirty(1 << 20, 1_024),
        };
        let first = slice.first;
        device.submit(slice);
        let second = bomb.dirty(1, 1);
        let firsts = [first, second.first];
        device.submit(second);
        assert_eq!(poll(&mut device).len(), 0);
        let session = bomb.client.session();
        device.submit(urgent.client.slice(&[(flat_launch(2, 1, 32), &[])]));
        device.stop(session, Failure::new(Code::SessionGone, "closed"));
        let mut ended = Vec::new();
        while ended.len() < 2 {
            ended.extend(poll(&mut device));
        }
        let faults: Vec<_> = ended.iter().map(fault).collect();
        let gone = |op| Some((op, Code::SessionGone));
        assert_eq!(faults, firsts.map(gone));
        assert!(ended.iter().all(|it| it.session == session));
        device.close(session);
        device.close(urgent.client.session());
        urgent = Tenant::open(&mut device, 3, &ptx(64));
        urgent.client = urgent.client.at(0);
    }
}

#[test]
fn a_launch_takes_no_more_than_it_may() {
    let mut device = device(4);
    let ptx = ptx(16 << 10);
    let hash = ModuleHash::of(ptx.as_bytes());
    let info = device.prepare(hash, ptx.as_bytes()).expect("builds");
    let Op::Launch(shape) = flat_launch(0, 64, 1_024) else {
        unreachable!()
    };
    let block = info.functions[0].block.of(&shape);
    assert!(block >= 16 << 20, "{block}");
    for (room, fits) in [(block - 1, false), (block, true), (3 * block, true)] {
        let mut tenant = Tenant::open(&mut device, 1, &ptx);
        let mut slice = tenant.dirty(64, 1_024);
        slice.launch_bytes = vec![(slice.first, room)];
        let first = slice.first;
        let done = device_conformance::complete(&mut device, slice);
        if fits {
            assert_eq!(done.fault, None);
            let sums = [0_u32.to_le_bytes(), (64 * 1_024_u32).to_le_bytes()].concat();
            assert_eq!(done.results[0].copied(), Some(sums));
        } else {
            assert_eq!(fault(&done), Some((first, Code::OutOfMemory)));
        }
        device.close(tenant.client.session());
    }
    // A slice without granted bytes has only a small limit.
    let mut tenant = Tenant::open(&mut device, 1, &ptx);
    let mut slice = tenant.dirty(1, 1_024);
    slice.launch_bytes.clear();
    let first = slice.first;
    let done = device_conformance::complete(&mut device, slice);
    assert_eq!(fault(&done), Some((first, Code::OutOfMemory)));
}

#[test]
fn a_chain_of_calls_with_gibibytes_of_local_memory_is_refused_and_not_allocated() {
    let program = Program::build(&ptx(64)).expect("builds");
    let (warp, fixed) = program.block_bytes(1);
    assert!(warp + fixed >= 32 * 16 * (512 << 10));
    let mut memory = Memory::new(1 << 32, 64 << 20, 64 << 20).expect("a window");
    let instance = Instance::new(&program, &mut memory).expect("fits");
    let engine = Engine::new(EngineConfig::default());
    let grid = Grid::flat(1, 1_024);
    let refused = engine.start_within(&instance, 1, grid, &[], 1 << 30);
    assert!(
        matches!(refused, Err(LaunchError::BlockMemory { room, .. }) if room == 1 << 30),
        "{refused:?}"
    );
}

#[test]
fn local_memory_is_zero_for_every_block_however_often_clearing_is_interrupted() {
    for local in [64, 4 << 10, 64 << 10] {
        let program = Program::build(&ptx(local)).expect("builds");
        let mut memory = Memory::new(1 << 32, 64 << 20, 64 << 20).expect("a window");
        memory.alloc(1 << 32, 8).expect("fits");
        let instance = Instance::new(&program, &mut memory).expect("fits");
        let engine = Engine::new(EngineConfig::default());
        let grid = Grid::flat(9, 96);
        let params = (1_u64 << 32).to_le_bytes();
        let mut running = engine.start(&instance, 0, grid, &params).expect("starts");
        let never = AtomicBool::new(false);
        let mut steps = 0;
        loop {
            steps += 1;
            let now = Some(Instant::now());
            match running.step_unless(&mut memory, u64::MAX, &never, &never, now) {
                Ok(Progress::Done(_)) => break,
                Ok(Progress::Running) => {}
                Err(fault) => panic!("{fault}"),
            }
        }
        assert!(local < 65_536 || steps >= 9, "{steps} steps");
        let mut sums = [0; 8];
        memory.read(1 << 32, &mut sums).expect("allocated");
        let words = [&sums[..4], &sums[4..]].map(|it| u32::from_le_bytes(it.try_into().unwrap()));
        assert_eq!(words, [0, 9 * 96], "{local} bytes");
    }
}
