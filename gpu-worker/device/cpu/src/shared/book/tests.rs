//! The book of shares against a naive count. Whatever sessions do, the charges equal the stored
//! bytes.

use proptest::prelude::*;

use super::*;
use crate::memory::PAGE;
use crate::shared::UNIT;

/// Bytes that every session has allocated.
const ALLOCATED: u64 = 64 * UNIT;
const SESSIONS: u64 = 5;

#[derive(Debug, Clone)]
enum Step {
    /// A session, the place of a unit in it, a slot.
    Join(u64, u64, u32),
    Leave(u64, u64),
    /// Pages written.
    Wrote(u64, u64, u64),
    Close(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, place) = (0..SESSIONS, 0..8_u64);
    let step = prop_oneof![
        5 => (session.clone(), place.clone(), 0..6_u32).prop_map(|(s, p, slot)| Step::Join(s, p, slot)),
        3 => (session.clone(), place.clone()).prop_map(|(s, p)| Step::Leave(s, p)),
        3 => (session.clone(), place, 0..=256_u64).prop_map(|(s, p, n)| Step::Wrote(s, p, n)),
        1 => session.prop_map(Step::Close),
    ];
    prop::collection::vec(step, 1..200)
}

/// Bytes of a slot; some slots have the size of a last unit.
fn bytes(slot: u32) -> u64 {
    UNIT - u64::from(slot) * 3 * PAGE
}

fn address(place: u64) -> u64 {
    (place + 1) * UNIT
}

/// A simple model of the units: (session, place) to (slot, written bytes).
type Model = BTreeMap<(u64, u64), (u32, u64)>;

/// Stored bytes: allocated and unshared ones, written ones, and each slot once.
fn physical(model: &Model) -> u64 {
    let shared: u64 = model.values().map(|(slot, _)| bytes(*slot)).sum();
    let own: u64 = model.values().map(|(_, own)| own).sum();
    let slots: BTreeSet<u32> = model.values().map(|(slot, _)| *slot).collect();
    SESSIONS * ALLOCATED - shared + own + slots.iter().map(|slot| bytes(*slot)).sum::<u64>()
}

fn leave(book: &mut Book, model: &mut Model, (s, p): (u64, u64)) -> Result<(), TestCaseError> {
    let gone = model.remove(&(s, p));
    let last = gone.filter(|(slot, _)| !model.values().any(|(other, _)| other == slot));
    let freed = book.leave(SessionId(s), address(p));
    prop_assert_eq!(freed, last.map(|(slot, _)| slot));
    Ok(())
}

fn check(book: &Book, model: &Model) -> Result<(), TestCaseError> {
    let charges = (0..SESSIONS).map(|s| book.charge(SessionId(s), ALLOCATED));
    prop_assert_eq!(charges.clone().sum::<u64>(), physical(model));
    let saved = charges.map(|charged| ALLOCATED.saturating_sub(charged));
    prop_assert_eq!(book.saved(), saved.sum::<u64>());
    prop_assert_eq!(book.len(), model.len());
    for slot in 0..6_u32 {
        let Some(kept) = book.slots.get(&slot) else {
            prop_assert!(!model.values().any(|(other, _)| *other == slot));
            continue;
        };
        let parts: Vec<u64> = kept.parts().map(|(_, part)| part).collect();
        prop_assert_eq!(parts.iter().sum::<u64>(), bytes(slot));
        let (least, most) = (parts.iter().min(), parts.iter().max());
        prop_assert!(most.unwrap_or(&0) - least.unwrap_or(&0) <= 1, "equal parts");
        let holders: BTreeSet<u64> = model
            .iter()
            .filter_map(|((s, _), (other, _))| (*other == slot).then_some(*s))
            .collect();
        prop_assert_eq!(parts.len(), holders.len());
        let only = (holders.len() == 1).then(|| holders.first().map(|s| SessionId(*s)));
        prop_assert_eq!(book.only(slot), only.flatten());
    }
    Ok(())
}

