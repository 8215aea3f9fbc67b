//! Changes of leader and lost workers, each checked for a cause among the acts of the run. Pure functions
//! of the observed messages and the acts.

use std::time::{Duration, Instant};

use bus_schemas::{Epoch, GpuId, Incarnation, LeaderId};

use super::acts::{Act, Deed, Whom, covered, joined};
use super::watch::{Heard, Span, Term};

/// A worker that is stopped for this long may be declared lost (docs/internals/leader.md).
const STILL: Duration = Duration::from_secs(3);
/// Stops of one worker at most this far apart count as one: the gap is too short for the worker to be
/// heard.
const APART: Duration = Duration::from_millis(500);
/// Time after an act within which a worker may be declared lost. Heartbeats may be missing for 3 s, or for
/// 12 s if the broker has several servers. An election of 2.3 s may come between.
const LATE: Duration = Duration::from_millis(3_000 + 2_300);
const LATE_OF_SEVERAL: Duration = Duration::from_millis(12_000 + 2_300);

/// A change from one leader to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The epoch of the new leader.
    pub(super) epoch: Epoch,
    /// The previous leader.
    pub(super) before: LeaderId,
    /// The new leader.
    pub(super) after: LeaderId,
    /// Time at which the new leader was first heard.
    pub(super) at: Instant,
}

/// Changes of leader that were not announced, and the number of all changes. A leader that follows itself
/// in a new epoch is no change. A leader that announced its departure changes only the number.
pub(super) fn changes(heard: &Heard) -> (Vec<Change>, usize) {
    let terms: Vec<&Term> = heard.terms.values().collect();
    let others = terms
        .windows(2)
        .filter(|pair| pair[0].leader != pair[1].leader);
    let all = others.clone().count();
    let unannounced = others.filter(|pair| !pair[0].leaving).map(|pair| Change {
        epoch: pair[1].epoch,
        before: pair[0].leader,
        after: pair[1].leader,
        at: pair[1].at,
    });
    (unannounced.collect(), all)
}

/// Changes that no act caused.
pub(super) fn false_takeovers(changes: &[Change], acts: &[Act], servers: usize) -> Vec<Change> {
    let caused = |change: &&Change| {
        acts.iter().any(|act| match act.whom {
            Whom::Leader(id) if id != change.before => false,
            Whom::Leader(_) if act.deed == Deed::Kill => act.from <= change.at,
            _ => act.deposes(servers).is_some_and(|span| span.has(change.at)),
        })
    };
    let uncaused = changes.iter().filter(|change| !caused(change));
    uncaused.copied().collect()
}

/// Fraction of a span in which a change of leader would be attributed to an act.
pub(super) fn excused(span: Span, acts: &[Act], servers: usize) -> f64 {
    let spans = acts.iter().filter_map(|act| act.deposes(servers));
    let whole = span.until.saturating_duration_since(span.from);
    match whole.is_zero() {
        true => 0.0,
        false => covered(span, spans.collect()).as_secs_f64() / whole.as_secs_f64(),
    }
}

/// Workers that were declared lost although no act took them away.
pub(super) fn false_losses(heard: &Heard, acts: &[Act], servers: usize) -> Vec<Incarnation> {
    let late = match servers {
        1 => LATE,
        _ => LATE_OF_SEVERAL,
    };
    let lost = heard.lost.iter().filter(|(incarnation, at)| {
        let known = heard.workers.get(*incarnation);
        known.is_some_and(|worker| {
            let theirs = theirs(heard, **incarnation, worker.gpu, acts);
            !is_taken(&theirs, **at, late)
        })
    });
    lost.map(|(incarnation, _)| *incarnation).collect()
}

/// The acts that hit this incarnation of a device's worker.
fn theirs(heard: &Heard, incarnation: Incarnation, gpu: GpuId, acts: &[Act]) -> Vec<Act> {
    let theirs = acts.iter().filter(|act| {
        act.whom == Whom::Worker(gpu) && heard.worker_at(gpu, act.from) == Some(incarnation)
    });
    theirs.copied().collect()
}

