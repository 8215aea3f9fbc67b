//! The delay from a worker's death to the time at which its programs know of it. A pure function of the
//! observations and the acts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bus_schemas::Incarnation;

use super::acts::{Act, Deed, Whom, covered};
use super::watch::{Heard, Span};

/// Time within which a program has to know of its worker's death.
pub(super) const WORD: Duration = Duration::from_secs(5);

/// A session, as its program reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lived {
    /// Its worker.
    pub(super) worker: Incarnation,
    /// The program.
    pub(super) program: usize,
    /// True if the program only waits for its end.
    pub(super) idle: bool,
    /// Time at which the program first knew of the session's end; `None` if it does not.
    pub(super) word: Option<Instant>,
}

/// Findings about the sessions of dead workers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// Sessions that were open when their worker died.
    pub(super) sessions: usize,
    /// Of these, the sessions of idle programs.
    pub(super) idle: usize,
    /// Sessions of programs that did not know in time.
    pub(super) untold: usize,
    /// Of these, the sessions of idle programs.
    pub(super) untold_idle: usize,
    /// The workers of these sessions, each with the time from its death to the leader's declaration and to
    /// the program's knowledge.
    pub(super) late: Vec<(Incarnation, Option<Duration>, Duration)>,
    /// The longest time from a death to the program's knowledge, hindered or not.
    pub(super) longest: Duration,
}

/// Checks every session of every worker that was killed or declared lost.
///
/// Time in which the program itself was stopped or had no links does not count. Neither does time without a
/// leader, which has goals of its own.
pub(super) fn told(lived: &[Lived], heard: &Heard, acts: &[Act], now: Instant) -> Told {
    let deaths = deaths(heard, acts);
    let leaderless = heard.leaderless_until(now);
    let mut told = Told::default();
    for session in lived {
        let Some(death) = deaths.get(&session.worker) else {
            continue;
        };
        if session.word.is_some_and(|word| word <= *death) {
            continue;
        }
        let span = Span {
            from: *death,
            until: session.word.unwrap_or(now),
        };
        let took = span.until.saturating_duration_since(span.from);
        let mut hindered = leaderless.clone();
        hindered.extend(hindrances(session.program, acts));
        let late = took.saturating_sub(covered(span, hindered)) > WORD;
        told.sessions += 1;
        told.idle += usize::from(session.idle);
        told.untold += usize::from(late);
        if late {
            let lost = heard.lost.get(&session.worker);
            let lost = lost.map(|at| at.saturating_duration_since(*death));
            told.late.push((session.worker, lost, took));
        }
        told.untold_idle += usize::from(late && session.idle);
        told.longest = told.longest.max(took);
    }
    told
}

/// Times of the workers' deaths: of the kill, or else of the declaration.
fn deaths(heard: &Heard, acts: &[Act]) -> BTreeMap<Incarnation, Instant> {
    let mut deaths = heard.lost.clone();
    for act in acts.iter().filter(|act| act.deed == Deed::Kill) {
        if let Whom::Worker(gpu) = act.whom
            && let Some(worker) = heard.worker_at(gpu, act.from)
        {
            let death = deaths.entry(worker).or_insert(act.from);
            *death = act.from.min(*death);
        }
    }
    deaths
}

/// Spans in which a program could hear nothing.
fn hindrances(program: usize, acts: &[Act]) -> impl Iterator<Item = Span> + '_ {
    let theirs = acts
        .iter()
        .filter(move |act| act.whom == Whom::Program(program) && act.deed != Deed::Kill);
    theirs.map(|act| act.span(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::watch::Worker;

    #[test]
    fn who_has_word_late_or_never_is_untold_unless_it_could_not_hear() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut heard = Heard::default();
        let worker = Worker { gpu: 1, at: start };
        heard.workers.insert(Incarnation(5), worker);
        let kill = Act {
            whom: Whom::Worker(1),
            deed: Deed::Kill,
            from: at(1_000),
            until: None,
        };
        let stop = |from, until| Act {
            whom: Whom::Program(3),
            deed: Deed::Stop,
            from: at(from),
            until: Some(at(until)),
        };
        let lived = |worker, word: Option<u64>| Lived {
            worker: Incarnation(worker),
            program: 3,
            idle: true,
            word: word.map(at),
        };
        let untold = |word, acts: &[Act]| {
            let told = told(&[lived(5, word)], &heard, acts, at(60_000));
            (told.sessions, told.untold)
        };
        assert_eq!(untold(Some(900), &[kill]), (0, 0), "it ended before");
        assert_eq!(untold(Some(6_000), &[kill]), (1, 0));
        assert_eq!(untold(Some(6_100), &[kill]), (1, 1));
        assert_eq!(untold(None, &[kill]), (1, 1));
        assert_eq!(untold(Some(6_100), &[kill, stop(500, 1_500)]), (1, 0));
        assert_eq!(untold(Some(6_100), &[kill, stop(200, 900)]), (1, 1));
        let other = told(&[lived(6, None)], &heard, &[kill], at(60_000));
        assert_eq!(other, Told::default(), "its worker lives");
        heard.leaderless.push(Span {
            from: at(900),
            until: at(1_500),
        });
        let told = told(&[lived(5, Some(6_400))], &heard, &[kill], at(60_000));
        assert_eq!((told.untold, told.longest.as_millis()), (0, 5_400));
    }

    #[test]
    fn a_worker_that_was_declared_lost_is_dead_from_then_on() {
        let start = Instant::now();
        let mut heard = Heard::default();
        heard.lost.insert(Incarnation(5), start);
        let lived = Lived {
            worker: Incarnation(5),
            program: 0,
            idle: false,
            word: None,
        };
        let told = told(&[lived], &heard, &[], start + Duration::from_secs(6));
        assert_eq!((told.sessions, told.untold, told.untold_idle), (1, 1, 0));
    }
}
