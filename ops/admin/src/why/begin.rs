//! The beginning of a record, for a question that reaches farther back.

use std::fmt;

use scheduler_leader_core::replay::Replay;
use serde::Serialize;

use super::within::Within;
use crate::calendar::moment;

/// The beginning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecordBegin {
    /// Time of the first recorded input, nanoseconds since 1970.
    pub begins_ns: u64,
    /// True if earlier inputs were cut off.
    pub was_cut: bool,
}

impl RecordBegin {
    /// The beginning of what was replayed, if the time of the question lies before it.
    pub(crate) fn of(replay: &Replay, within: Option<Within>) -> Option<Self> {
        let begins_ns = replay.explained_from()?;
        within?.is_before(begins_ns).then(|| Self {
            begins_ns,
            was_cut: replay.begins_at_anchor(),
        })
    }
}

impl fmt::Display for RecordBegin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let earlier = match self.was_cut {
            true => ": of the time before, whole days of devices are known at most",
            false => "",
        };
        let at = moment(self.begins_ns / 1_000_000);
        write!(f, "the record begins at {at} UTC{earlier}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_cut_says_what_is_known_of_the_time_before() {
        let begin = |was_cut| RecordBegin {
            begins_ns: 1_795_304_402_000_000_000,
            was_cut,
        };
        let whole = "the record begins at 2026-11-21 23:40:02 UTC";
        assert_eq!(begin(false).to_string(), whole);
        let cut = begin(true).to_string();
        assert!(cut.starts_with(whole) && cut.ends_with("at most"), "{cut}");
        assert_eq!(RecordBegin::of(&Replay::forgetful(), None), None);
    }
}
