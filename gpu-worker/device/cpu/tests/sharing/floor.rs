//! A device with programs that copy, write, leave it and return.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{ModuleHash, Op, SessionId};
use device::{CopyBytes, Device, Moved, Recharged, SharingDomain, Slice};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};
use device_swap::{SwapConfig, SwapFile, SwapSpace};

pub(crate) const MIB: u64 = 1 << 20;

/// A device with programs, and the last reported charge of each.
pub(crate) struct Floor {
    device: CpuDevice,
    programs: BTreeMap<u64, TestProgram>,
    charges: BTreeMap<SessionId, u64>,
    /// Bytes that each holds besides its charge.
    saves: BTreeMap<SessionId, u64>,
    /// Sessions that are being moved, and those that are out.
    moving: BTreeSet<SessionId>,
    out: BTreeSet<SessionId>,
}

/// Adds 1 to each of the words from an address on, 32 for each block.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n
.visible .entry increment(.param .u64 data) {
    .reg .b32 %r<5>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [data];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r1, 32, %r2;
    mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
    ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, 1; st.global.u32 [%d1], %r3;
    ret;
}";

/// A swap space in memory and in a file.
fn space() -> Option<SwapSpace> {
    let file = Some(SwapFile {
        dir: std::env::temp_dir(),
        bytes: 24 * MIB,
    });
    let memory = 8 * MIB;
    SwapSpace::new(&SwapConfig { memory, file }).expect("the host has it")
}

impl Floor {
    pub(crate) fn new(domains: &[Option<SharingDomain>]) -> Self {
        let config = CpuConfig {
            threads: 1,
            capacity: 1 << 30,
            ..CpuConfig::default()
        };
        let mut floor = Self {
            device: CpuDevice::new(config).swapping(space()),
            programs: BTreeMap::new(),
            charges: BTreeMap::new(),
            saves: BTreeMap::new(),
            moving: BTreeSet::new(),
            out: BTreeSet::new(),
        };
        for (n, domain) in (1..).zip(domains) {
            floor.open(n, *domain);
        }
        floor
    }

    pub(crate) fn open(&mut self, n: u64, domain: Option<SharingDomain>) {
        let program = TestProgram::new(n);
        let opened = self
            .device
            .open(program.session(), program.window(), domain);
        opened.expect("a free window");
        self.programs.insert(n, program);
    }

    pub(crate) fn close(&mut self, n: u64) {
        let program = self.programs.remove(&n).expect("open");
        self.device.close(program.session());
        self.charges.remove(&program.session());
        self.saves.remove(&program.session());
        self.moving.remove(&program.session());
        self.out.remove(&program.session());
        self.receive();
    }

    fn receive(&mut self) {
        let mut changed = Vec::new();
        self.device.recharged(&mut changed);
        for Recharged {
            session,
            charged,
            saved,
        } in changed
        {
            assert!(self.charges.contains_key(&session), "{session} is closed");
            self.charges.insert(session, charged);
            self.saves.insert(session, saved);
        }
        if self.moving.is_empty() {
            let saved: u64 = self.saves.values().sum();
            assert_eq!(saved, self.device.saved(), "{:?}", self.saves);
        }
    }

    /// Runs ops of a program with addresses relative to its window's start. Copies to the device
    /// bring `payload`, ahead of the op unless it is small.
    ///
    /// A program that is away is brought back first.
    pub(crate) fn run(&mut self, n: u64, mut op: Op, payload: &[u8]) -> Vec<u8> {
        self.bring(n);
        let program = self.programs.get_mut(&n).expect("open");
        let base = program.window().base;
        let staged = payload.len() as u64 > 4_096;
        match &mut op {
            Op::Alloc { address, .. } | Op::Free { address } | Op::Set { address, .. } => {
                *address += base;
            }
            Op::CopyIn {
                address, transfer, ..
            } => {
                *address += base;
                *transfer = u64::from(staged);
            }
            Op::CopyOut { address, .. } => *address += base,
            Op::Copy { to, from, .. } | Op::Move { to, from, .. } | Op::Map { to, from, .. } => {
                *to += base;
                *from += base;
            }
            _ => panic!("no such op here"),
        }
        let mut slice = program.slice(&[(op, if staged { &[] } else { payload })]);
        if staged {
            slice
                .transfers
                .push((1, Arc::new(CopyBytes::from(payload))));
        }
        self.finish(slice)
    }

    fn finish(&mut self, slice: Slice) -> Vec<u8> {
        let done = complete(&mut self.device, slice);
        assert_eq!(done.fault, None);
        self.charges.insert(done.session, done.resident);
        self.receive();
        let result = done.results.first();
        result.and_then(|it| it.copied()).unwrap_or_default()
    }

