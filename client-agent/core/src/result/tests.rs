//! Tests that results are delivered once, in order, and whole.

use std::collections::HashMap;

use bus_schemas::{Column, decode, encode};
use proptest::prelude::*;

use super::*;

fn part(number: u64, op: OpNumber, total: u64, offset: u64, bytes: &[u8]) -> DeviceResult<'_> {
    DeviceResult {
        v: 1,
        number,
        op,
        kind: ResultKind::CopyOut,
        device_ns: 0,
        total,
        offset,
        bytes,
        events: Column::default(),
    }
}

/// Passes a part on as it comes from the bus.
fn take(results: &mut Results, part: &DeviceResult<'_>, actions: &mut Vec<Action>) -> Part {
    let message = Bytes::from(encode(part));
    results.take(&decode(&message).unwrap(), &message, actions)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parts_in_any_order_make_the_whole(
        sizes in prop::collection::vec(0_usize..40, 1..6),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..40, 1_usize..9), 0..200),
    ) {
        let contents: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(index, size)| (0..*size).map(|at| (index * 50 + at) as u8).collect())
            .collect();
        let mut results = Results::default();
        let mut actions = Vec::new();
        for (op, bytes) in (10..).zip(&contents) {
            results.expect(op, ResultKind::CopyOut, bytes.len() as u64);
        }
        let mut give = |index: usize, offset: usize, len: usize| {
            let bytes = &contents[index];
            let offset = offset.min(bytes.len());
            let slice = &bytes[offset..(offset + len).min(bytes.len())];
            let (number, op) = (index as u64 + 1, index as u64 + 10);
            let part = part(number, op, bytes.len() as u64, offset as u64, slice);
            take(&mut results, &part, &mut actions)
        };
        for (pick, offset, len) in order {
            let outcome = give(pick.index(contents.len()), offset, len);
            prop_assert_ne!(outcome, Part::Wrong);
        }
        for (index, bytes) in contents.iter().enumerate() {
            for offset in (0..bytes.len().max(1)).step_by(3) {
                give(index, offset, 3);
            }
        }
        let mut arrived: HashMap<OpNumber, Vec<u8>> = HashMap::new();
        let mut delivered = Vec::new();
        for action in actions {
            match action {
                Action::Part { op, offset, bytes } => {
                    let (offset, whole) = (offset as usize, arrived.entry(op).or_default());
                    whole.resize(whole.len().max(offset + bytes.len()), 0xee);
                    whole[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                Action::Result { op, bytes, .. } => {
                    prop_assert!(bytes.is_empty());
                    delivered.push((op, arrived.remove(&op).unwrap_or_default()));
                }
                other => panic!("{other:?}"),
            }
        }
        let wanted: Vec<_> = (10..).zip(contents.clone()).collect();
        prop_assert_eq!(delivered, wanted);
    }
}

#[test]
fn a_sync_brings_what_was_printed() {
    let (mut results, mut actions) = (Results::default(), Vec::new());
    let text = |offset, bytes| DeviceResult {
        kind: ResultKind::Sync,
        ..part(1, 3, 5, offset, bytes)
    };
    results.expect(3, ResultKind::Sync, 0);
    assert_eq!(
        take(&mut results, &text(2, b"llo"), &mut actions),
        Part::New
    );
    let longer = DeviceResult {
        total: 6,
        ..text(0, b"he")
    };
    assert_eq!(take(&mut results, &longer, &mut actions), Part::Wrong);
    assert_eq!(take(&mut results, &text(0, b"he"), &mut actions), Part::New);
    assert!(matches!(&actions[..], [Action::Result { bytes, .. }] if bytes == b"hello"));
    let total = limits::PRINTED_BYTES as u64 + 1;
    let huge = DeviceResult {
        kind: ResultKind::Sync,
        ..part(2, 4, total, 0, b"he")
    };
    results.expect(4, ResultKind::Sync, 0);
    assert_eq!(take(&mut results, &huge, &mut actions), Part::Wrong);
}

