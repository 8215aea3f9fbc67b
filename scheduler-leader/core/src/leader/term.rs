//! One term: the scheduler, the grant streams to the workers, the record, and the deadlines.

mod numbers;
mod record_limits;
mod resuming;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use bus_schemas::{
    ClusterSettings, Code, CostRun, Epoch, Failure, GpuPosition, Incarnation, LeaderId, OpNumber,
    SessionId, invariant, subject::Subjects,
};

use super::admission::Loads;
use super::attainment::Attainments;
use super::clients::{Clients, Refused};
use super::context::Context;
use super::event::{Action, Placement, StateSnapshot, TermEnd};
use super::grant_streams::GrantStreams;
use super::learning::Learner;
use super::publisher::Publisher;
use super::record::{Gap, Recorder};
use super::record_times::Said;
use super::resumed::Resumed;
use crate::effect::Effect;
use crate::input::{Input, Profile, Rows, Takeover};
use crate::policy::{ORDER_VERSION, TICK_NS};
use crate::scheduler::{DirtySession, Scheduler, WorkerView};
use crate::time::Nanos;
use record_limits::RecordLimits;

/// Maximum number of lost incarnations in the placement.
const LOST: usize = 256;
/// Interval of the checks for silence and expiry.
const CHECK: Nanos = 100_000_000;

/// One term.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) publisher: Publisher,
    pub(super) scheduler: Scheduler,
    pub(super) streams: GrantStreams,
    pub(super) clients: Clients,
    pub(super) recorder: Recorder,
    pub(super) learner: Learner,
    pub(super) learning: bool,
    pub(super) attainments: Attainments,
    pub(super) loads: Loads,
    pub(super) placement: Placement,
    pub(super) placement_changed: bool,
    /// Workers that wait for the gpu number of another, with the time at which each was first heard.
    rivals: BTreeMap<Incarnation, Nanos>,
    /// Number of workers that it declared lost without an announcement that they leave.
    pub(super) workers_lost: u64,
    /// Sessions of the previous term with clients that do not know yet that this one leads.
    pub(super) resumed: Resumed,
    /// Sessions with progress, while their queues are notified.
    dirty_sessions: Vec<DirtySession>,
    effects: Vec<Effect>,
    inbox: String,
    began: Nanos,
    /// Start of the first epoch in an unbroken series of its own: it listens to workers since then.
    pub(super) listening_since: Nanos,
    beat_at: Nanos,
    /// Time of the next heartbeat to tenants.
    tenants_at: Nanos,
    tick_at: Option<Nanos>,
    check_at: Nanos,
    /// Set if it was asked to leave: it hands over by then, once leaving workers are gone.
    pub(super) farewell: Option<Nanos>,
    /// Set while it hands over: it is gone by then.
    pub(super) leaving: Option<Nanos>,
    limits: RecordLimits,
    /// The number of the list of quotas in force, from 1.
    pub(super) quotas: u64,
    /// Set since inputs go unrecorded: the first position of each worker that they decided.
    unrecorded: BTreeMap<Incarnation, GpuPosition>,
}

impl Term {
    /// Starts a term.
    pub(super) fn new(
        epoch: Epoch,
        leader: LeaderId,
        state: &StateSnapshot,
        cx: &mut Context<'_>,
    ) -> Self {
        let subjects = Subjects::new(&cx.config.cluster);
        let mut term = Self {
            inbox: format!("{}.leader.{leader}", subjects.cluster_inbox()),
            publisher: Publisher {
                subjects,
                epoch,
                leader,
                connected: true,
            },
            scheduler: Scheduler::new(),
            streams: GrantStreams::default(),
            clients: Clients::default(),
            recorder: Recorder::new(epoch, leader, cx.config.clock_zero),
            learner: Learner::new(state.profile_in_force(), state.profile.version, cx.now),
            learning: state.settings_in_force().learn,
            attainments: Attainments::new(cx.now),
            loads: Loads::default(),
            placement: Placement {
                epoch,
                ..state.placement.clone()
            },
            // The store must know at once that this epoch exists.
            placement_changed: true,
            rivals: BTreeMap::new(),
            workers_lost: 0,
            resumed: Resumed::default(),
            dirty_sessions: Vec::new(),
            effects: Vec::new(),
            began: cx.now,
            listening_since: cx.now,
            beat_at: cx.now,
            tenants_at: cx.now,
            tick_at: None,
            check_at: cx.now,
            farewell: None,
            leaving: None,
            limits: RecordLimits::of(&state.settings),
            quotas: 1,
            unrecorded: BTreeMap::new(),
        };
        term.date_missed(cx);
        cx.actions.push(Action::TermBegan { epoch });
        let takeover = Takeover {
            order_version: ORDER_VERSION,
            epoch,
            leader,
            settings: state.settings_in_force(),
            tenants: state.tenants.clone(),
            profile: state.profile_in_force().clone(),
            ordinals: state.placement.ordinals.clone(),
            held: state.placement.held,
        };
        term.apply(Input::Takeover(Box::new(takeover)), cx);
        for (tenant, _) in &state.tenants {
            term.publisher.beat(Some(tenant), false, cx.actions);
        }
        for worker in cx.members.incarnations() {
            term.meet(worker, cx);
        }
        term.expect(&state.placement.workers, cx);
        term
    }

