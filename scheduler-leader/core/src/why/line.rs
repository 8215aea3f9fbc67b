//! A session's line: its waiting ops, and the causes of their waits.

use std::collections::VecDeque;

use bus_schemas::OpNumber;

use super::cause::Cause;
use super::sums::{Key, Sums};
use crate::time::Nanos;

/// Maximum number of kept announcements of a session; beyond it, the last ones count as one.
const ANNOUNCED: usize = 1_024;

/// Ops that were announced together and are not granted.
#[derive(Debug)]
struct Announced {
    last: OpNumber,
    at: Nanos,
    /// The session's sums at that time.
    sums: Sums,
    /// True if they were granted before, in vain: their worker lacked them.
    voided: bool,
}

/// Maximum number of stretches kept of a session; the newest are kept.
const STRETCHES: usize = 256;

/// A wait that ended with a grant.
#[derive(Debug, Clone, Default)]
pub(super) struct Waited {
    /// Time at which its first op was announced.
    pub(super) since: Nanos,
    /// The session's sums at that time.
    before: Sums,
    /// The wait by cause.
    pub(super) sums: Sums,
    /// Stretches in which it was next and the window was full: the device's work then tells more.
    pub(super) full: Vec<(Nanos, Nanos)>,
    /// True if it was granted before, in vain: its worker lacked its ops.
    pub(super) voided: bool,
}

/// One session.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Sums of all its waits.
    sums: Sums,
    /// Time through which `sums` is accounted.
    until: Nanos,
    /// The present cause of its wait.
    cause: Option<Key>,
    announced: VecDeque<Announced>,
    /// Stretches in which it was next and the window was full.
    full: VecDeque<(Nanos, Nanos)>,
    /// The last op that was granted or has run; 0 if none is known.
    through: OpNumber,
}

impl Line {
    /// Changes the cause of its wait from now on; `None` ends the wait.
    pub(super) fn set_cause(&mut self, now: Nanos, cause: Option<Key>) {
        self.pass(now);
        self.cause = cause;
    }

    fn pass(&mut self, now: Nanos) {
        if let Some(cause) = &self.cause {
            self.sums.add(cause, now.saturating_sub(self.until));
            if is_full(cause.0) && now > self.until {
                self.note_full((self.until, now));
            }
        }
        self.until = self.until.max(now);
    }

    fn note_full(&mut self, stretch: (Nanos, Nanos)) {
        match self.full.back_mut() {
            Some(last) if last.1 == stretch.0 => last.1 = stretch.1,
            _ => self.full.push_back(stretch),
        }
        let oldest = self.announced.front().map_or(stretch.0, |it| it.at);
        let past = |it: &(Nanos, Nanos)| it.1 <= oldest;
        while self.full.front().is_some_and(past) || self.full.len() > STRETCHES {
            self.full.pop_front();
        }
    }

    /// Notes that ops through `last` were announced. New ones wait from now on. Ops of an earlier
    /// grant that did not stand have waited since before it.
    pub(super) fn announce(&mut self, now: Nanos, last: OpNumber, before: Option<Waited>) {
        let full = self.announced.len() >= ANNOUNCED;
        if let Some(newest) = self.announced.back_mut()
            && (last <= newest.last || full)
        {
            newest.last = newest.last.max(last);
            return;
        }
        self.wait(now, last, before, false);
    }

    /// Notes that granted ops did not run, for the worker lacked them: they go on waiting.
    pub(super) fn give_back(&mut self, now: Nanos, last: OpNumber, before: Option<Waited>) {
        self.wait(now, last, before, true);
    }

    fn wait(&mut self, now: Nanos, last: OpNumber, before: Option<Waited>, voided: bool) {
        self.pass(now);
        let (at, sums) = match before {
            Some(before) => (before.since, before.before),
            None => (now, self.sums.clone()),
        };
        let announced = Announced {
            last,
            at,
            sums,
            voided,
        };
        match voided {
            true => self.announced.push_front(announced),
            false => self.announced.push_back(announced),
        }
    }

    /// Notes that ops were granted. Returns their wait, if its start is known.
    pub(super) fn grant(&mut self, now: Nanos, first: OpNumber, last: OpNumber) -> Option<Waited> {
        let waited = self.stand(now, first)?;
        self.ran(last);
        Some(waited)
    }

    /// Notes a standing grant. Returns the wait of its first op, if that was announced before. The
    /// ops that will have run under it are not known yet.
    pub(super) fn stand(&mut self, now: Nanos, first: OpNumber) -> Option<Waited> {
        self.pass(now);
        let of = self.announced.iter().find(|it| it.last >= first)?;
        Some(Waited {
            since: of.at,
            before: of.sums.clone(),
            sums: self.sums.since(&of.sums),
            full: self.full_between(of.at, now),
            voided: of.voided,
        })
    }

    /// Ends the wait of ops through this one. Returns the last op of the time before; 0 if none is known.
    pub(super) fn ran(&mut self, through: OpNumber) -> OpNumber {
        let before = self.through;
        self.through = before.max(through);
        while self.announced.front().is_some_and(|it| it.last <= through) {
            self.announced.pop_front();
        }
        before
    }

    fn full_between(&self, from: Nanos, to: Nanos) -> Vec<(Nanos, Nanos)> {
        let within = self.full.iter().map(|it| (it.0.max(from), it.1.min(to)));
        within.filter(|it| it.1 > it.0).collect()
    }

