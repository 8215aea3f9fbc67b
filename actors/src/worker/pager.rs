//! The VramPager actor: owns the memory of one device and the meter of its use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use actix::{Actor, AsyncContext, Context, Handler, Recipient};
use async_nats::Subject;
use bus_schemas::{GpuId, KernelName, OpNumber, SessionId, Tenant, encode};
use gpu_worker_core::dispatch::{Claim, ClaimAnswer, Claims};
use gpu_worker_core::ledger::{Cut, KernelRan};
use gpu_worker_core::meter::SliceUse;
use gpu_worker_core::meter::fold;
use gpu_worker_core::{Meter, Pager};

use super::kernel_records::KernelRecords;
use super::usage_appender::UsageAppender;
use crate::publisher::BusPublisher;
use crate::timer::nanos;
use telemetry::Telemetry;

const USAGE: Duration = Duration::from_millis(250);
/// A usage block is not cut while so many wait to be recorded: the next one has it all.
const WAITING: usize = 1;
const MEASURED: Duration = Duration::from_millis(100);
/// Between two turns of kernels' records, and kernels in one.
const RECORDS: Duration = Duration::from_secs(2);
const RECORDED: usize = 256;
/// Rows of usage at most: the message must fit.
const ROWS: usize = 5_000;

/// Messages to the pager, in order.
pub(super) enum PagerMessage {
    /// A session begins.
    Open {
        session: SessionId,
        tenant: Tenant,
        quota: u64,
    },
    /// A session has ended.
    Close { session: SessionId },
    /// A slice that needs memory is to run next; answered by an [`Admitted`].
    Admit(Claim),
    /// A session is being closed: it waits for nothing any more.
    Withdraw { session: SessionId },
    /// Slices have completed; the last done report that was made of them.
    Completed(Vec<SliceUsage>, u64),
    /// What sessions are charged now, by what others did, and the bytes saved by sharing.
    Recharged(Vec<(SessionId, u64)>, u64),
    /// Preparing an image of a tenant took this much processor time.
    Compiled(Tenant, Duration),
    /// From now on something waits while the device is busy, or nothing does.
    Waiting(bool),
    /// The worker leaves: publish the totals a last time.
    Leave,
}

impl actix::Message for PagerMessage {
    type Result = ();
}

/// A completed slice.
pub(super) struct SliceUsage {
    pub(super) first: OpNumber,
    pub(super) session: SessionId,
    pub(super) resident: u64,
    pub(super) faulted: bool,
    pub(super) device_ns: u64,
    pub(super) launches: u64,
    pub(super) sm_ns: u64,
    pub(super) kernels: Vec<KernelRan>,
    /// What kernel keys among them stand for, published for the first time.
    pub(super) names: Vec<KernelName>,
}

/// The pager's answer to [`PagerMessage::Admit`].
pub(super) struct Admitted(pub(super) ClaimAnswer);

impl actix::Message for Admitted {
    type Result = ();
}

/// The actor.
pub(super) struct VramPager {
    pub(super) pager: Pager,
    pub(super) meter: Meter,
    pub(super) began: Instant,
    pub(super) outgoing: BusPublisher,
    pub(super) usage: Subject,
    pub(super) measured: Subject,
    pub(super) worker: Recipient<Admitted>,
    pub(super) telemetry: Telemetry,
    pub(super) gpu: GpuId,
    pub(super) usage_appender: UsageAppender,
    pub(super) kernels: KernelRecords,
    /// Between two usage blocks.
    pub(super) metering: Duration,
    /// Memory that sessions hold, for the heartbeats.
    pub(super) resident: Arc<AtomicU64>,
    /// The slice that waits for memory.
    pub(super) claims: Claims,
    /// Bytes that sessions hold and that are stored once for several.
    pub(super) saved: u64,
}

impl VramPager {
    fn now(&self) -> u64 {
        nanos(self.began)
    }

    fn admit(&mut self, claim: Claim) {
        let answer = self.claims.ask(&mut self.pager, claim);
        self.answer(answer);
    }

    fn admit_again(&mut self) {
        let answer = self.claims.ask_again(&mut self.pager);
        self.answer(answer);
    }

    fn answer(&self, answer: Option<ClaimAnswer>) {
        if let Some(answer) = answer {
            // One claim at a time is open, so there is room for its answer.
            self.worker.do_send(Admitted(answer));
        }
    }

    fn publish_usage(&mut self) {
        let mut usage = self.meter.usage(self.now(), &self.pager);
        usage.saved = self.saved;
        self.telemetry.meters().usage(self.gpu, &usage);
        fold(&mut usage.sessions, ROWS);
        self.outgoing.publish(self.usage.clone(), encode(&usage));
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
        let blocks = self
            .meter
            .cut(self.now(), &self.pager, &Cut { at_ms, last });
        for block in blocks {
            self.usage_appender.append(block.number, encode(&block));
        }
        if last {
            self.usage_appender.leave();
        }
    }

    fn publish_measured(&mut self) {
        if let Some(measured) = self.meter.measured() {
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
        ctx.run_interval(MEASURED, |pager, _| pager.publish_measured());
        ctx.run_interval(self.metering, |pager, _| pager.cut(false));
        ctx.run_interval(RECORDS, |pager, _| {
            if pager.kernels.waiting() == 0 {
                pager.kernels.add(pager.meter.take_times(RECORDED));
            }
        });
        self.cut(false);
    }
}

impl Handler<PagerMessage> for VramPager {
    type Result = ();

    fn handle(&mut self, message: PagerMessage, _: &mut Self::Context) {
        let now = self.now();
        match message {
            PagerMessage::Open {
                session,
                tenant,
                quota,
            } => {
                self.pager.open(now, session, &tenant, quota);
                self.meter.open(session, &tenant);
            }
            PagerMessage::Close { session } => {
                let byte_ms = self.pager.close(now, session);
                self.meter.close(session, byte_ms);
                self.admit_again();
            }
            PagerMessage::Admit(claim) => self.admit(claim),
            PagerMessage::Withdraw { session } => self.claims.withdraw(session),
            PagerMessage::Completed(mut uses, reports) => {
                for used in &mut uses {
                    self.meter.names(used.names.drain(..));
                    let (first, session) = (used.first, used.session);
                    self.pager
                        .completed(now, first, session, used.resident, used.faulted);
                    self.meter.completed(
                        now,
                        &SliceUse {
                            session,
                            device_ns: used.device_ns,
                            launches: used.launches,
                            sm_ns: used.sm_ns,
                            kernels: &used.kernels,
                        },
                    );
                }
                self.meter.reported(reports);
                self.admit_again();
            }
            PagerMessage::Recharged(changed, saved) => {
                self.pager.recharged(now, &changed);
                self.saved = saved;
                return;
            }
            PagerMessage::Compiled(tenant, took) => {
                let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
                return self.meter.prepared(&tenant, ns);
            }
            PagerMessage::Waiting(waits) => return self.meter.waiting(now, waits),
            PagerMessage::Leave => {
                self.publish_measured();
                self.publish_usage();
                self.cut(true);
            }
        }
        let charged = self.pager.charged();
        self.resident.store(charged, Ordering::Relaxed);
    }
}
