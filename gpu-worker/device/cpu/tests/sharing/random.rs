//! Random programs, against a model of the contents of each.

use std::collections::BTreeSet;

use bus_schemas::Op;
use proptest::prelude::*;

use crate::floor::{ALL, Floor, MIB, bytes};

/// Bytes of each program's one allocation in the random test, and its pages.
const ARENA: u64 = 4 * MIB;

#[derive(Debug, Clone)]
enum Step {
    /// Program, pages of its arena, and the seed of the bytes.
    Copy(u64, u64, u64, u32),
    Set(u64, u64, u64, u8),
    Move(u64, u64, u64, u64),
    Renew(u64),
    Reopen(u64),
    Rest,
    /// A kernel: address, and number of blocks.
    Launch(u64, u64, u32),
    /// Leaves the device; true to wait until it is out.
    Leave(u64, bool),
    Bring(u64),
    /// The arena gets other addresses; true to keep a map at the old ones.
    Relocate(u64, bool),
    /// Maps the arena at a place, or removes the map.
    Map(u64, u64),
}

/// Number of places where an arena may be.
const PLACES: u64 = 4;

/// Places of a program's arena.
#[derive(Debug, Clone, Default)]
struct Places {
    home: u64,
    maps: BTreeSet<u64>,
}

impl Places {
    /// One of its places, selected by `by`.
    fn any(&self, by: u64) -> u64 {
        let all: Vec<u64> = self.maps.iter().chain([&self.home]).copied().collect();
        all[by as usize % all.len()] * 2 * ARENA
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Mostly at the starts of others' units, too.
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
        1 => (1..4_u64, 0..ARENA / 4, 1..2_000_u32).prop_map(|(n, word, blocks)| {
            let blocks = blocks.min(((ARENA / 4 - word) / 32) as u32);
            Step::Launch(n, word * 4, blocks.max(1))
        }),
        3 => (1..4_u64, any::<bool>()).prop_map(|(n, wait)| Step::Leave(n, wait)),
        2 => (1..4_u64).prop_map(Step::Bring),
        2 => (1..4_u64, any::<bool>()).prop_map(|(n, keep)| Step::Relocate(n, keep)),
        3 => (1..4_u64, 0..PLACES).prop_map(|(n, at)| Step::Map(n, at)),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every program reads what it wrote, and the charges equal allocated minus saved bytes.
    #[test]
    fn nobody_can_tell(steps in steps()) {
        let mut floor = Floor::new(&[ALL; 3]);
        let mut model = vec![vec![0_u8; ARENA as usize]; 4];
        let mut places = vec![Places::default(); 4];
        let sources = [0, 1, 2].map(|seed| bytes(seed, ARENA));
        for n in 1..=3 {
            floor.alloc(n, 0, ARENA);
        }
        for step in steps {
            match step {
                Step::Copy(n, page, pages, seed) => {
                    let at = page * 4_096;
                    let len = (pages * 4_096).min(ARENA - at) as usize;
                    // The bytes at this place in every arena.
                    let source = &sources[seed as usize][at as usize..][..len];
                    floor.copy_in(n, places[n as usize].any(at) + at, source);
                    model[n as usize][at as usize..][..len].copy_from_slice(source);
                }
                Step::Set(n, at, len, value) => {
                    let len = len.min(ARENA - at);
                    floor.set(n, places[n as usize].any(at) + at, len, u32::from(value));
                    model[n as usize][at as usize..][..len as usize].fill(value);
                }
                Step::Move(n, to, from, len) => {
                    let bytes = len.min(ARENA - to).min(ARENA - from);
                    // Between two places of the same bytes only if the ranges do not overlap.
                    let apart = to.abs_diff(from) >= bytes;
                    let [into, out] = [to, from].map(|at| places[n as usize].any(if apart { at } else { 0 }));
                    let copy = Op::Copy { to: into + to, from: out + from, bytes };
                    floor.run(n, copy, &[]);
                    let range = from as usize..(from + bytes) as usize;
                    model[n as usize].copy_within(range, to as usize);
                }
                Step::Renew(n) => {
                    // Its maps are freed with it.
                    floor.free(n, places[n as usize].home * 2 * ARENA);
                    places[n as usize] = Places::default();
                    floor.alloc(n, 0, ARENA);
                    model[n as usize].fill(0);
                }
                Step::Relocate(n, keep) => {
                    let Places { home, maps } = &mut places[n as usize];
                    for at in std::mem::take(maps) {
                        floor.free(n, at * 2 * ARENA);
                    }
                    let next = (*home + 1) % PLACES;
                    floor.relocate(n, next * 2 * ARENA, *home * 2 * ARENA, (ARENA, keep));
                    maps.extend(keep.then_some(*home));
                    *home = next;
                }
                Step::Map(n, at) => {
                    let Places { home, maps } = &mut places[n as usize];
                    if maps.remove(&at) {
                        floor.free(n, at * 2 * ARENA);
                    } else if at != *home {
                        floor.map(n, at * 2 * ARENA, *home * 2 * ARENA, ARENA);
                        maps.insert(at);
                    }
                }
                Step::Reopen(n) => {
                    floor.close(n);
                    floor.open(n, ALL);
                    places[n as usize] = Places::default();
                    floor.alloc(n, 0, ARENA);
                    model[n as usize].fill(0);
                }
                Step::Rest => {
                    floor.rest();
                    // Programs that are being moved are not checked.
                    for n in (1..=3).filter(|n| floor.is_here(*n)) {
                        prop_assert!(floor.charge(n) <= ARENA, "sharing costs nobody more");
                    }
                }
                Step::Launch(n, at, blocks) => {
                    let at = at.min(ARENA - 128);
                    floor.launch(n, places[n as usize].any(at / 4) + at, blocks);
                    let words = &mut model[n as usize][at as usize..][..blocks as usize * 128];
                    for word in words.as_chunks_mut::<4>().0 {
                        *word = u32::from_le_bytes(*word).wrapping_add(1).to_le_bytes();
                    }
                }
                Step::Leave(n, wait) => {
                    floor.leave(n);
                    if wait {
                        floor.settle(n);
                        prop_assert_eq!(floor.charge(n), 0);
                    }
                }
                Step::Bring(n) => floor.bring(n),
            }
            let here: Vec<u64> = (1..=3).filter(|n| floor.is_here(*n)).collect();
            if here.len() == 3 {
                let charges: u64 = (1..=3).map(|n| floor.charge(n)).sum();
                let stored = 3 * ARENA - floor.saved();
                prop_assert!(charges >= stored, "{charges} {stored}");
            }
            for n in here {
                let there = floor.read(n, places[n as usize].any(0), ARENA);
                prop_assert!(there == model[n as usize], "program {n} reads something else");
            }
        }
        for n in 1..=3 {
            let Places { home, maps } = places[n as usize].clone();
            for at in maps.into_iter().chain([home]) {
                let there = floor.read(n, at * 2 * ARENA, ARENA);
                prop_assert!(there == model[n as usize], "program {n} reads something else at {at}");
            }
        }
        floor.rest();
        let charges: u64 = (1..=3).map(|n| floor.charge(n)).sum();
        prop_assert_eq!(charges, 3 * ARENA - floor.saved());
    }
}
