//! Requests as a collector received them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::Result;

use crate::bench::metric::median;
use crate::bench::spans::{Post, Seen};

/// Begin and end, in nanoseconds since 1970.
type Stretch = (u64, u64);

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    stretch: Stretch,
    /// Time of its arrival at the collector.
    arrived: u64,
}

/// The requests of some posts, with their children.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// By the id of their span.
    requests: HashMap<Vec<u8>, Request>,
    /// By the id of their parent.
    children: HashMap<Vec<u8>, Vec<Stretch>>,
    launches: u64,
}

impl Received {
    /// Takes in posts. A request that comes a second time counts once.
    ///
    /// # Errors
    /// If a post is no list of spans.
    pub(super) fn take(&mut self, posts: &[Post]) -> Result<()> {
        for post in posts {
            for span in post.spans()? {
                self.take_span(span, post.arrived);
            }
        }
        Ok(())
    }

    fn take_span(&mut self, span: Seen, arrived: u64) {
        let stretch = (span.start, span.end);
        if span.name != "request" {
            self.children.entry(span.parent).or_default().push(stretch);
            return;
        }
        if let Entry::Vacant(place) = self.requests.entry(span.span) {
            place.insert(Request { stretch, arrived });
            self.launches += span.launches;
        }
    }

    /// Number of requests.
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Number of their launches.
    pub(super) fn launches(&self) -> u64 {
        self.launches
    }

    /// Median of the share of a request's time that its children cover; `None` without requests.
    pub(super) fn cover_p50(&self) -> Option<f64> {
        let share = |(span, request): (&Vec<u8>, &Request)| {
            let children = self.children.get(span).cloned().unwrap_or_default();
            covered(request.stretch, children)
        };
        median(&self.requests.iter().map(share).collect::<Vec<_>>())
    }

    /// 99th percentile of the time from a request's end to its arrival, in seconds; `None` without requests.
    pub(super) fn export_s_p99(&self) -> Option<f64> {
        let late = |it: &Request| it.arrived.saturating_sub(it.stretch.1);
        let mut times: Vec<u64> = self.requests.values().map(late).collect();
        times.sort_unstable();
        let at = (times.len() * 99).div_ceil(100).checked_sub(1)?;
        Some(*times.get(at)? as f64 / 1e9)
    }
}

/// The share of a stretch that others cover together.
fn covered((start, end): Stretch, mut others: Vec<Stretch>) -> f64 {
    others.sort_unstable();
    let (mut sum, mut reached) = (0, start);
    for (from, to) in others {
        let (from, to) = (from.max(reached), to.min(end));
        sum += to.saturating_sub(from);
        reached = reached.max(to);
    }
    sum as f64 / end.saturating_sub(start).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, [span, parent]: [u8; 2], (start, end): Stretch) -> Seen {
        Seen {
            name: name.into(),
            span: vec![span],
            parent: vec![parent],
            start,
            end,
            launches: 3,
            ..Seen::default()
        }
    }

    #[test]
    fn what_overlaps_or_lies_outside_covers_once_or_not() {
        assert_eq!(covered((100, 200), Vec::new()), 0.0);
        let others = vec![(150, 180), (90, 120), (110, 130), (155, 160), (190, 300)];
        assert_eq!(covered((100, 200), others), 0.7);
    }

    #[test]
    fn requests_count_once_and_children_wherever_they_come() {
        let mut received = Received::default();
        assert_eq!(
            (received.cover_p50(), received.export_s_p99()),
            (None, None)
        );
        let second = 1_000_000_000;
        for (span, arrived) in [
            (span("queue", [2, 1], (100, 150)), 3 * second),
            (span("request", [1, 9], (100, 200)), 3 * second),
            (span("gpu launch k", [3, 1], (150, 200)), 4 * second),
            (span("request", [1, 9], (100, 200)), 5 * second),
        ] {
            received.take_span(span, arrived);
        }
        assert_eq!((received.requests(), received.launches()), (1, 3));
        assert_eq!(received.cover_p50(), Some(1.0));
        assert_eq!(received.export_s_p99().map(f64::round), Some(3.0));
    }
}
