//! The worker: one owner of the sequencer, the dispatch, the image table, the device's resources, exports,
//! copies, weights and quotas, and the only place where they meet.
//!
//! A shell hands it messages and the device's events with [`Worker::handle`], and carries out the actions in
//! their order: publications, commands to the device, lines of the evidence log. The bytes of ops, transfers
//! and images stay in the shell's [`Buffers`]. The actor of a real worker and the worker of the simulated
//! cluster are two such shells.

mod api;
mod completions;
mod copies;
mod decisions;
mod event_times;
mod images;
mod memory;
mod messages;
mod offers;
mod results;
mod sessions;
mod turn;
mod view;

use bus_schemas::{
    Compilation, HeldImages, OpNumber, Residency, SessionId, Tenant, Weights, WorkerBeat,
};

pub use api::{
    Action, ArrivedChunks, BatchPart, Buffers, CheckedChunks, CheckedImage, Command,
    CompletedSlice, Event, PublishedNews, SentImage, SubmittedSlice, To,
};
pub use copies::CopySettings;

use crate::dispatch::{self, Dispatch, Limits};
use crate::sequencer::{self, Identity, Sequencer, SequencerConfig};
use crate::{
    AnswerRate, Exports, ImageTable, Nanos, QuotaList, RejectionRate, Resources, SendOnChange,
    WeightTable,
};
use copies::Copies;
use sessions::Sessions;
use turn::{Current, Turn};

/// Interval of the looks at the memory: waits that have lasted long enough, sessions that have become idle.
const LOOK_NS: Nanos = 20_000_000;

/// Settings and properties of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSetup {
    /// Settings of the sequencer.
    pub config: SequencerConfig,
    /// The constant parts of its heartbeats; the others are ignored.
    pub beat: WorkerBeat,
    /// Limits of the device.
    pub limits: Limits,
    /// True if slices of different sessions overlap on the device.
    pub overlaps: bool,
    /// Settings of the chunks of copies that it keeps.
    pub copies: CopySettings,
}

/// Parts of heartbeats that are sent only after a change.
#[derive(Debug, Default)]
struct Sent {
    images: SendOnChange<HeldImages>,
    weights: SendOnChange<Weights>,
    residency: SendOnChange<Residency>,
}

/// The worker's decisions. `B` has the bytes.
pub struct Worker<B: Buffers> {
    sequencer: Sequencer,
    dispatch: Dispatch<B::Ops, B::Module>,
    images: ImageTable<B::Module>,
    resources: Resources,
    exports: Exports,
    copies: Copies<B::Chunk, B::Payload>,
    weights: WeightTable,
    quotas: QuotaList,
    sessions: Sessions,
    buffers: B,

    beat: WorkerBeat,
    sent: Sent,
    overlaps: bool,
    rejected: RejectionRate,
    answered: AnswerRate,
    /// Time of the next look at the memory, if time alone may change a decision about it.
    look: Option<Nanos>,
    /// True if the pager may decide anew: a session holds, needs or frees something else.
    changed: bool,
    /// Time at which the device last completed a slice.
    completed_at: Nanos,
    /// Compilations of modules that slices on the device load, with session and first op of the slice.
    compiled: Vec<(SessionId, OpNumber, Compilation)>,
    /// True if the tenant's message that was handled last could be read.
    is_sound: bool,
    /// The sequencer's actions; empty between two events.
    decided: Vec<sequencer::Action>,
}

impl<B: Buffers> Worker<B> {
    /// Creates a worker that has accepted nothing and is not sealed.
    #[must_use]
    pub fn new(setup: WorkerSetup, resources: Resources, buffers: B) -> Self {
        let WorkerSetup {
            config,
            beat,
            limits,
            overlaps,
            copies,
        } = setup;
        let identity = Identity {
            incarnation: beat.incarnation,
            gpu: beat.gpu,
            capacity: beat.capacity,
        };
        Self {
            sequencer: Sequencer::new(config, identity),
            dispatch: Dispatch::new(limits),
            images: ImageTable::default(),
            resources,
            exports: Exports::default(),
            copies: Copies::new(copies),
            weights: WeightTable::default(),
            quotas: QuotaList::default(),
            sessions: Sessions::default(),
            buffers,
            beat,
            sent: Sent::default(),
            overlaps,
            rejected: RejectionRate::default(),
            answered: AnswerRate::default(),
            look: None,
            changed: false,
            completed_at: 0,
            compiled: Vec::new(),
            is_sound: true,
            decided: Vec::new(),
        }
    }

