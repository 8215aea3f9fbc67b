//! The VramPager actor: owns the memory of one device and the meter of its use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use actix::{Actor, AsyncContext, Context, Handler, Recipient};
use async_nats::Subject;
use bus_schemas::subject::{Subjects, ToClient};
use bus_schemas::{
    Failure, GpuId, Incarnation, IpcRequest, KernelName, MemoryRequest, OpNumber, Residency,
    SessionId, Tenant, TenantQuota, Usage, encode,
};
use gpu_worker_core::Resources;
use gpu_worker_core::dispatch::{Claim, ClaimAnswer};
use gpu_worker_core::ledger::{Cut, KernelRan};
use gpu_worker_core::memory_report::PageLimits;
use gpu_worker_core::meter::{SliceUse, fold};
use gpu_worker_core::pager::{Charge, MoveEnded, SwapAction, SwapUse};
use gpu_worker_core::resources::CompletedSlice;

use super::kernel_records::KernelRecords;
use super::usage_appender::UsageAppender;
use crate::publisher::BusPublisher;
use crate::timer::nanos;
use telemetry::{DeviceIdentity, MemoryReading, Telemetry};

const USAGE: Duration = Duration::from_millis(250);
/// No usage block is cut while this many wait to be recorded: the next one will have all usage.
const WAITING: usize = 1;
/// Interval of the checks for waiting requests for memory.
const MEMORY: Duration = Duration::from_millis(20);
const MEASURED: Duration = Duration::from_millis(100);
/// Interval of writes of kernels' records, and maximum number of kernels per write.
const RECORDS: Duration = Duration::from_secs(2);
const RECORDED: usize = 256;
/// Maximum number of usage rows, so that the message fits.
const ROWS: usize = 5_000;

/// Messages to the pager, in order.
pub(super) enum PagerMessage {
    /// A session begins.
    Open {
        session: SessionId,
        tenant: Tenant,
        quota: u64,
        priority: u8,
    },
    /// A session has ended.
    Close { session: SessionId },
    /// A slice that needs memory is next; answered by an [`Admitted`].
    Admit(Claim),
    /// A session's claim needs no answer any more.
    Withdraw { session: SessionId },
    /// A session is being closed: all of its memory will be free.
    Closing { session: SessionId },
    /// A client asks for memory; its session has begun, or is about to.
    Request {
        session: SessionId,
        tenant: Tenant,
        quota: u64,
        request: MemoryRequest,
    },
    /// A session's memory must stay on the device, so that the session can answer a request;
    /// answered by a [`MemoryKept`].
    Keep {
        session: SessionId,
        tenant: Tenant,
        quota: u64,
        request: IpcRequest,
    },
    /// A request for the use of the memory.
    Status(StatusAsked),
    /// Quotas of tenants, and the tenants that are never swapped out, as set by the leader.
    Quotas(Vec<TenantQuota>, Vec<Tenant>),
    /// A session's memory is wanted on the device; answered by a [`SwapOrder`].
    Want { session: SessionId, priority: u8 },
    /// A session that was chosen for swapping out has work to run.
    Kept { session: SessionId },
    /// Moves that have ended, each with the current charge of its session.
    Moved(Vec<(MoveEnded, u64)>, SwapUse),
    /// Slices that have completed, and the last done report about them.
    Completed(Vec<SliceUsage>, u64),
    /// Charges of sessions that other sessions changed, and the bytes saved by sharing.
    Recharged(Vec<Charge>, u64),
    /// Bytes of a copy that a tenant need not send, because the worker has them.
    Unsent(Tenant, u64),
    /// Preparing an image of a tenant took this much processor time.
    Compiled(Tenant, Duration),
    /// True if something waits from now on while the device is busy.
    Waiting(bool),
    /// The worker leaves: publish the totals one last time.
    Leave,
}

impl actix::Message for PagerMessage {
    type Result = ();
}

/// A completed slice.
pub(super) struct SliceUsage {
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    pub(super) session: SessionId,
    pub(super) resident: u64,
    pub(super) faulted: bool,
    pub(super) device_ns: u64,
    pub(super) launches: u64,
    pub(super) sm_ns: u64,
    pub(super) kernels: Vec<KernelRan>,
    /// Names behind kernel keys among them that are published for the first time.
    pub(super) names: Vec<KernelName>,
}

impl SliceUsage {
    fn completed(&self) -> CompletedSlice<'_> {
        CompletedSlice {
            first: self.first,
            last: self.last,
            resident: self.resident,
            faulted: self.faulted,
            used: SliceUse {
                session: self.session,
                device_ns: self.device_ns,
                launches: self.launches,
                sm_ns: self.sm_ns,
                kernels: &self.kernels,
            },
        }
    }
}

