//! The acts of a run, whom they hit and how long, and the spans of time in which each may have
//! consequences.

use std::time::{Duration, Instant};

use bus_schemas::{GpuId, LeaderId};

use super::watch::{SILENCE, Span};

/// The role that an act hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whom {
    /// A leader candidate.
    Leader(LeaderId),
    /// The worker of a device.
    Worker(GpuId),
    /// A program.
    Program(usize),
    /// A server of the broker, or the lease that it keeps.
    Broker,
}

/// The kind of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// SIGKILL. It never ends.
    Kill,
    /// SIGSTOP, until SIGCONT.
    Stop,
    /// The links are closed.
    Cut,
    /// The links are slow.
    Slow,
    /// A server of the broker, or what it keeps, is away.
    Away,
}

/// One act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    /// Whom it hits.
    pub(super) whom: Whom,
    /// Its kind.
    pub(super) deed: Deed,
    /// Its beginning.
    pub(super) from: Instant,
    /// Its end; none while it lasts.
    pub(super) until: Option<Instant>,
}

/// The lease's time to live: an election that is under way is over by then (docs/internals/leader.md).
const LEASE: Duration = Duration::from_secs(2);
/// Connections that a broker closed are back within this, and no worker is declared lost meanwhile.
const GRACE: Duration = Duration::from_secs(3);
/// Several servers choose the one that answers for the lease within 9 s, or within as much again.
const CHOICE: Duration = Duration::from_secs(18);

impl Act {
    /// When a leader may change because of it, `servers` servers being the broker. A kill has no end here:
    /// the dead never lead again.
    pub(super) fn deposes(&self, servers: usize) -> Option<Span> {
        let election = SILENCE + LEASE;
        let behind = match (self.whom, self.deed) {
            (Whom::Broker, _) if servers > 1 => CHOICE + election,
            (Whom::Broker, _) => GRACE + election,
            (Whom::Leader(_), Deed::Stop | Deed::Cut) => election,
            _ => return None,
        };
        Some(self.span(behind))
    }

    /// From its beginning to so long behind its end.
    pub(super) fn span(&self, behind: Duration) -> Span {
        let far = Duration::from_secs(1 << 20);
        Span {
            from: self.from,
            until: self.until.map_or(self.from + far, |until| until + behind),
        }
    }
}

impl Span {
    /// Whether a moment is within it.
    pub(super) fn has(&self, at: Instant) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// Spans as they follow one another: those that touch, or are not farther than `apart`, are one.
pub(super) fn joined(mut spans: Vec<Span>, apart: Duration) -> Vec<Span> {
    spans.sort_by_key(|span| span.from);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.from <= last.until + apart => {
                last.until = last.until.max(span.until);
            }
            _ => joined.push(span),
        }
    }
    joined
}

/// How much of a span the others cover.
pub(super) fn covered(span: Span, others: Vec<Span>) -> Duration {
    let parts = joined(others, Duration::ZERO).into_iter().map(|other| {
        let (from, until) = (other.from.max(span.from), other.until.min(span.until));
        until.saturating_duration_since(from)
    });
    parts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_overlap_are_covered_once() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let span = |from, until| Span {
            from: at(from),
            until: at(until),
        };
        let spans = vec![span(8, 9), span(1, 3), span(2, 5)];
        let whole = joined(spans.clone(), Duration::ZERO);
        assert_eq!(whole, [span(1, 5), span(8, 9)]);
        assert_eq!(joined(spans.clone(), Duration::from_secs(3)), [span(1, 9)]);
        let covers = |from, until| covered(span(from, until), spans.clone()).as_secs();
        assert_eq!((covers(0, 10), covers(4, 8), covers(6, 7)), (5, 1, 0));
    }

    #[test]
    fn an_act_has_consequences_for_as_long_as_the_documents_say() {
        let from = Instant::now();
        let until = Some(from + Duration::from_secs(1));
        let act = |whom, deed| Act {
            whom,
            deed,
            from,
            until,
        };
        let behind = |act: Act, servers| {
            let span = act.deposes(servers);
            span.map(|span| span.until.duration_since(from).as_millis())
        };
        let leader = Whom::Leader(LeaderId(7));
        assert_eq!(behind(act(leader, Deed::Stop), 1), Some(3_300));
        assert_eq!(behind(act(leader, Deed::Cut), 3), Some(3_300));
        assert_eq!(behind(act(Whom::Broker, Deed::Away), 1), Some(6_300));
        assert_eq!(behind(act(Whom::Broker, Deed::Away), 3), Some(21_300));
        for none in [act(leader, Deed::Slow), act(Whom::Worker(0), Deed::Stop)] {
            assert_eq!(behind(none, 3), None);
        }
        let lasts = Act {
            until: None,
            ..act(leader, Deed::Stop)
        };
        assert!(
            lasts
                .deposes(1)
                .unwrap()
                .has(from + Duration::from_secs(1_000))
        );
    }
}
