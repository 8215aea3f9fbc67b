//! An outbox's handling of events: credit, acknowledgements, results, epochs.

use bus_schemas::{
    Code, DeviceResult, Epoch, Failure, LeaderId, LeaderNotice, Op, OpNumber, ResultKind,
    TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, WorkerAck, limits,
};
use bytes::Bytes;

use super::{Failing, Outbox};
use crate::event::{Action, Nanos, PushError};
use crate::result::Part;

/// Silence of the session's worker, or of the leader it knows, after which the session believes
/// another leader of any epoch that it is gone.
const FORGOTTEN: Nanos = 10_000_000_000;

/// Time that a failure waits for the results before it.
const LAST_RESULTS: Nanos = 1_000_000_000;

impl Outbox {
    /// Checks that a worker would accept an op.
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
            } => payload.is_empty() && self.staging.fits(transfer, bytes),
            Op::LoadModule { slot, .. } | Op::UnloadModule { slot } | Op::Symbols { slot }
                if slot >= limits::MODULES =>
            {
                return Err("module slot out of range");
            }
            Op::TensorMap { address } => {
                if !address.is_multiple_of(TENSOR_MAP_ALIGNMENT as u64) {
                    return Err("a tensor map's address is no multiple of 64");
                }
                payload.len() == TENSOR_MAP_BYTES
            }
            Op::Set { width, .. } if !matches!(width, 1 | 2 | 4) => {
                return Err("element width is not 1, 2 or 4");
            }
            Op::Move { .. } | Op::Map { .. } if !op.is_of_whole_units() => {
                return Err("what is moved or mapped is no multiple of 2 MiB");
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
        self.answers.expect(op, kind, total);
        self.batches.urge(op);
    }

    pub(super) fn on_ack(&mut self, now: Nanos, ack: &WorkerAck<'_>, actions: &mut Vec<Action>) {
        self.heard_at = now;
        self.silence.worker_heard();
        // The worker obeys one leader of an epoch, so its acknowledgement decides which one.
        let (epoch, leader) = self.leader.epoch();
        if ack.epoch > epoch || (ack.epoch == epoch && ack.leader != leader) {
            self.begin_epoch(now, ack.epoch, ack.leader);
        }
        let mut moved = self.batches.acknowledge(ack);
        let done = ack.done.min(self.batches.received());
        if done > self.done {
            self.done = done;
            // Either a leader granted these ops or no grant was needed, so no op waits for a
            // leader.
            self.silence.leader_heard();
            self.leader.forget(done);
            self.staging.done(done);
        }
        moved |= self.staging.acknowledge(ack);
        moved |= self.staging.judge(ack, actions);
        if moved {
            self.retries.to_worker.progress(now);
        }
        if let Some(failure) = &ack.failure
            && self.failure.is_none()
            && self.failing.is_none()
        {
            // The missing results were overtaken or lost; the worker sends them again.
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
        if (notice.epoch, notice.leader) != self.leader.epoch() {
            // A cluster that lost its store and its workers begins again with low epochs. No other
            // peer is left to report that the session is gone.
            let forgotten = now.saturating_sub(self.heard_at) >= FORGOTTEN;
            if let Some(failure) = notice.ended.as_ref().filter(|_| forgotten) {
                self.end(failure.clone(), actions);
            }
            return;
        }
        self.heard_at = now;
        self.silence.leader_heard();
        if self.leader.hear(notice, (self.batches.last(), self.done)) {
            self.retries.to_leader.progress(now);
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
        match self.answers.take((part, message), actions) {
            Part::New => {
                self.silence.worker_heard();
                self.silence.leader_heard();
                self.retries.from_worker.progress(now);
            }
            Part::Old => {}
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

    /// Handles a leader's beat. In one epoch, the first leader counts.
    pub(super) fn on_epoch(&mut self, now: Nanos, epoch: Epoch, leader: LeaderId) {
        if epoch > self.leader.epoch().0 {
            self.begin_epoch(now, epoch, leader);
        }
    }

    fn begin_epoch(&mut self, now: Nanos, epoch: Epoch, leader: LeaderId) {
        self.leader.begin_epoch((epoch, leader), self.done);
        self.retries.to_leader.hurry(now);
    }
}