/// A request for the use of the memory.
pub(super) struct StatusAsked {
    /// The tenant that asks and gets only its own rows; `None` for an administrator, who gets all.
    pub(super) of: Option<Tenant>,
    /// Only tenants with names after this one.
    pub(super) after: Option<Tenant>,
    pub(super) reply: Subject,
    /// Sessions with running launches, each with their start time.
    pub(super) running: BTreeMap<SessionId, u64>,
}

/// The pager's answer to [`PagerMessage::Admit`].
pub(super) struct Admitted(pub(super) ClaimAnswer);

impl actix::Message for Admitted {
    type Result = ();
}

/// An order of the pager about a session's memory.
pub(super) struct SwapOrder(pub(super) SwapAction);

impl actix::Message for SwapOrder {
    type Result = ();
}

/// The pager's answer to [`PagerMessage::Keep`].
pub(super) struct MemoryKept {
    pub(super) session: SessionId,
    pub(super) tenant: Tenant,
    pub(super) request: IpcRequest,
    pub(super) kept: Result<(), Failure>,
}

impl actix::Message for MemoryKept {
    type Result = ();
}

/// The actor.
pub(super) struct VramPager {
    pub(super) resources: Resources,
    pub(super) began: Instant,
    pub(super) outgoing: BusPublisher,
    pub(super) subjects: Subjects,
    pub(super) usage: Subject,
    pub(super) measured: Subject,
    pub(super) worker: Recipient<Admitted>,
    pub(super) swap: Recipient<SwapOrder>,
    pub(super) kept: Recipient<MemoryKept>,
    pub(super) telemetry: Telemetry,
    pub(super) gpu: GpuId,
    /// Identity of the device, for the metrics by holder.
    pub(super) identity: DeviceIdentity,
    pub(super) incarnation: Incarnation,
    pub(super) usage_appender: UsageAppender,
    pub(super) kernels: KernelRecords,
    /// Interval of usage blocks.
    pub(super) metering: Duration,
    /// Memory that sessions hold, for the heartbeats.
    pub(super) resident: Arc<AtomicU64>,
    /// Place of sessions' memory, for the heartbeats.
    pub(super) residency: Arc<Mutex<Option<Residency>>>,
}

impl VramPager {
    fn now(&self) -> u64 {
        nanos(self.began)
    }

    fn answer(&self, answer: Option<ClaimAnswer>) {
        if let Some(answer) = answer {
            // At most one claim is open, so there is room for its answer.
            self.worker.do_send(Admitted(answer));
        }
    }

    /// Issues the moves that are due.
    fn swap(&mut self, now: u64) {
        for action in self.resources.swap_actions(now) {
            self.swap.do_send(SwapOrder(action));
        }
        if self.resources.is_overcommitted() {
            let report = self.resources.residency_report();
            *self
                .residency
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = report;
        }
    }

    fn publish_usage(&mut self) {
        let mut usage = self.resources.usage(self.now());
        let meters = self.telemetry.meters();
        meters.usage(self.gpu, &usage);
        meters.shared_device(&self.identity, &usage, |id| self.resources.process(id));
        self.measure_memory(&usage);
        fold(&mut usage.sessions, ROWS);
        self.outgoing.publish(self.usage.clone(), encode(&usage));
    }

    fn measure_memory(&self, usage: &Usage) {
        let mut resident = BTreeMap::<&Tenant, u64>::new();
        for row in &usage.sessions {
            *resident.entry(&row.tenant).or_default() += row.resident;
        }
        let memory = self.resources.tenants_memory().into_iter();
        let readings = memory.map(|(tenant, (has, swapped))| {
            let reading = MemoryReading {
                total: has.total,
                held: has.held,
                resident: resident.get(&tenant).copied().unwrap_or(0),
                free: has.free,
                swapped,
            };
            (tenant, reading)
        });
        self.telemetry.meters().memory(self.gpu, readings.collect());
        let moves = self.resources.moves(self.now());
        self.telemetry.meters().moves(self.gpu, moves);
    }

    /// Publishes the available answers to clients' requests for memory.
    fn publish_memory(&mut self, now: u64) {
        for (tenant, session, answer) in self.resources.memory_answers(now) {
            let subject = self.subjects.to_client(&tenant, session, ToClient::Memory);
            self.outgoing.publish(subject.into(), encode(&answer));
        }
    }

    /// Publishes the current use of the memory.
    fn publish_status(&self, asked: StatusAsked) {
        let worker = (self.incarnation, self.gpu);
        let resources = &self.resources;
        let report = resources.memory_report(self.now(), worker, &asked.running);
        let status = match &asked.of {
            Some(tenant) => report.of(tenant),
            None => report.page(asked.after.as_ref(), PageLimits::default()),
        };
        self.outgoing.publish(asked.reply, encode(&status));
    }