#[test]
fn symbols_say_themselves_how_many_they_are() {
    let (mut results, mut actions) = (Results::default(), Vec::new());
    let symbols = |total, offset, bytes| DeviceResult {
        kind: ResultKind::Symbols,
        ..part(1, 3, total, offset, bytes)
    };
    results.expect(3, ResultKind::Symbols, 0);
    results.expect(4, ResultKind::Symbols, 0);
    let huge = (limits::SYMBOLS * Symbol::SIZE) as u64 + 24;
    assert_eq!(
        take(&mut results, &symbols(huge, 0, b"ab"), &mut actions),
        Part::Wrong
    );
    let (mut results, mut actions) = (Results::default(), Vec::new());
    results.expect(3, ResultKind::Symbols, 0);
    results.expect(4, ResultKind::Symbols, 0);
    assert_eq!(
        take(&mut results, &symbols(48, 24, &[2; 24]), &mut actions),
        Part::New
    );
    assert_eq!(
        take(&mut results, &symbols(48, 0, &[1; 24]), &mut actions),
        Part::New
    );
    let none = DeviceResult {
        number: 2,
        op: 4,
        ..symbols(0, 0, &[])
    };
    assert_eq!(take(&mut results, &none, &mut actions), Part::New);
    let given: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Result { op, bytes, .. } => (*op, bytes.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(given, [(3, 48), (4, 0)]);
}

#[test]
fn what_was_printed_before_a_failure_comes_behind_the_results_before_it() {
    let (mut results, mut actions) = (Results::default(), Vec::new());
    results.expect(3, ResultKind::CopyOut, 2);
    results.expect(9, ResultKind::Sync, 0);
    let printed = |offset, bytes| DeviceResult {
        kind: ResultKind::Printed,
        ..part(2, 5, 4, offset, bytes)
    };
    assert_eq!(
        take(&mut results, &printed(2, b"st"), &mut actions),
        Part::New
    );
    assert_eq!(
        take(&mut results, &printed(0, b"la"), &mut actions),
        Part::New
    );
    assert!(actions.is_empty() && results.delivered() == 0);
    assert_eq!(
        take(&mut results, &part(1, 3, 2, 0, b"ab"), &mut actions),
        Part::New
    );
    let given: Vec<_> = actions
        .iter()
        .map(|action| match action {
            Action::Part { op, bytes, .. } => (*op, None, &bytes[..]),
            Action::Result {
                op, kind, bytes, ..
            } => (*op, Some(*kind), &bytes[..]),
            other => panic!("{other:?}"),
        })
        .collect();
    let wanted = [
        (3, None, &b"ab"[..]),
        (3, Some(ResultKind::CopyOut), b""),
        (5, Some(ResultKind::Printed), b"last"),
    ];
    assert_eq!(given, wanted);
    assert_eq!(results.delivered(), 2);
    assert_eq!(results.first_waiting(), Some(9));
    assert_eq!(
        take(&mut results, &printed(0, b"last"), &mut actions),
        Part::Old
    );
    let second = DeviceResult {
        number: 3,
        ..printed(0, b"last")
    };
    assert_eq!(take(&mut results, &second, &mut actions), Part::Wrong);
}

#[test]
fn times_of_events_come_with_the_part_that_begins_a_result() {
    let (mut results, mut actions) = (Results::default(), Vec::new());
    let times = [(3, 100), (4, 200)].map(|(event, ns)| EventTime { event, ns });
    let mut rows = Vec::new();
    let timed = DeviceResult {
        events: Column::pack(&times, &mut rows),
        ..part(1, 3, 4, 0, b"ab")
    };
    results.expect(3, ResultKind::CopyOut, 4);
    results.expect(5, ResultKind::Sync, 0);
    let rest = part(1, 3, 4, 2, b"cd");
    // The end comes first, and the begin twice.
    assert_eq!(take(&mut results, &rest, &mut actions), Part::New);
    assert_eq!(take(&mut results, &timed, &mut actions), Part::New);
    assert_eq!(take(&mut results, &timed, &mut actions), Part::Old);
    let untimed = DeviceResult {
        kind: ResultKind::Sync,
        ..part(2, 5, 0, 0, b"")
    };
    assert_eq!(take(&mut results, &untimed, &mut actions), Part::New);
    let events: Vec<_> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Part { .. } => None,
            Action::Result { op, events, .. } => Some((*op, events.as_slice())),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(events, [(3, &times[..]), (5, &[])]);
    results.expect(9, ResultKind::CopyOut, 1);
    let many = vec![times[0]; limits::EVENT_TIMES + 1];
    let too_many = DeviceResult {
        events: Column::pack(&many, &mut rows),
        ..part(3, 9, 1, 0, b"a")
    };
    assert_eq!(take(&mut results, &too_many, &mut actions), Part::Wrong);
}

#[test]
fn what_was_not_asked_for_is_wrong() {
    let (mut results, mut actions) = (Results::default(), Vec::new());
    results.expect(3, ResultKind::CopyOut, 4);
    for bad in [
        part(1, 4, 4, 0, &[0; 4]),
        part(1, 3, 5, 0, &[0; 5]),
        part(1, 3, 4, 2, &[0; 4]),
        part(1, 3, 4, u64::MAX, &[0; 4]),
        part(2, 3, 4, 0, &[0; 4]),
    ] {
        assert_eq!(
            take(&mut results, &bad, &mut actions),
            Part::Wrong,
            "{bad:?}"
        );
    }
    assert!(actions.is_empty());
    let good = part(1, 3, 4, 0, &[1; 4]);
    assert_eq!(take(&mut results, &good, &mut actions), Part::New);
    assert_eq!(take(&mut results, &good, &mut actions), Part::Old);
    assert_eq!(actions.len(), 2, "the bytes, and that these were all");
}
