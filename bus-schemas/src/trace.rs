//! Traces: the W3C context of a request, and a program's reports of its finished requests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::call_error::CallError;
use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::{rows, text};
use crate::codec::message::Message;
use crate::control::process::ClientProcess;
use crate::error::Code;
use crate::id::{OpNumber, SessionId};
use crate::kernel_fault::KernelFault;

/// Length of a version-00 traceparent.
const LENGTH: usize = 55;

/// A trace's id, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span's id, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub [u8; 8]);

/// The trace and the span to which something belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The parent of the next span.
    pub span: SpanId,
    /// True if the trace is recorded.
    pub sampled: bool,
}

/// The error of a text that is not a traceparent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C traceparent")]
pub struct TraceContextError;

impl TraceContext {
    /// Returns the value of a `traceparent` header, version 00: 55 characters.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!(
            "00-{}-{}-{:02x}",
            self.trace,
            self.span,
            u8::from(self.sampled)
        )
    }

    fn read(text: &[u8]) -> Option<Self> {
        let [version] = unhex::<1>(text.get(..2)?)?;
        let dashes = [2, 35, 52];
        if dashes.iter().any(|at| text.get(*at) != Some(&b'-')) {
            return None;
        }
        // A later version may append fields; the first four keep their meaning.
        let fits = match version {
            0 => text.len() == LENGTH,
            0xff => false,
            _ => text.get(LENGTH).is_none_or(|next| *next == b'-'),
        };
        let trace = unhex::<16>(text.get(3..35)?)?;
        let span = unhex::<8>(text.get(36..52)?)?;
        let [flags] = unhex::<1>(text.get(53..LENGTH)?)?;
        (fits && trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        Self::read(text.as_bytes()).ok_or(TraceContextError)
    }
}

/// Parses hex; only lower-case digits are valid by the standard.
fn unhex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

macro_rules! shown_as_hex {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )*};
}

shown_as_hex!(TraceId, SpanId);

/// One finished request of a program: the ops of one thread between two of its waits. A row of 80
/// bytes. Times are nanoseconds since 1970, by the clock of the program's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestReport {
    /// The thread, numbered from 1 in the order of the first ops of the program's threads.
    pub thread: u32,
    /// Number of launches.
    pub launches: u32,
    /// Time of the first op.
    pub began: u64,
    /// Time at which the program began to wait.
    pub waited: u64,
    /// Time of the answer.
    pub ended: u64,
    /// The first op.
    pub first: OpNumber,
    /// The last op: the one that is waited for.
    pub last: OpNumber,
    /// The program's own span.
    pub parent: Option<TraceContext>,
    /// The error that ended it.
    pub error: Option<Code>,
}

/// Flag of a row with a parent.
const HAS_PARENT: u8 = 1;
/// Flag of a row with a sampled parent.
const IS_SAMPLED: u8 = 2;

impl Row for RequestReport {
    const SIZE: usize = 80;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.thread.to_le_bytes());
        out.extend_from_slice(&self.launches.to_le_bytes());
        put(out, &[self.began, self.waited, self.ended]);
        put(out, &[self.first, self.last]);
        let mut flags = 0;
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        if let Some(parent) = &self.parent {
            (trace, span) = (parent.trace.0, parent.span.0);
            flags = HAS_PARENT | if parent.sampled { IS_SAMPLED } else { 0 };
        }
        out.extend_from_slice(&trace);
        out.extend_from_slice(&span);
        let code = self.error.map_or(0, Code::number).to_le_bytes();
        out.extend_from_slice(&[flags, 0, code[0], code[1], 0, 0, 0, 0]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (thread, launches) = (fields.u32()?, fields.u32()?);
        let (began, waited, ended) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (first, last) = (fields.u64()?, fields.u64()?);
        let (trace, span) = (fields.array::<16>()?, fields.array::<8>()?);
        let [flags, _, low, high, ..] = fields.array::<8>()?;
        let parent = (flags & HAS_PARENT > 0).then_some(TraceContext {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & IS_SAMPLED > 0,
        });
        if parent.is_some_and(|it| it.trace.0 == [0; 16] || it.span.0 == [0; 8]) {
            return None;
        }
        let code = u16::from_le_bytes([low, high]);
        let is_order = began <= waited && waited <= ended && 0 < first && first <= last;
        is_order.then_some(Self {
            thread,
            launches,
            began,
            waited,
            ended,
            first,
            last,
            parent,
            error: (code > 0).then(|| Code::from_number(code)),
        })
    }
}

