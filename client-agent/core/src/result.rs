//! Results: assembled from their parts, and delivered once, in order.

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
    /// The bytes; those of a copy to the host are passed on as they arrive instead.
    bytes: Vec<u8>,
    events: Vec<EventTime>,
    /// Ranges received so far, disjoint and in order.
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

    /// Takes a part; returns true if any of it is new.
    #[expect(
        clippy::indexing_slicing,
        reason = "`take` refuses a part that ends behind the total, and so many bytes there are"
    )]
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

/// The use of a received part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The part was needed.
    New,
    /// Its result was delivered before; the worker does not know that yet.
    Old,
    /// It is not a part of a result that the program asked for.
    Wrong,
}

/// The results that ops still wait for. Their memory is bounded by a device's output and a module's
/// declarations.
#[derive(Debug, Default)]
pub(crate) struct Results {
    expected: VecDeque<Expected>,
    delivered: u64,
    /// The output before the session failed, and the number of that result.
    last: Option<(u64, Expected)>,
}

impl Results {
    /// Notes that an op was pushed with an expected answer of `total` bytes.
    #[inline]
    pub(crate) fn expect(&mut self, op: OpNumber, kind: ResultKind, total: u64) {
        self.expected.push_back(Expected::new(op, kind, total));
    }

    /// Number of results delivered: received without a gap.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The first op that waits for a result.
    pub(crate) fn first_waiting(&self) -> Option<OpNumber> {
        self.expected.front().map(|expected| expected.op)
    }

    /// Takes a part of a result, contained in `message`, and delivers the results that are whole.
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
            // No op asked for it, so an op may wait for a result of this number.
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
        // Only the result says how much was printed until a sync, and how many variables there are.
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

    /// The next result to deliver, if it is whole.
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

    /// Drops all expected results.
    pub(crate) fn clear(&mut self) {
        self.expected.clear();
    }
}

#[cfg(test)]
mod tests;
