//! The calls by which the device's thread waits, or lasts longer than a small kernel, while another session
//! has work: for each thing that a session does.
//!
//! The lists are those of today, and may only become shorter: a call that keeps the thread no more leaves
//! its list.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{ModuleHash, Op};
use device::{CopyBytes, Device};
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use device_swap::{SwapConfig, SwapSpace};
use fake_cuda::{Call, FakeCuda};

use crate::setup::{
    BUDGET, CAPACITY, HELD, KERNELS, NOTHING, OpBytes, alloc, bare, compile, copy_in, copy_out,
    enter, free, launch, open, opened, run, submit,
};

/// Nanoseconds that a call may last.
const SHORT: u64 = 20_000;
/// Time that the device's thread looks at what was done, in polls of [`BUDGET`].
const POLLS: usize = 40;
/// Polls of a move, each with a pause in real time; then it has hung.
const MOVES: usize = 20_000;
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 24 << 20;
/// More bytes than the device keeps pinned memory for.
const HUGE: u64 = 80 << 20;

/// Text of a module with one kernel.
const OTHER: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
    .visible .entry other()\n{\n\tret;\n}\n";

/// Machine code with one kernel.
const MACHINE_CODE: &[u8] = include_bytes!("../../../../ptx/tests/cubins/wide-sm_90.cubin");

/// A way in which a call keeps the device's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    /// It waits for the other session's work.
    Waits,
    /// It lasts longer than [`SHORT`].
    Lasts,
}
use Kept::{Lasts, Waits};

/// Something that a session does.
struct Deed {
    name: &'static str,
    /// Slices of the session that are over when it begins.
    before: fn(&TestProgram) -> Vec<Vec<OpBytes>>,
    does: fn(&mut Bench),
    /// The calls that keep the thread today.
    known: &'static [(&'static str, Kept)],
}

/// Two sessions: one does something, the other has a kernel that lasts a second.
struct Bench {
    fake: Arc<FakeCuda>,
    device: CudaDevice,
    program: TestProgram,
    other: TestProgram,
}

fn memory(program: &TestProgram) -> Vec<Vec<OpBytes>> {
    let base = program.window().base;
    vec![vec![alloc(base, LARGE), launch(NOTHING)]]
}

fn huge_memory(program: &TestProgram) -> Vec<Vec<OpBytes>> {
    vec![vec![alloc(program.window().base, HUGE)]]
}

const DEEDS: [Deed; 21] = [
    Deed {
        name: "open",
        before: |_| Vec::new(),
        does: |bench| {
            let third = TestProgram::new(3);
            let opened = bench.device.open(third.session(), third.window(), None);
            opened.expect("a free window");
        },
        known: &[],
    },
    Deed {
        name: "compile",
        before: |_| Vec::new(),
        does: |bench| bench.compiles(OTHER.as_bytes()),
        known: &[],
    },
    Deed {
        name: "prepare machine code",
        before: |_| Vec::new(),
        does: |bench| bench.compiles(MACHINE_CODE),
        known: &[],
    },
    Deed {
        name: "load",
        before: |_| Vec::new(),
        does: |bench| {
            let hash = ModuleHash::of(KERNELS.as_bytes());
            bench.slice(&[bare(Op::LoadModule { slot: 1, hash })]);
        },
        known: &[],
    },
    Deed {
        name: "unload",
        before: |_| Vec::new(),
        does: |bench| bench.slice(&[bare(Op::UnloadModule { slot: 0 })]),
        known: &[],
    },
    Deed {
        name: "allocate",
        before: |_| Vec::new(),
        does: |bench| bench.slice(&[alloc(bench.base(), LARGE)]),
        known: &[("cuMemSetAccess", Lasts)],
    },
    Deed {
        name: "free",
        before: memory,
        does: |bench| bench.slice(&[free(bench.base())]),
        known: &[],
    },
    Deed {
        name: "allocate again",
        before: memory,
        does: |bench| bench.slice(&[free(bench.base()), alloc(bench.base(), LARGE)]),
        known: &[],
    },
    Deed {
        name: "close",
        before: memory,
        does: |bench| bench.device.close(bench.program.session()),
        known: &[],
    },
    Deed {
        name: "close behind its own work",
        before: memory,
        does: |bench| {
            submit(&mut bench.device, &mut bench.program, &[launch(HELD)]);
            bench.device.close(bench.program.session());
        },
        known: &[],
    },
    Deed {
        name: "copy in, small",
        before: memory,
        does: |bench| bench.slice(&[copy_in(bench.base(), &[1; SMALL as usize])]),
        known: &[],
    },
    Deed {
        name: "copy in, large",
        before: memory,
        does: |bench| bench.copies_in(LARGE),
        known: &[("cuMemHostAlloc", Lasts)],
    },
    Deed {
        name: "copy out, small",
        before: memory,
        does: |bench| bench.slice(&[copy_out(bench.base(), SMALL)]),
        known: &[],
    },
    Deed {
        name: "copy out, large",
        before: memory,
        does: |bench| bench.slice(&[copy_out(bench.base(), LARGE)]),
        known: &[("cuMemHostAlloc", Lasts)],
    },
    Deed {
        name: "copy in, huge",
        before: huge_memory,
        does: |bench| bench.copies_in(HUGE),
        known: &[("cuMemHostAlloc", Lasts), ("cuMemcpyHtoDAsync_v2", Lasts)],
    },
    Deed {
        name: "copy out, huge",
        before: huge_memory,
        does: |bench| bench.slice(&[copy_out(bench.base(), HUGE)]),
        known: &[("cuMemHostAlloc", Lasts), ("cuMemFreeHost", Waits)],
    },
    Deed {
        name: "change priority",
        before: memory,
        does: |bench| {
            bench.urgent();
            bench.slice(&[launch(NOTHING)]);
        },
        known: &[],
    },
    Deed {
        name: "swap out",
        before: memory,
        does: |bench| bench.moves(true),
        known: &[],
    },
    Deed {
        name: "swap out and in",
        before: memory,
        does: |bench| {
            bench.moves(true);
            bench.moves(false);
        },
        known: &[],
    },
    Deed {
        name: "drop an import",
        before: memory,
        does: Bench::exchanges,
        known: &[("cuMemSetAccess", Lasts)],
    },
    Deed {
        name: "free what the other uses",
        before: memory,
        does: |bench| {
            let (base, other) = (bench.base(), bench.other.session());
            let at = bench.other.window().base + (1 << 30);
            let exchange = bench.device.exports().expect("it has that");
            let exported = exchange.export(bench.program.session(), base, 4);
            exported
                .and_then(|_| exchange.import(other, at, 4))
                .expect("room");
            bench.slice(&[free(base)]);
        },
        known: &[("cuMemSetAccess", Lasts), ("cuStreamSynchronize", Waits)],
    },
];