    /// Notes that its leader is gone, or has started anew: waiting ops wait for the next leader.
    pub(super) fn lose_leader(&mut self, now: Nanos) {
        let waits = !self.announced.is_empty();
        self.set_cause(now, waits.then_some((Cause::Leader, None)));
    }

    /// Returns true if none of its ops wait.
    pub(super) fn is_idle(&self) -> bool {
        self.cause.is_none() && self.announced.is_empty()
    }
}

/// Returns true for the causes of a session that is next and has no room.
pub(super) fn is_full(cause: Cause) -> bool {
    matches!(cause, Cause::Window | Cause::Own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: Option<Key> = Some((Cause::Share, None));
    const HOLD: Option<Key> = Some((Cause::Hold, None));

    fn told(waited: &Waited) -> Vec<(Cause, u64)> {
        let waits = waited.sums.waits().into_iter();
        waits.map(|wait| (wait.cause, wait.ns)).collect()
    }

    #[test]
    fn what_was_announced_later_waited_less_and_each_moment_counts_once() {
        let mut line = Line::default();
        line.announce(100, 4, None);
        line.set_cause(100, SHARE);
        line.announce(150, 9, None);
        line.set_cause(170, HOLD);
        let first = line.grant(200, 1, 4).unwrap();
        assert_eq!(first.since, 100);
        assert_eq!(told(&first), [(Cause::Share, 70), (Cause::Hold, 30)]);
        line.set_cause(230, None);
        let second = line.grant(260, 5, 9).unwrap();
        assert_eq!(second.since, 150);
        assert_eq!(told(&second), [(Cause::Hold, 60), (Cause::Share, 20)]);
        assert!(line.is_idle());
        assert!(line.grant(270, 10, 12).is_none(), "nobody announced it");
    }

    #[test]
    fn under_a_standing_grant_ops_wait_no_more_once_they_have_run() {
        let mut line = Line::default();
        line.announce(100, 4, None);
        line.set_cause(100, HOLD);
        let stood = line.stand(150, 1).unwrap();
        assert_eq!((stood.since, told(&stood)), (100, vec![(Cause::Hold, 50)]));
        line.set_cause(150, None);
        line.announce(160, 9, None);
        line.ran(4);
        line.set_cause(200, SHARE);
        // It was closed behind op 4; the next grant has the other ops.
        let then = line.grant(230, 5, 9).unwrap();
        assert_eq!((then.since, told(&then)), (160, vec![(Cause::Share, 30)]));
        assert!(line.stand(240, 10).is_none());
    }

    #[test]
    fn a_slice_that_was_void_or_cut_goes_on_waiting() {
        let mut line = Line::default();
        line.announce(100, 9, None);
        line.set_cause(100, SHARE);
        let void = line.grant(120, 1, 5).unwrap();
        assert_eq!((void.since, void.voided), (100, false));
        line.set_cause(120, None);
        line.give_back(150, 5, Some(void));
        line.set_cause(150, HOLD);
        let again = line.grant(190, 1, 5).unwrap();
        assert_eq!((again.since, again.voided), (100, true));
        // The time from its grant until it was void is its own program's.
        let waits = [(Cause::Hold, 40), (Cause::Share, 20)];
        assert_eq!(told(&again), waits);
        assert_eq!(line.grant(200, 6, 9).unwrap().since, 100);
    }

    #[test]
    fn what_a_leader_granted_in_vain_waits_since_it_was_announced_first() {
        let mut line = Line::default();
        line.announce(100, 4, None);
        line.set_cause(100, SHARE);
        let lost = line.grant(130, 1, 4).unwrap();
        line.announce(140, 9, None);
        line.lose_leader(150);
        // The next leader hears all ops that it has not accepted, in one piece.
        line.announce(300, 9, Some(lost));
        line.set_cause(300, SHARE);
        let then = line.grant(310, 5, 9).unwrap();
        assert_eq!(then.since, 140);
        assert_eq!(told(&then), [(Cause::Leader, 150), (Cause::Share, 20)]);
    }

    #[test]
    fn when_the_window_was_full_is_kept_as_long_as_somebody_waits() {
        let full = Some((Cause::Window, None));
        let mut line = Line::default();
        line.announce(100, 1, None);
        line.set_cause(100, full.clone());
        line.set_cause(120, SHARE);
        line.set_cause(130, full.clone());
        line.announce(135, 2, None);
        assert_eq!(
            line.grant(140, 1, 1).unwrap().full,
            [(100, 120), (130, 140)]
        );
        assert_eq!(line.grant(150, 2, 2).unwrap().full, [(135, 150)]);
        for at in 0..10_000 {
            line.set_cause(200 + 2 * at, full.clone());
            line.set_cause(201 + 2 * at, SHARE);
        }
        assert!(line.full.len() <= STRETCHES);
    }

    #[test]
    fn more_announcements_than_are_kept_count_as_one() {
        let mut line = Line::default();
        for op in 1..=3 * ANNOUNCED as u64 {
            line.announce(op, op, None);
        }
        assert_eq!(line.announced.len(), ANNOUNCED);
        let last = 3 * ANNOUNCED as u64;
        assert_eq!(
            line.grant(1 << 20, last, last).unwrap().since,
            ANNOUNCED as u64
        );
    }
}
