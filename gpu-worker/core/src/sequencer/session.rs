//! One session in its worker's sequencer.

use std::collections::VecDeque;

use bus_schemas::{
    Allowance, Code, Failure, GpuPosition, HeldChunks, ModuleHash, OpNumber, SealedSession,
    SessionFault, SessionId, Tenant, Window, limits,
};

use super::course::Course;
use super::images::Images;
use super::staging::Transfers;
use super::{AckMessage, BatchEvent, SequencerConfig};
use crate::Nanos;

/// The phase of a session's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its open grant is accepted; its close grant has not begun.
    Open,
    /// Its close grant has begun; the session waits for its running slices.
    Closing(GpuPosition),
    /// Nothing of it runs, and the device was told to close it.
    DeviceClosing(GpuPosition),
    /// The device has closed it; its results are kept for a while.
    Closed(Nanos),
}

/// The stall of a session with a head that is not ready although its ops are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) since: Nanos,
    /// True if a position was void because of it; the next ones are void at once.
    pub(super) voided: bool,
}

/// The leader's doubt of the client's announcements: it gets reports of the ops received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Doubt {
    /// Last op of an accepted grant.
    pub(super) granted: OpNumber,
}

/// The part of a batch that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) first: OpNumber,
    pub(super) count: u32,
    /// Index of the first op in the batch.
    pub(super) skip: u32,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) tenant: Tenant,
    pub(super) ordinal: u64,
    pub(super) window: Window,
    pub(super) quota: u64,
    /// Limits of its tenant's sessions on this worker, from its open grant.
    pub(super) modules: Allowance,
    pub(super) staged_most: Allowance,
    nonce: u64,
    pub(super) phase: Phase,
    /// True if a close grant is accepted.
    pub(super) closing: bool,
    /// Number of slices started and not completed, plus one while the session is opening.
    pub(super) running: u32,
    pub(super) failure: Option<Box<(OpNumber, Failure)>>,
    /// True if a slice has failed; slices that the device got after it did not run.
    pub(super) broken: bool,

    pub(super) received: OpNumber,
    pub(super) started: OpNumber,
    pub(super) done: OpNumber,
    /// Kept batches: last op and bytes.
    batches: VecDeque<(OpNumber, u64)>,
    pub(super) pending_bytes: u64,
    /// Ops that are not done, each with the maximum bytes of its results.
    outs: VecDeque<(OpNumber, u64)>,
    staged: VecDeque<(OpNumber, u64)>,
    /// Loads of images that have not arrived yet.
    loads: VecDeque<(OpNumber, ModuleHash)>,
    promised: OpNumber,
    pub(super) doubt: Option<Doubt>,
    pub(super) stall: Option<Stall>,
    /// Course of its standing grants.
    pub(super) course: Course,

    pub(super) results: u64,
    pub(super) acknowledged: u64,
    held: VecDeque<u64>,
    /// Bytes of unacknowledged results, and of results that running slices will add.
    pub(super) held_bytes: u64,
    running_bytes: u64,
    /// Time at which the first of those was sent, or became the first.
    pub(super) results_sent: Nanos,

    pub(super) transfers: Transfers,
    /// Time since which no part of a transfer is stored because its tenant has staged all it may.
    pub(super) starved: Option<Nanos>,
    pub(super) images: Images,
    /// Answers to offers for the next acknowledgement, at most one for a transfer.
    held_chunks: Vec<HeldChunks>,
    pub(super) ack_wanted: bool,
    acked_done: OpNumber,
}

impl Session {
    pub(super) fn new(grant: &bus_schemas::OpenGrant, config: &SequencerConfig) -> Self {
        Self {
            id: grant.session,
            tenant: grant.tenant.clone(),
            ordinal: grant.ordinal,
            window: grant.window,
            quota: grant.quota,
            modules: grant.modules,
            staged_most: grant.staged,
            nonce: grant.nonce,
            phase: Phase::Open,
            closing: false,
            running: 0,
            failure: None,
            broken: false,
            received: 0,
            started: 0,
            done: 0,
            batches: VecDeque::new(),
            pending_bytes: 0,
            outs: VecDeque::new(),
            staged: VecDeque::new(),
            loads: VecDeque::new(),
            promised: config.pending_ops.max(limits::FIRST_OPS),
            doubt: None,
            stall: None,
            course: Course::default(),
            results: 0,
            acknowledged: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            running_bytes: 0,
            results_sent: 0,
            transfers: Transfers::default(),
            starved: None,
            images: Images::default(),
            held_chunks: Vec::new(),
            ack_wanted: false,
            acked_done: 0,
        }
    }

    /// True if ops may still run.
    pub(super) fn lives(&self) -> bool {
        self.phase == Phase::Open && self.failure.is_none() && !self.closing
    }

