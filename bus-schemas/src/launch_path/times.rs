//! Wait and run times of reported work, by the worker's clock. They are for people, and no decision
//! depends on them.

use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::limits;

/// Maximum encoded bytes of a report's times.
const ROW_BYTES: usize = 1 + 5 * 9;
/// Maximum encoded bytes before them.
const HEAD_BYTES: usize = 16;
/// Maximum encoded bytes of a compilation.
const COMPILATION_BYTES: usize = 1 + 3 * 9;
/// Maximum number of compilations in one message. Further ones are not told.
pub const COMPILATIONS: usize = 64;

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

/// A compilation of a module that work of a report loaded. It has ended before that work went to the
/// device, and may have begun before the worker had the grant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compilation {
    /// Time at which it began.
    pub began: u64,
    /// Time at which it ended.
    pub ended: u64,
}

/// The times of a done message's reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoneTimes {
    /// The worker's clock when the message was sent.
    pub clock: u64,
    /// The times of each report, in order.
    pub rows: Vec<ReportTimes>,
    /// Compilations, each with the index of the report of the first load, [`COMPILATIONS`] at most.
    pub compiled: Vec<(usize, Compilation)>,
}

/// The encoded form: differences back from the clock, because they are short numbers.
#[derive(Deserialize)]
struct Written(u64, Vec<[u64; 5]>);

/// The encoded form of compilations.
type WrittenCompilations = Vec<[u64; 3]>;

impl DoneTimes {
    /// Returns the maximum encoded bytes of the times of so many reports.
    #[must_use]
    pub const fn bytes(reports: usize) -> usize {
        HEAD_BYTES + reports * ROW_BYTES + COMPILATIONS * COMPILATION_BYTES
    }

    /// Encodes as MessagePack: an array of the clock and an array of rows. A row is an array of
    /// five numbers: from its end to the clock, from start to end, from begun to start, from
    /// accepted to begun, and the lacked time.
    ///
    /// If there are compilations, a second array follows. Its rows have three numbers: the index of the
    /// report, from the end to the clock, and from begin to end. A reader of an earlier version does not
    /// read it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.rows.len() * ROW_BYTES / 2);
        // Plain data cannot fail to encode.
        if rmp_serde::encode::write(&mut out, self).is_err() {
            return Vec::new();
        }
        if !self.compiled.is_empty() {
            let told = self.compiled.iter().take(COMPILATIONS);
            let rows = told.map(|(report, it)| {
                let ago = self.clock.saturating_sub(it.ended);
                [*report as u64, ago, it.ended.saturating_sub(it.began)]
            });
            let rows: WrittenCompilations = rows.collect();
            let whole = out.len();
            if rmp_serde::encode::write(&mut out, &rows).is_err() {
                out.truncate(whole);
            }
        }
        out
    }

    /// Decodes the output of [`Self::encode`]; `None` if the bytes are invalid or too long.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > Self::bytes(limits::DONE_REPORTS) {
            return None;
        }
        let mut rest = bytes;
        let Written(clock, rows) = rmp_serde::from_read(&mut rest).ok()?;
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
        let rows = rows.into_iter().map(row).collect::<Option<Vec<_>>>()?;
        let compiled = compilations(rest, clock, rows.len()).unwrap_or_default();
        Some(Self {
            clock,
            rows,
            compiled,
        })
    }

    /// The compilations of a report.
    pub fn compiled_of(&self, report: usize) -> impl Iterator<Item = Compilation> {
        let compiled = self.compiled.iter();
        let of = compiled.filter(move |(of, _)| *of == report);
        of.map(|(_, compilation)| *compilation)
    }

    /// Forgets the first `count` reports.
    pub fn skip(&mut self, count: usize) {
        self.rows.drain(..count.min(self.rows.len()));
        self.compiled.retain_mut(|(report, _)| {
            let left = report.checked_sub(count);
            *report = left.unwrap_or(0);
            left.is_some()
        });
    }
}

/// Reads the compilations of a number of reports; `None` if there are none, or nonsense.
fn compilations(bytes: &[u8], clock: u64, reports: usize) -> Option<Vec<(usize, Compilation)>> {
    if bytes.is_empty() {
        return None;
    }
    let rows: WrittenCompilations = rmp_serde::from_slice(bytes).ok()?;
    let compilation = |[report, ago, took]: [u64; 3]| {
        let report = usize::try_from(report).ok().filter(|it| *it < reports)?;
        let ended = clock.checked_sub(ago)?;
        let began = ended.checked_sub(took)?;
        Some((report, Compilation { began, ended }))
    };
    let told = rows.into_iter().take(COMPILATIONS);
    told.map(compilation).collect()
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
            compiled: Vec::new(),
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
            compiled: vec![(limits::DONE_REPORTS - 1, Compilation::default()); COMPILATIONS + 1],
        };
        assert!(times.encode().len() <= DoneTimes::bytes(limits::DONE_REPORTS));
        let read = DoneTimes::decode(&times.encode()).unwrap();
        assert_eq!(read.compiled.len(), COMPILATIONS);
    }

    #[test]
    fn compilations_stand_behind_the_times_and_change_nothing_before_them() {
        let plain = times().encode();
        let compiled = |began, ended| Compilation { began, ended };
        let mut times = times();
        times.compiled = vec![(0, compiled(100, 700)), (2, compiled(2_000, 8_000))];
        let bytes = times.encode();
        assert_eq!(bytes[..plain.len()], plain);
        assert_eq!(DoneTimes::decode(&bytes), Some(times.clone()));
        times.skip(1);
        assert_eq!(times.rows.len(), 2);
        assert_eq!(times.compiled, [(1, compiled(2_000, 8_000))]);
        times.skip(7);
        assert_eq!((times.rows.len(), times.compiled.len()), (0, 0));
    }

    /// The times as versions without compilations read them: the two fields, from the whole slice.
    #[derive(Deserialize, PartialEq, Eq, Debug)]
    struct Former(u64, Vec<[u64; 5]>);

    #[test]
    fn a_former_version_reads_the_same_times_with_and_without_compilations() {
        let read = |times: &DoneTimes| rmp_serde::from_slice::<Former>(&times.encode()).unwrap();
        let mut times = times();
        let plain = read(&times);
        let row = [1_000, 20_500, 500, 4_000, 1_000];
        assert_eq!(plain, Former(31_000, vec![row; 3]));
        times.compiled = vec![(2, Compilation::default()); COMPILATIONS];
        assert_eq!(read(&times), plain);
        // And its bytes, that have no second array, are read now.
        let former = rmp_serde::to_vec(&(plain.0, plain.1)).unwrap();
        times.compiled.clear();
        assert_eq!(DoneTimes::decode(&former), Some(times));
    }

    #[test]
    fn nonsense_behind_the_times_is_no_compilation() {
        let plain = times();
        for behind in [
            &[0xc0][..],
            &[0x91, 0x93, 3, 1, 1],
            &[0x91, 0x92, 0, 1],
            &[0x91, 0x93, 0, 0xcd, 0xff, 0xff, 1],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0xff; 99],
        ] {
            let bytes = [&plain.encode()[..], behind].concat();
            let read = DoneTimes::decode(&bytes);
            assert_eq!(read, Some(plain.clone()), "{behind:?}");
        }
    }
}
