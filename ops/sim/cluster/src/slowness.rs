//! Slowness of a node, as on a starved machine: it continues to work and handles each input late.

use std::collections::BTreeMap;

use crate::network::NodeId;
use crate::{Nanos, Random};

/// Origin of an input. Inputs of one origin are handled in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// Another node's messages.
    Node(NodeId),
    /// The store's answers and news.
    Store,
    /// The broker's news of connections.
    Connection,
    /// The node's timer.
    Timer,
    /// The node itself.
    Own,
}

/// Slowness of a node, until a time.
#[derive(Debug)]
pub(crate) struct Slowness {
    until: Nanos,
    by: Nanos,
    // Time at which the last input of each origin is handled.
    last: BTreeMap<Origin, Nanos>,
    waking: bool,
    random: Random,
}

impl Slowness {
    /// Makes the state of a node that is not slow, with a random source of its own.
    pub(crate) fn new(random: Random) -> Self {
        Self {
            until: 0,
            by: 0,
            last: BTreeMap::new(),
            waking: false,
            random,
        }
    }

    /// Makes each input until a time late by at most `by`.
    pub(crate) fn begin(&mut self, until: Nanos, by: Nanos) {
        (self.until, self.by) = (until, by);
    }

    /// Forgets the inputs under way, for a process that has just started.
    pub(crate) fn restart(&mut self) {
        self.last.clear();
        self.waking = false;
    }

    /// Time at which an input that came now is handled; `None` means at once.
    pub(crate) fn late(&mut self, now: Nanos, origin: Origin) -> Option<Nanos> {
        if self.until <= now && self.last.is_empty() {
            return None;
        }
        let before = self.last.get(&origin).copied();
        if self.until <= now && before.is_none_or(|before| before < now) {
            self.last.remove(&origin);
            return None;
        }
        let drawn = match self.until <= now {
            true => now,
            false => now + self.random.between(0, self.by),
        };
        let at = drawn.max(before.unwrap_or(0));
        self.last.insert(origin, at);
        Some(at)
    }

    /// True if no late timer was pending; from now on one is.
    pub(crate) fn wakes(&mut self) -> bool {
        !std::mem::replace(&mut self.waking, true)
    }

    /// Notes that a late input is handled.
    pub(crate) fn handled(&mut self, origin: Option<Origin>) {
        self.waking &= origin != Some(Origin::Timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_late_and_each_origin_keeps_its_order() {
        let mut slowness = Slowness::new(Random::new(5));
        assert_eq!(slowness.late(3, Origin::Own), None);
        slowness.begin(1_000, 100);
        let times = (10..990).map(|now| (now, slowness.late(now, Origin::Own).unwrap()));
        let times: Vec<_> = times.collect();
        assert!(times.is_sorted_by_key(|(_, at)| *at));
        assert!(
            times
                .iter()
                .all(|(now, at)| (*now..=now + 100).contains(at))
        );
        assert!(times.iter().any(|(now, at)| at > now));
        // An input that comes when the time is over waits for the earlier ones.
        let last = times.last().unwrap().1;
        assert_eq!(
            slowness.late(1_000, Origin::Own),
            (last >= 1_000).then_some(last)
        );
        assert_eq!(slowness.late(2_000, Origin::Own), None);
    }

    #[test]
    fn a_timer_fires_once_however_late_it_is() {
        let mut slowness = Slowness::new(Random::new(5));
        assert!(slowness.wakes() && !slowness.wakes());
        slowness.handled(Some(Origin::Own));
        assert!(!slowness.wakes());
        slowness.handled(Some(Origin::Timer));
        assert!(slowness.wakes());
    }
}