    /// Returns the part of a batch that is kept; `None` for nothing. An error names an op that no correct
    /// client sends. `room` is the number of bytes that all sessions together may still keep.
    pub(super) fn receive(
        &mut self,
        batch: &BatchEvent<'_>,
        room: u64,
        config: &SequencerConfig,
    ) -> Result<Option<Kept>, (OpNumber, Failure)> {
        let Some(last) = batch
            .first
            .checked_add(u64::from(batch.count))
            .map(|end| end - 1)
        else {
            return Ok(None);
        };
        let first = self.received + 1;
        let last = last.min(self.promised);
        let gap = batch.first == 0 || batch.first > first;
        let full = self.pending_bytes.saturating_add(batch.bytes) > config.pending_bytes_max;
        if gap || last < first || batch.bytes > room || (full && self.pending_bytes > 0) {
            return Ok(None);
        }
        let kept = |op: &&(OpNumber, u64)| (first..=last).contains(&op.0);
        for &(op, transfer) in batch.staged.iter().filter(kept) {
            self.transfers
                .claim(transfer)
                .map_err(|why| (op, Failure::new(Code::Protocol, why)))?;
            self.staged.push_back((op, transfer));
        }
        self.outs.extend(batch.outs.iter().filter(kept));
        let loads = batch.loads.iter();
        self.loads
            .extend(loads.filter(|(op, _)| (first..=last).contains(op)));
        self.received = last;
        self.batches.push_back((last, batch.bytes));
        self.pending_bytes += batch.bytes;
        Ok(Some(Kept {
            first,
            count: (last - first + 1) as u32,
            skip: (first - batch.first) as u32,
        }))
    }

    /// True if the ops through `last` have room for their results and whole transfers.
    pub(super) fn has_room(&self, last: OpNumber, config: &SequencerConfig) -> bool {
        let through = |op: &&(OpNumber, u64)| op.0 <= last;
        let waiting = self.outs.partition_point(|(op, _)| *op <= self.started);
        let adds: u64 = self
            .outs
            .range(waiting..)
            .take_while(through)
            .fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let held = self.held_bytes + self.running_bytes;
        let room = adds == 0 || held == 0 || held.saturating_add(adds) <= config.result_bytes;
        room && self
            .staged
            .iter()
            .take_while(through)
            .all(|(_, transfer)| self.transfers.is_whole(*transfer))
    }

    /// Returns the last op of the next part of a standing grant. The part has at most `most` of the received
    /// ops. It ends with the first op that has a result, or before the first that lacks a transfer, an image
    /// or room.
    pub(super) fn part(&self, most: u64, config: &SequencerConfig) -> OpNumber {
        let mut last = self.received.min(self.started.saturating_add(most));
        let waiting = self.outs.partition_point(|(op, _)| *op <= self.started);
        if let Some((op, bytes)) = self.outs.get(waiting).filter(|(op, _)| *op <= last) {
            let held = self.held_bytes + self.running_bytes;
            let room = held == 0 || held.saturating_add(*bytes) <= config.result_bytes;
            last = op - u64::from(*bytes > 0 && !room);
        }
        let lacking = |(_, transfer): &&(OpNumber, u64)| !self.transfers.is_whole(*transfer);
        let staged = self.staged.iter().find(lacking).map(|(op, _)| *op);
        let loads = self.loads.front().map(|(op, _)| *op);
        let lacks = staged.into_iter().chain(loads).min();
        lacks.map_or(last, |op| last.min(op - 1))
    }

    /// Notes that an image has arrived.
    pub(super) fn has_image(&mut self, hash: ModuleHash) {
        self.loads.retain(|(_, image)| *image != hash);
    }

    /// True if its next op loads an image that has not arrived.
    pub(super) fn awaits_image(&self) -> bool {
        let next = self.loads.front();
        next.is_some_and(|(op, _)| *op == self.started + 1)
    }

    /// Lets that load run without its image.
    pub(super) fn load_anyway(&mut self) {
        self.loads.pop_front();
    }

    /// Notes that the ops through `last` begin to run.
    pub(super) fn start(&mut self, last: OpNumber) {
        let waiting = self.outs.partition_point(|(op, _)| *op <= self.started);
        let starting = self.outs.range(waiting..);
        let adds = starting.take_while(|(op, _)| *op <= last);
        self.running_bytes = adds.fold(self.running_bytes, |sum, (_, bytes)| {
            sum.saturating_add(*bytes)
        });
        self.started = last;
        self.running += 1;
        self.stall = None;
        while self.loads.pop_front_if(|(op, _)| *op <= last).is_some() {}
        while let Some((_, transfer)) = self.staged.pop_front_if(|(op, _)| *op <= last) {
            self.transfers.finish(transfer, true);
        }
    }

