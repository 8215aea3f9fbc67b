//! The GpuWorker actor: hands events of the bus and the device to the sequencer, and performs its
//! actions.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, StreamHandler};
use async_nats::{Subject, Subscriber};
use bus_schemas::subject::Subjects;
use bus_schemas::{
    Code, DeviceProperties, EventTime, Failure, GpuId, HeldImages, Incarnation, OpNumber,
    Residency, SessionId, Tenant, Weights,
};
use bytes::Bytes;
use device::{Chunk, DeviceInfo, Keeper, OpResult, OpSpan};
use gpu_worker_core::content::Content;
use gpu_worker_core::dispatch;
use gpu_worker_core::sequencer::{Action, Event, ExitReason};
use gpu_worker_core::{
    AnswerRate, Dispatch, Exports, ImageTable, QuotaList, RejectionRate, SendOnChange, Sequencer,
    WeightTable,
};
use tokio::sync::oneshot;

use super::copy_chunks::CopyChunks;
use super::device_command::Command;
use super::device_thread::DeviceThread;
use super::evidence::Evidence;
use super::names::{Module, Names};
use super::pager::{PagerMessage, VramPager};
use super::publications::Publications;
use super::session_buffers::SessionBuffers;
use super::settings::WorkerSettings;
use super::sharing_domains::SharingDomains;
use super::spans::Spans;
use super::stager::Stager;
use crate::inbox::Inbox;
use crate::publisher::BusPublisher;
use crate::timer::{Timer, nanos};
use telemetry::DeviceIdentity;

/// Capacity of the mailbox: more than the events and answers that can be under way at a time.
const MAILBOX: usize = 1_024;

/// The subjects that the worker publishes on, computed once.
pub(super) struct OwnSubjects {
    pub(super) all: Subjects,
    pub(super) done: Subject,
    pub(super) beat: Subject,
    pub(super) refusal: Subject,
}

/// Properties that stay the same while the worker lives.
pub(super) struct Identity {
    pub(super) incarnation: Incarnation,
    pub(super) gpu: GpuId,
    pub(super) capacity: u64,
    pub(super) properties: DeviceProperties,
    /// The worker's group, and whether the group takes bound tenants only.
    pub(super) group: Tenant,
    pub(super) exclusive: bool,
    /// True if slices of different sessions overlap on the device.
    pub(super) overlaps: bool,
}

impl Identity {
    pub(super) fn new(
        settings: &WorkerSettings,
        incarnation: Incarnation,
        info: &DeviceInfo,
    ) -> Self {
        let mut properties = info.properties.clone();
        if properties.uuid == [0; 16] {
            properties.uuid = DeviceProperties::uuid_of(&settings.cluster, settings.gpu);
        }
        properties.answers_memory = true;
        properties.answers_offers = settings.chunk_memory > 0;
        properties.answers_ipc = true;
        let group = settings.group.clone();
        Self {
            incarnation,
            gpu: settings.gpu,
            capacity: info.capacity,
            properties,
            group: group.unwrap_or_else(|| "default".parse().expect("a name")),
            exclusive: settings.exclusive,
            overlaps: info.overlaps,
        }
    }

    /// Returns the device's identity for the metrics by holder.
    pub(super) fn shown(&self) -> DeviceIdentity {
        let uuid = u128::from_be_bytes(self.properties.uuid);
        let part = |from: u32, bits: u32| (uuid >> from) & ((1 << bits) - 1);
        let parts = (part(96, 32), part(80, 16), part(64, 16), part(48, 16));
        let (a, b, c, d) = parts;
        DeviceIdentity {
            gpu: self.gpu,
            model: self.properties.name.clone(),
            uuid: format!("GPU-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", part(0, 48)),
            capacity: self.capacity,
        }
    }
}

impl OwnSubjects {
    pub(super) fn new(all: Subjects, incarnation: Incarnation) -> Self {
        Self {
            done: all.done(incarnation).into(),
            beat: all.worker_beat(incarnation).into(),
            refusal: all.refusal(incarnation).into(),
            all,
        }
    }
}

/// Data of the current event, to which the sequencer's actions refer.
pub(super) enum Incoming<'a> {
    Nothing,
    Batch(&'a Tenant, &'a Bytes, (Range<usize>, Range<usize>)),
    Chunk(&'a Tenant, &'a [u8]),
    Offer(&'a Tenant, &'a CopyChunks),
    Results(&'a mut Answers),
    Seal(Option<Subject>),
}

/// Answers of a completion to its client.
pub(super) struct Answers {
    pub(super) results: Vec<OpResult>,
    pub(super) events: VecDeque<(OpNumber, EventTime)>,
    /// Device time already reported with earlier results.
    pub(super) reported_ns: u64,
}

/// Parts of heartbeats that are sent only after a change.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) images: SendOnChange<HeldImages>,
    pub(super) weights: SendOnChange<Weights>,
    pub(super) residency: SendOnChange<Residency>,
}

/// Asks the worker to finish what it accepted and leave.
pub(super) struct Drain;

impl actix::Message for Drain {
    type Result = ();
}

