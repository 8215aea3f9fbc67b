//! The GpuWorker actor: hands events of the bus and the device to the worker core, and carries out
//! its actions.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use actix::{Actor, ActorContext, Addr, Context, Handler, StreamHandler};
use async_nats::{Subject, Subscriber};
use bus_schemas::subject::{Subjects, ToClient};
use bus_schemas::{
    Code, DeviceProperties, Failure, GpuId, Incarnation, SessionId, Tenant, WorkerBeat,
};
use device::{DeviceInfo, Keeper};
use gpu_worker_core::sequencer::ExitReason;
use gpu_worker_core::worker::{Action, Event};
use gpu_worker_core::{Sequencer, Worker};
use tokio::sync::oneshot;

use super::device_thread::DeviceThread;
use super::evidence::Evidence;
use super::pager::{Leave, VramPager};
use super::publications::Publications;
use super::readings::Readings;
use super::session_buffers::SessionBuffers;
use super::settings::WorkerSettings;
use super::slice_times::SliceTimes;
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
        }
    }

    /// Returns the constant parts of the heartbeats.
    pub(super) fn beat(&self) -> WorkerBeat {
        WorkerBeat {
            device: self.properties.name.clone(),
            properties: Some(self.properties.clone()),
            group: Some(self.group.clone()),
            exclusive: self.exclusive,
            ..WorkerBeat::new(self.incarnation, self.gpu, self.capacity)
        }
    }

    /// Returns the device's identity for metrics.
    pub(super) fn shown(&self) -> DeviceIdentity {
        let uuid = u128::from_be_bytes(self.properties.uuid);
        let part = |from: u32, bits: u32| (uuid >> from) & ((1 << bits) - 1);
        let parts = (part(96, 32), part(80, 16), part(64, 16), part(48, 16));
        let (a, b, c, d) = parts;
        DeviceIdentity {
            gpu: self.gpu,
            model: self.properties.name.clone(),
            vendor: (self.properties.kind == "cuda").then_some("NVIDIA"),
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

/// Subjects of the messages that follow every slice of a session.
pub(super) struct ClientSubjects {
    pub(super) acks: Subject,
    pub(super) results: Subject,
}

impl ClientSubjects {
    pub(super) fn new(all: &Subjects, tenant: &Tenant, session: SessionId) -> Self {
        let subject = |what| all.to_client(tenant, session, what).into();
        Self {
            acks: subject(ToClient::Worker),
            results: subject(ToClient::Result),
        }
    }
}

/// Asks the worker to finish what it accepted and leave.
pub(super) struct Drain;

impl actix::Message for Drain {
    type Result = ();
}

/// The actor.
pub(super) struct GpuWorker {
    pub(super) worker: Worker<SessionBuffers>,
    pub(super) began: Instant,
    pub(super) subjects: OwnSubjects,
    pub(super) clients: HashMap<SessionId, ClientSubjects>,
    /// Subject for the answer to the current message.
    pub(super) reply: Option<Subject>,
    pub(super) outgoing: BusPublisher,
    pub(super) publications: Publications,
    /// Memory for the chunks of copies.
    pub(super) keeper: Arc<dyn Keeper>,
    pub(super) device: DeviceThread,
    pub(super) pager: Addr<VramPager>,
    pub(super) stager: Rc<Stager>,
    pub(super) evidence: Option<Evidence>,
    pub(super) slice_times: SliceTimes,
    /// True if polling for the end of the last submitted slice is worthwhile.
    pub(super) small: bool,
    pub(super) actions: Vec<Action<SessionBuffers>>,
    pub(super) sources: Vec<Subscriber>,
    /// Messages of tenants.
    pub(super) tenants: Inbox,
    pub(super) timer: Timer,
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

    pub(super) fn core(&self) -> &Sequencer {
        self.worker.sequencer()
    }

    /// Converts an instant to the worker's clock.
    pub(super) fn at(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.began);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Ends each event: sends waiting commands and messages, sets the timer, and leaves if the core
    /// said so.
    pub(super) fn settle(&mut self, ctx: &mut Context<Self>) {
        self.device.catch_up();
        self.poll_device();
        let clear = self.outgoing.catch_up();
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
        let Some(mut at) = self.worker.next_wakeup() else {
            return;
        };
        if !clear {
            at = at.min(soon);
        }
        self.timer.set(now, at, ctx, |worker, ctx| {
            worker.timer.rang();
            if let Some(why) = worker.dead_thread() {
                return worker.leave(Err(Failure::new(Code::DeviceLost, why)), ctx);
            }
            worker.handle_event(Event::Timer);
            worker.settle(ctx);
        });
    }

    /// Says which thread of the worker has died. Without it sessions would wait for ever.
    fn dead_thread(&self) -> Option<&'static str> {
        if self.device.is_dead() {
            return Some("the device's thread has died");
        }
        let is_dead = self.stager.is_dead();
        is_dead.then_some("the thread that checks images and copies has died")
    }

    fn leave(&mut self, why: Result<ExitReason, Failure>, ctx: &mut Context<Self>) {
        self.evidence = None;
        let last = Readings::last(self.worker.resources_mut(), nanos(self.began));
        self.pager.do_send(Leave(last));
        if let Some(exit) = self.exit.take() {
            // The receiver is gone if the role itself is being dropped.
            let _ = exit.send(why);
        }
        ctx.stop();
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
        self.handle_event(Event::Timer);
        self.settle(ctx);
    }
}

impl Handler<Drain> for GpuWorker {
    type Result = ();

    fn handle(&mut self, _: Drain, ctx: &mut Self::Context) {
        self.handle_event(Event::Drain);
        self.settle(ctx);
    }
}
