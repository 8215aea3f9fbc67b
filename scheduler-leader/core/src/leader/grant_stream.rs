//! The stream of grants to one worker: sent, sent again, acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;

use bus_schemas::{
    Chain, Column, DoneReport, GpuPosition, Grant, GrantBatch, InputNumber, OpenGrant, Outcome,
    Residency, Row, SealAnswer, SealPage, WIRE_VERSION, encode_into, limits,
};

use super::config::Config;
use super::event::Action;
use super::publisher::Publisher;
use super::record_acks::RecordAcks;
use crate::input::{HIGHEST, WorkerReport};
use crate::time::Nanos;

/// Times, at most, that the wait doubles before grants unaccepted by a worker that is away are sent again.
const MAX_DOUBLINGS: u32 = 6;
/// Pages of a worker's tail at most.
const PAGES: u32 = 1 << 16;
/// Room in a batch of grants for all but its rows.
const HEAD_BYTES: usize = 96;

/// A grant on its way.
#[derive(Debug)]
struct Sending {
    grant: Grant,
    open: Option<Box<OpenGrant>>,
}

/// What the order was told of where sessions' memory is.
#[derive(Debug)]
pub(super) struct ToldResidency {
    pub(super) residency: Residency,
    /// How often the worker had said something of it.
    pub(super) number: u64,
    /// Returns that had ended there before.
    pub(super) returned: u64,
}

/// The grants of one worker, on their way to it.
#[derive(Debug)]
pub(super) struct GrantStream {
    subject: Arc<str>,
    pub(super) sealed: bool,
    /// When to ask it again to seal.
    seal_at: Nanos,
    /// Its tail came through this position, in so many pages.
    tail: (GpuPosition, u32),
    /// Granted and not accepted, from `accepted + 1` on.
    sending: VecDeque<Sending>,
    pub(super) accepted: GpuPosition,
    pub(super) chain: Chain,
    sent: GpuPosition,
    /// When to send again what is not accepted, and how often that was done in vain.
    retry_at: Nanos,
    retries: u32,
    /// Reports received without a gap.
    reports: u64,
    /// The worker holds a standing grant open, the one behind what is accepted.
    holds: bool,
    /// Reports that a standing grant was closed, each with the input by which it was decided on: the
    /// worker keeps the grant until they are acknowledged, which they are once that is recorded.
    closings: VecDeque<(u64, InputNumber)>,
    /// When to send what is recorded and received, if nothing else is sent before; and how far it was
    /// recorded as last sent.
    send_at: Option<Nanos>,
    sent_recorded: InputNumber,
    /// The last input that a grant which the worker has names.
    input: InputNumber,
    /// Since when it has grants of which it does not know that they are recorded.
    input_at: Nanos,
    /// When to look at the latest for whether that was recorded.
    look_at: Option<Nanos>,
    /// The input by which the worker leaves.
    pub(super) leaves: Option<InputNumber>,
    /// The worker's last report of itself that became an input, and when.
    pub(super) reported: Option<(Nanos, WorkerReport)>,
    /// Where its sessions' memory is, as the order was told last.
    pub(super) residency: Option<ToldResidency>,
}

impl GrantStream {
    pub(super) fn new(subject: Arc<str>, now: Nanos) -> Self {
        Self {
            subject,
            sealed: false,
            seal_at: now,
            tail: (0, 0),
            sending: VecDeque::new(),
            accepted: 0,
            chain: Chain::default(),
            sent: 0,
            retry_at: 0,
            retries: 0,
            reports: 0,
            holds: false,
            closings: VecDeque::new(),
            send_at: None,
            sent_recorded: 0,
            input: 0,
            input_at: 0,
            look_at: None,
            leaves: None,
            reported: None,
            residency: None,
        }
    }

    /// Reads what a report of its worker needs: all that lies apart.
    pub(super) fn fetch(&self) -> u64 {
        let sending = self.sending.iter().map(|sending| sending.grant.input);
        let own = self.accepted ^ self.reports ^ self.sent_recorded ^ self.input ^ self.retry_at;
        let subject = self.subject.as_bytes().first();
        sending.fold(own, |seen, input| seen ^ input) ^ u64::from(*subject.unwrap_or(&0))
    }

