//! Arrival times of inputs, stored beside the record and outside the order. They show which work
//! launches waited for. With them go the words of a session's failure. If they are missing or
//! nonsense, the order is the same.

use bus_schemas::{DoneTimes, limits};
use serde::{Deserialize, Serialize};

use crate::time::Nanos;

/// The bytes of a worker that are stored beside an input: the times of its reports, or the words of
/// a failure.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said<'a> {
    bytes: &'a [u8],
    /// Number of reports of the message that were known before it.
    known: usize,
}

impl<'a> Said<'a> {
    /// The times of a done message with `known` reports at its start that were known before. Bytes
    /// longer than honest times count as none.
    pub(super) fn new(bytes: &'a [u8], known: usize) -> Self {
        match bytes.len() <= DoneTimes::bytes(limits::DONE_REPORTS) {
            true => Self { bytes, known },
            false => Self::default(),
        }
    }

    /// The words of a failure, by [`bus_schemas::Failure::brief`]. Longer ones count as none.
    pub(super) fn words(brief: &'a str) -> Self {
        match brief.len() <= limits::BRIEF_FAILURE_BYTES {
            true => Self {
                bytes: brief.as_bytes(),
                known: 0,
            },
            false => Self::default(),
        }
    }
}

/// Maximum bytes of an input's times, beside the worker's.
const TIME_BYTES: usize = 32;

impl Said<'_> {
    /// Maximum bytes of a block that they take.
    pub(super) fn room(&self) -> usize {
        TIME_BYTES + self.bytes.len()
    }
}

/// The times of one input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InputTimes {
    /// Time at which the leader applied it, by the leader's monotonic clock.
    pub(crate) at: Nanos,
    said: Vec<u8>,
    known: u64,
}

impl InputTimes {
    /// Times of an input without words of a worker.
    #[cfg(test)]
    pub(crate) fn at(at: Nanos) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    /// For done reports, the worker's times of those that were not known.
    pub(crate) fn done(&self) -> Option<DoneTimes> {
        let mut done = DoneTimes::decode(&self.said)?;
        done.skip(usize::try_from(self.known).unwrap_or(usize::MAX));
        Some(done)
    }

    /// For a session's fault, the failure in words; empty if the record has none.
    pub(crate) fn words(&self) -> &str {
        let words = self.said.get(..limits::BRIEF_FAILURE_BYTES);
        std::str::from_utf8(words.unwrap_or(&self.said)).unwrap_or_default()
    }
}

/// The encoding of one input's times. The fields are: nanoseconds since the previous input, or
/// since zero for the first of a block; the worker's bytes; number of its first rows that are of
/// known reports.
#[derive(Serialize, Deserialize)]
struct Written<B>(
    u64,
    #[serde(bound(serialize = "B: serde_bytes::Serialize"))]
    #[serde(bound(deserialize = "B: serde_bytes::Deserialize<'de>"))]
    #[serde(with = "serde_bytes")]
    B,
    u64,
);

/// The times of a block's inputs while they gather.
#[derive(Debug, Default)]
pub(super) struct TimesBuffer {
    bytes: Vec<u8>,
    last: Nanos,
}

impl TimesBuffer {
    /// Adds the time of an input.
    pub(super) fn push(&mut self, now: Nanos, said: Said<'_>) {
        let since = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        let before = self.bytes.len();
        let written = Written(since, said.bytes, said.known as u64);
        // Plain data: the encoding cannot fail.
        if rmp_serde::encode::write(&mut self.bytes, &written).is_err() {
            self.bytes.truncate(before);
        }
    }

    /// Number of encoded bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded times.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the buffer after a block is written: the next times belong to another block.
    pub(super) fn clear(&mut self) {
        self.last = 0;
        self.bytes.clear();
    }
}

/// The times of a block's inputs; `None` if they are not of this many inputs, or empty.
pub(crate) fn read_times(bytes: &[u8], inputs: usize) -> Option<Vec<InputTimes>> {
    let (mut rest, mut at, mut times) = (bytes, 0_u64, Vec::new());
    while !rest.is_empty() && times.len() < inputs {
        let Written(since, said, known): Written<serde_bytes::ByteBuf> =
            rmp_serde::from_read(&mut rest).ok()?;
        at = at.checked_add(since)?;
        times.push(InputTimes {
            at,
            said: said.into_vec(),
            known,
        });
    }
    (rest.is_empty() && times.len() == inputs).then_some(times)
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Compilation, ReportTimes};

    use super::*;

    #[test]
    fn what_gathers_is_read_and_nonsense_is_no_times() {
        let row = |ended| ReportTimes {
            ended,
            ..ReportTimes::default()
        };
        let compiled = Compilation {
            began: 20,
            ended: 60,
        };
        let said = DoneTimes {
            clock: 90,
            rows: vec![row(70), row(80)],
            compiled: vec![(0, Compilation::default()), (1, compiled)],
        };
        let mut buffer = TimesBuffer::default();
        buffer.push(1_000, Said::default());
        buffer.push(1_250, Said::new(&said.encode(), 1));
        let bytes = buffer.bytes().to_vec();
        buffer.clear();
        let read = read_times(&bytes, 2).unwrap();
        assert_eq!(read[0].at, 1_000);
        assert_eq!(read[1].at, 1_250);
        let done = read[1].done().unwrap();
        assert_eq!(
            (&done.rows[..], &done.compiled[..]),
            (&[row(80)][..], &[(0, compiled)][..])
        );
        for (bytes, inputs) in [
            (&bytes[..], 1),
            (&bytes[..], 3),
            (&bytes[1..], 2),
            (&[0xff; 9], 1),
        ] {
            assert_eq!(read_times(bytes, inputs), None);
        }
        assert_eq!(buffer.len(), 0);
        buffer.push(1_500, Said::words("trap in kernel `f`"));
        buffer.push(1_600, Said::words(&"x".repeat(5_000)));
        let read = read_times(buffer.bytes(), 2).unwrap();
        assert_eq!(read[0].words(), "trap in kernel `f`");
        assert_eq!((read[1].words(), read[1].done()), ("", None));
        buffer.clear();
        buffer.push(2_000, Said::new(&[0; 1 << 20], 0));
        assert!(buffer.len() < 16, "what no honest worker says is not kept");
        assert_eq!(read_times(buffer.bytes(), 1).unwrap()[0].at, 2_000);
    }
}
