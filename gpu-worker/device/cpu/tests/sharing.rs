//! Equal bytes of several sessions lie in memory once, and nobody can tell from what it reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use bus_schemas::{Op, Parcel, SessionId};
use device::{Device, SharingDomain};
use device_conformance::{TestProgram, complete};
use device_cpu::{CpuConfig, CpuDevice};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A device with programs, and what each was said to be charged last.
struct Floor {
    device: CpuDevice,
    programs: BTreeMap<u64, TestProgram>,
    charges: BTreeMap<SessionId, u64>,
}

impl Floor {
    fn new(domains: &[Option<SharingDomain>]) -> Self {
        let config = CpuConfig {
            threads: 1,
            capacity: 1 << 30,
            ..CpuConfig::default()
        };
        let mut floor = Self {
            device: CpuDevice::new(config),
            programs: BTreeMap::new(),
            charges: BTreeMap::new(),
        };
        for (n, domain) in (1..).zip(domains) {
            floor.open(n, *domain);
        }
        floor
    }

    fn open(&mut self, n: u64, domain: Option<SharingDomain>) {
        let program = TestProgram::new(n);
        let opened = self
            .device
            .open(program.session(), program.window(), domain);
        opened.expect("a free window");
        self.programs.insert(n, program);
    }

    fn close(&mut self, n: u64) {
        let program = self.programs.remove(&n).expect("open");
        self.device.close(program.session());
        self.charges.remove(&program.session());
        self.receive();
    }

    fn receive(&mut self) {
        let mut changed = Vec::new();
        self.device.recharged(&mut changed);
        for (session, charge) in changed {
            assert!(self.charges.contains_key(&session), "{session} is closed");
            self.charges.insert(session, charge);
        }
    }

    /// Runs ops of a program whose addresses count from its window's start; copies to the device
    /// bring `payload`, ahead of the op unless it is small.
    fn run(&mut self, n: u64, mut op: Op, payload: &[u8]) -> Vec<u8> {
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
            Op::Copy { to, from, .. } => {
                *to += base;
                *from += base;
            }
            _ => panic!("no such op here"),
        }
        let mut slice = program.slice(&[(op, if staged { &[] } else { payload })]);
        if staged {
            slice.transfers.push((1, Arc::new(Parcel::from(payload))));
        }
        let done = complete(&mut self.device, slice);
        assert_eq!(done.fault, None);
        self.charges.insert(done.session, done.resident);
        self.receive();
        let result = done.results.first();
        result.and_then(|it| it.copied()).unwrap_or_default()
    }

    fn alloc(&mut self, n: u64, address: u64, bytes: u64) {
        self.run(n, Op::Alloc { address, bytes }, &[]);
    }

    fn free(&mut self, n: u64, address: u64) {
        self.run(n, Op::Free { address }, &[]);
    }

    fn copy_in(&mut self, n: u64, address: u64, bytes: &[u8]) {
        let op = Op::CopyIn {
            address,
            bytes: bytes.len() as u64,
            transfer: 0,
        };
        self.run(n, op, bytes);
    }

    fn set(&mut self, n: u64, address: u64, count: u64, value: u32) {
        let op = Op::Set {
            address,
            count,
            value,
            width: 1,
        };
        self.run(n, op, &[]);
    }

    fn read(&mut self, n: u64, address: u64, bytes: u64) -> Vec<u8> {
        self.run(n, Op::CopyOut { address, bytes }, &[])
    }

    /// Does what nobody waits for.
    fn rest(&mut self) {
        while self.device.tend() {}
        self.receive();
    }

    fn charge(&self, n: u64) -> u64 {
        self.charges[&SessionId(n)]
    }
}

/// Bytes of which no two pages are alike.
fn bytes(seed: u32, len: u64) -> Vec<u8> {
    let words = 0..(len / 4) as u32;
    words
        .flat_map(|i| (i ^ seed << 20).wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect()
}

const ALL: Option<SharingDomain> = Some(SharingDomain(0));

#[test]
fn equal_weights_are_stored_once_and_paid_in_equal_parts() {
    let mut floor = Floor::new(&[ALL; 3]);
    let weights = bytes(1, 8 * MIB);
    for n in 1..=3 {
        floor.alloc(n, 0, 8 * MIB + 500);
        floor.copy_in(n, 0, &weights);
    }
    // Three parts of each unit, of which the first takes the odd byte.
    let part = 8 * (MIB / 3) + 500;
    let charges = [1, 2, 3].map(|n| floor.charge(n));
    assert_eq!(charges, [part + 8, part, part]);
    assert_eq!(floor.device.saved(), 16 * MIB);
    for n in 1..=3 {
        assert!(floor.read(n, 0, 8 * MIB) == weights);
    }
    floor.rest();
    assert_eq!(
        [1, 2, 3].map(|n| floor.charge(n)),
        charges,
        "reading is free"
    );
    floor.close(1);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [4 * MIB + 500; 2]);
    floor.free(3, 0);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [8 * MIB + 500, 0]);
    assert_eq!(floor.device.saved(), 0);
    assert!(floor.read(2, 0, 8 * MIB) == weights);
    // Who comes later shares with whoever is left.
    floor.alloc(3, 4 * MIB, 8 * MIB);
    floor.copy_in(3, 4 * MIB, &weights);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [4 * MIB + 500, 4 * MIB]);
}

