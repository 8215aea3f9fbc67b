//! A stream of the device model.

use std::collections::VecDeque;

use super::work::{Engine, Item, Work};
use crate::Nanos;
use crate::costs::Rates;

/// Work that runs, and its end.
#[derive(Debug)]
pub(super) struct Running<E> {
    pub(super) end: Nanos,
    pub(super) item: Item<E>,
}

/// A stream.
#[derive(Debug)]
pub(super) struct Stream<E> {
    pub(super) priority: i32,
    pub(super) queue: VecDeque<Item<E>>,
    pub(super) running: Option<Running<E>>,
    /// Time at which it has passed its last item.
    pub(super) passed: Nanos,
    /// End of its last kernel or copy.
    worked: Option<Nanos>,
    /// True if it has passed a timing event since.
    pub(super) timed: bool,
    /// True if it goes once its work is done.
    pub(super) removed: bool,
}

impl<E> Stream<E> {
    pub(super) fn new(priority: i32) -> Self {
        Self {
            priority,
            queue: VecDeque::new(),
            running: None,
            passed: 0,
            worked: None,
            timed: false,
            removed: false,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.running.is_some() || !self.queue.is_empty()
    }

    /// Its first item, if nothing before it runs.
    pub(super) fn next(&self) -> Option<&Item<E>> {
        match self.running {
            Some(_) => None,
            None => self.queue.front(),
        }
    }

    /// End of the item that runs.
    pub(super) fn end(&self) -> Option<Nanos> {
        self.running.as_ref().map(|running| running.end)
    }

    /// The engine that it uses now.
    pub(super) fn engine(&self) -> Option<Engine> {
        match self.running.as_ref()?.item.work {
            Work::Copy { engine, .. } => Some(engine),
            _ => None,
        }
    }

    /// Time from which its next kernel or copy may begin, because of the gap behind the one before.
    pub(super) fn rested(&self, rates: &Rates) -> Nanos {
        let gap = if self.timed {
            rates.timed_gap
        } else {
            rates.gap
        };
        self.worked.map_or(0, |worked| worked + gap)
    }

    /// Ends the item that runs.
    pub(super) fn finish(&mut self, end: Nanos) -> Option<Running<E>> {
        self.passed = end;
        self.worked = Some(end);
        self.timed = false;
        self.running.take()
    }
}
