//! Messages of leaders (grant batches, the end of the worker) and the reports to them.

use bus_schemas::{
    DoneTimes, Epoch, GrantBatch, LeaderId, Leave, Lost, Outcome, SessionFault, invariant,
};

use super::obeyed::Standpoint;
use super::session::Phase;
use super::{Action, BeatAction, DoneMessage, ExitReason, Sequencer};
use crate::Nanos;

/// Maximum number of faults in one message.
const FAULTS: usize = 256;

impl Sequencer {
    /// True if the worker obeys this leader.
    #[must_use]
    pub fn obeys(&self, epoch: Epoch, leader: LeaderId) -> bool {
        self.obeyed.standpoint(epoch, leader) == Standpoint::Obeyed
    }

    pub(super) fn on_grants(
        &mut self,
        now: Nanos,
        batch: &GrantBatch<'_>,
        actions: &mut Vec<Action>,
    ) {
        match self.obeyed.standpoint(batch.epoch, batch.leader) {
            Standpoint::Obeyed => {}
            Standpoint::Unsealed => return,
            Standpoint::Stale => {
                let refusal = self.obeyed.refuse(now, self.config.refusal_ns);
                actions.extend(refusal.map(Action::Refuse));
                return;
            }
        }
        let (told, obeyed) = ((batch.epoch, batch.leader), self.obeyed.id());
        invariant!(
            I3,
            told == obeyed,
            "{told:?} is heard while {obeyed:?} is obeyed"
        );
        if self.reports.acknowledge(batch.reports) {
            self.times.answered(self.config.repeat_ns);
            self.standings.acknowledge(self.reports.acknowledged());
        }
        let unrecorded = self.standings.unrecorded();
        self.tail.forget((batch.epoch, batch.recorded), unrecorded);
        if self.departure.is_draining() {
            return;
        }
        for (index, grant) in (0_u64..).zip(batch.grants.iter()) {
            let Some(position) = batch.first.checked_add(index) else {
                return;
            };
            let next = self.next_position();
            if position < next {
                // The leader sent it again: it does not know yet that it is accepted.
                self.report_soon(now);
                continue;
            }
            let sane = grant.epoch == batch.epoch && Self::is_sane(&grant);
            let near = position - self.chain_end.position() <= self.config.ahead as u64;
            if !sane || !near {
                return;
            }
            let open = batch
                .opens
                .iter()
                .find(|open| open.session == grant.session);
            if position == next && self.ahead.is_empty() {
                if !self.accept(now, grant, open, actions) {
                    return;
                }
            } else {
                self.ahead.insert(position, (grant, open.cloned()));
            }
        }
        self.close_gap(now, actions);
    }

    /// Accepts grants that were kept aside above a gap, once the gap is filled.
    fn close_gap(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        while let Some((position, (grant, open))) = self.ahead.pop_first() {
            let next = self.next_position();
            if position > next {
                self.ahead.insert(position, (grant, open));
                return;
            }
            if position == next && !self.accept(now, grant, open.as_ref(), actions) {
                return;
            }
        }
    }

    pub(super) fn faults(&self, most: usize) -> Vec<SessionFault> {
        self.sessions.faults().take(most).collect()
    }

    pub(super) fn on_lost(&mut self, lost: &Lost, actions: &mut Vec<Action>) {
        let stale = self.obeyed.standpoint(lost.epoch, lost.leader) == Standpoint::Stale;
        if lost.incarnation == self.identity.incarnation && !stale {
            self.departure.exit();
            actions.push(Action::Exit(ExitReason::Lost));
        }
    }

    /// Handles the word of the current leader that it has no more use for this worker. The worker finishes
    /// grants that it has accepted meanwhile, or has from an earlier leader. The leader repeats its word when
    /// those have ended.
    pub(super) fn on_leave(&mut self, now: Nanos, leave: &Leave, actions: &mut Vec<Action>) {
        if leave.taken {
            // A worker that has obeyed a leader has its number.
            if self.obeyed.epoch() == 0 {
                self.departure.exit();
                actions.push(Action::Exit(ExitReason::NumberTaken));
            }
            return;
        }
        let obeyed = self.obeys(leave.epoch, leave.leader);
        let closed = |phase: Phase| matches!(phase, Phase::Closed(_));
        let empty = self.sessions.iter().all(|entry| closed(entry.phase));
        if leave.noted {
            if obeyed && self.departure.is_draining() {
                self.departure.note();
            }
        } else if obeyed && empty && self.pending.is_empty() {
            self.drain(now, actions);
        }
    }

