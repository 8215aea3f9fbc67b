//! Spans in which work used the device.
//!
//! A thread may wait in virtual time while another one, with an earlier clock, still launches. The work of that
//! one finds its place between the spans, as if it had come in time.

use std::collections::VecDeque;

use super::work::Use;
use crate::Nanos;

/// Number of spans that are kept.
const SPANS: usize = 512;

#[derive(Debug)]
struct Span {
    begin: Nanos,
    end: Nanos,
    of: Use,
}

/// The spans, in the order in which they were booked.
#[derive(Debug, Default)]
pub(super) struct Booked(VecDeque<Span>);

impl Booked {
    pub(super) fn add(&mut self, of: Use, begin: Nanos, end: Nanos) {
        if self.0.len() == SPANS {
            self.0.pop_front();
        }
        self.0.push_back(Span { begin, end, of });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the first time from which there is room for `ns` nanoseconds of a use.
    pub(super) fn place(&self, of: Use, from: Nanos, ns: Nanos, capacity: u64) -> Nanos {
        let spans = self
            .0
            .iter()
            .filter(|span| span.of.kind == of.kind && span.end > from);
        let mut ends: Vec<Nanos> = spans.clone().map(|span| span.end).collect();
        ends.sort_unstable();
        let used = |at: Nanos| -> u64 {
            let now = spans
                .clone()
                .filter(|span| span.begin <= at && at < span.end);
            now.map(|span| span.of.amount).sum()
        };
        let fits = |begin: &Nanos| {
            let inside = spans.clone().map(|span| span.begin);
            let inside = inside.filter(|at| begin < at && *at < begin + ns);
            let most = inside.chain([*begin]).map(used).max().unwrap_or(0);
            most + of.amount <= capacity
        };
        let mut places = std::iter::once(from).chain(ends.iter().copied());
        places.find(fits).unwrap_or(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::work::UseKind;

    const fn sms(amount: u64) -> Use {
        Use {
            kind: UseKind::Multiprocessors,
            amount,
        }
    }

    #[test]
    fn late_work_finds_the_first_gap_that_is_long_and_wide_enough() {
        let mut booked = Booked::default();
        booked.add(sms(60), 0, 100);
        booked.add(sms(50), 150, 200);
        booked.add(sms(100), 200, 300);
        let place = |amount, from, ns| booked.place(sms(amount), from, ns, 100);
        assert_eq!(place(40, 10, 50), 10, "beside the first");
        assert_eq!(place(50, 10, 50), 100, "between the first two");
        assert_eq!(place(50, 10, 90), 100, "beside the second");
        assert_eq!(place(50, 10, 101), 300);
        assert_eq!(place(60, 120, 40), 300);
        assert_eq!(place(60, 110, 40), 110);
    }
}
