//! One session's program order on its way out.

mod answers;
mod batches;
mod content;
mod deadline;
mod failing;
mod flow;
mod leader;
mod retries;
mod sending;
mod silence;
mod staging;

use bus_schemas::{
    CloseReason, CostRun, Epoch, Failure, KernelKey, LeaderId, ModuleHash, Op, OpNumber, Parcel,
    ResultKind, limits,
};
use bytes::Bytes;

use crate::buffer::Buffers;
use crate::event::{Action, Event, Nanos, OutboxSettings, PushError};
use crate::retry::Retry;
use crate::transfer::Chunk;
use answers::Answers;
use batches::Batches;
use leader::Leader;
use retries::Retries;
use silence::Silence;
use staging::Staging;

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
    batches: Batches,
    /// Ops done without a gap, as far as known.
    done: OpNumber,
    /// The last op that loaded or unloaded a module.
    loaded: OpNumber,
    staging: Staging,
    leader: Leader,
    /// The time at which the worker, or the leader of the newest epoch, was last heard.
    heard_at: Nanos,
    silence: Silence,
    answers: Answers,
    retries: Retries,
    notes: Buffers,
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
            batches: Batches::new(&settings),
            done: 0,
            loaded: 0,
            staging: Staging::new(&settings),
            leader: Leader::new((settings.epoch, settings.leader)),
            heard_at: 0,
            silence: Silence::default(),
            answers: Answers::default(),
            retries: Retries::new(retry),
            notes: Buffers::default(),
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
        let number = self.batches.push(op, stream, payload);
        match *op {
            Op::Launch(_) => {}
            Op::Sync => self.expect(number, ResultKind::Sync, 0),
            Op::Symbols { .. } => self.expect(number, ResultKind::Symbols, 0),
            Op::CopyOut { bytes, .. } => self.expect(number, ResultKind::CopyOut, bytes),
            Op::CopyIn { transfer, .. } if transfer != 0 => self.staging.copy(number, transfer),
            Op::LoadModule { hash, .. } => {
                self.staging.load(number, &hash);
                self.loaded = number;
            }
            Op::UnloadModule { .. } => self.loaded = number,
            _ => {}
        }
        self.leader.push(number, CostRun::of(op, key));
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
        if !self.staging.admit() {
            return Err(PushError::Full);
        }
        Ok(self.staging.parcel(bytes))
    }

    /// Takes a filled parcel and returns its transfer's number, like [`Outbox::stage`].
    ///
    /// # Errors
    /// [`PushError`], except [`PushError::Full`]: there was room.
    pub fn send(&mut self, parcel: Parcel, module: Option<ModuleHash>) -> Result<u64, PushError> {
        if self.state != State::Open || self.failure.is_some() {
            return Err(self.refusal());
        }
        Ok(self.staging.add(parcel, module))
    }

    /// True if the pushed ops must be sent now: they include a sync, or are enough for a batch, or
    /// twice as many as are on their way. Cheap; ask after every push.
    #[inline]
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        // Without credit, a flush only begins to wait for it.
        let waits = || self.retries.to_worker.due().is_some();
        self.batches.are_due() && (self.batches.have_credit() || !waits()) || self.staging.has_new()
    }

    /// True if a wanted flush may wait a moment for more ops to join. Then no caller waits for an
    /// answer to the pushed ops, and they do not fill a batch.
    #[inline]
    #[must_use]
    pub fn may_linger(&self) -> bool {
        !self.batches.is_full_or_urgent() && !self.staging.has_new()
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
                self.retries.hurry(now);
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
        let until = self.failing.as_ref().map(|failing| failing.until);
        let due = self.retries.due().into_iter().chain(until);
        due.chain(self.leader.gathered()).min()
    }

    /// The message of an [`Action::PublishChunk`]; `None` if it is no longer needed.
    #[must_use]
    pub fn chunk(&self, transfer: u64, offset: u64, len: u32) -> Option<Bytes> {
        self.staging.message(Chunk {
            transfer,
            offset,
            len,
        })
    }

    /// True if there is room for the next op.
    #[inline]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.batches.bytes() < self.settings.unreceived_bytes
    }

    /// True if there is room for the next transfer.
    #[must_use]
    pub fn has_staging_room(&self) -> bool {
        self.staging.has_room()
    }

    /// Number of the last op pushed.
    #[must_use]
    pub fn last(&self) -> OpNumber {
        self.batches.last()
    }

    /// Number of the last op sent to the worker.
    #[must_use]
    pub fn sent(&self) -> OpNumber {
        self.batches.sent_through()
    }

    /// Ops received by the worker without a gap.
    #[must_use]
    pub fn received(&self) -> OpNumber {
        self.batches.received()
    }

    /// Ops with intents that the leader has, without a gap, as far as known.
    #[must_use]
    pub fn queued(&self) -> OpNumber {
        self.leader.queued()
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
        self.answers.delivered()
    }

    /// The newest epoch known, and its leader.
    #[must_use]
    pub fn epoch(&self) -> (Epoch, LeaderId) {
        self.leader.epoch()
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