/// Consecutive ops of a request that has ops of other threads between its own. A
/// row of 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRun {
    /// Index of the request's report in its message.
    pub report: u64,
    /// The first op.
    pub first: OpNumber,
    /// The last op.
    pub last: OpNumber,
}

impl Row for RequestRun {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.report, self.first, self.last]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (report, first, last) = (fields.u64()?, fields.u64()?, fields.u64()?);
        (0 < first && first <= last).then_some(Self {
            report,
            first,
            last,
        })
    }
}

/// Program to tracer: requests of one session that have ended. A map by field name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestReports {
    /// Wire version.
    pub v: u16,
    /// The session.
    pub session: SessionId,
    /// The program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ClientProcess>,
    /// Number of requests of this session that were not reported, because there were too many.
    #[serde(default)]
    pub dropped: u64,
    /// The requests, in the order of their ends.
    #[serde(with = "rows")]
    pub rows: Vec<RequestReport>,
    /// The ops of requests with ops that are not consecutive, in order.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RequestRun>,
    /// The ops of the requests that load modules, in order.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<RequestRun>,
    /// The detail of the failure that ended the requests with an error, by [`crate::Failure::brief`].
    /// Empty if none did.
    #[serde(default, with = "text", skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// The calls of the requests that failed while the session went on, in the order of the requests' reports.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CallError>,
    /// The words of these errors, one after the other.
    #[serde(default, with = "text", skip_serializing_if = "String::is_empty")]
    pub words: String,
}

impl Message for RequestReports {
    const ARRAY: bool = false;
}

impl RequestReports {
    /// The fault that ended the requests with an error, if a kernel's fault did.
    #[must_use]
    pub fn fault(&self) -> Option<KernelFault> {
        self.failure.parse().ok()
    }

    /// The errors of failed calls, each with its words.
    pub fn errors_in_words(&self) -> impl Iterator<Item = (&CallError, &str)> {
        let mut rest = self.words.as_str();
        self.errors.iter().map(move |error| {
            let (own, others) = rest
                .split_at_checked(usize::from(error.words))
                .unwrap_or_default();
            rest = others;
            (error, own)
        })
    }

    /// The loads of modules of a report: first and last of each run, in order.
    pub fn loads_of(&self, index: usize) -> impl Iterator<Item = (OpNumber, OpNumber)> {
        let loads = self.loads.iter();
        let of = loads.filter(move |run| usize::try_from(run.report) == Ok(index));
        of.map(|run| (run.first, run.last))
    }

