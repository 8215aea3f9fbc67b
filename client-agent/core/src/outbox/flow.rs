//! How an outbox answers events: credit, acknowledgements, resend, epochs, the end.

use super::*;

/// Nothing was heard from the session's worker, or from the leader it knows, for so long: another
/// leader's word that the session is gone is taken, whatever its epoch.
const FORGOTTEN: Nanos = 10_000_000_000;

/// How long a failure waits for the results before it.
const LAST_RESULTS: Nanos = 1_000_000_000;

impl Outbox {
    /// Whether an op is one that a worker takes.
    #[inline]
    pub(super) fn check(&self, op: &Op, payload: &[u8]) -> Result<(), &'static str> {
        let fits = match *op {
            Op::Launch(launch) => {
                if launch.module >= limits::MODULES || launch.function >= limits::FUNCTIONS {
                    return Err("module slot or function index out of range");
                }
                payload.len() <= limits::PARAM_BYTES
            }
            Op::CopyIn {
                bytes, transfer: 0, ..
            } => payload.len() as u64 == bytes && payload.len() <= limits::INLINE_BYTES,
            Op::CopyIn {
                bytes, transfer, ..
            } => payload.is_empty() && self.transfers.fits(transfer, bytes),
            Op::LoadModule { slot, .. } | Op::UnloadModule { slot } | Op::Symbols { slot }
                if slot >= limits::MODULES =>
            {
                return Err("module slot out of range");
            }
            Op::Set { width, .. } if !matches!(width, 1 | 2 | 4) => {
                return Err("element width is not 1, 2 or 4");
            }
            _ => payload.is_empty(),
        };
        fits.then_some(())
            .ok_or("payload length does not fit the op")
    }

    #[cold]
    pub(super) fn refusal(&self) -> PushError {
        match &self.failure {
            Some(failure) => PushError::Failed(failure.clone()),
            None => PushError::Closed,
        }
    }

    #[inline]
    pub(super) fn expect(&mut self, op: OpNumber, kind: ResultKind, total: u64) {
        self.results.expect(op, kind, total);
        self.urgent = op;
    }

    /// Whether what is pending must not wait for company: it is twice what the worker is not known
    /// to have received. So a burst's first ops are there at once and batches grow from then on: a
    /// device that takes twice as long to run ops as they take to be pushed never waits for more.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let under_way = self.sent_through - self.received;
        self.columns.ops() as u64 >= 2 * under_way || self.is_full_or_urgent()
    }

    #[inline]
    pub(super) fn is_full_or_urgent(&self) -> bool {
        self.sent_through < self.urgent
            || self.columns.ops() >= self.settings.flush_ops as usize
            || self.columns.bytes() >= self.settings.flush_bytes
    }

    pub(super) fn retries_mut(&mut self) -> [&mut Retry; 4] {
        [
            &mut self.to_worker,
            &mut self.to_leader,
            &mut self.from_worker,
            &mut self.tell_results,
        ]
    }

    pub(super) fn on_ack(&mut self, now: Nanos, ack: &WorkerAck<'_>, actions: &mut Vec<Action>) {
        self.heard_at = now;
        // The worker obeys one leader of an epoch, so its word on who that is counts.
        if ack.epoch > self.epoch || (ack.epoch == self.epoch && ack.leader != self.leader) {
            self.begin_epoch(now, ack.epoch, ack.leader);
        }
        let mut moved = ack.send_through > self.send_through;
        self.send_through = self.send_through.max(ack.send_through);
        let received = ack.received.min(self.sent_through);
        if received > self.received {
            moved = true;
            self.received = received;
            while let Some(batch) = self.sent.pop_front_if(|batch| batch.last <= received) {
                self.unreceived -= batch.size;
            }
        }
        let done = ack.done.min(self.received);
        if done > self.done {
            self.done = done;
            self.forget_runs();
            let gone = |(op, _): &mut (OpNumber, u64)| *op <= done;
            while self.copies.pop_front_if(gone).is_some() {}
        }
        if self.transfers.acknowledge(ack.staging, ack.staged.iter()) {
            moved = true;
            let transfers = &self.transfers;
            let whole = |(_, transfer): &mut (OpNumber, u64)| transfers.is_whole(*transfer);
            while self.gates.pop_front_if(whole).is_some() {}
        }
        moved |= self.on_images(ack, actions);
        if moved {
            self.to_worker.progress(now);
        }
        if let Some(failure) = &ack.failure
            && self.failure.is_none()
            && self.failing.is_none()
        {
            // What is missing was overtaken or lost; the worker sends it again.
            self.failing = Some(Failing {
                op: ack.failed_op,
                failure: failure.clone(),
                results: ack.results,
                until: now.saturating_add(LAST_RESULTS),
                ended: None,
            });
            self.fail_if_due(now, actions);
        }
    }

    pub(super) fn on_notice(
        &mut self,
        now: Nanos,
        notice: &LeaderNotice,
        actions: &mut Vec<Action>,
    ) {
        self.on_epoch(now, notice.epoch, notice.leader);
        if (notice.epoch, notice.leader) != (self.epoch, self.leader) {
            // A cluster that lost its store and its workers begins again with low epochs. Nobody
            // else is left to say that the session is gone.
            let forgotten = now.saturating_sub(self.heard_at) >= FORGOTTEN;
            if let Some(failure) = notice.ended.as_ref().filter(|_| forgotten) {
                self.end(failure.clone(), actions);
            }
            return;
        }
        self.heard_at = now;
        self.alone = notice.alone;
        self.raise_queued(now, notice.queued.min(self.last));
        if notice.queue_through > self.queue_through {
            self.queue_through = notice.queue_through;
            self.to_leader.progress(now);
        }
        if let Some(failure) = &notice.ended {
            self.end(failure.clone(), actions);
        }
    }

    pub(super) fn on_result(
        &mut self,
        now: Nanos,
        (part, message): (&DeviceResult<'_>, &Bytes),
        actions: &mut Vec<Action>,
    ) {
        if self.failure.is_some() {
            return;
        }
        match self.results.take(part, message, actions) {
            Part::New => self.from_worker.progress(now),
            // The worker sends what it believes we lack: tell it again.
            Part::Old => {
                let before = self.results.delivered().saturating_sub(1);
                self.results_told = self.results_told.min(before);
            }
            Part::Wrong => {
                let detail = format!(
                    "the worker's result {} for op {} is not what was asked for",
                    part.number, part.op
                );
                self.fail(part.op, Failure::new(Code::Protocol, detail), actions);
            }
        }
    }

    pub(super) fn on_error(&mut self, failure: Failure, actions: &mut Vec<Action>) {
        match failure.code {
            Code::SessionGone => {
                self.fail_now(actions);
                self.end(failure, actions);
            }
            _ if failure.retryable => {}
            _ => self.fail(0, failure, actions),
        }
    }

    /// Some leader says that it reigns. Of one epoch the first to say so counts.
    pub(super) fn on_epoch(&mut self, now: Nanos, epoch: Epoch, leader: LeaderId) {
        if epoch > self.epoch {
            self.begin_epoch(now, epoch, leader);
        }
    }

    /// A new leader knows of what its workers accepted, which is at least what is done: all above
    /// is announced again.
    fn begin_epoch(&mut self, now: Nanos, epoch: Epoch, leader: LeaderId) {
        (self.epoch, self.leader) = (epoch, leader);
        self.alone = false;
        self.queued = self.done;
        self.queue_through = self.done + limits::FIRST_OPS;
        self.runs.seek(self.done + 1);
        self.to_leader.hurry(now);
    }

    fn raise_queued(&mut self, now: Nanos, queued: OpNumber) {
        if queued > self.queued {
            self.queued = queued;
            self.runs.seek(self.runs.next().max(queued + 1));
            self.forget_runs();
            self.to_leader.progress(now);
        }
    }

    /// Forgets the costs of ops that are done and that the leader has: under a standing grant they
    /// may be done before it has them. The last one stays: asking where a leader stands repeats it.
    fn forget_runs(&mut self) {
        let both = self.done.min(self.queued);
        self.runs.forget(both.saturating_sub(1));
    }

    /// Nothing more runs: whoever waits is told why, and nothing is sent but the close.
    fn fail(&mut self, op: OpNumber, failure: Failure, actions: &mut Vec<Action>) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some(failure.clone());
        self.columns = Columns::default();
        self.sent = VecDeque::new();
        self.unreceived = 0;
        self.transfers.clear();
        self.gates = VecDeque::new();
        self.copies = VecDeque::new();
        self.runs.clear();
        self.results.clear();
        self.batches = Buffers::default();
        actions.push(Action::Failed { op, failure });
    }

    /// Fails where that was put off and what it waited for is here, or has not come.
    pub(super) fn fail_if_due(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let due = |it: &Failing| self.results.delivered() >= it.results || now >= it.until;
        if self.failing.as_ref().is_some_and(due) {
            self.fail_now(actions);
        }
    }

    fn fail_now(&mut self, actions: &mut Vec<Action>) {
        if let Some(failing) = self.failing.take() {
            self.fail(failing.op, failing.failure, actions);
            if let Some(failure) = failing.ended {
                self.end(failure, actions);
            }
        }
    }

    fn end(&mut self, failure: Failure, actions: &mut Vec<Action>) {
        if let Some(failing) = &mut self.failing {
            failing.ended = Some(failure);
            return;
        }
        let asked = matches!(self.state, State::Asked(_));
        if !asked || self.results.first_waiting().is_some() {
            self.fail(0, failure, actions);
        }
        self.state = State::Ended;
        self.gathering = None;
        for retry in self.retries_mut() {
            retry.arm(0, false);
        }
        self.notes = Buffers::default();
        actions.push(Action::Ended);
    }

    /// Sends again what was due.
    pub(super) fn resend(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let mut tell = false;
        if self.to_worker.fire(now) {
            actions.extend(
                self.sent
                    .iter()
                    .take(RESENT)
                    .map(|sent| Action::PublishBatch {
                        bytes: sent.bytes.clone(),
                        first: sent.first,
                        last: sent.last,
                        again: true,
                    }),
            );
            self.transfers.rewind();
            self.ask_for_images(actions);
            // It may be credit that was lost.
            tell |= self.sent.is_empty();
        }
        if self.to_leader.fire(now) {
            if self.announced > self.queued {
                self.runs.seek(self.queued + 1);
            } else if self.failure.is_none() && self.announceable() > self.queued {
                // It may be credit that was lost: repeating an op asks for it.
                self.runs.seek(self.queued.max(1));
                self.announce(self.queued.max(1), actions);
            }
            if let State::Asked(reason) = self.state {
                self.publish_close(reason, actions);
            }
        }
        tell |= self.from_worker.fire(now);
        tell |= self.tell_results.fire(now);
        if tell {
            self.publish_state(actions);
        }
    }

    /// Sends what may be sent and begins to wait for the answers.
    pub(super) fn advance(&mut self, now: Nanos, flush: bool, actions: &mut Vec<Action>) {
        let mut more = false;
        if self.failure.is_none() {
            let start = actions.len();
            self.send_batches(flush, actions);
            let batches = actions.len() - start;
            let through = self.announceable().min(self.queue_through);
            if !self.gathers(now, through) {
                self.announce(through, actions);
            }
            if !self.alone {
                // The leader's way to the worker is the longer one, so it goes first.
                actions[start..].rotate_left(batches);
            }
            while let Some(chunk) = self.transfers.next_chunk() {
                more = true;
                actions.push(Action::PublishChunk {
                    transfer: chunk.transfer,
                    offset: chunk.offset,
                    len: chunk.len,
                });
            }
        } else {
            self.gathering = None;
        }
        if let State::Closing(reason) = self.state {
            // The worker forgets results with the session, so those come first.
            let waits = reason == CloseReason::Asked && self.results.first_waiting().is_some();
            if !waits {
                self.state = State::Asked(reason);
                self.publish_close(reason, actions);
            }
        }
        let blocked = self.last > self.sent_through && self.is_due();
        self.starved &= !self.has_staging_room();
        let busy = self.transfers.is_busy() || self.transfers.has_images();
        let moving = !self.sent.is_empty() || busy;
        let worker = moving || blocked || self.starved;
        let closing = matches!(self.state, State::Asked(_));
        let leader = closing || self.announceable() > self.queued;
        let waiting = self.results.first_waiting();
        let results = waiting.is_some_and(|op| op <= self.sent_through);
        let untold = self.results.delivered() > self.results_told;
        let live = self.failure.is_none();
        // Megabytes that wait in the broker are not lost: sent again they would wait there twice.
        let transit = self.transfers.on_the_way() * self.settings.byte_ns;
        self.to_worker.allow(now, transit, more);
        self.to_worker.arm(now, live && worker);
        self.to_leader.arm(now, closing || live && leader);
        let missing = self.failing.is_some();
        self.from_worker.arm(now, live && (results || missing));
        self.tell_results.arm(now, live && untold);
    }

    fn send_batches(&mut self, flush: bool, actions: &mut Vec<Action>) {
        while self.last > self.sent_through && (flush || self.is_due()) {
            let credit = self.send_through.saturating_sub(self.sent_through);
            let ops = credit.min(u64::from(self.settings.flush_ops)) as usize;
            let cut = self.columns.front(ops, self.settings.flush_bytes);
            if cut.count == 0 {
                break;
            }
            let (descriptors, blob) = self.columns.slices(&cut);
            let size = descriptors.len() + blob.len();
            let first = self.sent_through + 1;
            let last = self.sent_through + u64::from(cut.count);
            let message = Batch {
                v: WIRE_VERSION,
                first,
                count: cut.count,
                results: self.results.delivered(),
                descriptors,
                blob,
            };
            let bytes = self.batches.encode(&message, size);
            self.columns.remove(&cut);
            self.results_told = self.results.delivered();
            self.sent_through = last;
            self.unreceived += size;
            self.sent.push_back(Sent {
                bytes: bytes.clone(),
                first,
                last,
                size,
            });
            actions.push(Action::PublishBatch {
                bytes,
                first,
                last,
                again: false,
            });
        }
    }
}
