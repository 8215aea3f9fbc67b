//! The stretch of time of a question.

use scheduler_leader_core::replay::{Replay, ReplayedPosition};

use crate::calendar::DAY_MS;

const MS: u64 = 1_000_000;

/// A stretch of time, nanoseconds since 1970: from the first up to, and without, the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    from_ns: u64,
    to_ns: u64,
}

impl Within {
    /// The time between two moments, milliseconds since 1970. An absent moment is no bound; `None` without any
    /// bound.
    ///
    /// # Errors
    /// A text that says so if the stretch is empty.
    pub fn between([since_ms, until_ms]: [Option<u64>; 2]) -> Result<Option<Self>, String> {
        if since_ms.is_none() && until_ms.is_none() {
            return Ok(None);
        }
        let from_ns = since_ms.map_or(0, |ms| ms.saturating_mul(MS));
        let to_ns = until_ms.map_or(u64::MAX, |ms| ms.saturating_mul(MS));
        match from_ns < to_ns {
            true => Ok(Some(Self { from_ns, to_ns })),
            false => Err("`since` is not before `until`".into()),
        }
    }

    /// True if a position waited or ran in this time.
    #[must_use]
    pub fn has(&self, row: &ReplayedPosition) -> bool {
        let timing = row.timing.as_deref();
        timing.is_some_and(|it| it.announced < self.to_ns && it.ended >= self.from_ns)
    }

    /// True if it begins before a moment, nanoseconds since 1970. Without a start it does so if all of it is
    /// before.
    pub(super) fn is_before(&self, at_ns: u64) -> bool {
        self.to_ns <= at_ns || (1..at_ns).contains(&self.from_ns)
    }

    /// True if all of a day, days since 1970, is in this time.
    pub(super) fn has_day(&self, day: u64) -> bool {
        let start = day.saturating_mul(DAY_MS).saturating_mul(MS);
        let end = start.saturating_add(DAY_MS.saturating_mul(MS));
        self.from_ns <= start && end <= self.to_ns
    }

    /// A replay of a record that explains this time with the changes in it, or all times.
    pub(crate) fn replay(within: Option<Self>) -> Replay {
        let replay = Replay::forgetful();
        match within {
            Some(Self { from_ns, to_ns }) => replay
                .explaining_between(from_ns, to_ns)
                .telling_changes(from_ns, to_ns),
            None => replay.explaining(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_at_least_one_bound_and_is_not_empty() {
        assert_eq!(Within::between([None, None]), Ok(None));
        assert!(Within::between([Some(5), Some(5)]).is_err());
        let open = Within::between([Some(DAY_MS), None]).unwrap().unwrap();
        assert!(open.has_day(1) && open.has_day(20_000) && !open.has_day(0));
        let day = Within::between([Some(DAY_MS), Some(2 * DAY_MS)])
            .unwrap()
            .unwrap();
        assert!(day.has_day(1) && !day.has_day(2));
        let less = Within::between([Some(DAY_MS + 1), Some(2 * DAY_MS)])
            .unwrap()
            .unwrap();
        assert!(!less.has_day(1));
    }

    #[test]
    fn a_stretch_without_a_start_is_before_a_moment_only_as_a_whole() {
        let is_before = |bounds, at_ms: u64| {
            let within = Within::between(bounds).unwrap().unwrap();
            within.is_before(at_ms * MS)
        };
        assert!(is_before([Some(5), None], 6) && !is_before([Some(5), None], 5));
        assert!(is_before([None, Some(5)], 5) && !is_before([None, Some(5)], 4));
    }
}