    /// Handles an event at `now` and appends the actions that follow.
    pub fn handle(&mut self, now: Nanos, event: Event<'_, B>, actions: &mut Vec<Action<B>>) {
        let turn = &mut Turn { now, actions };
        let looks = self.look.take_if(|at| *at <= now).is_some();
        self.changed |= looks;
        match event {
            Event::Message(subject, payload) => self.on_message(turn, subject, payload),
            Event::Opened(session, failure) => {
                let failure = failure.as_ref();
                let event = sequencer::Event::Opened { session, failure };
                self.decide(turn, event, &mut Current::Nothing);
            }
            Event::Closed(session) => self.on_closed(turn, session),
            Event::Completed(slice) => self.on_completed(turn, slice),
            Event::Image(checked) => self.on_checked(turn, checked),
            Event::Prepared(hash, answer, compilation) => {
                self.on_prepared(turn, hash, answer, compilation);
            }
            Event::Compiled(tenant, ns) => self.resources.prepared(tenant, ns),
            Event::Chunks(checked) => self.on_chunks(turn, checked),
            Event::Published(name, news) => self.on_published(turn, name, news),
            Event::Tensor(tensor, chunks) => self.on_tensor(turn, tensor, chunks),
            Event::Moved(moves, used) => self.on_moved(turn, moves, used),
            Event::Recharged(changed, saved) => self.resources.recharged(now, changed, saved),
            Event::Exchanged(session, came) => {
                let next = self.exports.done(session, came);
                Self::exchange(turn, next);
            }
            Event::ExportsGone(gone) => gone
                .into_iter()
                .for_each(|export| self.exports.freed(export)),
            Event::Timer => self.on_timer(turn),
            Event::Drain => {
                self.give_up_images(turn);
                self.decide(turn, sequencer::Event::Drain, &mut Current::Nothing);
            }
        }
        self.settle(turn);
    }

    fn on_timer(&mut self, turn: &mut Turn<'_, B>) {
        let wakeup = self.sequencer.next_wakeup();
        if wakeup.is_some_and(|at| at <= turn.now) {
            self.decide(turn, sequencer::Event::Timer, &mut Current::Nothing);
        }
    }

    /// Ends an event: begins the moves that are due, submits the slices that are ready, and answers requests
    /// for memory.
    fn settle(&mut self, turn: &mut Turn<'_, B>) {
        if self.changed {
            self.swap(turn);
        }
        self.dispatch(turn, dispatch::Event::Changed);
        if std::mem::take(&mut self.changed) {
            self.swap(turn);
            self.answer_requests(turn);
            if self.look.is_none() && self.resources.needs_look() {
                self.look = Some(turn.now + LOOK_NS);
            }
        }
        self.drop_idle(turn);
        let (running, behind) = self.sequencer.load();
        let waits = running > 1 || (running == 1 && behind);
        self.resources.waiting(turn.now, waits);
    }

    /// Returns the time at which [`Event::Timer`] is needed, if no other event comes before.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let wakeups = [self.sequencer.next_wakeup(), self.look, self.copies.look()];
        wakeups.into_iter().flatten().min()
    }

    /// The sequencer, to read.
    #[must_use]
    pub fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    /// The device's resources, to read.
    #[must_use]
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The device's resources, for their reports: usage, measurements, blocks.
    #[must_use]
    pub fn resources_mut(&mut self) -> &mut Resources {
        &mut self.resources
    }

    /// The bytes, to read.
    #[must_use]
    pub fn buffers(&self) -> &B {
        &self.buffers
    }

    /// The bytes, for a shell that hands received ones to a check.
    #[must_use]
    pub fn buffers_mut(&mut self) -> &mut B {
        &mut self.buffers
    }

    /// The tenant of a session, from its first message or its open grant until it has ended.
    #[must_use]
    pub fn tenant(&self, session: SessionId) -> Option<&Tenant> {
        self.sessions.get(session).map(|session| &session.tenant)
    }

    /// The tenants of all sessions.
    pub fn tenants(&self) -> impl Iterator<Item = &Tenant> {
        self.sessions.tenants()
    }

    /// True if the tenant's message that was handled last could be read.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }
}
