//! One session's program order on its way out.

mod announce;
mod content;
mod deadline;
mod failing;
mod flow;
mod image;
mod sending;
mod silence;

use std::collections::VecDeque;

use bus_schemas::{
    CloseReason, CostRun, Epoch, Failure, KernelKey, LeaderId, ModuleHash, Op, OpNumber, Parcel,
    ResultKind, limits,
};
use bytes::Bytes;

use crate::buffer::Buffers;
use crate::column::Columns;
use crate::event::{Action, Event, Nanos, OutboxSettings, PushError};
use crate::result::Results;
use crate::retry::Retry;
use crate::run::Runs;
use crate::transfer::{Chunk, Transfers};
use silence::Silence;

/// Batches that are resent at a time; the worker's answer triggers the next.
const RESENT: usize = 8;

/// Maximum number of unfinished transfers: half of what a worker keeps track of.
const TRANSFERS: u64 = 512;

/// Limits on gathering intents that are not urgent: the longest time, and the number of ops.
const GATHERED: Nanos = 1_000_000;
const GATHERED_OPS: u64 = 1_024;

/// A batch that the worker has not received.
#[derive(Debug)]
struct Sent {
    bytes: Bytes,
    first: OpNumber,
    last: OpNumber,
    /// Bytes of the batch's descriptors and payloads.
    size: usize,
}

/// The state of the outbox; only an open one takes ops.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Open,
    /// The session must be closed.
    Closing(CloseReason),
    /// The leader was asked to close the session.
    Asked(CloseReason),
    Ended,
}

/// One session's ops from the program to the worker and the leader, and the results back.
///
/// Memory is bounded by [`OutboxSettings::unreceived_bytes`] and [`OutboxSettings::staged_bytes`].
/// It is also bounded by the received ops that the worker's credit allows to be not done (32 bytes
/// for ops of equal cost in a row). The last bound is the results that the program asked for.
#[derive(Debug)]
pub struct Outbox {
    settings: OutboxSettings,
    state: State,
    failure: Option<Failure>,
    /// A failure that was reported while results before it are missing.
    failing: Option<Failing>,
    // Ops in order: pushed, in a batch, received by the worker, done.
    last: OpNumber,
    sent_through: OpNumber,
    received: OpNumber,
    done: OpNumber,
    /// The last op that loaded or unloaded a module.
    loaded: OpNumber,
    /// The last op of which the batch must not wait.
    urgent: OpNumber,
    columns: Columns,
    sent: VecDeque<Sent>,
    unreceived: usize,
    send_through: OpNumber,
    transfers: Transfers,
    /// Ops that may be announced only once a transfer is whole, each with the transfer.
    gates: VecDeque<(OpNumber, u64)>,
    /// Copies that are not done, with their transfers; the worker keeps those until then.
    copies: VecDeque<(OpNumber, u64)>,
    /// True if a transfer found no room.
    starved: bool,
    // The progress of the newest epoch's leader.
    epoch: Epoch,
    leader: LeaderId,
    /// The time at which the worker, or the leader of that epoch, was last heard.
    heard_at: Nanos,
    silence: Silence,
    queued: OpNumber,
    /// Ops known to be granted by a leader.
    granted: OpNumber,
    queue_through: OpNumber,
    /// The last op announced, in this epoch or an earlier one.
    announced: OpNumber,
    /// True if the leader allows intents to be gathered; below, the time since which some are.
    alone: bool,
    gathering: Option<Nanos>,
    runs: Runs,
    results: Results,
    /// Number of results that the worker was last told of.
    results_told: u64,
    to_worker: Retry,
    to_leader: Retry,
    from_worker: Retry,
    tell_results: Retry,
    batches: Buffers,
    notes: Buffers,
    rows: Vec<u8>,
}

/// A failure that waits for earlier results: the program's output says why it failed.
#[derive(Debug)]
struct Failing {
    op: OpNumber,
    failure: Failure,
    /// Number of the last of those results.
    results: u64,
    /// The time at which it stops waiting.
    until: Nanos,
    /// The reason of the session's end, if it has ended as well.
    ended: Option<Failure>,
}

