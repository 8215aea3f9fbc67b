//! A run of two sessions that makes every call of the driver which the device knows, and checks all bytes.

use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{
    Failure, Launch, LaunchAttributes, ModuleHash, Op, SessionId, TensorMap, TensorPart,
};
use device::{Completion, Device, Moved};
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use device_swap::{SwapConfig, SwapSpace};
use fake_cuda::FakeCuda;

use crate::setup::{
    CAPACITY, KERNELS, NOTHING, OpBytes, SPIN, alloc, bare, copy_in, copy_out, finish, free,
    increment, launch, set, submit, try_open,
};

/// A variable in the module of slot 1.
const VARIABLE: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .global .align 8 .u64 counter = 5;\n\
    .visible .entry touched()\n{\n\tret;\n}\n";
/// Machine code, for which the driver is asked about parameters.
const MACHINE_CODE: &[u8] = include_bytes!("../../../../ptx/tests/cubins/wide-sm_90.cubin");

/// Bytes of each session's memory, and of the part that is written and read.
const BYTES: u64 = 3 << 19;
const READ: usize = 4_096;
/// Polls of a move, each with a pause; then it has hung.
const MOVES: u32 = 20_000;

/// The failures of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) opened: bool,
    /// Of the device itself: it was not opened, or a module not prepared.
    pub(crate) device: Option<Failure>,
    /// Of sessions, each with its first.
    pub(crate) sessions: [Option<Failure>; 2],
    /// Of imports and moves, after which the session goes on.
    pub(crate) steps: Vec<Failure>,
    pub(crate) lost: Option<Failure>,
}

impl Outcome {
    /// True if anything failed.
    pub(crate) fn tells(&self) -> bool {
        let sessions = self.sessions.iter().any(Option::is_some);
        self.device.is_some() || sessions || !self.steps.is_empty()
    }
}

/// A session of the run, and the bytes that it has.
struct Tenant {
    program: TestProgram,
    bytes: Vec<u8>,
    fault: Option<Failure>,
}

/// The run.
struct Script {
    device: CudaDevice,
    tenants: [Tenant; 2],
    steps: Vec<Failure>,
}

/// Runs the script on a fresh driver, with one of its calls planned to fail or none.
pub(crate) fn run(fake: &Arc<FakeCuda>) -> Outcome {
    let space = SwapConfig {
        memory: 8 << 20,
        file: None,
    };
    let space = SwapSpace::new(&space).expect("the host has it");
    let mut device = match try_open(fake, CAPACITY) {
        Ok(device) => device.swapping(space),
        Err(failure) => {
            return Outcome {
                device: Some(failure),
                ..Outcome::default()
            };
        }
    };
    for image in [KERNELS.as_bytes(), VARIABLE.as_bytes(), MACHINE_CODE] {
        if let Err(failure) = device.prepare(ModuleHash::of(image), image) {
            return Outcome {
                opened: true,
                device: Some(failure),
                lost: device.lost(),
                ..Outcome::default()
            };
        }
    }
    let tenants = [1, 2].map(|n| Tenant {
        program: TestProgram::new(n),
        bytes: vec![0; READ],
        fault: None,
    });
    let steps = Vec::new();
    let mut script = Script {
        device,
        tenants,
        steps,
    };
    script.runs();
    Outcome {
        opened: true,
        device: None,
        lost: script.device.lost(),
        sessions: script.tenants.map(|it| it.fault),
        steps: script.steps,
    }
}

/// A launch of the empty kernel with attributes, and with dynamic shared memory.
fn unusual() -> [OpBytes; 2] {
    let plain = Launch {
        module: 0,
        function: NOTHING,
        grid: [2, 1, 1],
        block: [32, 1, 1],
        shared: 0,
        attributes: LaunchAttributes::default(),
    };
    let cluster = LaunchAttributes {
        cluster: [2, 1, 1],
        non_portable: true,
        ..LaunchAttributes::default()
    };
    let clustered = Launch {
        attributes: cluster,
        ..plain
    };
    let shared = Launch {
        shared: 4_096,
        ..plain
    };
    [clustered, shared].map(|launch| bare(Op::Launch(launch)))
}

