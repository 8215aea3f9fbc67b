//! Results: put together from their parts, delivered once, in order.

use std::collections::VecDeque;

use bus_schemas::{DeviceResult, EventTime, OpNumber, ResultKind, Row, Symbol, limits};
use bytes::Bytes;

use crate::event::Action;

/// A result that has not been delivered.
#[derive(Debug)]
struct Expected {
    op: OpNumber,
    kind: ResultKind,
    total: u64,
    device_ns: u64,
    /// Of a copy to the host they are handed on as they come.
    bytes: Vec<u8>,
    events: Vec<EventTime>,
    /// Parts there are, apart and in order.
    parts: Vec<(u64, u64)>,
    whole: bool,
}

impl Expected {
    fn new(op: OpNumber, kind: ResultKind, total: u64) -> Self {
        Self {
            op,
            kind,
            total,
            device_ns: 0,
            bytes: Vec::new(),
            events: Vec::new(),
            parts: Vec::new(),
            whole: false,
        }
    }

    /// Takes a part; whether any of it is new.
    fn add(&mut self, offset: u64, part: &[u8]) -> bool {
        let end = offset + part.len() as u64;
        let known = |(start, stop): &(u64, u64)| *start <= offset && end <= *stop;
        if part.is_empty() || self.parts.iter().any(known) {
            self.whole |= self.total == 0;
            return false;
        }
        if self.kind != ResultKind::CopyOut {
            self.bytes.resize(self.total as usize, 0);
            self.bytes[offset as usize..end as usize].copy_from_slice(part);
        }
        let at = self.parts.partition_point(|(_, stop)| *stop < offset);
        let (mut start, mut stop) = (offset, end);
        let mut touching = at;
        while let Some(&(other, other_stop)) = self.parts.get(touching) {
            if other > stop {
                break;
            }
            (start, stop) = (start.min(other), stop.max(other_stop));
            touching += 1;
        }
        self.parts.splice(at..touching, [(start, stop)]);
        self.whole = self.parts == [(0, self.total)];
        true
    }
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// It was needed.
    New,
    /// Its result was delivered before: the worker has not heard so.
    Old,
    /// It is not a part of what the program asked for.
    Wrong,
}

/// The results that ops still wait for. Their memory is bounded by what a device prints and a module
/// declares.
#[derive(Debug, Default)]
pub(crate) struct Results {
    expected: VecDeque<Expected>,
    delivered: u64,
    /// What was printed before the session failed, and the number of that result.
    last: Option<(u64, Expected)>,
}

impl Results {
    /// An op that will be answered by `total` bytes was pushed.
    #[inline]
    pub(crate) fn expect(&mut self, op: OpNumber, kind: ResultKind, total: u64) {
        self.expected.push_back(Expected::new(op, kind, total));
    }

    /// Results delivered: received without a gap.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The first op that waits.
    pub(crate) fn first_waiting(&self) -> Option<OpNumber> {
        self.expected.front().map(|expected| expected.op)
    }

    /// Takes a part of a result, which is one of `message`, and delivers what is whole.
    pub(crate) fn take(
        &mut self,
        part: &DeviceResult<'_>,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) -> Part {
        let Some(index) = part.number.checked_sub(self.delivered + 1) else {
            return Part::Old;
        };
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let expected = match part.kind {
            // No op asked for it, so there may be one that waits for a result of this number.
            ResultKind::Printed => {
                let total = part.total.min(limits::PRINTED_BYTES as u64);
                let last = || (part.number, Expected::new(part.op, part.kind, total));
                let (number, last) = self.last.get_or_insert_with(last);
                (*number == part.number).then_some(last)
            }
            _ => self.expected.get_mut(index),
        };
        let Some(expected) = expected else {
            return Part::Wrong;
        };
        // How much was printed until a sync, and how many variables there are, only the result says.
        if expected.total == 0 && !expected.whole {
            let most = match expected.kind {
                ResultKind::Sync => limits::PRINTED_BYTES,
                ResultKind::Symbols => limits::SYMBOLS * Symbol::SIZE,
                ResultKind::CopyOut | ResultKind::Printed => 0,
            };
            expected.total = part.total.min(most as u64);
        }
        let inside = part
            .offset
            .checked_add(part.bytes.len() as u64)
            .is_some_and(|end| end <= expected.total);
        let same = (part.op, part.kind, part.total) == (expected.op, expected.kind, expected.total);
        if !inside || !same || part.events.len() > limits::EVENT_TIMES {
            return Part::Wrong;
        }
        if !expected.whole {
            expected.device_ns = part.device_ns;
            if !part.events.is_empty() {
                expected.events = part.events.iter().collect();
            }
            let new = expected.add(part.offset, part.bytes);
            if new && expected.kind == ResultKind::CopyOut {
                actions.push(Action::Part {
                    op: expected.op,
                    offset: part.offset,
                    bytes: message.slice_ref(part.bytes),
                });
            }
        }
        while let Some(first) = self.next_whole() {
            self.delivered += 1;
            actions.push(Action::Result {
                op: first.op,
                kind: first.kind,
                device_ns: first.device_ns,
                bytes: first.bytes,
                events: first.events,
            });
        }
        Part::New
    }

    /// The result that is to be delivered next, if it is whole.
    fn next_whole(&mut self) -> Option<Expected> {
        let next = self.delivered + 1;
        if let Some((number, last)) = &mut self.last
            && *number <= next
        {
            let whole = *number == next && last.whole;
            return whole.then(|| std::mem::replace(last, Expected::new(0, last.kind, 0)));
        }
        self.expected.pop_front_if(|first| first.whole)
    }

    /// Expects nothing more.
    pub(crate) fn clear(&mut self) {
        self.expected.clear();
    }
}

#[cfg(test)]
mod tests {
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

    /// Hands a part over as it comes from the bus.
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
        // The end comes first, and the beginning twice.
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
}