    /// Applies an input: records it, decides, and carries out the effects.
    pub(super) fn apply(&mut self, input: Input, cx: &mut Context<'_>) {
        self.apply_timed(input, Said::default(), cx);
    }

    /// Applies an input and records the worker's times of its reports beside it.
    pub(super) fn apply_timed(&mut self, input: Input, said: Said<'_>, cx: &mut Context<'_>) {
        if self.leaving.is_some() || self.recorder.is_closed() {
            // The successor starts from the workers; decisions made now would be lost to replay.
            return;
        }
        let bounds = (self.limits.buffer, cx.config);
        if self
            .recorder
            .push(cx.now, (&input, said), bounds, cx.actions)
        {
            let granted = |worker: WorkerView| (worker.incarnation, worker.granted + 1);
            self.unrecorded = self.scheduler.workers().into_iter().map(granted).collect();
        }
        let mut effects = std::mem::take(&mut self.effects);
        self.scheduler.apply(&input, &mut effects);
        let (recorded, applied) = (self.recorder.last(), self.scheduler.input());
        invariant!(I5, recorded == applied, "{applied} recorded as {recorded}");
        if self.tick_at.is_none() && (!effects.is_empty() || self.scheduler.awaits_tick()) {
            self.tick_at = Some(cx.now.saturating_add(TICK_NS));
        }
        effects
            .drain(..)
            .for_each(|effect| self.carry_out(effect, cx));
        self.effects = effects;
    }