/// Tensor maps of both kinds, at addresses behind what is read.
fn tensor_maps(base: u64) -> [OpBytes; 2] {
    let tiled = TensorMap {
        data_type: 7,
        rank: 3,
        interleave: 0,
        swizzle: 0,
        l2_promotion: 0,
        fill: 0,
        address: base,
        dims: [64, 4, 4, 1, 1],
        strides: [256, 1_024, 0, 0],
        steps: [1; 5],
        part: TensorPart::Tiled([16, 2, 2, 1, 1]),
    };
    let columns = TensorMap {
        part: TensorPart::Im2col {
            lower: [0; 3],
            upper: [0; 3],
            channels: 16,
            pixels: 2,
        },
        ..tiled
    };
    let at = |n: u64, map: TensorMap| {
        let address = base + (1 << 20) + 128 * n;
        (Op::TensorMap { address }, map.write().to_vec())
    };
    [at(0, tiled), at(1, columns)]
}

impl Script {
    fn runs(&mut self) {
        for tenant in &mut self.tenants {
            let (session, window) = (tenant.program.session(), tenant.program.window());
            tenant.fault = self.device.open(session, window, None).err();
        }
        self.both(Tenant::begins);
        self.tenants.iter_mut().for_each(|it| it.urgent());
        self.both(Tenant::does_the_rest);
        self.exchanges();
        self.both(Tenant::frees);
        self.moves();
        self.both(Tenant::reads);
        for tenant in &self.tenants {
            self.device.close(tenant.program.session());
        }
        assert!(!self.device.is_busy());
    }

    /// Submits a slice of each session, and then waits for both.
    fn both(&mut self, ops: fn(&mut Tenant) -> Vec<OpBytes>) {
        for tenant in &mut self.tenants {
            if tenant.fault.is_none() {
                let ops = ops(tenant);
                submit(&mut self.device, &mut tenant.program, &ops);
            }
        }
        for done in finish(&mut self.device) {
            self.note(&done);
        }
    }

    /// Compares the bytes of a completion, or takes down its fault.
    fn note(&mut self, done: &Completion) {
        let mut tenants = self.tenants.iter_mut();
        let tenant = tenants.find(|it| it.program.session() == done.session);
        let tenant = tenant.expect("a session of the run");
        if let Some((_, failure)) = &done.fault {
            tenant.fault.get_or_insert(failure.clone());
            return;
        }
        let copied = done.results.iter().filter_map(|it| it.copied());
        let read = copied.filter(|bytes| bytes.len() == READ);
        for bytes in read {
            assert!(
                bytes == tenant.bytes,
                "{:?} reads other bytes",
                done.session
            );
        }
    }

    fn session(&self, index: usize) -> (SessionId, u64) {
        let program = &self.tenants[index].program;
        (program.session(), program.window().base)
    }

    /// The second session uses the first one's memory.
    fn exchanges(&mut self) {
        if self.tenants.iter().any(|it| it.fault.is_some()) {
            return;
        }
        let ((owner, base), (other, second)) = (self.session(0), self.session(1));
        let mine = second + (1 << 30);
        let exchange = self.device.exports().expect("it has that");
        let exported = exchange.export(owner, base, 7);
        let imported = exported.and_then(|_| exchange.import(other, mine, 7));
        if let Err(failure) = imported {
            self.steps.push(failure);
            return;
        }
        let seen = self.tenants[0].bytes.clone();
        let own = std::mem::replace(&mut self.tenants[1].bytes, seen);
        let read = [copy_out(mine, READ as u64)];
        submit(&mut self.device, &mut self.tenants[1].program, &read);
        for done in finish(&mut self.device) {
            self.note(&done);
        }
        self.tenants[1].bytes = own;
        let exchange = self.device.exports().expect("it has that");
        self.steps.extend(exchange.drop_import(other, mine).err());
    }

