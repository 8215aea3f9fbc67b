//! The times of the messages to leaders: reports, their repetition, heartbeats.

use crate::Nanos;

/// Times at which leaders are told something.
#[derive(Debug)]
pub(super) struct ReportTimes {
    /// Time since which there is something to report.
    wanted: Option<Nanos>,
    /// True if the report must not wait.
    urgent: bool,
    /// Time of the last report.
    last: Nanos,
    repeat_at: Option<Nanos>,
    repeat_period: Nanos,
    beat_at: Nanos,
}

impl ReportTimes {
    /// Nothing to report; an answer that is missing is waited for as long as `period`.
    pub(super) fn new(period: Nanos) -> Self {
        Self {
            wanted: None,
            urgent: false,
            last: 0,
            repeat_at: None,
            repeat_period: period,
            beat_at: 0,
        }
    }

    /// Begins an epoch: its leader has heard all so far, but no heartbeat.
    pub(super) fn begin_epoch(&mut self) {
        self.wanted = None;
        self.urgent = false;
        self.repeat_at = None;
        self.beat_at = 0;
    }

    /// Notes a change to report soon.
    pub(super) fn want(&mut self, now: Nanos) {
        self.wanted.get_or_insert(now);
    }

    /// Notes that the report must not wait.
    pub(super) fn urge(&mut self) {
        self.urgent = true;
    }

    /// Time since which there is something to report.
    pub(super) fn wanted(&self) -> Option<Nanos> {
        self.wanted
    }

    /// Time of the last report.
    pub(super) fn last(&self) -> Nanos {
        self.last
    }

    /// Returns true if there is something to report and it is due or urgent; it counts as reported.
    pub(super) fn take(&mut self, now: Nanos, due: bool) -> bool {
        let taken = self.wanted.is_some() && (self.urgent || due);
        if taken {
            self.wanted = None;
            self.urgent = false;
            self.last = now;
        }
        taken
    }

    /// Notes an answer of the leader: the next one is waited for as long as `period`.
    pub(super) fn answered(&mut self, period: Nanos) {
        self.repeat_period = period;
        self.repeat_at = None;
    }

    /// True if an answer is waited for.
    pub(super) fn awaits_answer(&self) -> bool {
        self.repeat_at.is_some()
    }

    /// Waits for an answer from now on.
    pub(super) fn await_answer(&mut self, now: Nanos) {
        self.repeat_at = Some(now + self.repeat_period);
    }

    /// Returns true if the wait for the answer is over.
    pub(super) fn gives_up(&mut self, now: Nanos) -> bool {
        self.repeat_at.take_if(|at| now >= *at).is_some()
    }

    /// Reports again, and waits twice as long for the answer, `most` at the most.
    pub(super) fn repeat(&mut self, now: Nanos, most: Nanos) {
        self.repeat_period = (self.repeat_period * 2).min(most);
        self.urgent = true;
        self.want(now);
    }

    /// Makes the next heartbeat due.
    pub(super) fn hurry_beat(&mut self, now: Nanos) {
        self.beat_at = now;
    }

    /// Returns true if a heartbeat is due; the next one follows after `period`.
    pub(super) fn beats(&mut self, now: Nanos, period: Nanos) -> bool {
        let due = now >= self.beat_at;
        if due {
            self.beat_at = now + period;
        }
        due
    }

    /// Time of the next repetition or heartbeat.
    pub(super) fn next(&self) -> Nanos {
        self.repeat_at
            .map_or(self.beat_at, |at| at.min(self.beat_at))
    }
}
