//! W3C trace context: the ids that tie the spans of one request together across processes.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use async_nats::header::HeaderName;

/// Name of the NATS header that carries a [`TraceContext`].
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Length of a version-00 traceparent.
const LENGTH: usize = 55;

/// A trace's id, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// A span's id, never all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
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
        let mut text = [b'-'; LENGTH];
        hex_into(&mut text[..2], &[0]);
        hex_into(&mut text[3..35], &self.trace.0);
        hex_into(&mut text[36..52], &self.span.0);
        hex_into(&mut text[53..], &[u8::from(self.sampled)]);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Puts the context into a message's headers.
    pub fn inject(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.traceparent());
    }

    /// Returns headers that contain only the context.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        self.inject(&mut headers);
        headers
    }

    /// Returns the context of a message's headers if it is well formed and sampled. A context that
    /// is not sampled counts as absent, because no receiver has to act on it.
    #[must_use]
    pub fn extract(headers: Option<&HeaderMap>) -> Option<Self> {
        let text = headers?.get(TRACEPARENT)?;
        text.as_str().parse().ok().filter(|it: &Self| it.sampled)
    }
}

impl FromStr for TraceContext {
    type Err = TraceContextError;

    fn from_str(text: &str) -> Result<Self, TraceContextError> {
        Self::read(text.as_bytes()).ok_or(TraceContextError)
    }
}

impl TraceContext {
    fn read(text: &[u8]) -> Option<Self> {
        let dashes = [2, 35, 52];
        if text.len() < LENGTH || dashes.iter().any(|at| text[*at] != b'-') {
            return None;
        }
        let [version] = unhex::<1>(&text[..2])?;
        // A later version may append fields; the first four keep their meaning.
        let fits = match version {
            0 => text.len() == LENGTH,
            0xff => false,
            _ => text.get(LENGTH).is_none_or(|next| *next == b'-'),
        };
        let trace = unhex::<16>(&text[3..35])?;
        let span = unhex::<8>(&text[36..52])?;
        let [flags] = unhex::<1>(&text[53..LENGTH])?;
        (fits && trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

fn hex_into(out: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
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
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

macro_rules! shown_as_hex {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }
    )*};
}

shown_as_hex!(TraceId, SpanId);

/// Draws ids: a random start per process, then a counter through a mixing function. An id needs no
/// system call, no lock and no thread-local state.
#[derive(Debug)]
pub(crate) struct Ids {
    seeds: [u64; 3],
    next: AtomicU64,
}

impl Ids {
    pub(crate) fn new() -> Self {
        // The standard library keys its hash maps from the system's random numbers. Keys made in a
        // row are related, so the process id and the time are added.
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed();
        let nanos = since_epoch.map_or(0, |elapsed| elapsed.as_nanos());
        let seed = |n: u8| RandomState::new().hash_one((n, std::process::id(), nanos));
        Self {
            seeds: [seed(0), seed(1), seed(2)],
            next: AtomicU64::new(1),
        }
    }

    /// Returns a number of this process that tells instances of a service apart.
    pub(crate) fn instance(&self) -> u64 {
        mix(self.seeds[0] ^ mix(self.seeds[1] ^ self.seeds[2]))
    }

    /// Returns a new trace with its first span.
    pub(crate) fn root(&self) -> TraceContext {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let high = mix(self.seeds[0] ^ mix(n));
        let low = mix(self.seeds[1].wrapping_add(mix(n)));
        let trace = u128::from(high) << 64 | u128::from(low);
        TraceContext {
            trace: TraceId(trace.max(1).to_be_bytes()),
            span: self.span_of(n),
            sampled: true,
        }
    }

    /// Returns the id of a new span.
    pub(crate) fn span(&self) -> SpanId {
        self.span_of(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn span_of(&self, n: u64) -> SpanId {
        SpanId(mix(self.seeds[2].wrapping_add(n)).max(1).to_be_bytes())
    }
}

/// The finalizer of splitmix64: a bijection in which each output bit depends on each input bit.
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
        assert!(
            format!("{later}.what-comes")
                .parse::<TraceContext>()
                .is_err()
        );
    }

    #[test]
    fn what_is_not_a_traceparent_is_refused() {
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
    fn headers_carry_it_and_an_unsampled_one_is_none() {
        let context: TraceContext = STANDARD.parse().expect("valid");
        assert_eq!(
            TraceContext::extract(Some(&context.headers())),
            Some(context)
        );
        assert_eq!(TraceContext::extract(Some(&HeaderMap::new())), None);
        assert_eq!(TraceContext::extract(None), None);
        let quiet = TraceContext {
            sampled: false,
            ..context
        };
        assert_eq!(TraceContext::extract(Some(&quiet.headers())), None);
    }

    #[test]
    fn ids_differ_within_and_between_processes() {
        let (one, other) = (Ids::new(), Ids::new());
        let mut traces = HashSet::new();
        let mut spans = HashSet::new();
        for _ in 0..10_000 {
            for ids in [&one, &other] {
                let root = ids.root();
                assert!(traces.insert(root.trace) && spans.insert(root.span));
                assert!(spans.insert(ids.span()));
            }
        }
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