/// Checks that every changed charge was reported.
fn said(book: &mut Book, before: &mut BTreeMap<u64, u64>) -> Result<(), TestCaseError> {
    let changed = book.take_changed();
    for s in 0..SESSIONS {
        let charge = book.charge(SessionId(s), ALLOCATED);
        let old = before.insert(s, charge).unwrap_or(ALLOCATED);
        prop_assert!(old == charge || changed.contains(&SessionId(s)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn charges_are_what_is_stored(steps in steps()) {
        let (mut book, mut model) = (Book::default(), Model::new());
        let mut before = BTreeMap::new();
        for step in steps {
            match step {
                Step::Join(s, p, slot) => {
                    if model.contains_key(&(s, p)) {
                        leave(&mut book, &mut model, (s, p))?;
                    }
                    book.join(SessionId(s), address(p), slot, bytes(slot));
                    model.insert((s, p), (slot, 0));
                }
                Step::Leave(s, p) => leave(&mut book, &mut model, (s, p))?,
                Step::Wrote(s, p, pages) => {
                    book.wrote(SessionId(s), address(p), pages * PAGE);
                    if let Some((slot, own)) = model.get_mut(&(s, p)) {
                        *own = (pages * PAGE).min(bytes(*slot));
                    }
                }
                Step::Close(s) => {
                    for (address, _) in book.within(SessionId(s), 0..u64::MAX) {
                        leave(&mut book, &mut model, (s, address / UNIT - 1))?;
                    }
                    prop_assert_eq!(book.charge(SessionId(s), 0), 0);
                }
            }
            check(&book, &model)?;
            said(&mut book, &mut before)?;
        }
    }

    /// No session is charged more than it has allocated, once some sessions have a copy of their
    /// own. These are sessions that wrote more than half of a unit, or that are alone and have
    /// written at all.
    #[test]
    fn sharing_costs_nobody_more(steps in steps()) {
        let mut book = Book::default();
        for step in steps {
            match step {
                Step::Join(s, p, slot) => {
                    book.leave(SessionId(s), address(p));
                    book.join(SessionId(s), address(p), slot, bytes(slot));
                }
                Step::Leave(s, p) => drop(book.leave(SessionId(s), address(p))),
                Step::Wrote(s, p, pages) => book.wrote(SessionId(s), address(p), pages * PAGE),
                Step::Close(_) => {}
            }
            loop {
                let done = book.units.iter().find(|(_, unit)| {
                    let alone = book.only(unit.slot).is_some();
                    unit.own * 2 > unit.bytes || (alone && unit.own > 0)
                });
                let Some((session, address)) = done.map(|(place, _)| *place) else { break };
                book.leave(session, address);
            }
            for s in 0..SESSIONS {
                prop_assert!(book.charge(SessionId(s), ALLOCATED) <= ALLOCATED);
            }
        }
    }
}

#[test]
fn units_are_found_by_the_addresses_that_they_overlap() {
    let mut book = Book::default();
    let one = SessionId(1);
    for place in [4, 5, 9] {
        book.join(one, place * UNIT, place as u32, UNIT);
    }
    book.join(SessionId(2), 6 * UNIT, 7, UNIT);
    let found = |range| {
        let units = book.within(one, range).into_iter();
        units.map(|(address, _)| address / UNIT).collect::<Vec<_>>()
    };
    assert_eq!(found(4 * UNIT..6 * UNIT), [4, 5]);
    assert_eq!(found(5 * UNIT - 1..5 * UNIT), [4]);
    assert_eq!(found(5 * UNIT..5 * UNIT + 1), [5]);
    assert_eq!(found(6 * UNIT..9 * UNIT), [0; 0]);
    assert_eq!(found(0..u64::MAX), [4, 5, 9]);
    assert_eq!(found(4 * UNIT..4 * UNIT), [0; 0]);
    let next = |address| book.next(one, address).map(|(address, _)| address / UNIT);
    assert_eq!(next(5 * UNIT + 1), Some(9));
    assert_eq!(next(10 * UNIT), Some(4));
    assert_eq!(book.next(SessionId(3), 0), None);
}