    /// Whether it is to be asked to seal, now; the next time is then later.
    pub(super) fn wants_seal(&mut self, now: Nanos, config: &Config) -> bool {
        let due = !self.sealed && now >= self.seal_at;
        if due {
            self.seal_at = now.saturating_add(config.seal_retry);
        }
        due
    }

    /// The position that its tail came through.
    pub(super) fn tail(&self) -> GpuPosition {
        self.tail.0
    }

    /// Takes a page of its tail, if it is the next one; it is then to be asked for what follows.
    pub(super) fn take_page(&mut self, now: Nanos, page: &SealPage) -> bool {
        let (through, pages) = self.tail;
        let last = page.tail.last().map_or(0, |sealed| sealed.position);
        let next = !self.sealed && page.after == through && last > through && pages < PAGES;
        if next {
            self.tail = (last, pages + 1);
            self.seal_at = now;
        }
        next
    }

    /// Goes on from what the worker has. Numbers that it cannot have come to are cut: a worker that
    /// lies must not end the leader when it counts on from them.
    pub(super) fn seal(&mut self, answer: &SealAnswer) {
        self.sealed = true;
        self.accepted = answer.position.min(HIGHEST);
        self.sent = self.accepted;
        self.chain = answer.chain;
        self.reports = answer.reports.min(HIGHEST);
    }

    /// Takes the next grant.
    pub(super) fn push(&mut self, grant: Grant, open: Option<Box<OpenGrant>>) {
        self.sending.push_back(Sending { grant, open });
    }

    /// The worker accepted through here.
    pub(super) fn accept(
        &mut self,
        now: Nanos,
        accepted: GpuPosition,
        chain: Chain,
        config: &Config,
    ) {
        let new = accepted.saturating_sub(self.accepted);
        if new == 0 || new > self.sending.len() as u64 {
            return;
        }
        let kept = self.sent_recorded < self.input;
        for gone in self.sending.drain(..new as usize) {
            self.input = gone.grant.input;
        }
        if !kept {
            self.input_at = now;
        }
        self.accepted = accepted;
        self.holds = false;
        self.chain = chain;
        self.sent = self.sent.max(accepted);
        self.retries = 0;
        self.retry_at = now.saturating_add(config.order_retry);
    }

    /// The reports that are new, and how many there were before them; none if some before them are missing.
    pub(super) fn new_reports(
        &mut self,
        now: Nanos,
        first: u64,
        reports: &Column<'_, DoneReport>,
        config: &Config,
    ) -> (Vec<DoneReport>, usize) {
        if reports.is_empty() {
            return Default::default();
        }
        self.send_by(now.saturating_add(config.order_linger));
        let Some(old) = (self.reports + 1).checked_sub(first) else {
            return Default::default();
        };
        let old = usize::try_from(old).unwrap_or(usize::MAX);
        let new: Vec<_> = reports.iter().skip(old).collect();
        self.reports += new.len() as u64;
        let held = |report: &DoneReport| {
            report.outcome == Outcome::Part && report.position == self.accepted + 1
        };
        if !self.holds && new.iter().any(held) {
            self.holds = true;
            self.sent = self.sent.max(self.held());
            self.retries = 0;
            self.retry_at = now.saturating_add(config.order_retry);
        }
        (new, old)
    }

    /// The last position that need not be sent again.
    fn held(&self) -> GpuPosition {
        self.accepted + u64::from(self.holds)
    }

    /// Of the reports received, the one `behind` the last was that a standing grant is closed, and
    /// became this input.
    pub(super) fn closed(&mut self, behind: u64, input: InputNumber) {
        self.closings.push_back((self.reports - behind, input));
    }

    /// Reports that the worker may forget.
    fn acknowledged(&self) -> u64 {
        let first = self.closings.front();
        first.map_or(self.reports, |(report, _)| report - 1)
    }