    fn carry_out(&mut self, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Grant {
                incarnation,
                grant,
                open,
                ..
            } => {
                if let Some(stream) = self.streams.get_mut(&incarnation) {
                    stream.push(grant, open);
                }
            }
            Effect::Opened { placed, position } => {
                self.placement_changed = true;
                let (clients, publisher) = (&mut self.clients, &self.publisher);
                let opening = clients.placed(placed, Some(position), 0, publisher, cx);
                cx.actions.push(Action::QueueOpen(opening));
            }
            Effect::Refused {
                nonce,
                tenant,
                code,
                share,
            } => {
                let why = Refused { code, share };
                self.clients
                    .refused(tenant, nonce, why, &self.publisher, cx);
            }
            Effect::Resumed { placed, queued } => {
                let opening = self
                    .clients
                    .placed(placed, None, queued, &self.publisher, cx);
                if let Some(opening) = self.resumed.add(cx.now, opening) {
                    self.resume(opening, cx);
                }
            }
            Effect::Lied { session } => {
                let why = "the ops are not the ones their client announced to the leader";
                self.clients
                    .failed(session, Failure::new(Code::Protocol, why));
            }
            Effect::Closing { .. } => {}
            Effect::Ended { session, cause, .. } => {
                self.attainments.ended(session);
                self.announce_resumed(session, cx);
                self.clients.ended(session, cause, &self.publisher, cx);
            }
        }
    }

    /// Takes in the next ops of a session.
    pub(super) fn intent(
        &mut self,
        session: SessionId,
        first: OpNumber,
        runs: Vec<CostRun>,
        cx: &mut Context<'_>,
    ) {
        self.clients.active(session, cx);
        if let Some(slot) = self.scheduler.slot(session) {
            let placed = (slot, session);
            self.attainments.intent(cx.now, placed, first, &runs);
        }
        self.apply(
            Input::Intent {
                session,
                first,
                runs: Rows(runs),
            },
            cx,
        );
    }

    /// Does what is due, at the end of every event.
    pub(super) fn step(&mut self, cx: &mut Context<'_>) -> Option<TermEnd> {
        if cx.now >= self.beat_at {
            self.beat_at = cx.now.saturating_add(cx.config.beat);
            self.publisher
                .beat(None, self.leaving.is_some(), cx.actions);
        }
        if let Some(servers) = &cx.config.cluster_of
            && cx.now >= self.tenants_at
        {
            self.tenants_at = cx.now.saturating_add(servers.tenant_beat);
            for tenant in self.scheduler.tenant_names() {
                self.publisher
                    .beat(Some(tenant), self.leaving.is_some(), cx.actions);
            }
        }
        if cx.now >= self.check_at {
            self.check_at = cx.now.saturating_add(CHECK);
            self.check(cx);
        }
        if self.tick_at.is_some_and(|at| cx.now >= at) {
            self.tick(cx);
        }
        if self.learning
            && let Some(changed) = self.learner.next(cx.now, cx.config)
        {
            self.apply(Input::Profile(changed), cx);
            cx.actions.push(Action::WriteProfile {
                epoch: self.publisher.epoch,
                profile: self.learner.profile(),
            });
        }
        for opening in self.resumed.next(cx.now) {
            self.resume(opening, cx);
        }
        self.hand_over(cx);
        self.recorder.flush(cx.now, cx.actions);
        let recorded = self.recorder.recorded();
        let (publisher, inbox) = (&self.publisher, &self.inbox);
        self.streams.attend(cx.now, |worker, stream, acks| {
            if stream.wants_seal(cx.now, cx.config) {
                publisher.seal(worker, stream.tail(), reply(inbox, worker), cx.actions);
            }
            let recorded = (recorded, acks);
            stream.flush(cx.now, recorded, publisher, cx.config, cx.actions);
        });
        self.send_progress(cx);
        self.end(cx)
    }

    /// The reason why the term ends now, if it does.
    fn end(&mut self, cx: &mut Context<'_>) -> Option<TermEnd> {
        if self.recorder.wants_gap() {
            let gaps = self.gaps();
            self.recorder.name_gap(gaps, cx.actions);
        }
        let gap = self.recorder.gap_is_recorded();
        if gap {
            self.release_tails(cx);
        }
        if let Some(leaving) = self.leaving {
            let over = self.recorder.is_whole() || cx.now >= leaving;
            return over.then_some(TermEnd::Left);
        }
        gap.then_some(TermEnd::RecordGap)
    }

    /// Sends the last message to workers in a term with a gap: they need not keep what it names.
    /// The tails of a long gap could fill the next term's buffer, and so lead to the next gap.
    fn release_tails(&mut self, cx: &mut Context<'_>) {
        let recorded = self.recorder.recorded();
        for stream in self.streams.all() {
            stream.send_recorded(recorded, &self.publisher, cx.actions);
        }
    }

    /// The unrecorded positions. For a worker that is gone, they extend to its end.
    fn gaps(&self) -> Vec<Gap> {
        let (buffer, workers) = (self.limits.buffer, self.scheduler.workers());
        let granted = workers.into_iter();
        let mut last: BTreeMap<_, _> = granted.map(|it| (it.incarnation, it.granted)).collect();
        let gone = self.unrecorded.keys().filter(|it| !last.contains_key(it));
        let gone: Vec<_> = gone.map(|worker| (*worker, GpuPosition::MAX)).collect();
        last.extend(gone);
        let gap = last.into_iter().filter_map(|(incarnation, last)| {
            // A worker that came later is not in the record at all.
            let first = self.unrecorded.get(&incarnation).copied().unwrap_or(1);
            (first <= last).then(|| Gap {
                incarnation,
                first,
                last,
                reason: format!("more than {buffer} bytes could not be recorded"),
            })
        });
        gap.collect()
    }

    /// Returns true if the epoch has its maximum size or age and may be followed by another at
    /// once. An epoch that has ended can be cut off.
    pub(super) fn is_full(&self, now: Nanos) -> bool {
        let old = now >= self.began.saturating_add(self.limits.age);
        let large = self.recorder.bytes() >= self.limits.bytes;
        (old || large) && self.farewell.is_none() && self.recorder.has_all()
    }

    /// Sends the rest of the record: the epoch ends, and another of ours begins.
    pub(super) fn finish_record(&mut self, cx: &mut Context<'_>) {
        self.recorder.cut_all(cx.actions);
    }

    /// Applies new settings.
    pub(super) fn limit(&mut self, settings: &ClusterSettings) {
        self.limits = RecordLimits::of(settings);
    }

    /// Looks for workers and clients that are gone. While the bus is away, none count as gone.
    fn check(&mut self, cx: &mut Context<'_>) {
        if self.publisher.connected {
            for worker in self.absent(cx) {
                self.lose(worker, cx);
            }
            let forgotten = self.forgotten(cx);
            if !forgotten.is_empty() {
                let is_gone = |worker| forgotten.contains(&worker);
                self.clients.bereave(is_gone, &self.publisher, cx.actions);
            }
            if cx.is_listening() {
                for input in self.clients.expired(cx.now) {
                    self.apply(input, cx);
                }
            }
        }
        for input in self.clients.second_thoughts() {
            self.apply(input, cx);
        }
        self.clients.refuse_waiting(&self.publisher, self.began, cx);
        if self.streams.are_sealed() {
            self.resumed.settle();
            self.clients.settle();
        }
        self.loads.sample(cx.now, || self.scheduler.flows());
        if let Some(closing) = self.clients.changed_closings(cx.config) {
            self.placement.closing = closing;
            self.placement_changed = true;
        }
        self.forget_missed(cx);
        self.keep_placement(cx);
    }

    /// Feeds ticks to the order while it has work or waits for time.
    fn tick(&mut self, cx: &mut Context<'_>) {
        let due = self.tick_at.unwrap_or(cx.now);
        if self.scheduler.is_busy() || self.scheduler.awaits_tick() || self.scheduler.has_recent() {
            self.apply(Input::Tick, cx);
            // A small delay is made up for; after a long standstill, not all of it is.
            let next = due.saturating_add(TICK_NS);
            self.tick_at = Some(next.max(cx.now.saturating_sub(TICK_NS)));
        } else {
            self.tick_at = None;
        }
    }

    /// Notifies the queues of sessions with progress, and counts the requests that are done by now.
    fn send_progress(&mut self, cx: &mut Context<'_>) {
        let mut dirty = std::mem::take(&mut self.dirty_sessions);
        self.scheduler.take_dirty_sessions(&mut dirty);
        for it in dirty.drain(..) {
            self.announce_resumed(it.session, cx);
            if it.reported {
                self.attain(&it, cx.now);
            }
            cx.actions.push(Action::QueueProgress {
                session: it.session,
                progress: it.progress,
            });
        }
        self.dirty_sessions = dirty;
    }

    /// Notes that the stream acknowledged a block.
    pub(super) fn recorded(&mut self, number: u64, cx: &mut Context<'_>) {
        if self.recorder.acknowledged(number) {
            let recorded = self.recorder.recorded();
            let linger = cx.config.record_linger;
            self.streams.recorded(cx.now, recorded, linger);
        }
    }

    /// Holds grants, or releases them.
    pub(super) fn hold(&mut self, held: bool, cx: &mut Context<'_>) {
        if self.scheduler.held() != held {
            self.placement.held = held;
            self.placement_changed = true;
            self.apply(Input::Hold { held }, cx);
        }
    }

    /// Replaces the profile of the order.
    pub(super) fn adopt(&mut self, profile: &Profile, cx: &mut Context<'_>) {
        self.learner.adopt(profile);
        self.apply(Input::Profile(profile.clone()), cx);
    }

    /// Hands over soon. If the cluster stops, workers have just left, and the record must say so.
    pub(super) fn leave(&mut self, cx: &mut Context<'_>) {
        if self.farewell.is_none() {
            self.farewell = Some(cx.now.saturating_add(cx.config.farewell));
        }
    }

    /// Starts to hand over once no worker is about to leave, or the time for that is over.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        let Some(until) = self.farewell.filter(|_| self.leaving.is_none()) else {
            return;
        };
        if !self.bid_farewell(cx) || cx.now >= until {
            self.recorder.cut_all(cx.actions);
            self.leaving = Some(cx.now.saturating_add(cx.config.leave));
            self.publisher.beat(None, true, cx.actions);
        }
    }

    /// Time at which the next thing is due.
    pub(super) fn next_wakeup(&self) -> Nanos {
        let others = [
            self.streams.next_wakeup(),
            self.tick_at,
            self.leaving.or(self.farewell),
            self.recorder.next_wakeup(),
            self.resumed.next_wakeup(),
            self.learner.next_wakeup().filter(|_| self.learning),
        ];
        let due = others.into_iter().flatten().min();
        // An epoch's age is checked with each heartbeat.
        let own = self.beat_at.min(self.check_at);
        due.map_or(own, |due| due.min(own))
    }
}

/// The subject on which a worker answers a seal.
fn reply(inbox: &str, worker: Incarnation) -> Arc<str> {
    format!("{inbox}.{worker}").into()
}
