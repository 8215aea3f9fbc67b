//! Events and their records.

use std::collections::BTreeMap;

use crate::Nanos;

/// Passed records of an event that are kept: a wait may be for an earlier one than the last.
const KEPT: usize = 8;

#[derive(Debug, Default)]
struct Mark {
    timed: bool,
    /// Number of records.
    records: u64,
    /// Passed records, each with its time.
    passed: BTreeMap<u64, Nanos>,
}

/// The events of a device.
#[derive(Debug, Default)]
pub(crate) struct Marks(BTreeMap<u64, Mark>);

impl Marks {
    pub(super) fn add(&mut self, event: u64, timed: bool) {
        let mark = Mark {
            timed,
            ..Mark::default()
        };
        self.0.insert(event, mark);
    }

    pub(super) fn remove(&mut self, event: u64) {
        self.0.remove(&event);
    }

    /// Returns the number of a new record, and if its time counts.
    pub(super) fn record(&mut self, event: u64) -> (u64, bool) {
        let Some(mark) = self.0.get_mut(&event) else {
            return (0, false);
        };
        mark.records += 1;
        (mark.records, mark.timed)
    }

    pub(super) fn pass(&mut self, event: u64, record: u64, at: Nanos) {
        if let Some(mark) = self.0.get_mut(&event) {
            mark.passed.insert(record, at);
            if mark.passed.len() > KEPT {
                mark.passed.pop_first();
            }
        }
    }

    pub(crate) fn exists(&self, event: u64) -> bool {
        self.0.contains_key(&event)
    }

    /// True if records of the event have a time.
    pub(crate) fn is_timed(&self, event: u64) -> bool {
        self.0.get(&event).is_some_and(|mark| mark.timed)
    }

    /// Number of the last record; 0 if there is none.
    pub(crate) fn last(&self, event: u64) -> u64 {
        self.0.get(&event).map_or(0, |mark| mark.records)
    }

    /// Time at which a record was passed; `None` if it was not. Without a record, and of an event that was
    /// destroyed, it is 0.
    pub(crate) fn passed(&self, event: u64, record: u64) -> Option<Nanos> {
        let Some(mark) = self.0.get(&event).filter(|_| record > 0) else {
            return Some(0);
        };
        let forgotten = mark.passed.first_key_value();
        match forgotten.filter(|(first, _)| record < **first) {
            Some((_, at)) => Some(*at),
            None => mark.passed.get(&record).copied(),
        }
    }
}