/// The actor.
pub(super) struct GpuWorker {
    pub(super) core: Sequencer,
    pub(super) began: Instant,
    pub(super) identity: Identity,
    pub(super) subjects: OwnSubjects,
    pub(super) outgoing: BusPublisher,
    pub(super) held: HashMap<SessionId, SessionBuffers>,
    /// Module images that tenants sent to this worker, with the device's state of each.
    pub(super) images: ImageTable<Arc<Module>>,
    pub(super) names: Names,
    /// Memory held by sessions, as the pager last counted.
    pub(super) resident: Arc<AtomicU64>,
    /// Large copies held by sessions.
    pub(super) weights: WeightTable,
    /// Quotas that the pager has.
    pub(super) quotas: QuotaList,
    /// Parts of heartbeats, with what was last sent.
    pub(super) sent: Sent,
    /// Place of sessions' memory as last reported by the pager, for leaders.
    pub(super) residency: Arc<Mutex<Option<Residency>>>,
    /// Sharing domains of the sessions.
    pub(super) sharing: SharingDomains,
    /// Chunks of copies by content. `chunk_memory` bounds the bytes of unused ones, and `keeper`
    /// stores them.
    pub(super) content: Content<Arc<dyn Chunk>, Bytes>,
    pub(super) chunk_memory: u64,
    /// Interval of the checks for idle chunks; zero disables them.
    pub(super) chunk_idle: Duration,
    pub(super) publications: Publications,
    pub(super) keeper: Arc<dyn Keeper>,
    /// Exported memory of sessions.
    pub(super) exports: Exports,
    pub(super) device: DeviceThread,
    pub(super) pager: Addr<VramPager>,
    pub(super) stager: Stager,
    pub(super) evidence: Option<Evidence>,
    pub(super) spans: Spans,
    /// Started slices, until the device gets them. Their ops are spans of the batches.
    pub(super) dispatch: Dispatch<Vec<OpSpan>, Arc<Module>>,
    /// True if polling for the end of the last submitted slice is worthwhile.
    pub(super) small: bool,
    pub(super) actions: Vec<Action>,
    pub(super) sources: Vec<Subscriber>,
    /// Messages of tenants.
    pub(super) tenants: Inbox,
    pub(super) timer: Timer,
    pub(super) waiting: bool,
    pub(super) rejected: RejectionRate,
    /// Rate of the answers to tenants that ask for their memory.
    pub(super) answered: AnswerRate,
    /// Time at which the device last completed a slice.
    pub(super) completed_at: u64,
    /// Number of malformed messages.
    pub(super) malformed: u64,
    pub(super) exit: Option<oneshot::Sender<Result<ExitReason, Failure>>>,
    pub(super) left: Option<ExitReason>,
    /// The failure of a device that serves no more.
    pub(super) lost: Option<Failure>,
}

impl GpuWorker {
    pub(super) fn now(&self) -> u64 {
        nanos(self.began)
    }

    /// Converts an instant to the worker's clock.
    pub(super) fn at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Ends each event: submits waiting slices, sets the timer, and leaves if the sequencer said
    /// so.
    pub(super) fn settle(&mut self, ctx: &mut Context<Self>) {
        self.handle_dispatch(dispatch::Event::Changed);
        self.device.catch_up();
        self.poll_device();
        let clear = self.outgoing.catch_up();
        let (running, behind) = self.core.load();
        let waits = running > 1 || (running == 1 && behind);
        if waits != self.waiting {
            self.waiting = waits;
            self.pager.do_send(PagerMessage::Waiting(waits));
        }
        if let Some(why) = self.lost.take() {
            return self.leave(Err(why), ctx);
        }
        if let Some(reason) = self.left {
            return self.leave(Ok(reason), ctx);
        }
        self.set_timer(clear, ctx);
    }

    fn set_timer(&mut self, clear: bool, ctx: &mut Context<Self>) {
        let now = self.now();
        let soon = now + 1_000_000;
        let Some(mut at) = self.core.next_wakeup() else {
            return;
        };
        if !clear {
            at = at.min(soon);
        }
        self.timer.set(now, at, ctx, |worker, ctx| {
            worker.timer.rang();
            if worker.device.is_dead() {
                let why = "the device's thread has died";
                return worker.leave(Err(Failure::new(Code::DeviceLost, why)), ctx);
            }
            worker.handle_event(Event::Timer, &mut Incoming::Nothing);
            worker.settle(ctx);
        });
    }

    fn leave(&mut self, why: Result<ExitReason, Failure>, ctx: &mut Context<Self>) {
        self.evidence = None;
        self.pager.do_send(PagerMessage::Leave);
        if let Some(exit) = self.exit.take() {
            // The receiver is gone if the role itself is being dropped.
            let _ = exit.send(why);
        }
        ctx.stop();
    }

    /// Gives up images in preparation: the worker leaves, so no session will load them.
    fn give_up_images(&mut self) {
        let why = "the worker leaves: it does not prepare the module";
        let why = Failure::new(Code::DeviceLost, why);
        for hash in self.images.refuse_unprepared(&why) {
            self.device.command(Command::Cancel(hash));
            let refused = Some(&why);
            self.handle_event(Event::Prepared { hash, refused }, &mut Incoming::Nothing);
        }
    }
}

impl Actor for GpuWorker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        for source in std::mem::take(&mut self.sources) {
            Self::add_stream(source, ctx);
        }
        Self::add_stream(self.tenants.messages(), ctx);
        if !self.chunk_idle.is_zero() {
            ctx.run_interval(self.chunk_idle, |worker, _| worker.drop_idle());
        }
        self.handle_event(Event::Timer, &mut Incoming::Nothing);
        self.settle(ctx);
    }
}

impl Handler<Drain> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        self.give_up_images();
        self.handle_event(Event::Drain, &mut Incoming::Nothing);
        self.settle(ctx);
    }
}