    /// Notes that the ops through `done` have run with these results, which are sent now.
    pub(super) fn complete(&mut self, now: Nanos, done: OpNumber, results: &[u64]) {
        if self.held.is_empty() {
            self.results_sent = now;
        }
        self.running -= 1;
        self.done = done;
        while let Some((_, bytes)) = self.batches.pop_front_if(|(op, _)| *op <= done) {
            self.pending_bytes -= bytes;
        }
        while let Some((_, bytes)) = self.outs.pop_front_if(|(op, _)| *op <= done) {
            self.running_bytes = self.running_bytes.saturating_sub(bytes);
        }
        for bytes in results {
            self.held_bytes += bytes;
            self.held.push_back(*bytes);
        }
        if self.running == 0 {
            self.running_bytes = 0;
        }
        self.results += results.len() as u64;
    }

    /// True if results that the client lacks have been on their way for too long.
    pub(super) fn has_lost(&self, now: Nanos, config: &SequencerConfig) -> bool {
        let transit = self.held_bytes.saturating_mul(config.byte_ns);
        let apart = transit.saturating_add(config.repeat_ns / 2);
        now >= self.results_sent.saturating_add(apart)
    }

    /// Notes that the client has these results. Returns true if that is new.
    pub(super) fn acknowledge(&mut self, now: Nanos, results: u64) -> bool {
        let through = results.min(self.results);
        let news = through > self.acknowledged;
        while self.acknowledged < through {
            self.acknowledged += 1;
            self.held_bytes -= self.held.pop_front().unwrap_or(0);
        }
        if news {
            self.stall = None;
            self.results_sent = now;
        }
        news
    }

    /// Fails the session, so that nothing more of it runs. Returns true if it had not failed before.
    pub(super) fn fail(&mut self, op: OpNumber, failure: Failure) -> bool {
        if self.failure.is_some() || matches!(self.phase, Phase::Closed(_)) {
            return false;
        }
        self.failure = Some(Box::new((op, failure)));
        true
    }

    /// Forgets ops and transfers that will never run, and their bytes.
    pub(super) fn drop_pending(&mut self) {
        self.batches = VecDeque::new();
        self.pending_bytes = 0;
        self.outs = VecDeque::new();
        self.staged = VecDeque::new();
        self.loads = VecDeque::new();
        self.transfers = Transfers::default();
        self.images = Images::default();
        self.held_chunks = Vec::new();
    }

    /// Adds the answer to an offer of a transfer to the next acknowledgement.
    pub(super) fn say_held(&mut self, answer: HeldChunks) {
        let same = |row: &&mut HeldChunks| row.transfer == answer.transfer;
        match self.held_chunks.iter_mut().rev().find(same) {
            Some(row) => *row = answer,
            None => self.held_chunks.push(answer),
        }
    }

    /// True if an acknowledgement is overdue by the ops done since the last.
    pub(super) fn is_ack_urgent(&self, config: &SequencerConfig) -> bool {
        self.ack_wanted && self.done >= self.acked_done + config.ack_ops
    }

    pub(super) fn fault(&self) -> Option<SessionFault> {
        self.failure.as_ref().map(|failure| SessionFault {
            session: self.id,
            op: failure.0,
            failure: failure.1.clone(),
        })
    }

    /// Returns the acknowledgement as of now; `room` is true if staging has room.
    pub(super) fn ack(
        &mut self,
        epoch: (bus_schemas::Epoch, bus_schemas::LeaderId),
        room: bool,
        config: &SequencerConfig,
    ) -> AckMessage {
        if self.pending_bytes < config.pending_bytes {
            self.promised = self
                .promised
                .max(self.done.saturating_add(config.pending_ops));
        }
        self.ack_wanted = false;
        self.acked_done = self.done;
        let (prepared, refused) = self.images.take();
        AckMessage {
            tenant: self.tenant.clone(),
            session: self.id,
            epoch: epoch.0,
            leader: epoch.1,
            received: self.received,
            done: self.done,
            send_through: self.promised,
            staging: if room {
                config.staging
            } else {
                limits::CHUNK_BYTES as u64
            },
            results: self.results,
            staged: self.transfers.rows(),
            failure: self.failure.as_deref().cloned(),
            prepared,
            refused,
            held: std::mem::take(&mut self.held_chunks),
        }
    }

    pub(super) fn sealed(&self, accepted: OpNumber) -> SealedSession {
        SealedSession {
            session: self.id,
            tenant: self.tenant.clone(),
            ordinal: self.ordinal,
            window: self.window,
            quota: self.quota,
            nonce: self.nonce,
            accepted,
            done: self.done,
            received: self.received,
            closing: self.closing,
        }
    }
}

/// A thousand idle sessions must not weigh on a worker.
const _: () = assert!(size_of::<Session>() <= 1_024);