impl Bench {
    fn new(fake: &Arc<FakeCuda>, deed: &Deed) -> Self {
        let space = SwapConfig {
            memory: 32 << 20,
            file: None,
        };
        let space = SwapSpace::new(&space).expect("the host has it");
        let mut device = open(fake, CAPACITY).swapping(space);
        let mut program = opened(&mut device, 1);
        for slice in (deed.before)(&program) {
            run(&mut device, &mut program, &slice);
        }
        let mut other = opened(&mut device, 2);
        submit(&mut device, &mut other, &[launch(HELD)]);
        let mut bench = Self {
            fake: Arc::clone(fake),
            device,
            program,
            other,
        };
        bench.looks();
        bench
    }

    fn base(&self) -> u64 {
        self.program.window().base
    }

    /// Polls for some time.
    fn looks(&mut self) {
        let mut done = Vec::new();
        for _ in 0..POLLS {
            self.device.poll(BUDGET, &mut done);
        }
        assert!(done.iter().all(|it| it.fault.is_none()), "{done:?}");
    }

    fn slice(&mut self, ops: &[OpBytes]) {
        submit(&mut self.device, &mut self.program, ops);
        self.looks();
    }

    /// Copies bytes that were sent before.
    fn copies_in(&mut self, bytes: u64) {
        let copy = Op::CopyIn {
            address: self.base(),
            bytes,
            transfer: 1,
        };
        let mut slice = self.program.slice(&[(copy, &[])]);
        let staged = CopyBytes::from(&vec![1; bytes as usize][..]);
        slice.transfers.push((1, Arc::new(staged)));
        self.device.submit(slice);
        self.looks();
    }

    /// Prepares an image on another thread, as a worker does.
    fn compiles(&mut self, image: &'static [u8]) {
        compile(&self.device, image).expect("an image");
        self.looks();
    }

    /// Later slices are more urgent.
    fn urgent(&mut self) {
        let program = std::mem::replace(&mut self.program, TestProgram::new(0));
        self.program = program.at(1);
    }

    /// Moves the session off the device or back; another thread does that.
    fn moves(&mut self, out: bool) {
        let session = self.program.session();
        match out {
            true => self.device.swap_out(session),
            false => self.device.swap_in(session),
        }
        let mut ended = Vec::new();
        for _ in 0..MOVES {
            self.device.moved(&mut ended);
            if let Some(moved) = ended.pop() {
                assert_eq!(moved.failure, None);
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        panic!("a move hangs");
    }

    /// Imports its own memory a second time, and drops that.
    fn exchanges(&mut self) {
        let (session, base) = (self.program.session(), self.base());
        let second = base + (1 << 30);
        let exchange = self.device.exports().expect("it has that");
        exchange.export(session, base, 3).expect("its own");
        exchange.import(session, second, 3).expect("room");
        exchange.drop_import(session, second).expect("it is there");
    }

    /// Does something; returns the calls of this thread that kept it while the other session had work.
    fn kept_by(mut self, deed: &Deed) -> BTreeSet<(String, Kept)> {
        self.fake.log();
        (deed.does)(&mut self);
        let calls = self.fake.logged();
        let kept = |call: &Call| match call {
            _ if call.others == 0 => None,
            Call { waited: 1.., .. } => Some((call.function.clone(), Waits)),
            Call { took, .. } if *took > SHORT => Some((call.function.clone(), Lasts)),
            _ => None,
        };
        let kept: BTreeSet<_> = calls.iter().filter_map(kept).collect();
        for (function, how) in &kept {
            let times = calls.iter().filter(|it| it.function == *function);
            let (count, longest) = (times.clone().count(), times.map(|it| it.took).max());
            let us = longest.unwrap_or(0) / 1_000;
            println!(
                "{:26} {how:?} {function:22} {count} calls, up to {us} us",
                deed.name
            );
        }
        kept
    }
}

#[test]
fn few_calls_keep_the_thread_while_another_session_has_work() {
    let Some(fake) = enter(
        module_path!(),
        "few_calls_keep_the_thread_while_another_session_has_work",
    ) else {
        return;
    };
    let mut changed = Vec::new();
    for deed in DEEDS {
        let kept = Bench::new(&fake, &deed).kept_by(&deed);
        let known = deed.known.iter();
        let known: BTreeSet<_> = known
            .map(|(name, how)| ((*name).to_owned(), *how))
            .collect();
        if kept != known {
            changed.push((deed.name, kept));
        }
        fake.reset();
    }
    assert!(changed.is_empty(), "other than known: {changed:#?}");
}
