//! The leader's protocol: a state machine over bus, lease, record and time.

mod admission;
mod attainment;
mod clients;
mod config;
mod context;
mod devices;
mod drain;
mod election;
mod event;
mod grant_stream;
mod grant_streams;
mod lateness;
mod learning;
mod liveness;
mod members;
mod messages;
mod missed;
mod publisher;
mod quotas;
mod record;
mod record_acks;
mod record_times;
mod resumed;
mod state;
mod tenants;
mod term;

pub use config::{LeaderConfig, Servers};
pub use event::{Action, Event, Lease, Missed, Placement, StateSnapshot, TermEnd};

pub(crate) use record::Block;
pub use record::Gap;
pub(crate) use record_times::{InputTimes, read_times};

use bus_schemas::subject::{HearsTenants, LeaderSubject, Subjects, ToLeader};
use bus_schemas::{
    Alive, Attainment, Epoch, Incarnation, InputNumber, LeaderBeat, LeaderId, Refusal, StoreStatus,
    Tenant, TenantSettings, WorkerBeat, decode, invariant,
};

use crate::input::Input;
use crate::scheduler::Scheduler;
use crate::time::Nanos;
use clients::Signs;
use context::Context;
use election::{Election, Outcome};
use lateness::Lateness;
use members::Members;
use term::Term;

/// The protocol core of one leader candidate.
#[derive(Debug)]
pub struct Leader {
    config: LeaderConfig,
    id: LeaderId,
    subjects: Subjects,
    election: Election,
    members: Members,
    /// Signs of clients, heard while another candidate leads.
    signs: Signs,
    state: Option<StateSnapshot>,
    /// Time since which our connection is up, if it is.
    connected_at: Option<Nanos>,
    /// Time at which our last connection was closed.
    left_at: Nanos,
    /// Time since which the lease can be read and written, if it can.
    stored_at: Option<Nanos>,
    /// Time since which it cannot, if it could before.
    unstored_at: Option<Nanos>,
    term: Option<Box<Term>>,
    /// The highest epoch that it has led in: it leads in no epoch twice.
    led: Epoch,
    /// Time of its last event.
    last: Nanos,
    /// Lateness of heartbeats and timers.
    lateness: Lateness,
    /// Time at which its own heartbeat last came back from the broker.
    echoed_at: Option<Nanos>,
    /// True if it was asked to leave: it campaigns no more.
    leaving: bool,
    /// Status of the streams and buckets in the broker, as the shell last saw it.
    stores: Vec<StoreStatus>,
}

impl Leader {
    /// A candidate. It does nothing before [`Event::Connected`] and [`Event::State`].
    #[must_use]
    pub fn new(config: LeaderConfig, id: LeaderId) -> Self {
        let subjects = Subjects::new(&config.cluster);
        Self {
            config,
            id,
            subjects,
            election: Election::new(id),
            members: Members::default(),
            signs: Signs::default(),
            state: None,
            connected_at: None,
            left_at: 0,
            stored_at: None,
            unstored_at: None,
            term: None,
            led: 0,
            last: 0,
            lateness: Lateness::default(),
            echoed_at: None,
            leaving: false,
            stores: Vec::new(),
        }
    }

