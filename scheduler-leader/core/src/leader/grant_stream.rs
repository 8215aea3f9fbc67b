//! The stream of grants to one worker: send, retry, acknowledge.

use std::collections::VecDeque;
use std::sync::Arc;

use bus_schemas::{
    Chain, Column, DoneReport, GpuPosition, Grant, GrantBatch, InputNumber, OpenGrant, Outcome,
    Residency, Row, SealAnswer, SealPage, WIRE_VERSION, encode_into, limits,
};

use super::config::LeaderConfig;
use super::event::Action;
use super::publisher::Publisher;
use super::record_acks::RecordAcks;
use crate::input::{HIGHEST, WorkerReport};
use crate::time::Nanos;

/// Maximum number of doublings of the wait before unaccepted grants are sent again to a worker that
/// is away.
const MAX_DOUBLINGS: u32 = 6;
/// Maximum number of pages of a worker's tail.
const PAGES: u32 = 1 << 16;
/// Bytes of a batch of grants outside its rows.
const HEAD_BYTES: usize = 96;

/// A grant on its way.
#[derive(Debug)]
struct Sending {
    grant: Grant,
    open: Option<Box<OpenGrant>>,
}

/// The place of sessions' memory as the order was last told.
#[derive(Debug)]
pub(super) struct ToldResidency {
    pub(super) residency: Residency,
    /// Number of the worker's reports of it so far.
    pub(super) number: u64,
    /// Number of returns that had ended there before.
    pub(super) returned: u64,
}

/// The grants of one worker, on their way to it.
#[derive(Debug)]
pub(super) struct GrantStream {
    subject: Arc<str>,
    pub(super) sealed: bool,
    /// Time at which to ask it again to seal.
    seal_at: Nanos,
    /// Last position of its tail that was received, and the number of pages.
    tail: (GpuPosition, u32),
    /// Grants that are not accepted, from `accepted + 1` on.
    sending: VecDeque<Sending>,
    pub(super) accepted: GpuPosition,
    pub(super) chain: Chain,
    sent: GpuPosition,
    /// Time at which to send unaccepted grants again, and the number of retries in vain.
    retry_at: Nanos,
    retries: u32,
    /// Reports received without a gap.
    reports: u64,
    /// True if the worker holds a standing grant open, the one behind the accepted grants.
    holds: bool,
    /// Reports that a standing grant was closed, each with the input by which it was decided. The
    /// worker keeps the grant until they are acknowledged, which happens once that input is
    /// recorded.
    closings: VecDeque<(u64, InputNumber)>,
    /// Time at which to send the acknowledgements, if no other message is sent before; and the last
    /// recorded input in the last message.
    send_at: Option<Nanos>,
    sent_recorded: InputNumber,
    /// The last input that a grant which the worker has names.
    input: InputNumber,
    /// Time since which it has grants that it does not know to be recorded.
    input_at: Nanos,
    /// Latest time at which to check if that input was recorded.
    look_at: Option<Nanos>,
    /// The input by which the worker leaves.
    pub(super) leaves: Option<InputNumber>,
    /// The worker's last report of itself that became an input, and the time of that.
    pub(super) reported: Option<(Nanos, WorkerReport)>,
    /// The place of its sessions' memory, as the order was last told.
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

    /// Reads ahead what a report of its worker needs, where it lies apart in memory.
    pub(super) fn fetch(&self) -> u64 {
        let sending = self.sending.iter().map(|sending| sending.grant.input);
        let own = self.accepted ^ self.reports ^ self.sent_recorded ^ self.input ^ self.retry_at;
        let subject = self.subject.as_bytes().first();
        sending.fold(own, |seen, input| seen ^ input) ^ u64::from(*subject.unwrap_or(&0))
    }

    /// Returns true if it is to be asked to seal now; then sets the next time.
    pub(super) fn wants_seal(&mut self, now: Nanos, config: &LeaderConfig) -> bool {
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

    /// Takes a page of its tail. Returns true if it is the next one; then the caller asks for the
    /// one after it.
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

    /// Continues from what the worker has. Impossibly high numbers are cut: a lying worker must not
    /// end the leader when it counts on from them.
    pub(super) fn seal(&mut self, answer: &SealAnswer) {
        self.sealed = true;
        self.accepted = answer.position.min(HIGHEST);
        self.sent = self.accepted;
        self.chain = answer.chain;
        self.reports = answer.reports.min(HIGHEST);
    }

    /// Adds the next grant.
    pub(super) fn push(&mut self, grant: Grant, open: Option<Box<OpenGrant>>) {
        self.sending.push_back(Sending { grant, open });
    }

    /// Notes that the worker accepted grants through `accepted`.
    pub(super) fn accept(
        &mut self,
        now: Nanos,
        accepted: GpuPosition,
        chain: Chain,
        config: &LeaderConfig,
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

    /// The new reports, and the number of known ones before them; none if earlier reports are
    /// missing.
    pub(super) fn new_reports(
        &mut self,
        now: Nanos,
        first: u64,
        reports: &Column<'_, DoneReport>,
        config: &LeaderConfig,
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

    /// Notes that the report `behind` positions before the last received one says that a standing
    /// grant is closed, and that it became this input.
    pub(super) fn closed(&mut self, behind: u64, input: InputNumber) {
        self.closings.push_back((self.reports - behind, input));
    }

    /// Reports that the worker may forget.
    fn acknowledged(&self) -> u64 {
        let first = self.closings.front();
        first.map_or(self.reports, |(report, _)| report - 1)
    }

    /// Plans the acknowledgement. If more is recorded than the worker knows, and the worker keeps
    /// grants for that, it is sent soon. Until then the next check can wait for the linger time.
    fn plan_acks(&mut self, now: Nanos, acks: &RecordAcks, config: &LeaderConfig) {
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

    /// Sends new or due grants and acknowledgements.
    pub(super) fn flush(
        &mut self,
        now: Nanos,
        (recorded, acks): (InputNumber, &RecordAcks),
        publisher: &Publisher,
        config: &LeaderConfig,
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

    /// Sends at once what is recorded, if the worker does not know it. Reports that a standing
    /// grant was closed are not acknowledged with it: if the input went unrecorded, only the tail
    /// shows the close.
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

    fn wait(&mut self, now: Nanos, config: &LeaderConfig) {
        self.retry_at = now.saturating_add(config.order_retry << self.retries);
    }

    /// Sends as many grants behind `sent` as fit into one message.
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

    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
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
