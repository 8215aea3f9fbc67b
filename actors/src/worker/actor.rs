//! The GpuWorker actor: it hands what comes from the bus and the device to the sequencer, and carries
//! its actions out.

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
    AnswerRate, Dispatch, Exports, ImageTable, QuotaList, SendOnChange, Sequencer, WeightTable,
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

/// Events and answers on their way: more than may be under way at a time.
const MAILBOX: usize = 1_024;

/// The subjects that the worker publishes on, computed once.
pub(super) struct OwnSubjects {
    pub(super) all: Subjects,
    pub(super) done: Subject,
    pub(super) beat: Subject,
    pub(super) refusal: Subject,
}

/// What does not change while the worker lives.
pub(super) struct Identity {
    pub(super) incarnation: Incarnation,
    pub(super) gpu: GpuId,
    pub(super) capacity: u64,
    pub(super) properties: DeviceProperties,
    /// The group of workers that it is in, and whether that takes bound tenants only.
    pub(super) group: Tenant,
    pub(super) exclusive: bool,
    /// Slices of different sessions overlap on the device.
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

    /// The device as it is told of to those who watch it.
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

/// What came with the event at hand, which the sequencer's actions refer to.
pub(super) enum Incoming<'a> {
    Nothing,
    Batch(&'a Tenant, &'a Bytes, (Range<usize>, Range<usize>)),
    Chunk(&'a Tenant, &'a [u8]),
    Offer(&'a Tenant, &'a CopyChunks),
    Results(&'a mut Answers),
    Seal(Option<Subject>),
}

/// What a completion has for its client.
pub(super) struct Answers {
    pub(super) results: Vec<OpResult>,
    pub(super) events: VecDeque<(OpNumber, EventTime)>,
    /// Device time that the results before have reported.
    pub(super) reported_ns: u64,
}

/// Parts of heartbeats that are sent when they have changed.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) images: SendOnChange<HeldImages>,
    pub(super) weights: SendOnChange<Weights>,
    pub(super) residency: SendOnChange<Residency>,
}

/// The worker is to finish what it accepted and leave.
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
    /// Module images that tenants gave this worker, as the device knows them.
    pub(super) images: ImageTable<Arc<Module>>,
    pub(super) names: Names,
    /// Memory that sessions hold, as the pager last counted.
    pub(super) resident: Arc<AtomicU64>,
    /// Which large copies sessions hold.
    pub(super) weights: WeightTable,
    /// Which quotas the pager has.
    pub(super) quotas: QuotaList,
    /// What goes with heartbeats when it changes.
    pub(super) sent: Sent,
    /// Where sessions' memory is, as the pager last said, for leaders.
    pub(super) residency: Arc<Mutex<Option<Residency>>>,
    /// Whose sessions may share memory.
    pub(super) sharing: SharingDomains,
    /// Chunks of copies, by their content; how many bytes that nobody uses may stay, and where they lie.
    pub(super) content: Content<Arc<dyn Chunk>, Bytes>,
    pub(super) chunk_memory: u64,
    /// Between two looks for chunks that go; zero for none.
    pub(super) chunk_idle: Duration,
    pub(super) publications: Publications,
    pub(super) keeper: Arc<dyn Keeper>,
    /// What sessions let others use.
    pub(super) exports: Exports,
    pub(super) device: DeviceThread,
    pub(super) pager: Addr<VramPager>,
    pub(super) stager: Stager,
    pub(super) evidence: Option<Evidence>,
    pub(super) spans: Spans,
    /// Started slices, until the device gets them: their ops are spans of the batches.
    pub(super) dispatch: Dispatch<Vec<OpSpan>, Arc<Module>>,
    /// The slice handed to the device last is one whose end is worth polling for.
    pub(super) small: bool,
    pub(super) actions: Vec<Action>,
    pub(super) sources: Vec<Subscriber>,
    /// What comes from tenants.
    pub(super) tenants: Inbox,
    pub(super) timer: Timer,
    pub(super) waiting: bool,
    pub(super) rejected: VecDeque<(SessionId, Instant)>,
    /// How often tenants were answered that asked for their memory.
    pub(super) answered: AnswerRate,
    /// When the device completed a slice last.
    pub(super) completed_at: u64,
    /// Messages that meant nothing.
    pub(super) malformed: u64,
    pub(super) exit: Option<oneshot::Sender<Result<ExitReason, Failure>>>,
    pub(super) left: Option<ExitReason>,
    /// Why the device serves nobody any more.
    pub(super) lost: Option<Failure>,
}

impl GpuWorker {
    pub(super) fn now(&self) -> u64 {
        nanos(self.began)
    }

    /// A moment, by the same clock.
    pub(super) fn at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// After whatever happened: hands over what waits, sets the timer, leaves if the sequencer said so.
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
            worker.handle_event(Event::Tick, &mut Incoming::Nothing);
            worker.settle(ctx);
        });
    }

    fn leave(&mut self, why: Result<ExitReason, Failure>, ctx: &mut Context<Self>) {
        self.evidence = None;
        self.pager.do_send(PagerMessage::Leave);
        if let Some(exit) = self.exit.take() {
            // Nobody waits where the role itself is being dropped.
            let _ = exit.send(why);
        }
        ctx.stop();
    }

    /// The worker leaves: nobody will load what it is still preparing.
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
        self.handle_event(Event::Tick, &mut Incoming::Nothing);
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
