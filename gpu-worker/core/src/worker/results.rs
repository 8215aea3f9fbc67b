//! The results of a session that its client has not acknowledged, and the times of events that they carry.

use std::collections::VecDeque;

use bus_schemas::{
    Column, DeviceResult, EventTime, OpNumber, Parcel, ResultKind, Row, WIRE_VERSION, decode,
    encode_into, limits,
};
use bytes::Bytes;
use device::OpResult;

use super::event_times::EventTimes;

/// Maximum number of event times kept in results that a client does not acknowledge.
const TIMED: usize = 16 * limits::EVENT_TIMES;
/// Maximum bytes of printed text kept for a client that does not fetch it.
const PRINTED_HELD: usize = 4 * limits::PRINTED_BYTES;

/// Answers of a completed slice to its client.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) results: Vec<OpResult>,
    pub(super) events: VecDeque<(OpNumber, EventTime)>,
    /// Device time already reported with earlier results.
    reported_ns: u64,
}

impl Answers {
    pub(super) fn new(results: Vec<OpResult>, events: Vec<(OpNumber, EventTime)>) -> Self {
        Self {
            results,
            events: events.into(),
            reported_ns: 0,
        }
    }

    /// Bytes of each result, in op order.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let bytes = |result: &OpResult| {
            let bytes = result.bytes.as_ref().map(Parcel::len);
            bytes.unwrap_or(result.printed.len()) as u64
        };
        self.results.iter().map(bytes).collect()
    }
}

/// A result that its client has not acknowledged.
#[derive(Debug)]
struct KeptResult {
    number: u64,
    kind: ResultKind,
    /// Bytes of the whole result.
    total: u64,
    /// The messages that carry it, without the times of events.
    messages: Vec<Bytes>,
    events: Vec<EventTime>,
}

impl KeptResult {
    /// Returns the messages to publish; the first one carries the times of events.
    fn messages(&self) -> impl Iterator<Item = Bytes> {
        let timed = (!self.events.is_empty()).then(|| self.timed()).flatten();
        let skip = usize::from(timed.is_some());
        timed
            .into_iter()
            .chain(self.messages.iter().skip(skip).cloned())
    }

    fn timed(&self) -> Option<Bytes> {
        let mut rows = Vec::new();
        let bare: DeviceResult<'_> = decode(self.messages.first()?).ok()?;
        let message = DeviceResult {
            events: Column::pack(&self.events, &mut rows),
            ..bare
        };
        let times = self.events.len() * EventTime::SIZE;
        let mut bytes = Vec::with_capacity(message.bytes.len() + times + 80);
        encode_into(&message, &mut bytes);
        Some(bytes.into())
    }
}

/// The results of a session that its client has not acknowledged.
#[derive(Debug, Default)]
pub(super) struct Results {
    kept: VecDeque<KeptResult>,
    /// Device time of the ops since the last result.
    since_ns: u64,
    /// Times of events since the last result.
    events: EventTimes,
    /// Number of event times in `kept`.
    timed: usize,
}

impl Results {
    /// Drops printed text if the client has left too much unfetched. A program still gets a result for each
    /// sync; a full buffer loses text, as on a GPU.
    pub(super) fn bound_printed(&self, results: &mut [OpResult], printed: &mut Vec<u8>) {
        if printed.is_empty() && results.iter().all(|result| result.printed.is_empty()) {
            return;
        }
        let is_text =
            |answer: &&KeptResult| matches!(answer.kind, ResultKind::Sync | ResultKind::Printed);
        let held = self.kept.iter().filter(is_text);
        let mut held: usize = held.map(|answer| answer.total as usize).sum();
        for result in results {
            held += result.printed.len();
            if held > PRINTED_HELD {
                result.printed = Vec::new();
            }
        }
        if held + printed.len() > PRINTED_HELD {
            *printed = Vec::new();
        }
    }

    /// Keeps the results of a completed slice, the first as number `first`. Passes their messages to `send`.
    pub(super) fn keep(&mut self, first: u64, answers: &mut Answers, send: &mut impl FnMut(Bytes)) {
        for (number, result) in (first..).zip(answers.results.drain(..)) {
            let OpResult {
                op,
                kind,
                bytes,
                printed,
                device_ns,
            } = result;
            while let Some(event) = answers.events.pop_front_if(|(at, _)| *at < op) {
                self.events.add([event]);
            }
            let since_ns = self.since_ns + device_ns.saturating_sub(answers.reported_ns);
            let bytes = bytes.unwrap_or_else(|| printed[..].into());
            let total = bytes.len() as u64;
            let messages = bytes.seal(|offset| DeviceResult {
                v: WIRE_VERSION,
                number,
                op,
                kind,
                device_ns: since_ns,
                total,
                offset,
                bytes: &[],
                events: Column::default(),
            });
            let result = KeptResult {
                number,
                kind,
                total,
                messages,
                events: self.events.take(),
            };
            self.since_ns = 0;
            answers.reported_ns = device_ns.max(answers.reported_ns);
            result.messages().for_each(&mut *send);
            self.push(result);
        }
    }

    /// Ends a completed slice: what no result carried waits for the next one.
    pub(super) fn complete(&mut self, device_ns: u64, answers: Answers) {
        self.since_ns += device_ns.saturating_sub(answers.reported_ns);
        self.events.add(answers.events);
    }

    /// Passes the messages of the kept results from this number on to `send`.
    pub(super) fn resend(&self, from: u64, send: &mut impl FnMut(Bytes)) {
        let again = self.kept.iter().filter(|result| result.number >= from);
        again.flat_map(KeptResult::messages).for_each(send);
    }

    /// Drops the results through this number. Passes their messages to `recycle`.
    pub(super) fn forget(&mut self, through: u64, recycle: &mut impl FnMut(Bytes)) {
        while let Some(forgotten) = self.kept.pop_front_if(|result| result.number <= through) {
            self.timed -= forgotten.events.len();
            forgotten.messages.into_iter().for_each(&mut *recycle);
        }
    }

    /// Keeps a published result. If the client has left too many times of events unacknowledged, the oldest
    /// will not be sent again.
    fn push(&mut self, result: KeptResult) {
        self.timed += result.events.len();
        self.kept.push_back(result);
        let mut oldest = self.kept.iter_mut();
        while self.timed > TIMED {
            let Some(answer) = oldest.next() else {
                return;
            };
            self.timed -= std::mem::take(&mut answer.events).len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_events_that_nobody_acknowledges_are_bounded() {
        let mut results = Results::default();
        let times = |ns| EventTime { event: 0, ns };
        for number in 1..=20 {
            results.push(KeptResult {
                number,
                kind: ResultKind::Sync,
                total: 0,
                messages: Vec::new(),
                events: vec![times(number); limits::EVENT_TIMES],
            });
        }
        let has = |results: &Results| -> Vec<u64> {
            let timed = results.kept.iter().filter(|it| !it.events.is_empty());
            timed.map(|answer| answer.number).collect()
        };
        assert_eq!(has(&results), (5..=20).collect::<Vec<_>>(), "the newest");
        results.forget(18, &mut drop);
        assert_eq!(
            (has(&results), results.timed),
            (vec![19, 20], 2 * limits::EVENT_TIMES)
        );
    }
}