    /// Hands the next usage blocks to the appender.
    fn cut(&mut self, last: bool) {
        if self.usage_appender.waiting() >= WAITING && !last {
            return;
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let at_ms = since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let blocks = self.resources.cut(self.now(), &Cut { at_ms, last });
        for block in blocks {
            self.usage_appender.append(block.number, encode(&block));
        }
        if last {
            self.usage_appender.leave();
        }
    }

    fn publish_measured(&mut self) {
        if let Some(measured) = self.resources.measured() {
            self.outgoing
                .publish(self.measured.clone(), encode(&measured));
        }
    }
}

impl Actor for VramPager {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(USAGE, |pager, _| {
            pager.outgoing.catch_up();
            pager.publish_usage();
        });
        ctx.run_interval(MEMORY, |pager, _| {
            let now = pager.now();
            pager.publish_memory(now);
            pager.swap(now);
        });
        ctx.run_interval(MEASURED, |pager, _| pager.publish_measured());
        ctx.run_interval(self.metering, |pager, _| pager.cut(false));
        ctx.run_interval(RECORDS, |pager, _| {
            if pager.kernels.waiting() == 0 {
                pager.kernels.add(pager.resources.take_times(RECORDED));
            }
        });
        self.cut(false);
    }
}

impl Handler<PagerMessage> for VramPager {
    type Result = ();

    #[expect(clippy::too_many_lines, reason = "one arm for each message")]
    fn handle(&mut self, message: PagerMessage, _: &mut Self::Context) {
        let now = self.now();
        match message {
            PagerMessage::Open {
                session,
                tenant,
                quota,
                priority,
            } => {
                self.resources.open(now, session, &tenant, quota);
                self.resources.set_priority(session, priority);
            }
            PagerMessage::Close { session } => {
                let answer = self.resources.close(now, session);
                self.answer(answer);
            }
            PagerMessage::Admit(claim) => {
                let answer = self.resources.ask(claim);
                self.answer(answer);
            }
            PagerMessage::Quotas(quotas, pinned) => {
                self.resources.set_quotas(now, quotas, pinned);
            }
            PagerMessage::Want { session, priority } => {
                self.resources.want(now, session, priority);
            }
            PagerMessage::Kept { session } => self.resources.kept(now, session),
            PagerMessage::Moved(moves, used) => {
                self.resources.swap_used(used);
                for (ended, resident) in moves {
                    let answer = self.resources.moved(now, &ended, resident);
                    self.answer(answer);
                }
            }
            PagerMessage::Withdraw { session } => self.resources.withdraw(session),
            PagerMessage::Closing { session } => self.resources.closing(session),
            PagerMessage::Request {
                session,
                tenant,
                quota,
                request,
            } => {
                self.resources.open(now, session, &tenant, quota);
                self.resources.request(now, session, &request);
            }
            PagerMessage::Keep {
                session,
                tenant,
                quota,
                request,
            } => {
                self.resources.open(now, session, &tenant, quota);
                let kept = self.resources.keep(session);
                // If the worker has no room for it now, its client asks again.
                let _ = self.kept.try_send(MemoryKept {
                    session,
                    tenant,
                    request,
                    kept,
                });
                return;
            }
            PagerMessage::Status(asked) => return self.publish_status(asked),
            PagerMessage::Completed(mut uses, reports) => {
                let names = uses.iter_mut().flat_map(|used| used.names.drain(..));
                self.resources.names(names);
                let slices = uses.iter().map(SliceUsage::completed);
                let answer = self.resources.completed(now, slices);
                self.resources.reported(reports);
                self.answer(answer);
                if !self.resources.has_wants() {
                    return self.published(now);
                }
            }
            PagerMessage::Recharged(changed, saved) => {
                return self.resources.recharged(now, &changed, saved);
            }
            PagerMessage::Compiled(tenant, took) => {
                let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                return self.resources.prepared(&tenant, ns);
            }
            PagerMessage::Unsent(tenant, bytes) => return self.resources.unsent(&tenant, bytes),
            PagerMessage::Waiting(waits) => return self.resources.waiting(now, waits),
            PagerMessage::Leave => {
                self.publish_measured();
                self.publish_usage();
                self.cut(true);
            }
        }
        self.swap(now);
        self.published(now);
    }
}

impl VramPager {
    /// Publishes the available answers, and updates the held memory.
    fn published(&mut self, now: u64) {
        self.publish_memory(now);
        let charged = self.resources.charged();
        self.resident.store(charged, Ordering::Relaxed);
    }
}