    /// The second session leaves the device and comes back.
    fn moves(&mut self) {
        let session = self.tenants[1].program.session();
        if self.tenants[1].fault.is_some() {
            return;
        }
        self.device.swap_out(session);
        let out = self.moved();
        let failed = out.failure.is_some();
        self.steps.extend(out.failure);
        if !failed {
            self.device.swap_in(session);
            let back = self.moved();
            if let Some(failure) = back.failure {
                self.steps.push(failure);
                // A failure comes once; a context that has ended stays so.
                self.device.swap_in(session);
                let again = self.moved();
                self.steps.extend(again.failure);
            }
        }
    }

    fn moved(&mut self) -> Moved {
        let mut ended = Vec::new();
        for _ in 0..MOVES {
            self.device.moved(&mut ended);
            if let Some(moved) = ended.pop() {
                return moved;
            }
            // The mover is another thread, in real time.
            std::thread::sleep(Duration::from_micros(50));
        }
        panic!("a move hangs");
    }
}

impl Tenant {
    fn base(&self) -> u64 {
        self.program.window().base
    }

    /// Later slices are more urgent.
    fn urgent(&mut self) {
        let program = std::mem::replace(&mut self.program, TestProgram::new(0));
        self.program = program.at(1);
    }

    fn begins(&mut self) -> Vec<OpBytes> {
        let base = self.base();
        let words: Vec<u8> = (0..500_u32).flat_map(u32::to_le_bytes).collect();
        let plus = (1..=500_u32).flat_map(u32::to_le_bytes);
        self.bytes.splice(..2_000, plus);
        self.bytes[2_000..2_100].fill(3);
        self.bytes.copy_within(..64, 3_000);
        vec![
            load(0, KERNELS.as_bytes()),
            load(1, VARIABLE.as_bytes()),
            alloc(base, BYTES),
            copy_in(base, &words),
            launch(NOTHING),
            increment(base, 500),
            launch(NOTHING),
            set(base + 2_000, 100, 3),
            bare(Op::Copy {
                to: base + 3_000,
                from: base,
                bytes: 64,
            }),
            copy_out(base, READ as u64),
        ]
    }

    fn does_the_rest(&mut self) -> Vec<OpBytes> {
        let base = self.base();
        let wide = |at: u64, width: u8| {
            bare(Op::Set {
                address: base + at,
                count: 8,
                value: 0x0506_0708,
                width,
            })
        };
        for (at, pattern) in [(3_200, &[8, 7][..]), (3_400, &[8, 7, 6, 5][..])] {
            let filled = pattern.repeat(8);
            self.bytes.splice(at..at + filled.len(), filled);
        }
        let event = Op::Event {
            event: 1,
            timed: true,
        };
        let mut ops = vec![bare(Op::Symbols { slot: 1 }), bare(event)];
        ops.extend(unusual());
        ops.extend(tensor_maps(base));
        ops.extend([wide(3_200, 2), wide(3_400, 4), bare(Op::Sync)]);
        ops.push(copy_out(base, READ as u64));
        ops
    }

    fn frees(&mut self) -> Vec<OpBytes> {
        let apart = self.base() + (64 << 20);
        vec![
            alloc(apart, BYTES),
            launch(SPIN),
            free(apart),
            bare(Op::UnloadModule { slot: 1 }),
            alloc(apart, 2 * BYTES),
            copy_out(self.base(), READ as u64),
        ]
    }

    fn reads(&mut self) -> Vec<OpBytes> {
        vec![launch(NOTHING), copy_out(self.base(), READ as u64)]
    }
}

fn load(slot: u32, image: &[u8]) -> OpBytes {
    let hash = ModuleHash::of(image);
    bare(Op::LoadModule { slot, hash })
}
