//! Virtual time: events, each with its time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Nanoseconds of virtual time since the simulation began.
pub type Nanos = u64;
/// Nanoseconds in a microsecond.
pub const MICRO: Nanos = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLI: Nanos = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    order: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Events in order of time; those of one instant stay in the order in which they were entered.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    entered: u64,
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            entered: 0,
        }
    }
}

impl<E> Agenda<E> {
    /// Enters an event.
    pub fn enter(&mut self, at: Nanos, event: E) {
        self.entered += 1;
        self.heap.push(Reverse(Entry {
            at,
            order: self.entered,
            event,
        }));
    }

    /// Time of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the next event. Returns it with its time.
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_entry() {
        let mut agenda = Agenda::default();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            agenda.enter(at, event);
        }
        assert_eq!(agenda.next_at(), Some(1));
        let order: String = std::iter::from_fn(|| agenda.pop())
            .map(|(_, e)| e)
            .collect();
        assert_eq!(order, "abcd");
    }
}