    /// The ops of a report: first and last of each run, in order.
    pub fn runs_of(&self, index: usize) -> impl Iterator<Item = (OpNumber, OpNumber)> {
        let whole = self.rows.get(index).map(|row| (row.first, row.last));
        let at = self.runs.partition_point(|run| run.report < index as u64);
        let behind = self.runs.iter().skip(at);
        let mut runs = behind
            .take_while(move |run| run.report == index as u64)
            .map(|run| (run.first, run.last))
            .peekable();
        let whole = whole.filter(|_| runs.peek().is_none());
        runs.chain(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDARD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_standards_example_is_read_and_written() {
        let context: TraceContext = STANDARD.parse().expect("valid");
        assert_eq!(context.trace.to_string(), &STANDARD[3..35]);
        assert_eq!(context.span.to_string(), &STANDARD[36..52]);
        assert!(context.sampled);
        assert_eq!(context.traceparent(), STANDARD);
    }

    #[test]
    fn later_versions_are_read_by_their_first_fields() {
        let later = STANDARD.replacen("00", "cc", 1);
        let known: TraceContext = STANDARD.parse().expect("valid");
        assert_eq!(later.parse(), Ok(known));
        assert_eq!(format!("{later}-what-comes").parse(), Ok(known));
        let glued = format!("{later}.what-comes");
        assert!(glued.parse::<TraceContext>().is_err());
    }

    #[test]
    fn other_text_is_refused() {
        let zero_trace = STANDARD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = STANDARD.replace("00f067aa0ba902b7", &"0".repeat(16));
        for bad in [
            "",
            "00",
            &STANDARD[..54],
            &format!("{STANDARD}-"),
            &STANDARD.to_uppercase(),
            &STANDARD.replacen("00", "ff", 1),
            &STANDARD.replacen('-', "_", 1),
            &zero_trace,
            &zero_span,
        ] {
            assert!(bad.parse::<TraceContext>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_report_out_of_order_or_with_an_empty_parent_is_refused() {
        let good = RequestReport {
            thread: 1,
            launches: 2,
            began: 10,
            waited: 20,
            ended: 30,
            first: 1,
            last: 3,
            parent: STANDARD.parse().ok(),
            error: Some(Code::Device),
        };
        let read = |row: &RequestReport| {
            let mut out = Vec::new();
            row.write(&mut out);
            assert_eq!(out.len(), RequestReport::SIZE);
            RequestReport::read(&out)
        };
        assert_eq!(read(&good), Some(good));
        for bad in [
            RequestReport { waited: 9, ..good },
            RequestReport { ended: 19, ..good },
            RequestReport { first: 0, ..good },
            RequestReport { last: 0, ..good },
            RequestReport {
                parent: good.parent.map(|it| TraceContext {
                    span: SpanId([0; 8]),
                    ..it
                }),
                ..good
            },
        ] {
            assert_eq!(read(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_reports_ops_are_its_runs_or_all_from_first_to_last() {
        let row = |first, last| RequestReport {
            thread: 1,
            launches: 0,
            began: 1,
            waited: 1,
            ended: 1,
            first,
            last,
            parent: None,
            error: None,
        };
        let run = |report, first, last| RequestRun {
            report,
            first,
            last,
        };
        let reports = RequestReports {
            v: 1,
            session: SessionId(1),
            process: None,
            dropped: 0,
            rows: vec![row(1, 4), row(2, 9), row(10, 12)],
            runs: vec![run(1, 2, 3), run(1, 6, 9), run(7, 1, 1)],
            loads: vec![run(0, 3, 3), run(2, 11, 11), run(2, 12, 12)],
            failure: String::new(),
            errors: Vec::new(),
            words: String::new(),
        };
        let loads = |index| reports.loads_of(index).collect::<Vec<_>>();
        assert_eq!(loads(0), [(3, 3)]);
        assert_eq!((loads(1), loads(9)), (vec![], vec![]));
        let runs = |index| reports.runs_of(index).collect::<Vec<_>>();
        assert_eq!(runs(0), [(1, 4)]);
        assert_eq!(runs(1), [(2, 3), (6, 9)]);
        assert_eq!(runs(2), [(10, 12)]);
        assert_eq!(runs(3), []);
    }

    proptest! {
        #[test]
        fn any_context_survives_its_text(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext {
                trace: TraceId(trace.to_be_bytes()),
                span: SpanId(span.to_be_bytes()),
                sampled,
            };
            prop_assert_eq!(context.traceparent().parse(), Ok(context));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[ -~]{0,80}") {
            if let Ok(context) = text.parse::<TraceContext>() {
                prop_assert!(text.contains(&context.trace.to_string()));
            }
        }
    }
}