#[test]
fn one_realm_shares_and_two_do_not() {
    let tenants = [
        Some(SharingDomain(1)),
        Some(SharingDomain(2)),
        None,
        None,
        Some(SharingDomain(2)),
    ];
    let mut floor = Floor::new(&tenants);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=5 {
        floor.alloc(n, 0, 2 * MIB);
        floor.copy_in(n, 0, &weights);
    }
    let charges = [1, 2, 3, 4, 5].map(|n| floor.charge(n) / MIB);
    assert_eq!(charges, [2, 1, 2, 2, 1]);
}

#[test]
fn a_session_shares_with_itself() {
    let mut floor = Floor::new(&[ALL]);
    let weights = bytes(1, MIB);
    floor.alloc(1, 0, 4 * MIB);
    for place in 0..3 {
        floor.copy_in(1, place * MIB, &weights);
    }
    assert_eq!(floor.charge(1), 2 * MIB);
    // The same once more changes nothing, and something else parts them.
    floor.copy_in(1, MIB, &weights);
    assert_eq!(floor.charge(1), 2 * MIB);
    let other = bytes(2, MIB);
    floor.copy_in(1, MIB, &other);
    assert_eq!(floor.charge(1), 3 * MIB);
    assert!(floor.read(1, 0, 3 * MIB) == [&weights[..], &other, &weights].concat());
}

