//! Recent acknowledgements of the record, with the times at which inputs were recorded.

use std::collections::VecDeque;

use bus_schemas::InputNumber;

use crate::time::Nanos;

/// Recent recordings: the last recorded input, and the time since which it is recorded.
#[derive(Debug, Default)]
pub(super) struct RecordAcks(VecDeque<(InputNumber, Nanos)>);

impl RecordAcks {
    /// Notes that inputs are recorded through `recorded`. Recordings older than `linger` are merged
    /// with those before.
    pub(super) fn note(&mut self, now: Nanos, recorded: InputNumber, linger: Nanos) {
        let past = now.saturating_sub(linger);
        while self.0.get(1).is_some_and(|(_, since)| *since <= past) {
            self.0.pop_front();
        }
        self.0.push_back((recorded, now));
    }

    /// Last recorded input, as far as acknowledged.
    pub(super) fn through(&self) -> InputNumber {
        self.0.back().map_or(0, |(recorded, _)| *recorded)
    }

    /// Time since which more than this input is recorded.
    pub(super) fn beyond(&self, input: InputNumber) -> Option<Nanos> {
        let at = self.0.partition_point(|(recorded, _)| *recorded <= input);
        self.0.get(at).map(|(_, since)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_know_since_when_what_is_not_long_ago() {
        let mut acks = RecordAcks::default();
        assert_eq!((acks.through(), acks.beyond(0)), (0, None));
        for (now, recorded) in [(100, 5), (110, 9), (125, 12)] {
            acks.note(now, recorded, 20);
        }
        assert_eq!(acks.through(), 12);
        let beyond = [4, 5, 8, 9, 11, 12].map(|input| acks.beyond(input));
        let (first, second, third) = (Some(100), Some(110), Some(125));
        assert_eq!(beyond, [first, second, second, third, third, None]);
        // Of the recordings 20 ago or more, the latest says as much as all of them.
        acks.note(131, 20, 20);
        assert_eq!(acks.0.len(), 3);
        assert_eq!(acks.beyond(4), second);
    }
}