    /// Accepts nothing more, and leaves when everything accepted has ended.
    pub(super) fn drain(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if self.departure.begin(now) {
            // Leaders are told at once, and once: they may answer each heartbeat by repeating their word.
            self.times.hurry_beat(now);
        }
        self.close_standing(now, actions);
        self.ahead.clear();
    }

    /// Sends the messages to leaders and clients that are due.
    pub(super) fn flush(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        self.flush_acks(now, actions);
        self.repeat_if_due(now);
        // A device that is idle after very little work is typical of a program that waits for each launch. No
        // window waits for so little, and a report of each launch would slow the program by a tenth.
        let little = self.reports.are_little(self.config.little_ns);
        let idle = self.is_idle() && !little;
        let full = self.reports.unsent() >= self.config.report_count as u64;
        let due = idle || full || now >= self.report_due();
        if self.times.take(now, due) {
            self.send_done(now, actions);
            while self.reports.unsent() > 0 {
                self.send_done(now, actions);
            }
        }
        if !self.times.awaits_answer() && self.has_unanswered() {
            self.times.await_answer(now);
        }
        if self.times.beats(now, self.config.beat_ns) {
            let (epoch, leader) = self.obeyed.id();
            actions.push(Action::Beat(BeatAction {
                epoch,
                leader,
                draining: self.departure.is_draining(),
            }));
        }
    }

    /// Time of the next report while the device is busy. Ends are reported unless another report was sent
    /// just before; mere acceptance is reported a little later.
    pub(super) fn report_due(&self) -> Nanos {
        let since = match self.times.wanted() {
            Some(since) if self.reports.unsent() == 0 => since.max(self.times.last()),
            Some(since) if self.is_idle() || self.is_progress() => {
                return since + self.config.linger_little_ns;
            }
            _ => self.times.last(),
        };
        since + self.config.report_ns
    }

    /// True if all unsent reports are small progress of the open standing grant. No grant waits for that: a
    /// grant behind it closes it, which is reported at once.
    fn is_progress(&self) -> bool {
        let goes_on = |position| self.reports.are_of(position, Outcome::Part);
        let open = self.standings.open_position();
        open.is_some_and(goes_on) && self.reports.are_little(self.config.little_ns)
    }

    /// True if the leader owes an answer to a report.
    fn has_unanswered(&self) -> bool {
        let sealed = self.obeyed.epoch() > 0;
        let waiting = self.reports.is_waiting() || self.sessions.any_faulted();
        sealed && (waiting || self.sessions.any_ungranted())
    }

    fn repeat_if_due(&mut self, now: Nanos) {
        if !self.times.gives_up(now) {
            return;
        }
        if self.has_unanswered() {
            self.reports.rewind();
            self.times.repeat(now, self.config.repeat_max_ns);
        } else {
            self.times.answered(self.config.repeat_ns);
        }
    }

    fn send_done(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let (first, reports, rows) = self.reports.take();
        let timed = self.obeyed.wants_times() && !rows.is_empty();
        let times = timed.then(|| DoneTimes {
            clock: now,
            compiled: self.reports.compiled(first, rows.len()),
            rows,
        });
        actions.push(Action::SendDone(DoneMessage {
            epoch: self.obeyed.epoch(),
            accepted: self.chain_end.position(),
            chain: self.chain_end.chain(),
            first,
            reports,
            received: self.sessions.received(),
            faults: self.faults(FAULTS),
            times,
        }));
    }

    /// Makes a draining worker leave once nothing that it accepted remains to be done or reported.
    pub(super) fn leave_if_drained(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let Some(since) = self.departure.since() else {
            return;
        };
        if !self.pending.is_empty() {
            self.departure.note_work(now);
            return;
        }
        let received = self.sessions.iter().all(|e| e.acknowledged == e.results);
        if received && self.is_released() || now >= self.leave_at(since) {
            self.departure.exit();
            actions.push(Action::Exit(ExitReason::Drained));
        }
    }

    /// True if leaders need to hear nothing more of a draining worker. A worker that left before its leader
    /// knew might be taken for lost: leaders learn of the closed connection on another way than of its
    /// messages, perhaps sooner.
    fn is_released(&self) -> bool {
        self.obeyed.epoch() == 0 || (self.reports.is_clear() && self.departure.is_noted())
    }

    /// Latest time at which a worker that is idle since `since` leaves.
    pub(super) fn leave_at(&self, since: Nanos) -> Nanos {
        match self.is_released() {
            true => since + self.config.linger_ns,
            false => since + self.config.leave_ns,
        }
    }
}
