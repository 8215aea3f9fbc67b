//! The acts of a run, their targets and durations, and the spans of time in which each act may have
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
    /// SIGKILL. A kill has no end.
    Kill,
    /// SIGSTOP, until SIGCONT.
    Stop,
    /// The links are closed.
    Cut,
    /// The links are slow.
    Slow,
    /// A server of the broker, or data that it keeps, is away.
    Away,
}

/// One act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Act {
    /// Target of the act.
    pub(super) whom: Whom,
    /// Its kind.
    pub(super) deed: Deed,
    /// Its beginning.
    pub(super) from: Instant,
    /// Its end; none while it lasts.
    pub(super) until: Option<Instant>,
}

/// The lease's time to live: an election under way ends within it (docs/internals/leader.md).
const LEASE: Duration = Duration::from_secs(2);
/// Time within which connections closed by a broker are back; no worker is declared lost meanwhile.
const GRACE: Duration = Duration::from_secs(3);
/// Time within which several servers choose the one that answers for the lease: 9 s, and as much again.
const CHOICE: Duration = Duration::from_secs(18);

impl Act {
    /// Span in which this act may cause a change of leader, with a broker of `servers` servers. `None` for
    /// the kill of a leader: a dead leader never leads again, so its kill has no end.
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

    /// The span from the beginning of the act to `behind` after its end.
    pub(super) fn span(&self, behind: Duration) -> Span {
        let far = Duration::from_secs(1 << 20);
        Span {
            from: self.from,
            until: self.until.map_or(self.from + far, |until| until + behind),
        }
    }
}

impl Span {
    /// True if the moment lies within the span.
    pub(super) fn has(&self, at: Instant) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// Sorts spans by time and merges those that touch or are at most `apart` from each other.
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

/// Part of a span that the others cover.
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
