//! Times of events for a client, which its next result carries.

use std::collections::HashSet;

use bus_schemas::{EventTime, OpNumber, limits};

/// Times that no result has carried yet: the newest of each event, in op order. Beyond
/// [`limits::EVENT_TIMES`] the oldest are dropped.
#[derive(Debug, Default)]
pub(super) struct EventTimes(Vec<(OpNumber, EventTime)>);

impl EventTimes {
    /// Adds times in op order.
    pub(super) fn add(&mut self, times: impl IntoIterator<Item = (OpNumber, EventTime)>) {
        for time in times {
            self.0.push(time);
            // Not on each call, because a search for old ones takes time in proportion to their
            // number.
            if self.0.len() >= 2 * limits::EVENT_TIMES {
                self.forget();
            }
        }
    }

    /// Takes all times.
    pub(super) fn take(&mut self) -> Vec<EventTime> {
        self.forget();
        self.0.drain(..).map(|(_, time)| time).collect()
    }

    fn forget(&mut self) {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0.reverse();
        self.0.retain(|(_, time)| seen.insert(time.event));
        self.0.truncate(limits::EVENT_TIMES);
        self.0.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(event: u32, ns: u64) -> (OpNumber, EventTime) {
        (ns, EventTime { event, ns })
    }

    fn taken(times: &mut EventTimes) -> Vec<(u32, u64)> {
        let times = times.take().into_iter();
        times.map(|time| (time.event, time.ns)).collect()
    }

    #[test]
    fn of_each_event_the_newest_is_taken_once() {
        let mut times = EventTimes::default();
        times.add([time(7, 1), time(8, 2), time(7, 3)]);
        assert_eq!(taken(&mut times), [(8, 2), (7, 3)]);
        assert_eq!(taken(&mut times), []);
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let most = limits::EVENT_TIMES as u64;
        let mut times = EventTimes::default();
        times.add((0..5 * most).map(|ns| time(ns as u32, ns)));
        times.add([time(0, 5 * most)]);
        let kept = taken(&mut times);
        assert_eq!(kept.len() as u64, most);
        assert_eq!(kept[0], (4 * most as u32 + 1, 4 * most + 1));
        assert_eq!(kept[kept.len() - 1], (0, 5 * most));
        // An event that is recorded repeatedly displaces no other.
        times.add([time(1, 1)]);
        times.add((2..3 * most).map(|ns| time(2, ns)));
        assert_eq!(taken(&mut times), [(1, 1), (2, 3 * most - 1)]);
    }
}
