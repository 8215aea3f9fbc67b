//! The sequencer: it decides the order in which work starts, and is the worker's end of the protocol.
//!
//! Rules that `ARCHITECTURE.md` leaves to the worker:
//!
//! - A head with all its ops received is *stalled* while the session's unacknowledged results leave no room
//!   for its own, or while a transfer it uses is not whole. It waits as for missing ops, then is void. While
//!   the stall lasts, further positions of the session are void at once, so they cost the others nothing.
//!   After [`Config::stall_ns`] the session fails.
//! - `received` goes to the leader with every change, from a void on until an accepted grant shows that the
//!   leader grants above what is received.
//! - A seal drops the reports made so far: its answer counts them. A repeated seal drops none.
//! - The tail keeps the grants of earlier epochs until a grant of the present epoch is known to be recorded.
//!   Only then are the grants that the present leader was handed recorded as well.
//! - A standing grant is held open behind the accepted positions. It is accepted when it is closed: by the
//!   grant at the next position, a seal, or draining.
//! - The ops of a standing grant start in parts as they come. The estimated time of a part on the device is
//!   at most a quarter of the window, and that of all parts together at most the window. The time of each
//!   part sets the estimate of the next, and a session's first ops start one by one.
//! - Every part of a standing grant is reported to leaders, and so is its closing. The tail keeps a closed
//!   one until its leader acknowledges that report.
//! - A draining worker accepts nothing more. It leaves when everything accepted has ended, its leader has
//!   acknowledged the reports and noted that it leaves, and clients have acknowledged the results. It waits
//!   at most [`Config::linger_ns`] for clients and [`Config::leave_ns`] for a leader.
//! - A closed session is remembered until its results are acknowledged, at most [`Config::linger_ns`].

mod api;
mod batch_facts;
mod clients;
mod config;
mod course;
mod endings;
mod images;
mod lanes;
mod leaders;
mod messages;
mod offers;
mod pending;
mod positions;
mod reports;
mod sealing;
mod session;
mod staged;
mod staging;
mod staging_room;
mod standing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::{
    Chain, Epoch, Failure, GlobalPosition, GpuPosition, Grant, InputNumber, LeaderId, OpNumber,
    OpenGrant, SessionId, Tenant,
};

pub use api::{
    Action, BatchEvent, BeatAction, ChunkEvent, CompletedEvent, Event, ExitReason, Identity,
    OfferEvent, OpenAction, Settled, StartAction,
};
pub use batch_facts::BatchFacts;
pub use config::Config;
pub use images::ImageState;
pub use messages::{AckMessage, DoneMessage};

use crate::{Nanos, RejectionRate};
use lanes::ByLane;
use pending::{KeptGrant, Pending, Standing};
use reports::Reports;
use session::Session;
use staged::Staged;

/// The worker's sequencer.
#[derive(Debug)]
pub struct Sequencer {
    config: Config,
    identity: Identity,

    epoch: Epoch,
    leader: LeaderId,
    refused_at: Option<Nanos>,

    accepted: GpuPosition,
    chain: Chain,
    global: GlobalPosition,
    /// Accepted positions from the first that has not ended on, and an open standing grant.
    pending: Pending,
    /// Standing grants that have not ended.
    standings: BTreeMap<GpuPosition, Standing>,
    /// Position of the open standing grant, the one behind `accepted`.
    open: Option<GpuPosition>,
    /// Closed standing grants with a closing that is not known to be recorded, each with the number of its
    /// report.
    closings: VecDeque<(GpuPosition, u64)>,
    /// Positions started, voided or gone.
    begun: GpuPosition,
    /// The epoch of the last of them.
    begun_epoch: Epoch,
    ahead: BTreeMap<GpuPosition, (Grant, Option<OpenGrant>)>,
    tail: VecDeque<KeptGrant>,
    /// Range of the forgotten positions among those that the leader has not reported as recorded.
    forgotten: Option<(GpuPosition, GpuPosition)>,
    recorded: InputNumber,
    /// The head that waits for its session, and the time since which it waits.
    waiting: Option<(GpuPosition, Nanos)>,
    /// Accepted positions that have not begun, by priority.
    waiting_at: ByLane<usize>,
    /// Slices on the device, and their charged cost, by priority.
    running: ByLane<usize>,
    running_cost: ByLane<u64>,

