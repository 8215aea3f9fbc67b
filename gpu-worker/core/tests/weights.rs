//! The samples of weights that leaders get, against a naive account of the copies that sessions hold.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use bus_schemas::{SessionId, Tenant, WeightSample, limits};
use gpu_worker_core::WeightTable;
use gpu_worker_core::weights::{LEAST, Touch};

const MIB: u64 = 1 << 20;

fn tenant(index: u64) -> Tenant {
    format!("t{index}").parse().unwrap()
}

/// Sessions 0, 1, 2 … belong to three tenants in turn.
fn owner(session: u64) -> u64 {
    session % 3
}

fn touch(table: &mut WeightTable, session: u64, what: Touch) {
    table.touch(SessionId(session), &tenant(owner(session)), what);
}

fn copied(mib: u64, count: u64, fingerprint: u64) -> Touch {
    Touch::Copied {
        address: mib * MIB,
        bytes: count * MIB,
        fingerprint,
    }
}

fn alloc(mib: u64, count: u64) -> Touch {
    Touch::Alloc {
        address: mib * MIB,
        bytes: count * MIB,
    }
}

fn row(of: u64, fingerprint: u64, mib: u64) -> WeightSample {
    WeightSample {
        tenant: tenant(of),
        fingerprint,
        bytes: mib * MIB,
    }
}

#[test]
fn equal_weights_are_named_alike_and_remembered_when_they_are_gone() {
    let mut table = WeightTable::default();
    for session in [0, 1] {
        touch(&mut table, session, alloc(0, 40));
        for piece in 0..20 {
            let piece = copied(piece * 2, 2, 1_000 - piece);
            touch(&mut table, session, piece);
        }
    }
    // 40 MiB in 8 samples, in steps of a factor of two.
    let named = |of| (981..989).map(move |it| row(of, it, 4));
    let both: Vec<_> = named(0).chain(named(1)).collect();
    assert_eq!(table.sample(), both);
    table.close(SessionId(0));
    let remembered = (981..989).map(|it| row(0, it, 0));
    let one: Vec<_> = remembered.chain(named(1)).collect();
    assert_eq!(table.sample(), one);
}

#[test]
fn what_is_freed_or_copied_over_is_held_no_more() {
    let mut table = WeightTable::default();
    touch(&mut table, 0, alloc(0, 4));
    touch(&mut table, 0, alloc(4, 4));
    touch(&mut table, 0, copied(0, 4, 5));
    touch(&mut table, 0, copied(4, 4, 6));
    assert_eq!(table.sample(), [row(0, 5, 4), row(0, 6, 4)]);
    // An input that comes again and again is held once.
    for input in 10..20 {
        touch(&mut table, 0, copied(5, 2, input));
    }
    assert_eq!(table.sample(), [row(0, 5, 2), row(0, 19, 2)]);
    touch(&mut table, 0, Touch::Free { address: 0 });
    assert_eq!(table.sample(), [row(0, 19, 2)]);
    // No copy lies outside an allocation, and small ones do not count.
    touch(&mut table, 0, copied(0, 2, 7));
    touch(&mut table, 0, copied(7, 2, 8));
    let small = Touch::Copied {
        address: 4 * MIB,
        bytes: LEAST - 1,
        fingerprint: 9,
    };
    touch(&mut table, 0, small);
    assert_eq!(table.sample(), [row(0, 19, 2)]);
}

#[test]
fn many_tenants_are_named_as_far_as_there_is_room_and_forgotten_in_the_end() {
    let mut table = WeightTable::default();
    let open = |table: &mut WeightTable, of: u64, mib: u64| {
        let (session, tenant) = (SessionId(of), tenant(of));
        table.touch(session, &tenant, alloc(0, mib));
        table.touch(session, &tenant, copied(0, mib, of));
    };
    let room = limits::WEIGHTS as u64;
    for of in 0..2 * room {
        open(&mut table, of, 1 + of);
    }
    let named = table.sample();
    assert_eq!(named.len(), limits::WEIGHTS);
    let most: BTreeSet<_> = (room..2 * room).map(tenant).collect();
    assert!(named.iter().all(|it| most.contains(&it.tenant)));
    for of in 0..2 * room {
        table.close(SessionId(of));
    }
    let named = table.sample();
    assert_eq!(named.len(), limits::WEIGHTS);
    assert!(
        named
            .iter()
            .all(|it| it.bytes == 0 && most.contains(&it.tenant))
    );
    // A forgotten tenant is like one that never was.
    open(&mut table, 0, 3);
    assert!(table.sample().contains(&row(0, 0, 2)));
}

/// Changes of a session: allocations by first and last MiB, copies likewise, with fingerprints.
#[derive(Default)]
struct Naive {
    allocations: BTreeMap<u64, u64>,
    copies: Vec<(u64, u64, u64)>,
}

impl Naive {
    fn apply(&mut self, step: (u8, u64, u64, u64)) -> Option<Touch> {
        let (kind, at, count, fingerprint) = step;
        let end = at + count;
        match kind {
            0 => {
                let free = self
                    .allocations
                    .iter()
                    .all(|(low, high)| *high <= at || end <= *low);
                // An allocation that the device refuses is not touched either.
                free.then(|| self.allocations.insert(at, end))?;
                Some(alloc(at, count))
            }
            1 => {
                if let Some(high) = self.allocations.remove(&at) {
                    self.copies.retain(|(low, _, _)| !(at..high).contains(low));
                }
                Some(Touch::Free { address: at * MIB })
            }
            _ => {
                let within = |(low, high): (&u64, &u64)| *low <= at && end <= *high;
                if self.allocations.iter().any(within) {
                    let apart = |low: u64, high: u64| high <= at || end <= low;
                    self.copies.retain(|(low, high, _)| apart(*low, *high));
                    self.copies.push((at, end, fingerprint));
                }
                Some(copied(at, count, fingerprint))
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_named_is_what_is_held(
        steps in proptest::collection::vec((0..6_u64, 0..8_u8, 0..24_u64, 1..6_u64, 0..12_u64), 0..200)
    ) {
        let mut table = WeightTable::default();
        let mut naive: BTreeMap<u64, Naive> = BTreeMap::new();
        for (session, kind, at, count, fingerprint) in steps {
            if kind == 7 {
                naive.remove(&session);
                table.close(SessionId(session));
                continue;
            }
            // Equal fingerprints stand for equal bytes, and so for equally many.
            let count = if kind < 2 { count } else { 1 + fingerprint % 3 };
            if let Some(what) = naive.entry(session).or_default().apply((kind, at, count, fingerprint)) {
                touch(&mut table, session, what);
            }
        }
        let named: Vec<_> = table.sample().into_iter().filter(|it| it.bytes > 0).collect();
        let mut held = Vec::new();
        for of in 0..3 {
            let sessions = naive.iter().filter(|(session, _)| owner(**session) == of);
            let copies = sessions.flat_map(|(_, it)| &it.copies);
            let known: BTreeMap<u64, u64> =
                copies.map(|(low, high, fingerprint)| (*fingerprint, high - low)).collect();
            let sum: u64 = known.values().sum::<u64>() * MIB;
            let sampled = known.len().min(8) as u64;
            for fingerprint in known.keys().take(8) {
                let bytes = 1 << (sum / sampled).ilog2();
                held.push(WeightSample { tenant: tenant(of), fingerprint: *fingerprint, bytes });
            }
        }
        prop_assert_eq!(named, held);
    }
}
