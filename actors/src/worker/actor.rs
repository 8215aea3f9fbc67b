//! The GpuWorker actor: it hands what comes from the bus and the device to the sequencer, and carries
//! its actions out.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, Addr, Context, Handler, StreamHandler};
use async_nats::{Subject, Subscriber};
use bus_schemas::subject::Subjects;
use bus_schemas::{
    Code, DeviceProperties, EventTime, Failure, GpuId, Images, Incarnation, OpNumber, Parcel,
    ResultKind, SessionId, Tenant, Weights, limits,
};
use bytes::Bytes;
use device::{Completion, KernelTime, OpResult, OpSpan};
use gpu_worker_core::dispatch;
use gpu_worker_core::ledger::KernelRan;
use gpu_worker_core::sequencer::{Action, CompletedEvent, Event, ExitReason, ImageState};
use gpu_worker_core::{Dispatch, Sequencer, WeightTable};
use tokio::sync::oneshot;

use super::device_event::DeviceEvent;
use super::device_thread::{Command, DeviceThread, EventsReady};
use super::evidence::Evidence;
use super::modules::{Modules, image_state};
use super::names::Module;
use super::outgoing::Outgoing;
use super::pager::{Admitted, PagerMessage, SliceUsage, VramPager};
use super::send_on_change::SendOnChange;
use super::session_buffers::SessionBuffers;
use super::sharing_domains::SharingDomains;
use super::spans::Spans;
use super::stager::{Finished, Stager};
use crate::timer::{Timer, nanos};

/// Events and answers on their way: more than may be under way at a time.
const MAILBOX: usize = 1_024;
/// How long the actor polls for the end of a small slice before it serves the bus again.
const POLL: Duration = Duration::from_micros(30);

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
}

/// What came with the event at hand, which the sequencer's actions refer to.
pub(super) enum Incoming<'a> {
    Nothing,
    Batch(&'a Tenant, &'a Bytes, (Range<usize>, Range<usize>)),
    Chunk(&'a Tenant, &'a [u8]),
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
    pub(super) outgoing: Outgoing,
    pub(super) held: HashMap<SessionId, SessionBuffers>,
    pub(super) modules: Modules,
    /// Memory that sessions hold, as the pager last counted.
    pub(super) resident: Arc<AtomicU64>,
    /// Which large copies sessions hold.
    pub(super) weights: WeightTable,
    /// What of `modules` and `weights` goes with heartbeats.
    pub(super) sent: (SendOnChange<Images>, SendOnChange<Weights>),
    /// Whose sessions may share memory.
    pub(super) sharing: SharingDomains,
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
    pub(super) timer: Timer,
    pub(super) waiting: bool,
    pub(super) rejected: VecDeque<(SessionId, Instant)>,
    /// Messages that meant nothing.
    pub(super) malformed: u64,
    pub(super) exit: Option<oneshot::Sender<Result<ExitReason, Failure>>>,
    pub(super) left: Option<ExitReason>,
}

impl GpuWorker {
    pub(super) fn now(&self) -> u64 {
        nanos(self.began)
    }

