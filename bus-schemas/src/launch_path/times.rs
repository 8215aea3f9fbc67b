//! Wait and run times of reported work, by the worker's clock. They are for people, and no decision
//! depends on them.

use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::limits;

/// Maximum encoded bytes of a report's times.
const ROW_BYTES: usize = 1 + 5 * 9;
/// Maximum encoded bytes before them.
const HEAD_BYTES: usize = 16;

/// Wait and run times of one report's work: nanoseconds of a monotonic clock with an arbitrary
/// zero. For a part of a standing grant, `accepted` is the arrival of its first op.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportTimes {
    /// Time at which the worker had the grant.
    pub accepted: u64,
    /// Time at which it went to the device: earlier work had gone, its ops had arrived, and the
    /// device had room.
    pub begun: u64,
    /// Part of the time before that in which only its ops were missing.
    pub lacked: u64,
    /// Time at which its first op began on the device.
    pub started: u64,
    /// Time at which its last op had ended, and the worker knew.
    pub ended: u64,
}

/// The times of a done message's reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoneTimes {
    /// The worker's clock when the message was sent.
    pub clock: u64,
    /// The times of each report, in order.
    pub rows: Vec<ReportTimes>,
}

/// The encoded form: differences back from the clock, because they are short numbers.
#[derive(Deserialize)]
struct Written(u64, Vec<[u64; 5]>);

impl DoneTimes {
    /// Returns the maximum encoded bytes of the times of so many reports.
    #[must_use]
    pub const fn bytes(reports: usize) -> usize {
        HEAD_BYTES + reports * ROW_BYTES
    }

    /// Encodes as MessagePack: an array of the clock and an array of rows. A row is an array of
    /// five numbers: from its end to the clock, from start to end, from begun to start, from
    /// accepted to begun, and the lacked time.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.rows.len() * ROW_BYTES / 2);
        // Plain data cannot fail to encode.
        match rmp_serde::encode::write(&mut out, self) {
            Ok(()) => out,
            Err(_) => Vec::new(),
        }
    }

    /// Decodes the output of [`Self::encode`]; `None` if the bytes are invalid or too long.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > Self::bytes(limits::DONE_REPORTS) {
            return None;
        }
        let Written(clock, rows) = rmp_serde::from_slice(bytes).ok()?;
        let row = |[ago, ran, queued, waited, lacked]: [u64; 5]| {
            let ended = clock.checked_sub(ago)?;
            let started = ended.checked_sub(ran)?;
            let begun = started.checked_sub(queued)?;
            let accepted = begun.checked_sub(waited)?;
            (lacked <= waited).then_some(ReportTimes {
                accepted,
                begun,
                lacked,
                started,
                ended,
            })
        };
        let rows = rows.into_iter().map(row).collect::<Option<_>>()?;
        Some(Self { clock, rows })
    }
}

impl Serialize for DoneTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut written = serializer.serialize_tuple(2)?;
        written.serialize_element(&self.clock)?;
        written.serialize_element(&WrittenRows(self))?;
        written.end()
    }
}

/// The rows in encoded form.
struct WrittenRows<'a>(&'a DoneTimes);

impl Serialize for WrittenRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rows.iter().map(|row| {
            let ago = self.0.clock.saturating_sub(row.ended);
            let ran = row.ended.saturating_sub(row.started);
            let queued = row.started.saturating_sub(row.begun);
            let waited = row.begun.saturating_sub(row.accepted);
            [ago, ran, queued, waited, row.lacked.min(waited)]
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> DoneTimes {
        let row = ReportTimes {
            accepted: 5_000,
            begun: 9_000,
            lacked: 1_000,
            started: 9_500,
            ended: 30_000,
        };
        DoneTimes {
            clock: 31_000,
            rows: vec![row; 3],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let times = times();
        let bytes = times.encode();
        assert_eq!(DoneTimes::decode(&bytes), Some(times));
        assert_eq!(
            bytes[..4],
            [
                0x92,
                0xcd,
                31_000_u16.to_be_bytes()[0],
                31_000_u16.to_be_bytes()[1]
            ]
        );
    }

    #[test]
    fn times_out_of_order_are_none_and_nonsense_is_no_times() {
        let mut times = times();
        times.rows[0].ended = times.clock + 7;
        times.rows[1].lacked = u64::MAX;
        let read = DoneTimes::decode(&times.encode()).unwrap();
        assert_eq!(read.rows[0].ended, times.clock);
        assert_eq!(read.rows[1].lacked, 4_000);
        for bytes in [
            &[][..],
            &[0xc0],
            &[0x92, 1, 0x91, 0x95, 9, 0, 0, 0, 0],
            &[0xff; 70_000],
        ] {
            assert_eq!(DoneTimes::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_message_with_all_reports_fits_what_is_allowed() {
        let row = ReportTimes {
            ended: 1 << 40,
            started: 0,
            ..ReportTimes::default()
        };
        let times = DoneTimes {
            clock: u64::MAX,
            rows: vec![row; limits::DONE_REPORTS],
        };
        assert!(times.encode().len() <= DoneTimes::bytes(limits::DONE_REPORTS));
        assert!(DoneTimes::decode(&times.encode()).is_some());
    }
}
