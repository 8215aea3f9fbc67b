//! The effects of a hostile tenant on others, and their metrics. Pure functions.

use std::time::Duration;

use super::attacker::Attacked;
use super::phases;
use crate::bench::Measurement;
use crate::chaos::metrics::{self, one};

/// Maximum duration of a neighbour's request; a longer one counts as delayed.
pub(super) const LATE: Duration = Duration::from_secs(5);

/// Effects that must not occur.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effects {
    /// Epochs that began.
    pub(super) epochs: usize,
    /// Workers that were declared lost.
    pub(super) workers: usize,
    /// Sessions of the neighbour that it did not end itself.
    pub(super) sessions: usize,
    /// Results that differ from plain Rust's.
    pub(super) wrong: u64,
    /// Requests that took too long, and calls that did not end.
    pub(super) late: usize,
    /// Answers on subjects on which no answer to the hostile tenant may arrive.
    pub(super) astray: u64,
    /// Tenants, settings, streams and buckets that were changed.
    pub(super) changed: usize,
}

impl Effects {
    /// Number of ended sessions, lost leaders and lost workers.
    fn evicted(&self) -> usize {
        self.epochs + self.workers + self.sessions
    }

    /// Number of all effects, including the hostile tenant's own gains.
    fn crossed(&self, attacked: &Attacked) -> f64 {
        let got = attacked.foreign + attacked.marked + attacked.found + attacked.held;
        let counts = self.wrong + self.astray + got;
        (self.evicted() + self.late + self.changed) as f64 + counts as f64
    }

    /// The effects as metrics, with the latencies under a flood of the cluster's broker and of the other
    /// broker.
    pub(super) fn metrics(
        &self,
        attacked: &Attacked,
        here: &[f64],
        there: &[f64],
    ) -> Vec<Measurement> {
        let crossed = one(&metrics::CROSSED, self.crossed(attacked))
            .with("epochs", self.epochs)
            .with("workers_lost", self.workers)
            .with("sessions_ended", self.sessions)
            .with("results_wrong", self.wrong)
            .with("requests_late", self.late)
            .with("answers_astray", self.astray)
            .with("settings_changed", self.changed)
            .with("messages_heard", attacked.foreign)
            .with("bytes_seen", attacked.marked)
            .with("handles_found", attacked.found)
            .with("chunks_held", attacked.held)
            .with("sent", attacked.sent)
            .with("refused", attacked.refused)
            .with("impersonated", attacked.impersonated)
            .with("probes", attacked.probes);
        let evicted = one(&metrics::EVICTED, self.evicted() as f64)
            .with("epochs", self.epochs)
            .with("workers_lost", self.workers)
            .with("sessions_ended", self.sessions);
        let ratio = match phases::ratio(here, there) {
            None => Measurement::missing(&metrics::NEIGHBOUR, "no flood was measured"),
            Some(ratio) => one(&metrics::NEIGHBOUR, ratio)
                .with("repetitions", here.len())
                .with("here_ms", rounded(here))
                .with("there_ms", rounded(there))
                .with("flooded_here", attacked.here)
                .with("flooded_there", attacked.there),
        };
        vec![crossed, evicted, ratio]
    }
}

fn rounded(times: &[f64]) -> Vec<f64> {
    let times = times.iter().map(|ms| (ms * 10.0).round() / 10.0);
    times.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(effects: Effects, attacked: &Attacked) -> (f64, f64) {
        let metrics = effects.metrics(attacked, &[3.0, 3.0], &[2.0, 2.0]);
        let value = |at: usize| metrics[at].value.unwrap();
        assert_eq!(value(2), 1.5);
        (value(0), value(1))
    }

    #[test]
    fn each_effect_crosses_and_what_ends_others_evicts() {
        let none = Attacked::default();
        assert_eq!(values(Effects::default(), &none), (0.0, 0.0));
        let evicts = Effects {
            epochs: 1,
            workers: 2,
            sessions: 4,
            ..Effects::default()
        };
        assert_eq!(values(evicts, &none), (7.0, 7.0));
        let crosses = Effects {
            wrong: 1,
            late: 2,
            astray: 4,
            changed: 8,
            ..Effects::default()
        };
        assert_eq!(values(crosses, &none), (15.0, 0.0));
        let got = Attacked {
            foreign: 1,
            marked: 2,
            found: 4,
            held: 8,
            sent: 1_000,
            refused: 1_000,
            ..Attacked::default()
        };
        assert_eq!(values(Effects::default(), &got), (15.0, 0.0));
    }
}