impl Outbox {
    /// Makes an outbox with nothing pushed.
    #[must_use]
    pub fn new(settings: OutboxSettings) -> Self {
        let settings = settings.checked();
        let retry = Retry::new(settings.resend_first, settings.resend_most);
        Self {
            state: State::Open,
            failure: None,
            failing: None,
            last: 0,
            sent_through: 0,
            received: 0,
            done: 0,
            loaded: 0,
            urgent: 0,
            columns: Columns::default(),
            sent: VecDeque::new(),
            unreceived: 0,
            send_through: limits::FIRST_OPS,
            transfers: Transfers::new(),
            gates: VecDeque::new(),
            copies: VecDeque::new(),
            starved: false,
            epoch: settings.epoch,
            leader: settings.leader,
            heard_at: 0,
            queued: 0,
            granted: 0,
            silence: Silence::default(),
            queue_through: limits::FIRST_OPS,
            announced: 0,
            alone: false,
            gathering: None,
            runs: Runs::new(),
            results: Results::default(),
            results_told: 0,
            to_worker: retry.clone(),
            to_leader: retry.clone(),
            from_worker: retry.clone(),
            tell_results: retry,
            batches: Buffers::default(),
            notes: Buffers::default(),
            rows: Vec::new(),
            settings,
        }
    }