    /// Handles an event, and appends the resulting actions.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>, actions: &mut Vec<Action>) {
        self.wake(now, actions);
        match event {
            Event::Connected => self.connected(now, actions),
            Event::Disconnected => self.disconnected(now),
            Event::ConnectionClosed { name, author } => {
                self.connection_closed(now, name, author, actions);
            }
            Event::LeaseRead { lease, revision } => {
                self.stored(now);
                let ours = self.ours();
                let outcome = self.election.was_read(now, lease, revision, ours);
                self.outcome(now, outcome, actions);
            }
            Event::LeaseWritten { revision } => {
                self.stored(now);
                let outcome = self.election.written(now, revision, &self.config);
                self.outcome(now, outcome, actions);
            }
            Event::LeaseConflict => {
                self.stored(now);
                self.election.conflict(now);
            }
            Event::LeaseUnavailable => {
                self.election.unavailable(now, &self.config);
                self.unstored(now);
            }
            Event::State(state) => self.set_state(now, state, actions),
            Event::Settings(settings) => {
                self.change(now, Input::Settings(settings.clone()), actions);
            }
            Event::TenantSet(tenant, settings) => {
                let (tenant, settings) = (tenant.clone(), settings.cloned());
                self.change(now, Input::TenantSet { tenant, settings }, actions);
            }
            Event::Message {
                subject,
                reply,
                bytes,
            } => self.message(now, subject, reply, bytes, actions),
            Event::SealReply { incarnation, bytes } => {
                self.term_with(now, actions, |term, cx| {
                    term.seal_reply(incarnation, bytes, cx)
                });
            }
            Event::Intent {
                session,
                first,
                runs,
            } => self.term_with(now, actions, |term, cx| {
                term.intent(session, first, runs, cx);
                None
            }),
            Event::Recorded { epoch, number } => self.term_with(now, actions, |term, cx| {
                if term.publisher.epoch == epoch {
                    term.recorded(number, cx);
                }
                None
            }),
            Event::Stores(stores) => self.stores = stores,
            Event::Leave => self.leave(now, actions),
            Event::Timer => {}
        }
        self.step(now, actions);
    }

    /// Does what is due, after any event.
    fn step(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let gap = self.members.take_gap();
        self.lateness
            .note(now, gap.saturating_sub(self.config.worker_beat));
        if let Some(ours) = self.ours() {
            if self.connected_at.is_some() {
                let full = self.term.as_ref().is_some_and(|term| term.is_full(now));
                if full || self.election.is_passed(ours) {
                    self.election.advance(now, ours, actions);
                }
                self.election.renew(now, ours, actions);
            }
            self.term_with(now, actions, |term, cx| term.step(cx));
        }
        let candidate = self.term.is_none() && !self.leaving && self.state.is_some();
        if candidate && self.connected_at.is_some() {
            self.election.campaign(now, actions);
        }
    }

    /// Runs a function on the term, if there is one, and ends the term if the function says so.
    fn term_with(
        &mut self,
        now: Nanos,
        actions: &mut Vec<Action>,
        act: impl FnOnce(&mut Term, &mut Context<'_>) -> Option<TermEnd>,
    ) {
        let Some(mut term) = self.term.take() else {
            return;
        };
        let end = act(&mut term, &mut self.context(now, actions));
        self.term = Some(term);
        if let Some(why) = end {
            self.end_term(now, why, actions);
        }
    }

    /// The data that a term needs beside itself.
    fn context<'a>(&'a mut self, now: Nanos, actions: &'a mut Vec<Action>) -> Context<'a> {
        let connected_at = self.connected_at.unwrap_or(now);
        // With several servers, ours may be cut off: a candidate that writes the lease through it
        // is not.
        let listening_since = match &self.config.cluster_of {
            None => connected_at,
            Some(_) => connected_at.max(self.stored_at.unwrap_or(now)),
        };
        Context {
            now,
            config: &self.config,
            members: &mut self.members,
            connected_at: listening_since,
            unstored_at: self.unstored_at,
            lateness: &self.lateness,
            stores: &self.stores,
            actions,
        }
    }

    fn end_term(&mut self, now: Nanos, why: TermEnd, actions: &mut Vec<Action>) {
        let Some(mut term) = self.term.take() else {
            return;
        };
        if why != TermEnd::Renewed {
            self.election.dethroned(now);
            self.signs = term.clients.signs();
            self.echoed_at = None;
        }
        let epoch = term.publisher.epoch;
        match why {
            TermEnd::Fenced { epoch } => self.election.saw(epoch),
            TermEnd::RecordGap => self.election.succeed_self(),
            TermEnd::Lease | TermEnd::Renewed | TermEnd::Left => {}
        }
        if let Some(state) = &mut self.state {
            // State that the store may not have yet, in case we lead again.
            state.placement = term.placement.clone();
            state.placement.ordinals = term.scheduler.ordinals();
            if state.pinned.is_none() {
                state.profile = term.learner.profile();
            }
        }
        actions.push(Action::TermEnded { epoch, why });
        if self.leaving {
            actions.push(Action::Left);
        }
    }

    fn outcome(&mut self, now: Nanos, outcome: Outcome, actions: &mut Vec<Action>) {
        match outcome {
            Outcome::None => {}
            Outcome::Lost => self.end_term(now, TermEnd::Lease, actions),
            Outcome::Won(lease) => {
                let mut before = None;
                if self.epoch().is_some_and(|ours| ours < lease.epoch) && !self.leaving {
                    self.term_with(now, actions, |term, cx| {
                        term.finish_record(cx);
                        before = Some(term.hand_on(cx));
                        Some(TermEnd::Renewed)
                    });
                }
                let over = self.term.is_none() && lease.epoch <= self.led;
                if over {
                    // A renewal was under way when the term ended: the lease is ours, and we must
                    // lead in another epoch.
                    self.election.succeed_self();
                }
                let wins = self.term.is_none() && !self.leaving && !over;
                if let Some(state) = self.state.clone().filter(|_| wins) {
                    let (led, next) = (self.led, lease.epoch);
                    invariant!(I3, next > led, "epoch {next} would be led after {led}");
                    let (id, mut cx) = (self.id, self.context(now, actions));
                    let mut term = Term::new(lease.epoch, id, &state, &mut cx);
                    self.led = lease.epoch;
                    match before {
                        Some(before) => term.go_on(before),
                        None => {
                            let mut signs = std::mem::take(&mut self.signs);
                            signs.inherit(now, &state.placement.closing, &self.config);
                            term.clients.go_on(signs);
                        }
                    }
                    self.term = Some(Box::new(term));
                }
            }
        }
    }

    /// Our lease, if we lead.
    fn ours(&self) -> Option<Lease> {
        let epoch = self.epoch()?;
        let leader = self.id;
        Some(Lease { epoch, leader })
    }

    fn message(
        &mut self,
        now: Nanos,
        subject: &LeaderSubject,
        reply: Option<&str>,
        bytes: &[u8],
        actions: &mut Vec<Action>,
    ) {
        match subject {
            LeaderSubject::LeaderBeat => {
                let Ok(beat) = decode::<LeaderBeat>(bytes) else {
                    return;
                };
                if beat.leader == self.id {
                    return self.echoed(now);
                }
                if let Some(late) = self.election.late(now, &beat, self.config.beat) {
                    self.lateness.note(now, late);
                }
                self.election.beat(now, &beat);
            }
            LeaderSubject::WorkerBeat(worker) => {
                let Ok(beat) = decode::<WorkerBeat>(bytes) else {
                    return;
                };
                self.election.saw(beat.epoch);
                self.members.beat(now, *worker, &beat);
            }
            LeaderSubject::Refusal(_) => {
                if let Ok(refusal) = decode::<Refusal>(bytes) {
                    self.election.saw(refusal.epoch);
                }
            }
            LeaderSubject::Tenant(tenant, ToLeader::Alive) if self.term.is_none() => {
                if let Ok(alive) = decode::<Alive>(bytes) {
                    self.signs.alive(now, tenant, &alive, &self.config);
                }
            }
            _ => {}
        }
        self.term_with(now, actions, |term, cx| {
            term.message(subject, reply, bytes, cx)
        });
    }

    fn leave(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        if std::mem::replace(&mut self.leaving, true) {
            return;
        }
        if self.term.is_none() {
            actions.push(Action::Left);
        }
        self.term_with(now, actions, |term, cx| {
            term.leave(cx);
            None
        });
    }

    /// Time at which it wants [`Event::Timer`]; `None` while it waits for other events.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let term = self.term.as_ref().map(|term| term.next_wakeup());
        let campaigns = self.state.is_some() && !self.leaving;
        let active = self.connected_at.is_some() && (term.is_some() || campaigns);
        let election = self.election.next_wakeup(term.is_some());
        let election = election.filter(|_| active);
        // A pause that a candidate chose itself must not look as if it had stood still.
        let pulse = self.last.saturating_add(self.config.stall / 2);
        let election = election.map(|due| due.min(pulse));
        term.into_iter().chain(election).min()
    }

    /// The id of the candidate.
    #[must_use]
    pub fn id(&self) -> LeaderId {
        self.id
    }

    /// The epoch that it leads in, if it leads.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.term.as_ref().map(|term| term.publisher.epoch)
    }

    /// Time at which it noticed that no leader existed, before its present term or campaign.
    #[must_use]
    pub fn noticed_at(&self) -> Option<Nanos> {
        self.election.noticed_at()
    }

    /// Number of recorded inputs, while it leads.
    #[must_use]
    pub fn recorded(&self) -> Option<InputNumber> {
        self.term.as_ref().map(|term| term.recorder.recorded())
    }

    /// Number of workers that were lost in this term without announcing that they leave.
    #[must_use]
    pub fn workers_lost(&self) -> u64 {
        self.term.as_ref().map_or(0, |term| term.workers_lost)
    }

    /// The attainment of each tenant that has had requests, while it leads.
    #[must_use]
    pub fn attainments(&self) -> Vec<(Tenant, TenantSettings, Attainment)> {
        let term = self.term.as_ref();
        term.map_or_else(Vec::new, |term| term.attainments(self.last))
    }

    /// The order, while it leads.
    #[must_use]
    pub fn scheduler(&self) -> Option<&Scheduler> {
        self.term.as_ref().map(|term| &term.scheduler)
    }

    /// The subjects it always subscribes to, wildcards included.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<String> {
        let mut subscriptions = self.subjects.leader_inbound();
        let inbox = self.subjects.cluster_inbox();
        subscriptions.push(format!("{inbox}.leader.{}.*", self.id));
        subscriptions
    }

    /// The messages of tenants that it hears now.
    #[must_use]
    pub fn hears_tenants(&self) -> HearsTenants {
        match self.term {
            Some(_) => HearsTenants::Leader,
            None => HearsTenants::Candidate,
        }
    }

    /// The worker with seal answers on this subject, if the subject is one of our inbox.
    #[must_use]
    pub fn seal_reply_of(&self, subject: &str) -> Option<Incarnation> {
        let prefix = format!("{}.leader.{}.", self.subjects.cluster_inbox(), self.id);
        subject.strip_prefix(&prefix)?.parse().ok()
    }
}
