//! The sequencer: it decides the order in which work starts, and is the worker's end of the protocol.
//!
//! Rules that `ARCHITECTURE.md` leaves to the worker:
//!
//! - A head with all its ops received is *stalled* while the session's unacknowledged results leave no room
//!   for its own, or while a transfer it uses is not whole. It waits as for missing ops, then is void. While
//!   the stall lasts, further positions of the session are void at once, so they cost the others nothing.
//!   After [`SequencerConfig::stall_ns`] the session fails.
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
//!   at most [`SequencerConfig::linger_ns`] for clients and [`SequencerConfig::leave_ns`] for a leader.
//! - A closed session is remembered until its results are acknowledged, at most [`SequencerConfig::linger_ns`].

mod acks;
mod api;
mod batch_facts;
mod chain_end;
mod clients;
mod config;
mod course;
mod departure;
mod endings;
mod former_sessions;
mod images;
mod lanes;
mod leaders;
mod messages;
mod obeyed;
mod offers;
mod pending;
mod positions;
mod report_times;
mod reports;
mod sealing;
mod session;
mod sessions;
mod staged;
mod staging;
mod staging_room;
mod standing;
mod standings;
mod tail;

use std::collections::BTreeMap;

use bus_schemas::{
    Chain, Epoch, Failure, GpuPosition, Grant, LeaderId, OpNumber, OpenGrant, SessionId, Tenant,
};

pub use api::{
    Action, BatchEvent, BeatAction, ChunkEvent, CompletedEvent, Event, ExitReason, Identity,
    OfferEvent, OpenAction, Settled, StartAction,
};
pub use batch_facts::BatchFacts;
pub use config::SequencerConfig;
pub use images::ImageReadiness;
pub use messages::{AckMessage, DoneMessage};

use crate::{Nanos, RejectionRate};
use acks::Acks;
use chain_end::ChainEnd;
use departure::Departure;
use former_sessions::FormerSessions;
use lanes::{Lane, Lanes};
use obeyed::Obeyed;
use pending::Pending;
use report_times::ReportTimes;
use reports::Reports;
use sessions::Sessions;
use staged::Staged;
use standings::Standings;
use tail::Tail;

/// The worker's sequencer.
#[derive(Debug)]
pub struct Sequencer {
    config: SequencerConfig,
    identity: Identity,

    obeyed: Obeyed,
    chain_end: ChainEnd,
    /// Accepted positions from the first that has not ended on, and an open standing grant.
    pending: Pending,
    standings: Standings,
    /// Positions started, voided or gone.
    begun: GpuPosition,
    /// The epoch of the last of them.
    begun_epoch: Epoch,
    ahead: BTreeMap<GpuPosition, (Grant, Option<OpenGrant>)>,
    tail: Tail,
    /// The head that waits for its session, and the time since which it waits.
    waiting: Option<(GpuPosition, Nanos)>,
    lanes: Lanes,

    sessions: Sessions,
    former: FormerSessions,
    pending_bytes: u64,
    staged: Staged,

    reports: Reports,
    times: ReportTimes,
    acks: Acks,
    rejected: RejectionRate,

    departure: Departure,
    /// True if the client's message that was handled last brought something new.
    took: bool,
}

impl Sequencer {
    /// Creates a sequencer that has accepted nothing and is not sealed.
    #[must_use]
    pub fn new(config: SequencerConfig, identity: Identity) -> Self {
        Self {
            times: ReportTimes::new(config.repeat_ns),
            config,
            identity,
            obeyed: Obeyed::none(),
            chain_end: ChainEnd::default(),
            pending: Pending::default(),
            standings: Standings::default(),
            begun: 0,
            begun_epoch: 0,
            ahead: BTreeMap::new(),
            tail: Tail::default(),
            waiting: None,
            lanes: Lanes::default(),
            sessions: Sessions::default(),
            former: FormerSessions::default(),
            pending_bytes: 0,
            staged: Staged::default(),
            reports: Reports::default(),
            acks: Acks::default(),
            rejected: RejectionRate::default(),
            departure: Departure::default(),
            took: false,
        }
    }

    /// Handles an event at `now` and appends the actions that follow.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>, actions: &mut Vec<Action>) {
        if self.departure.is_over() {
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
        if self.departure.is_over() {
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
        if self.departure.is_over() {
            return None;
        }
        let acks = self.acks.due(self.config.ack_ns);
        let report = self.times.wanted().map(|_| self.report_due());
        let linger = self.config.linger_ns;
        let closed = self.former.first_close().map(|at| at + linger);
        let leave = self.departure.since().map(|since| self.leave_at(since));
        [acks, report, self.head_timeout(), closed, leave]
            .into_iter()
            .flatten()
            .chain([self.times.next()])
            .min()
    }

    /// Last gpu position accepted, and the chain there.
    #[must_use]
    pub fn accepted(&self) -> (GpuPosition, Chain) {
        (self.chain_end.position(), self.chain_end.chain())
    }

    /// The epoch the worker is sealed to and its leader; epoch 0 before the first seal.
    #[must_use]
    pub fn sealed(&self) -> (Epoch, LeaderId) {
        self.obeyed.id()
    }

    /// Slices on the device, and true if a position waits behind them.
    #[must_use]
    pub fn load(&self) -> (usize, bool) {
        (
            self.lanes.running(Lane::LAST),
            self.begun < self.chain_end.position(),
        )
    }

    /// Number of the last done report made.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.reports.made()
    }

    /// Maximum bytes of the images of a session's tenant on this worker; `u64::MAX` is no limit.
    #[must_use]
    pub fn modules_most(&self, session: SessionId) -> u64 {
        let session = self.sessions.get(session);
        session.map_or(u64::MAX, |session| session.modules.bytes())
    }

    /// Returns the quota of a tenant from the open grant of its session. `None` unless that grant is accepted
    /// and the close grant has not begun.
    #[must_use]
    pub fn quota(&self, session: SessionId, tenant: &Tenant) -> Option<u64> {
        let session = self.sessions.get(session)?;
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
        self.times.want(now);
    }

    /// Notes that the session's client needs an acknowledgement soon.
    fn want_ack(&mut self, now: Nanos, session: SessionId) {
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if !entry.ack_wanted {
            entry.ack_wanted = true;
            self.acks.add(now, session);
        }
        if entry.is_ack_urgent(&self.config) {
            self.acks.urge();
        }
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
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if !entry.fail(op, failure) {
            return;
        }
        self.pending_bytes -= entry.pending_bytes;
        self.staged
            .change(&entry.tenant, entry.transfers.reserved, 0);
        entry.drop_pending();
        let closing = entry.closing;
        self.sessions.end_doubt(session);
        let through = OpNumber::MAX;
        actions.push(Action::Forget { session, through });
        if !closing {
            self.sessions.fail(session);
        }
        self.want_ack(now, session);
        self.report_soon(now);
        self.acks.urge();
        self.times.urge();
    }
}