    sessions: BTreeMap<SessionId, Box<Session>>,
    ordinals: BTreeMap<Tenant, u64>,
    /// Sessions that are gone, for the chain of grants that still name them.
    gone: BTreeMap<SessionId, (Tenant, u64)>,
    /// Closed sessions in the order of their closes, for forgetting them.
    closed: VecDeque<(Nanos, SessionId)>,
    faulted: BTreeSet<SessionId>,
    doubted: BTreeSet<SessionId>,
    pending_bytes: u64,
    staged: Staged,

    reports: Reports,
    /// True if the current leader wants the times of reports.
    timed: bool,
    /// Time since which there is something to report to the leader.
    report_wanted: Option<Nanos>,
    report_now: bool,
    reported_at: Nanos,
    repeat_at: Option<Nanos>,
    repeat_period: Nanos,
    acks: Vec<SessionId>,
    acks_since: Nanos,
    ack_now: bool,
    rejected: RejectionRate,
    beat_at: Nanos,

    draining: Option<Nanos>,
    /// True if the current leader has noted that this worker leaves.
    noted: bool,
    exited: bool,
    /// True if the client's message that was handled last brought something new.
    took: bool,
}

impl Sequencer {
    /// Creates a sequencer that has accepted nothing and is not sealed.
    #[must_use]
    pub fn new(config: Config, identity: Identity) -> Self {
        Self {
            repeat_period: config.repeat_ns,
            config,
            identity,
            epoch: 0,
            leader: LeaderId(0),
            refused_at: None,
            accepted: 0,
            chain: Chain::default(),
            global: 0,
            pending: Pending::default(),
            standings: BTreeMap::new(),
            open: None,
            closings: VecDeque::new(),
            begun: 0,
            begun_epoch: 0,
            ahead: BTreeMap::new(),
            tail: VecDeque::new(),
            forgotten: None,
            recorded: 0,
            waiting: None,
            waiting_at: ByLane::default(),
            running: ByLane::default(),
            running_cost: ByLane::default(),
            sessions: BTreeMap::new(),
            ordinals: BTreeMap::new(),
            gone: BTreeMap::new(),
            closed: VecDeque::new(),
            faulted: BTreeSet::new(),
            doubted: BTreeSet::new(),
            pending_bytes: 0,
            staged: Staged::default(),
            reports: Reports::default(),
            timed: false,
            report_wanted: None,
            report_now: false,
            reported_at: 0,
            repeat_at: None,
            acks: Vec::new(),
            acks_since: 0,
            ack_now: false,
            rejected: RejectionRate::default(),
            beat_at: 0,
            draining: None,
            noted: false,
            exited: false,
            took: false,
        }
    }