#[test]
fn what_is_small_or_between_pages_is_not_looked_at() {
    let mut floor = Floor::new(&[ALL; 2]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=2 {
        floor.alloc(n, 0, 8 * MIB);
        floor.copy_in(n, 256, &weights);
        floor.copy_in(n, 4 * MIB, &weights[..MIB as usize - 4_096]);
    }
    assert_eq!([1, 2].map(|n| floor.charge(n)), [8 * MIB; 2]);
    // A last unit is its whole pages.
    for n in 1..=2 {
        floor.copy_in(n, 4 * MIB, &weights[..MIB as usize + 70_001 / 4 * 4]);
    }
    let shared = MIB + 17 * 4_096;
    assert_eq!([1, 2].map(|n| floor.charge(n)), [8 * MIB - shared / 2; 2]);
}

#[test]
fn written_pages_are_their_writers_and_most_of_them_end_it() {
    let mut floor = Floor::new(&[ALL; 3]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=3 {
        floor.alloc(n, 0, 2 * MIB);
        floor.copy_in(n, 0, &weights);
    }
    floor.set(1, 4_096 * 10 + 1, 4_096, 7);
    floor.rest();
    let part = |sharers: u64| MIB.div_ceil(sharers);
    assert_eq!(floor.charge(1), 2 * part(3) + 2 * 4_096);
    assert_eq!(floor.charge(2), 2 * (MIB / 3));
    // More than half of a unit: it is all its own then.
    floor.set(1, MIB, MIB / 2 + 1, 7);
    floor.rest();
    assert_eq!(floor.charge(1), part(3) + 2 * 4_096 + MIB);
    assert_eq!(floor.charge(2), MIB / 3 + MIB / 2);
    // And stays so: this is no weight.
    floor.copy_in(1, 0, &weights);
    floor.rest();
    assert_eq!(floor.charge(1), part(3) + MIB);
    // Whoever is left alone with a unit that it has written has it for itself.
    floor.set(2, 0, 1, 7);
    floor.close(1);
    floor.close(3);
    floor.rest();
    assert_eq!(floor.charge(2), 2 * MIB);
    assert_eq!(floor.device.saved(), 0);
    let mut changed = weights.clone();
    changed[0] = 7;
    assert!(floor.read(2, 0, 2 * MIB) == changed);
}

#[test]
fn what_changed_since_is_not_shared() {
    let mut floor = Floor::new(&[ALL; 4]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=4 {
        floor.alloc(n, 0, 2 * MIB);
    }
    floor.copy_in(1, 0, &weights);
    // Not where the fingerprint looks.
    floor.set(1, 4_095, 1, 0xee);
    floor.set(1, MIB + 100, 1, 0xee);
    floor.copy_in(2, 0, &weights);
    assert_eq!(floor.device.saved(), 0);
    floor.free(2, 0);
    floor.copy_in(3, 0, &weights);
    assert_eq!(floor.device.saved(), 0);
    floor.close(3);
    floor.copy_in(4, 0, &weights);
    assert_eq!(floor.device.saved(), 0);
    assert!(floor.read(4, 0, 2 * MIB) == weights);
}

#[test]
fn slots_are_used_again_and_show_nothing_of_before() {
    let mut floor = Floor::new(&[ALL; 2]);
    for round in 0..20 {
        let weights = bytes(round, 10 * MIB);
        for n in 1..=2 {
            floor.alloc(n, 0, 12 * MIB);
            floor.copy_in(n, 0, &weights);
        }
        assert_eq!(floor.device.saved(), 10 * MIB, "round {round}");
        // One page written: discarding it must not bring the others' bytes back.
        floor.set(1, 5 * MIB, 1, 1);
        let (first, second) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        floor.free(first, 0);
        floor.alloc(first, 0, 12 * MIB);
        assert!(floor.read(first, 0, 12 * MIB).iter().all(|byte| *byte == 0));
        floor.free(first, 0);
        floor.free(second, 0);
        assert_eq!([1, 2].map(|n| floor.charge(n)), [0; 2]);
    }
}

/// Bytes of each program's one allocation in the random test, and its pages.
const ARENA: u64 = 4 * MIB;

#[derive(Debug, Clone)]
enum Step {
    /// A program, pages of its arena, which bytes.
    Copy(u64, u64, u64, u32),
    Set(u64, u64, u64, u8),
    Move(u64, u64, u64, u64),
    Renew(u64),
    Reopen(u64),
    Rest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly where units of others begin, too.
    let page = || prop_oneof![3 => (0..4_u64).prop_map(|at| at * 256), 1 => 0..1_024_u64];
    let step = prop_oneof![
        8 => (1..4_u64, page(), 240..700_u64, 0..3_u32)
            .prop_map(|(n, at, len, seed)| Step::Copy(n, at, len, seed)),
        2 => (1..4_u64, 0..ARENA, 1..MIB, any::<u8>())
            .prop_map(|(n, at, len, value)| Step::Set(n, at, len, value)),
        1 => (1..4_u64, 0..ARENA, 0..ARENA, 1..MIB)
            .prop_map(|(n, to, from, len)| Step::Move(n, to, from, len)),
        1 => (1..4_u64).prop_map(Step::Renew),
        1 => (1..4_u64).prop_map(Step::Reopen),
        1 => Just(Step::Rest),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every program reads what it wrote, and the charges are what is allocated less what is saved.
    #[test]
    fn nobody_can_tell(steps in steps()) {
        let mut floor = Floor::new(&[ALL; 3]);
        let mut model = vec![vec![0_u8; ARENA as usize]; 4];
        let sources = [0, 1, 2].map(|seed| bytes(seed, ARENA));
        for n in 1..=3 {
            floor.alloc(n, 0, ARENA);
        }
        for step in steps {
            match step {
                Step::Copy(n, page, pages, seed) => {
                    let at = page * 4_096;
                    let len = (pages * 4_096).min(ARENA - at) as usize;
                    // The bytes that are at this place in everybody's arena.
                    let source = &sources[seed as usize][at as usize..][..len];
                    floor.copy_in(n, at, source);
                    model[n as usize][at as usize..][..len].copy_from_slice(source);
                }
                Step::Set(n, at, len, value) => {
                    let len = len.min(ARENA - at);
                    floor.set(n, at, len, u32::from(value));
                    model[n as usize][at as usize..][..len as usize].fill(value);
                }
                Step::Move(n, to, from, len) => {
                    let bytes = len.min(ARENA - to).min(ARENA - from);
                    floor.run(n, Op::Copy { to, from, bytes }, &[]);
                    let range = from as usize..(from + bytes) as usize;
                    model[n as usize].copy_within(range, to as usize);
                }
                Step::Renew(n) => {
                    floor.free(n, 0);
                    floor.alloc(n, 0, ARENA);
                    model[n as usize].fill(0);
                }
                Step::Reopen(n) => {
                    floor.close(n);
                    floor.open(n, ALL);
                    floor.alloc(n, 0, ARENA);
                    model[n as usize].fill(0);
                }
                Step::Rest => {
                    floor.rest();
                    for n in 1..=3 {
                        prop_assert!(floor.charge(n) <= ARENA, "sharing costs nobody more");
                    }
                }
            }
            let charges: u64 = (1..=3).map(|n| floor.charge(n)).sum();
            let stored = 3 * ARENA - floor.device.saved();
            prop_assert!(charges >= stored, "{charges} {stored}");
            for n in 1..=3 {
                let there = floor.read(n, 0, ARENA);
                prop_assert!(there == model[n as usize], "program {n} reads something else");
            }
        }
        floor.rest();
        let charges: u64 = (1..=3).map(|n| floor.charge(n)).sum();
        prop_assert_eq!(charges, 3 * ARENA - floor.device.saved());
    }
}