    /// Plans when to acknowledge: where more is recorded than the worker knows, and it keeps grants for
    /// that, it is sent soon. Until that is so, nothing need be looked at for as long as it may wait.
    fn plan_acks(&mut self, now: Nanos, acks: &RecordAcks, config: &Config) {
        let through = acks.through();
        while let Some((_, input)) = self.closings.pop_front_if(|(_, input)| *input <= through) {
            let since = acks.beyond(input.saturating_sub(1)).unwrap_or(now);
            self.send_by(since.saturating_add(config.record_linger));
        }
        let keeps = self.sent_recorded < self.input;
        if let Some(since) = acks.beyond(self.sent_recorded).filter(|_| keeps) {
            let since = since.max(self.input_at);
            self.send_by(since.saturating_add(config.record_linger));
        }
        let waits = keeps || !self.closings.is_empty();
        self.look_at = waits.then(|| now.saturating_add(config.record_linger));
    }

    fn send_by(&mut self, at: Nanos) {
        self.send_at = Some(self.send_at.map_or(at, |before| before.min(at)));
    }

    /// Sends what is new or due.
    pub(super) fn flush(
        &mut self,
        now: Nanos,
        (recorded, acks): (InputNumber, &RecordAcks),
        publisher: &Publisher,
        config: &Config,
        actions: &mut Vec<Action>,
    ) {
        if !self.sealed {
            return;
        }
        self.plan_acks(now, acks, config);
        if self.sent > self.held() && now >= self.retry_at {
            self.sent = self.held();
            self.retries = (self.retries + 1).min(MAX_DOUBLINGS);
            self.wait(now, config);
            self.send_next(recorded, publisher, actions);
        }
        while self.sent - self.accepted < self.sending.len() as u64 && self.retries == 0 {
            if self.sent == self.held() {
                self.wait(now, config);
            }
            self.send_next(recorded, publisher, actions);
        }
        if self.send_at.is_some_and(|at| now >= at) {
            self.send_range(0, 0, recorded, publisher, actions);
        }
    }

    /// Sends at once what is recorded, where the worker does not know. Reports that a standing grant
    /// was closed are not acknowledged with it: where that went unrecorded, only the tail shows it.
    pub(super) fn send_recorded(
        &mut self,
        recorded: InputNumber,
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        if self.sealed && self.sent_recorded < recorded {
            self.send_range(0, 0, recorded, publisher, actions);
        }
    }

    fn wait(&mut self, now: Nanos, config: &Config) {
        self.retry_at = now.saturating_add(config.order_retry << self.retries);
    }

    /// Sends as many grants behind `sent` as one message holds.
    fn send_next(
        &mut self,
        recorded: InputNumber,
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        let skip = (self.sent - self.accepted) as usize;
        let count = (self.sending.len() - skip).min(limits::BATCH_GRANTS);
        self.send_range(skip, count, recorded, publisher, actions);
        self.sent += count as u64;
    }

    fn send_range(
        &mut self,
        skip: usize,
        count: usize,
        recorded: InputNumber,
        publisher: &Publisher,
        actions: &mut Vec<Action>,
    ) {
        let sending = self.sending.range(skip..skip + count);
        let opens = sending
            .clone()
            .filter_map(|sending| sending.open.as_deref().cloned());
        let mut packed = Vec::with_capacity(count * Grant::SIZE);
        let batch = GrantBatch {
            v: WIRE_VERSION,
            epoch: publisher.epoch,
            leader: publisher.leader,
            first: self.sent + 1,
            recorded,
            reports: self.acknowledged(),
            grants: Column::pack(sending.map(|sending| &sending.grant), &mut packed),
            opens: opens.collect(),
        };
        let room =
            HEAD_BYTES + batch.grants.len() * Grant::SIZE + batch.opens.len() * OpenGrant::SIZE;
        let mut bytes = Vec::with_capacity(room);
        encode_into(&batch, &mut bytes);
        publisher.publish(self.subject.clone(), bytes, actions);
        (self.send_at, self.sent_recorded) = (None, recorded);
    }

    pub(super) fn deadline(&self) -> Option<Nanos> {
        if !self.sealed {
            return Some(self.seal_at);
        }
        let retry = (self.sent > self.held()).then_some(self.retry_at);
        [retry, self.send_at, self.look_at]
            .into_iter()
            .flatten()
            .min()
    }
}