    /// Handles an event at `now` and appends the actions that follow.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>, actions: &mut Vec<Action>) {
        if self.exited {
            return;
        }
        if let Event::Batch(_) | Event::ClientState { .. } | Event::Chunk(_) | Event::Offer(_) =
            event
        {
            self.took = false;
        }
        match event {
            Event::GrantBatch(batch) => self.on_grants(now, batch, actions),
            Event::Seal(seal) => self.on_seal(now, seal, actions),
            Event::Lost(lost) => self.on_lost(lost, actions),
            Event::Leave(leave) => self.on_leave(now, leave, actions),
            Event::Batch(batch) => self.on_batch(now, &batch, actions),
            Event::ClientState {
                tenant,
                session,
                state,
            } => self.on_client_state(now, tenant, session, state, actions),
            Event::Chunk(chunk) => self.on_chunk(now, &chunk, actions),
            Event::Offer(offer) => self.on_offer(now, &offer, actions),
            Event::Opened { session, failure } => self.on_opened(now, session, failure, actions),
            Event::Returned { session } => self.on_returned(now, session, actions),
            Event::Completed(completed) => self.on_completed(now, &completed, actions),
            Event::Closed { session } => self.on_closed(now, session, actions),
            Event::Fault {
                session,
                op,
                failure,
            } => self.fail(now, session, op, failure.clone(), actions),
            Event::Image {
                session,
                transfer,
                hash,
                image,
            } => self.on_image(now, session, (transfer, hash), image),
            Event::Prepared { hash, refused } => self.on_prepared(now, hash, refused),
            Event::Timer => {}
            Event::Drain => self.drain(now, actions),
        }
        if self.exited {
            return;
        }
        self.advance(now, actions);
        self.forget_closed(now, actions);
        self.flush(now, actions);
        self.leave_if_drained(now, actions);
    }

    /// True if the client's message that was handled last brought something new: ops, bytes, or an
    /// acknowledgement of results.
    #[must_use]
    pub fn took(&self) -> bool {
        self.took
    }

    /// Returns the time at which [`Event::Timer`] is needed, if no other event comes before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        if self.exited {
            return None;
        }
        let acks = (!self.acks.is_empty()).then(|| self.acks_since + self.config.ack_ns);
        let report = self.report_wanted.map(|_| self.report_due());
        let linger = self.config.linger_ns;
        let closed = self.closed.front().map(|(at, _)| at + linger);
        let leave = self.draining.map(|since| self.leave_at(since));
        [
            acks,
            report,
            self.repeat_at,
            self.head_timeout(),
            closed,
            leave,
        ]
        .into_iter()
        .flatten()
        .chain([self.beat_at])
        .min()
    }

    /// Last gpu position accepted, and the chain there.
    #[must_use]
    pub fn accepted(&self) -> (GpuPosition, Chain) {
        (self.accepted, self.chain)
    }

    /// The epoch the worker is sealed to and its leader; epoch 0 before the first seal.
    #[must_use]
    pub fn sealed(&self) -> (Epoch, LeaderId) {
        (self.epoch, self.leader)
    }

    /// Slices on the device, and true if a position waits behind them.
    #[must_use]
    pub fn load(&self) -> (usize, bool) {
        (self.running.all().sum(), self.begun < self.accepted)
    }

    /// Number of the last done report made.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.reports.made()
    }

    /// Maximum bytes of the images of a session's tenant on this worker; `u64::MAX` is no limit.
    #[must_use]
    pub fn modules_most(&self, session: SessionId) -> u64 {
        let session = self.sessions.get(&session);
        session.map_or(u64::MAX, |session| session.modules.bytes())
    }

    /// Returns the quota of a tenant from the open grant of its session. `None` unless that grant is accepted
    /// and the close grant has not begun.
    #[must_use]
    pub fn quota(&self, session: SessionId, tenant: &Tenant) -> Option<u64> {
        let session = self.sessions.get(&session)?;
        let is_open = session.phase == session::Phase::Open && session.tenant == *tenant;
        is_open.then_some(session.quota)
    }

    /// Host bytes reserved for unused transfers.
    #[must_use]
    pub fn staged(&self) -> u64 {
        self.staged.bytes()
    }

    /// Number of sessions that are not forgotten.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Notes a change to report to the leader soon.
    fn report_soon(&mut self, now: Nanos) {
        self.report_wanted.get_or_insert(now);
    }

    /// Notes that the session's client needs an acknowledgement soon.
    fn want_ack(&mut self, now: Nanos, session: SessionId) {
        let Some(entry) = self.sessions.get_mut(&session) else {
            return;
        };
        if !entry.ack_wanted {
            entry.ack_wanted = true;
            if self.acks.is_empty() {
                self.acks_since = now;
            }
            self.acks.push(session);
        }
        self.ack_now |= entry.is_ack_urgent(&self.config);
    }

    /// Fails a session: nothing more of it runs, and its client and the leader learn of it at once.
    fn fail(
        &mut self,
        now: Nanos,
        session: SessionId,
        op: OpNumber,
        failure: Failure,
        actions: &mut Vec<Action>,
    ) {
        let Some(entry) = self.sessions.get_mut(&session) else {
            return;
        };
        if !entry.fail(op, failure) {
            return;
        }
        self.pending_bytes -= entry.pending_bytes;
        self.staged
            .change(&entry.tenant, entry.transfers.reserved, 0);
        entry.drop_pending();
        self.doubted.remove(&session);
        let through = OpNumber::MAX;
        actions.push(Action::Forget { session, through });
        if !entry.closing {
            self.faulted.insert(session);
        }
        self.want_ack(now, session);
        self.report_soon(now);
        self.ack_now = true;
        self.report_now = true;
    }
}