    /// Appends an op to the program order and returns its number. `payload` is a launch's
    /// parameters or an inline copy's bytes; `key` is a launch's kernel key and ignored otherwise.
    /// Nothing is allocated once the columns have grown to the program's bursts.
    ///
    /// # Errors
    /// [`PushError`]; then the op is not taken.
    #[inline]
    pub fn push(
        &mut self,
        op: &Op,
        stream: u16,
        payload: &[u8],
        key: KernelKey,
    ) -> Result<OpNumber, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        if !self.has_room() {
            return Err(PushError::Full);
        }
        self.check(op, payload).map_err(PushError::Invalid)?;
        let number = self.last + 1;
        match *op {
            Op::Launch(_) => {}
            Op::Sync => self.expect(number, ResultKind::Sync, 0),
            Op::Symbols { .. } => self.expect(number, ResultKind::Symbols, 0),
            Op::CopyOut { bytes, .. } => self.expect(number, ResultKind::CopyOut, bytes),
            Op::CopyIn { transfer, .. } if transfer != 0 => {
                // After staging, its thread may have been preempted until all bytes had arrived;
                // then no acknowledgement would come to open the gate.
                if !self.transfers.is_whole(transfer) {
                    self.gates.push_back((number, transfer));
                }
                self.copies.push_back((number, transfer));
            }
            Op::LoadModule { hash, .. } => {
                let transfer = self.transfers.module(&hash);
                self.gates
                    .extend(transfer.map(|transfer| (number, transfer)));
                self.loaded = number;
            }
            Op::UnloadModule { .. } => self.loaded = number,
            _ => {}
        }
        self.last = number;
        self.columns.push(op, stream, payload);
        self.runs.push(number, CostRun::of(op, key));
        Ok(number)
    }

    /// Takes bytes that do not fit a batch and returns the number of their transfer, which the copy
    /// pushed next names. `module` is the hash of a module image, which is pushed as
    /// [`Op::LoadModule`]. Combines [`Outbox::parcel`] and [`Outbox::send`].
    ///
    /// # Errors
    /// [`PushError`]; [`PushError::Full`] while too many bytes are on their way.
    pub fn stage(&mut self, bytes: Bytes, module: Option<ModuleHash>) -> Result<u64, PushError> {
        let mut parcel = self.parcel(bytes.len())?;
        parcel.write(0, &bytes);
        self.send(parcel, module)
    }

    /// Makes room for the bytes of a transfer, which the caller fills later.
    ///
    /// # Errors
    /// Same as [`Outbox::stage`].
    pub fn parcel(&mut self, bytes: usize) -> Result<Parcel, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        if bytes == 0 || bytes as u64 > limits::TRANSFER_BYTES {
            return Err(PushError::Invalid("a transfer has 1 byte to 4 GiB"));
        }
        self.starved = !self.has_staging_room();
        if self.starved {
            return Err(PushError::Full);
        }
        Ok(self.transfers.parcel(bytes))
    }

    /// Takes a filled parcel and returns its transfer's number, like [`Outbox::stage`].
    ///
    /// # Errors
    /// [`PushError`], except [`PushError::Full`]: there was room.
    pub fn send(&mut self, parcel: Parcel, module: Option<ModuleHash>) -> Result<u64, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        Ok(self.transfers.add(parcel, module))
    }

    /// True if the pushed ops must be sent now: they include a sync, or are enough for a batch, or
    /// twice as many as are on their way. Cheap; ask after every push.
    #[inline]
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        let pending = self.last > self.sent_through && self.is_due();
        // Without credit, a flush only begins to wait for it.
        pending && (self.sent_through < self.send_through || self.to_worker.due().is_none())
            || self.transfers.has_new()
    }

    /// True if a wanted flush may wait a moment for more ops to join. Then no caller waits for an
    /// answer to the pushed ops, and they do not fill a batch.
    #[inline]
    #[must_use]
    pub fn may_linger(&self) -> bool {
        !self.is_full_or_urgent() && !self.transfers.has_new()
    }

    /// Handles an event and appends the resulting actions, in order.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>, actions: &mut Vec<Action>) {
        if self.state == State::Ended {
            return;
        }
        if self.heard_at == 0 {
            self.heard_at = now;
        }
        self.count_silence(now, actions);
        if self.state == State::Ended {
            return;
        }
        let mut flush = false;
        match event {
            Event::Flush => flush = true,
            Event::WorkerAck(ack) => self.on_ack(now, ack, actions),
            Event::LeaderNotice(notice) => self.on_notice(now, notice, actions),
            Event::Result(part, message) => self.on_result(now, (&part, message), actions),
            Event::Error(failure) => self.on_error(failure, actions),
            Event::Term(beat) => {
                self.silence.leader_heard();
                self.on_epoch(now, beat.epoch, beat.leader);
            }
            Event::Disconnected => self.silence.linked(false),
            Event::Reconnected => {
                self.silence.linked(true);
                for retry in self.retries_mut() {
                    retry.hurry(now);
                }
            }
            Event::Tick => {}
            Event::Close(reason) => {
                if self.state == State::Open {
                    self.state = State::Closing(reason);
                    flush = true;
                }
            }
        }
        if self.state == State::Ended {
            return;
        }
        self.fail_if_due(now, actions);
        if self.state == State::Ended {
            return;
        }
        self.resend(now, actions);
        self.advance(now, flush, actions);
    }

    /// The time at which [`Event::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let retries = [
            &self.to_worker,
            &self.to_leader,
            &self.from_worker,
            &self.tell_results,
        ];
        let until = self.failing.as_ref().map(|failing| failing.until);
        let gathered = self.gathering.map(|since| since.saturating_add(GATHERED));
        let due = retries.into_iter().filter_map(Retry::due);
        due.chain(until).chain(gathered).min()
    }

    /// The message of an [`Action::PublishChunk`]; `None` if it is no longer needed.
    #[must_use]
    pub fn chunk(&self, transfer: u64, offset: u64, len: u32) -> Option<Bytes> {
        self.transfers.message(Chunk {
            transfer,
            offset,
            len,
        })
    }

    /// True if there is room for the next op.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.columns.bytes() + self.unreceived < self.settings.unreceived_bytes
    }

    /// True if there is room for the next transfer.
    #[must_use]
    pub fn has_staging_room(&self) -> bool {
        let copied = self.copies.front().map_or(u64::MAX, |copy| copy.1);
        let unfinished = copied.min(self.transfers.first());
        self.has_room_for_bytes() && self.transfers.next() - unfinished < TRANSFERS
    }

    /// Number of the last op pushed.
    #[must_use]
    pub fn last(&self) -> OpNumber {
        self.last
    }

    /// Number of the last op sent to the worker.
    #[must_use]
    pub fn sent(&self) -> OpNumber {
        self.sent_through
    }

    /// Ops received by the worker without a gap.
    #[must_use]
    pub fn received(&self) -> OpNumber {
        self.received
    }

    /// Ops with intents that the leader has, without a gap, as far as known.
    #[must_use]
    pub fn queued(&self) -> OpNumber {
        self.queued
    }

    /// True if all loads and unloads of modules are known to be done; then their variables count as
    /// held.
    #[must_use]
    pub fn has_loaded(&self) -> bool {
        self.done >= self.loaded
    }

    /// Ops done without a gap, as far as known.
    #[must_use]
    pub fn done(&self) -> OpNumber {
        self.done
    }

    /// Number of results delivered.
    #[must_use]
    pub fn results(&self) -> u64 {
        self.results.delivered()
    }

    /// The newest epoch known, and its leader.
    #[must_use]
    pub fn epoch(&self) -> (Epoch, LeaderId) {
        (self.epoch, self.leader)
    }

    /// The reason why the session can run no more, if it cannot.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// True if the session has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.state == State::Ended
    }
}