    /// Adds 1 to words of a program, 32 for each block, by a kernel.
    pub(crate) fn launch(&mut self, n: u64, address: u64, blocks: u32) {
        self.bring(n);
        let hash = ModuleHash::of(PTX.as_bytes());
        self.device
            .prepare(hash, PTX.as_bytes())
            .expect("it builds");
        let program = self.programs.get_mut(&n).expect("open");
        let at = (program.window().base + address).to_le_bytes();
        let load = Op::LoadModule { slot: 0, hash };
        let launch = device_conformance::flat_launch(0, blocks, 32);
        let slice = program.slice(&[(load, &[]), (launch, &at)]);
        self.finish(slice);
    }

    /// Starts moving a present program off the device.
    pub(crate) fn leave(&mut self, n: u64) {
        let session = SessionId(n);
        if !self.out.contains(&session) && self.moving.insert(session) {
            self.device.swap_out(session);
        }
    }

    /// Brings a program back, if it is away.
    pub(crate) fn bring(&mut self, n: u64) {
        let session = SessionId(n);
        self.settle(n);
        if self.out.contains(&session) {
            self.device.swap_in(session);
            self.moving.insert(session);
            self.settle(n);
            assert!(!self.out.contains(&session));
        }
    }

    /// Waits for the end of a program's move.
    pub(crate) fn settle(&mut self, n: u64) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.moving.contains(&SessionId(n)) {
            assert!(Instant::now() < until, "no move ends");
            let mut moved = Vec::new();
            self.device.moved(&mut moved);
            moved.into_iter().for_each(|it| self.told(it));
            std::thread::yield_now();
        }
        self.receive();
    }

    fn told(&mut self, moved: Moved) {
        let Moved { session, out, .. } = moved;
        assert_eq!(moved.failure, None);
        assert!(
            self.moving.remove(&session),
            "{session} is closed, or told twice"
        );
        match out {
            true => assert!(self.out.insert(session)),
            false => assert!(self.out.remove(&session)),
        }
        self.charges.insert(session, moved.resident);
        if moved.failure.is_none() {
            self.saves.insert(session, 0);
        }
    }

    /// Bytes that sharing saves.
    pub(crate) fn saved(&self) -> u64 {
        self.device.saved()
    }

    /// True if a program is entirely on the device.
    pub(crate) fn is_here(&self, n: u64) -> bool {
        let session = SessionId(n);
        !self.out.contains(&session) && !self.moving.contains(&session)
    }

    pub(crate) fn alloc(&mut self, n: u64, address: u64, bytes: u64) {
        self.run(n, Op::Alloc { address, bytes }, &[]);
    }

    pub(crate) fn free(&mut self, n: u64, address: u64) {
        self.run(n, Op::Free { address }, &[]);
    }

    /// Moves an allocation to another address; it may stay mapped at the old one.
    pub(crate) fn relocate(&mut self, n: u64, to: u64, from: u64, (bytes, keep): (u64, bool)) {
        let op = Op::Move {
            to,
            from,
            bytes,
            keep,
        };
        self.run(n, op, &[]);
    }

    pub(crate) fn map(&mut self, n: u64, to: u64, from: u64, bytes: u64) {
        self.run(n, Op::Map { to, from, bytes }, &[]);
    }

    pub(crate) fn copy_in(&mut self, n: u64, address: u64, bytes: &[u8]) {
        let op = Op::CopyIn {
            address,
            bytes: bytes.len() as u64,
            transfer: 0,
        };
        self.run(n, op, bytes);
    }

    pub(crate) fn set(&mut self, n: u64, address: u64, count: u64, value: u32) {
        let op = Op::Set {
            address,
            count,
            value,
            width: 1,
        };
        self.run(n, op, &[]);
    }

    pub(crate) fn read(&mut self, n: u64, address: u64, bytes: u64) -> Vec<u8> {
        self.run(n, Op::CopyOut { address, bytes }, &[])
    }

    /// Does all background work.
    pub(crate) fn rest(&mut self) {
        while self.device.tend() {}
        self.receive();
    }

    pub(crate) fn charge(&self, n: u64) -> u64 {
        self.charges[&SessionId(n)]
    }
}

/// Bytes in which no two pages are equal.
pub(crate) fn bytes(seed: u32, len: u64) -> Vec<u8> {
    let words = 0..(len / 4) as u32;
    words
        .flat_map(|i| (i ^ seed << 20).wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect()
}

pub(crate) const ALL: Option<SharingDomain> = Some(SharingDomain(0));