/// True if acts on a worker took it away by that time. Cut links do so at once, because a closed connection
/// is a reason. A stopped worker is away once the stop has lasted [`STILL`].
fn is_taken(acts: &[Act], at: Instant, late: Duration) -> bool {
    let killed = |act: &Act| act.deed == Deed::Kill && act.from <= at;
    let cut = |act: &Act| act.deed == Deed::Cut && act.span(late).has(at);
    if acts.iter().any(|act| killed(act) || cut(act)) {
        return true;
    }
    let still = acts.iter().filter(|act| act.deed == Deed::Stop);
    let still = joined(still.map(|act| act.span(Duration::ZERO)).collect(), APART);
    still.iter().any(|span| {
        let long = span.until.saturating_duration_since(span.from) >= STILL;
        let until = span.until + late;
        long && Span { until, ..*span }.has(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::watch::Worker;

    const FIRST: LeaderId = LeaderId(1);
    const SECOND: LeaderId = LeaderId(2);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    fn led(start: Instant, terms: &[(Epoch, LeaderId, u64, bool)]) -> Heard {
        let mut heard = Heard::default();
        for (epoch, leader, ms, leaving) in terms.iter().copied() {
            let term = Term {
                epoch,
                leader,
                at: at(start, ms),
                leaving,
            };
            heard.terms.insert(epoch, term);
        }
        heard
    }

    fn act(start: Instant, whom: Whom, deed: Deed, from: u64, until: u64) -> Act {
        Act {
            whom,
            deed,
            from: at(start, from),
            until: (deed != Deed::Kill).then(|| at(start, until)),
        }
    }

    #[test]
    fn a_leader_that_follows_itself_or_one_that_leaves_is_no_change() {
        let start = Instant::now();
        let terms = [
            (1, FIRST, 0, false),
            (2, FIRST, 100, true),
            (4, SECOND, 200, false),
            (5, FIRST, 300, false),
        ];
        let (unannounced, all) = changes(&led(start, &terms));
        assert_eq!(all, 2);
        let [change] = unannounced[..] else {
            panic!("{unannounced:?}");
        };
        assert_eq!(
            (change.epoch, change.before, change.after),
            (5, SECOND, FIRST)
        );
    }

    #[test]
    fn a_takeover_has_a_cause_if_its_own_leader_or_a_broker_was_hit() {
        let start = Instant::now();
        let (changes, _) = changes(&led(
            start,
            &[(1, FIRST, 0, false), (2, SECOND, 10_000, false)],
        ));
        let count = |whom, deed, from, until, servers| {
            let acts = [act(start, whom, deed, from, until)];
            false_takeovers(&changes, &acts, servers).len()
        };
        let (first, second) = (Whom::Leader(FIRST), Whom::Leader(SECOND));
        assert_eq!(
            false_takeovers(&changes, &[], 1).len(),
            1,
            "nothing was done"
        );
        assert_eq!(
            count(first, Deed::Kill, 500, 0, 1),
            0,
            "the dead never lead again"
        );
        assert_eq!(
            count(first, Deed::Kill, 10_500, 0, 1),
            1,
            "killed afterwards"
        );
        assert_eq!(
            count(second, Deed::Kill, 9_900, 0, 1),
            1,
            "another was killed"
        );
        assert_eq!(count(first, Deed::Stop, 7_000, 8_000, 1), 0);
        assert_eq!(count(first, Deed::Stop, 6_000, 7_600, 1), 1, "long over");
        assert_eq!(
            count(second, Deed::Stop, 9_000, 9_900, 1),
            1,
            "another stood still"
        );
        assert_eq!(count(first, Deed::Cut, 9_000, 12_000, 1), 0);
        assert_eq!(
            count(first, Deed::Slow, 9_000, 12_000, 1),
            1,
            "slow is not away"
        );
        assert_eq!(count(Whom::Broker, Deed::Away, 1_000, 4_800, 1), 0);
        assert_eq!(count(Whom::Broker, Deed::Away, 1_000, 4_600, 1), 1);
        assert_eq!(
            count(Whom::Broker, Deed::Away, 1_000, 2_000, 3),
            0,
            "servers choose"
        );
        assert_eq!(count(Whom::Worker(0), Deed::Kill, 9_900, 0, 1), 1);
    }

    #[test]
    fn the_time_in_which_acts_excuse_changes_is_counted_once() {
        let start = Instant::now();
        let whole = Span {
            from: start,
            until: at(start, 10_000),
        };
        let acts = [
            act(start, Whom::Leader(FIRST), Deed::Stop, 1_000, 2_000),
            act(start, Whom::Leader(SECOND), Deed::Cut, 1_000, 2_000),
            act(start, Whom::Worker(0), Deed::Cut, 8_000, 9_000),
        ];
        assert!((excused(whole, &acts, 1) - 0.33).abs() < 1e-9);
    }

    #[test]
    fn a_worker_is_lost_for_a_reason_if_it_was_killed_cut_or_stood_still_for_long() {
        let start = Instant::now();
        let mut heard = Heard::default();
        for (incarnation, ms) in [(1, 0), (2, 5_000)] {
            let worker = Worker {
                gpu: 0,
                at: at(start, ms),
            };
            heard.workers.insert(Incarnation(incarnation), worker);
        }
        heard.lost.insert(Incarnation(2), at(start, 12_000));
        let count = |acts: &[(Deed, u64, u64)], servers| {
            let acts: Vec<Act> = acts
                .iter()
                .map(|(deed, from, until)| act(start, Whom::Worker(0), *deed, *from, *until))
                .collect();
            false_losses(&heard, &acts, servers).len()
        };
        assert_eq!(count(&[], 1), 1);
        assert_eq!(count(&[(Deed::Kill, 11_900, 0)], 1), 0);
        assert_eq!(count(&[(Deed::Kill, 4_000, 0)], 1), 1, "its predecessor");
        assert_eq!(count(&[(Deed::Cut, 11_000, 11_100)], 1), 0);
        assert_eq!(count(&[(Deed::Cut, 5_100, 5_200)], 1), 1, "long over");
        assert_eq!(count(&[(Deed::Cut, 5_100, 5_200)], 3), 0);
        assert_eq!(count(&[(Deed::Stop, 9_000, 11_000)], 1), 1, "too short");
        assert_eq!(count(&[(Deed::Stop, 8_500, 12_000)], 1), 0);
        let twice = [(Deed::Stop, 8_000, 10_000), (Deed::Stop, 10_300, 12_000)];
        assert_eq!(count(&twice, 1), 0, "one after the other");
        assert_eq!(count(&[(Deed::Slow, 8_000, 12_000)], 1), 1);
    }
}