    /// Hands an event to the sequencer and carries its actions out.
    pub(super) fn handle_event(&mut self, event: Event<'_>, incoming: &mut Incoming<'_>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.core.handle(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, incoming);
        }
        self.actions = actions;
    }

    /// After whatever happened: hands over what waits, sets the timer, leaves if the sequencer said so.
    fn settle(&mut self, ctx: &mut Context<Self>) {
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

    /// Drops what was printed where the client has left too much unfetched. A program gets its
    /// result for every sync; a full buffer loses text, as on a GPU.
    fn bound_printed(&mut self, completion: &mut Completion) {
        if completion
            .results
            .iter()
            .all(|result| result.printed.is_empty())
            && completion.printed.is_empty()
        {
            return;
        }
        let held = self.held.get(&completion.session);
        let answers = held.iter().flat_map(|held| &held.results);
        let mut held: usize = answers
            .filter(|answer| matches!(answer.kind, ResultKind::Sync | ResultKind::Printed))
            .map(|answer| answer.total as usize)
            .sum();
        for result in &mut completion.results {
            held += result.printed.len();
            if held > PRINTED_HELD {
                result.printed = Vec::new();
            }
        }
        if held + completion.printed.len() > PRINTED_HELD {
            completion.printed = Vec::new();
        }
    }

    fn on_completed(&mut self, mut completion: Completion) -> SliceUsage {
        self.bound_printed(&mut completion);
        let failed = completion.fault.as_ref().map(|(op, _)| *op);
        if let (Some(op), false) = (failed, completion.printed.is_empty()) {
            completion.results.push(OpResult {
                op,
                kind: ResultKind::Printed,
                bytes: None,
                printed: std::mem::take(&mut completion.printed),
                device_ns: completion.device_ns,
            });
        }
        self.spans.completed(&completion);
        let sizes: Vec<u64> = completion.results.iter().map(result_bytes).collect();
        let held = self.held.get_mut(&completion.session);
        let started = held.and_then(|held| held.started.pop_front());
        let (first, declared) = started.unwrap_or_default();
        let event = CompletedEvent {
            position: completion.position,
            session: completion.session,
            device_ns: completion.device_ns,
            results: &sizes,
            declared,
            fault: completion
                .fault
                .as_ref()
                .map(|(op, failure)| (*op, failure)),
        };
        let mut answers = Answers {
            results: completion.results,
            events: completion.events.into(),
            reported_ns: 0,
        };
        let mut incoming = Incoming::Results(&mut answers);
        self.handle_event(Event::Completed(event), &mut incoming);
        if let Some(held) = self.held.get_mut(&completion.session) {
            held.since_ns += completion.device_ns.saturating_sub(answers.reported_ns);
            held.events.add(answers.events);
        }
        self.settle_images(completion.session);
        let kernels = completion.kernels.iter();
        SliceUsage {
            first,
            session: completion.session,
            resident: completion.resident,
            faulted: completion.fault.is_some(),
            device_ns: completion.device_ns,
            launches: completion.launches,
            sm_ns: completion.sm_ns,
            names: self
                .modules
                .names
                .take(completion.kernels.iter().map(|k| k.key)),
            kernels: kernels.map(ran).collect(),
        }
    }

    fn on_device_events(&mut self, events: Vec<DeviceEvent>) {
        let mut uses = Vec::new();
        for event in events {
            match event {
                DeviceEvent::Completed(completion) => uses.push(self.on_completed(completion)),
                DeviceEvent::Recharged(changed, saved) => {
                    // What the pager receives last of a session holds, so it gets all in order.
                    self.send_uses(&mut uses);
                    self.pager.do_send(PagerMessage::Recharged(changed, saved));
                }
                DeviceEvent::Prepared(hash, answer) => {
                    let refused = self.modules.prepared(hash, answer).err();
                    let refused = refused.as_ref();
                    if refused.is_some_and(|it| it.code == Code::ModuleShare) {
                        self.drop_image(hash);
                    }
                    self.handle_event(Event::Prepared { hash, refused }, &mut Incoming::Nothing);
                    self.bound_modules();
                }
                DeviceEvent::Compiled(tenant, took) => {
                    self.pager.do_send(PagerMessage::Compiled(tenant, took))
                }
                DeviceEvent::Closed(session) => {
                    self.pager.do_send(PagerMessage::Close { session });
                    let closed = Event::Closed { session };
                    self.handle_event(closed, &mut Incoming::Nothing);
                }
                DeviceEvent::Opened(session, failure) => {
                    let opened = Event::Opened {
                        session,
                        failure: failure.as_ref(),
                    };
                    self.handle_event(opened, &mut Incoming::Nothing);
                }
            }
        }
        self.send_uses(&mut uses);
    }

    /// The worker leaves: nobody will load what it is still preparing.
    fn give_up_images(&mut self) {
        for hash in self.modules.preparing() {
            self.device.command(Command::Cancel(hash));
            let why = "the worker leaves: it does not prepare the module";
            let failure = Failure::new(Code::DeviceLost, why);
            let refused = self.modules.prepared(hash, Err(failure)).err();
            let refused = refused.as_ref();
            self.handle_event(Event::Prepared { hash, refused }, &mut Incoming::Nothing);
        }
    }

    fn send_uses(&mut self, uses: &mut Vec<SliceUsage>) {
        if !uses.is_empty() {
            let reports = self.core.reports();
            let uses = std::mem::take(uses);
            self.pager.do_send(PagerMessage::Completed(uses, reports));
        }
    }

    /// Where one small slice is all there is to run, polling for its end is quicker than
    /// waiting: being woken takes longer than the slice.
    fn poll_device(&mut self) {
        let (running, behind) = self.core.load();
        if !std::mem::take(&mut self.small) || running != 1 || behind {
            return;
        }
        let events = self.device.poll(POLL);
        if !events.is_empty() {
            self.on_device_events(events);
            self.handle_dispatch(dispatch::Event::Changed);
        }
    }

    /// An image is in its final form.
    pub(super) fn on_finished(&mut self, finished: Finished) {
        let (session, transfer) = (finished.session, finished.transfer);
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let hash = finished.module;
        held.transfers.remove(&transfer);
        if !held.images.contains_key(&hash) {
            // The session has closed meanwhile.
            return;
        }
        if !finished.genuine {
            let why = format!("transfer {transfer} is not the image of module {hash}");
            let failure = Failure::new(Code::Protocol, why);
            let event = Event::Fault {
                session,
                op: 0,
                failure: &failure,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        }
        let tenant = held.tenant.clone();
        let bytes = finished.bytes.len() as u64;
        if let Err(failure) = self.modules.admit(&tenant, hash, bytes) {
            if held.leave_image(hash) {
                self.modules.release(&tenant, &[hash]);
            }
            let image = ImageState::Refused(&failure);
            let event = Event::Image {
                session,
                transfer,
                hash,
                image,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        }
        if self.modules.give(&tenant, hash) {
            let prepare = Command::Prepare(tenant.clone(), hash, finished.bytes);
            self.device.command(prepare);
        }
        let state = self.modules.state(&tenant, hash);
        let event = Event::Image {
            session,
            transfer,
            hash,
            image: image_state(state.as_ref()),
        };
        self.handle_event(event, &mut Incoming::Nothing);
    }
}

fn ran(kernel: &KernelTime) -> KernelRan {
    KernelRan {
        key: kernel.key,
        launches: kernel.count,
        device_ns: kernel.total_ns,
        sm_ns: kernel.sm_ns,
        least_ns: kernel.least_ns,
        most_ns: kernel.most_ns,
    }
}

/// Bytes a result adds to what is held for its client.
fn result_bytes(result: &OpResult) -> u64 {
    let bytes = result.bytes.as_ref().map(Parcel::len);
    bytes.unwrap_or(result.printed.len()) as u64
}

/// Bytes of what was printed that are kept for a client which does not fetch them.
const PRINTED_HELD: usize = 4 * limits::PRINTED_BYTES;

impl Actor for GpuWorker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        for source in std::mem::take(&mut self.sources) {
            Self::add_stream(source, ctx);
        }
        self.handle_event(Event::Tick, &mut Incoming::Nothing);
        self.settle(ctx);
    }
}

impl StreamHandler<async_nats::Message> for GpuWorker {
    fn handle(&mut self, message: async_nats::Message, ctx: &mut Self::Context) {
        self.on_message(&message);
        self.settle(ctx);
    }

    fn finished(&mut self, _: &mut Self::Context) {
        // The connection is closed for good; the role decides what becomes of the worker.
    }
}

impl Handler<EventsReady> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: EventsReady, ctx: &mut Self::Context) {
        let events = self.device.events();
        self.on_device_events(events);
        self.settle(ctx);
    }
}

impl Handler<Admitted> for GpuWorker {
    type Result = ();

    fn handle(&mut self, admitted: Admitted, ctx: &mut Self::Context) {
        self.handle_dispatch(dispatch::Event::Admitted(admitted.0));
        self.settle(ctx);
    }
}

impl Handler<Finished> for GpuWorker {
    type Result = ();

    fn handle(&mut self, finished: Finished, ctx: &mut Self::Context) {
        self.on_finished(finished);
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
