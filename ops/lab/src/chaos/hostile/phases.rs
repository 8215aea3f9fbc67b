//! The phases of a hostile run, and the latencies measured in them. Pure functions.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use workloads::SplitMix64;

use crate::bench::median;
use crate::chaos::watch::Span;

/// Number of measurements of each flood.
pub(super) const REPETITIONS: u32 = 5;
/// Rest before a flood, so that the backlog of the previous one drains.
const REST: Duration = Duration::from_millis(400);

/// Action of the hostile tenant in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// It forges names, messages and handles.
    Forge,
    /// It does nothing.
    Rest,
    /// It floods the cluster's broker.
    Here,
    /// It floods another broker on this host in the same way.
    There,
}

/// The phases of a run of this length, each with its duration. A third of the run is for forging. The seed
/// chooses which flood comes first in each pair.
pub(super) fn schedule(seed: u64, whole: Duration) -> Vec<(Phase, Duration)> {
    let mut random = SplitMix64::new(seed);
    let turn = whole / REPETITIONS;
    let forge = turn / 3;
    let flood = (turn - forge).saturating_sub(2 * REST) / 2;
    let mut phases = Vec::new();
    for _ in 0..REPETITIONS {
        let pair = match random.below(2) {
            0 => [Phase::Here, Phase::There],
            _ => [Phase::There, Phase::Here],
        };
        phases.push((Phase::Forge, forge));
        for which in pair {
            phases.push((Phase::Rest, REST));
            phases.push((which, flood));
        }
    }
    phases
}

/// A request of the neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::chaos) struct Request {
    /// Time at which its answer arrived.
    pub(in crate::chaos) answered: Instant,
    /// Its duration.
    pub(in crate::chaos) took: Duration,
}

/// The 99th percentile, in milliseconds, of the requests that began in a span. If none began, an earlier
/// one took the whole span; the span's length is returned.
pub(super) fn p99_ms(span: Span, requests: &[Request]) -> f64 {
    let began = |request: &&Request| {
        let began = request.answered.checked_sub(request.took);
        began.is_some_and(|began| span.has(began))
    };
    let mut times: Vec<Duration> = requests.iter().filter(began).map(|it| it.took).collect();
    times.sort_unstable();
    let rank = (times.len() * 99).div_ceil(100);
    let time = rank.checked_sub(1).and_then(|at| times.get(at)).copied();
    let time = time.unwrap_or_else(|| span.until.saturating_duration_since(span.from));
    time.as_secs_f64() * 1e3
}

/// Median under one flood divided by the median under the other.
pub(super) fn ratio(here: &[f64], there: &[f64]) -> Option<f64> {
    let (here, there) = (median(here)?, median(there)?);
    (there > 0.0).then(|| here / there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_alternate_in_pairs_within_the_time() {
        for seconds in [20, 600] {
            let whole = Duration::from_secs(seconds);
            let phases = schedule(3, whole);
            let sum: Duration = phases.iter().map(|(_, time)| *time).sum();
            assert!(sum <= whole && sum > whole * 9 / 10, "{sum:?}");
            let floods: Vec<_> = phases
                .iter()
                .filter(|(phase, _)| matches!(phase, Phase::Here | Phase::There))
                .collect();
            assert_eq!(floods.len(), 2 * REPETITIONS as usize);
            for pair in floods.chunks(2) {
                assert_ne!(pair[0].0, pair[1].0);
                assert_eq!(pair[0].1, pair[1].1);
                assert!(pair[0].1 >= Duration::from_millis(900));
            }
        }
        let order = |seed| schedule(seed, Duration::from_secs(60));
        assert_eq!(order(1), order(1));
        assert!((2..9).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn requests_count_where_they_began() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let span = Span {
            from: start + ms(100),
            until: start + ms(300),
        };
        let request = |began, took| Request {
            answered: start + ms(began + took),
            took: ms(took),
        };
        let mut requests: Vec<_> = (0..99).map(|at| request(100 + at, 2)).collect();
        assert!((p99_ms(span, &requests) - 2.0).abs() < 1e-9);
        requests.push(request(299, 900));
        assert!(
            (p99_ms(span, &requests) - 2.0).abs() < 1e-9,
            "one of a hundred"
        );
        requests.push(request(250, 700));
        assert!((p99_ms(span, &requests) - 700.0).abs() < 1e-9);
        let before = [request(50, 4_000)];
        assert!((p99_ms(span, &before) - 200.0).abs() < 1e-9, "all of it");
    }

    #[test]
    fn a_ratio_is_one_of_medians() {
        assert_eq!(ratio(&[30.0, 1.0, 3.0], &[2.0, 2.0, 9.0]), Some(1.5));
        assert_eq!(ratio(&[], &[2.0]), None);
    }
}
