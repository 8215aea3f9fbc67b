//! The VramPager actor: publishes and records the use of one device's memory and time. The worker core decides about
//! the device's memory, and meters its use; this actor reads both at its own intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, Recipient};
use async_nats::Subject;
use bus_schemas::{GpuId, Measured, Tenant, UsageBlock, encode};
use gpu_worker_core::meter::fold;

use super::kernel_records::KernelRecords;
use super::readings::{
    Blocks, CutUsage, ReadUsage, Readings, TakeMeasured, TakeTimes, UsageReading,
};
use super::usage_appender::UsageAppender;
use crate::publisher::BusPublisher;
use telemetry::{DeviceIdentity, MemoryReading, Telemetry};

const USAGE: Duration = Duration::from_millis(250);
/// No usage block is cut while this many wait to be recorded: the next one will have all usage.
const WAITING: usize = 1;
const MEASURED: Duration = Duration::from_millis(100);
/// Interval of writes of kernels' records, and maximum number of kernels per write.
const RECORDS: Duration = Duration::from_secs(2);
const RECORDED: usize = 256;
/// Maximum number of usage rows, so that the message fits.
const ROWS: usize = 5_000;

/// The worker leaves: publish and record its last readings.
pub(super) struct Leave(pub(super) Readings);

impl Message for Leave {
    type Result = ();
}

/// The worker, as the pager asks it for readings.
pub(super) struct Reads {
    pub(super) usage: Recipient<ReadUsage>,
    pub(super) measured: Recipient<TakeMeasured>,
    pub(super) times: Recipient<TakeTimes>,
    pub(super) cut: Recipient<CutUsage>,
}

/// The actor.
pub(super) struct VramPager {
    pub(super) reads: Reads,
    pub(super) outgoing: BusPublisher,
    pub(super) usage: Subject,
    pub(super) measured: Subject,
    pub(super) telemetry: Telemetry,
    pub(super) gpu: GpuId,
    /// Identity of the device, for metrics.
    pub(super) identity: DeviceIdentity,
    pub(super) usage_appender: UsageAppender,
    pub(super) kernels: KernelRecords,
    /// Interval of usage blocks.
    pub(super) metering: Duration,
}

impl VramPager {
    /// Asks the worker for a reading, and passes it to `then`. A worker that has left gives none.
    fn read<M>(
        ctx: &mut Context<Self>,
        worker: &Recipient<M>,
        message: M,
        then: impl FnOnce(&mut Self, M::Result) + 'static,
    ) where
        M: Message<Result: Send> + Send + Unpin + 'static,
    {
        let reading = actix::fut::wrap_future::<_, Self>(worker.send(message));
        ctx.spawn(reading.map(|reading, pager, _| {
            if let Ok(reading) = reading {
                then(pager, reading);
            }
        }));
    }

    fn publish_usage(&mut self, mut reading: UsageReading) {
        let usage = &mut reading.usage;
        let meters = self.telemetry.meters();
        meters.usage(self.gpu, usage);
        meters.device(&self.identity, usage);
        let processes = &reading.processes;
        meters.shared_device(&self.identity, usage, |id| processes.get(&id).copied());
        meters.moves(self.gpu, reading.moves);
        let mut resident = BTreeMap::<&Tenant, u64>::new();
        for row in &usage.sessions {
            *resident.entry(&row.tenant).or_default() += row.resident;
        }
        let readings = reading.memory.into_iter().map(|(tenant, (has, swapped))| {
            let reading = MemoryReading {
                total: has.total,
                held: has.held,
                resident: resident.get(&tenant).copied().unwrap_or(0),
                free: has.free,
                swapped,
            };
            (tenant, reading)
        });
        meters.memory(self.gpu, readings.collect());
        fold(&mut usage.sessions, ROWS);
        self.outgoing.publish(self.usage.clone(), encode(usage));
    }

    fn publish_measured(&mut self, measured: Option<Measured>) {
        if let Some(measured) = measured {
            self.outgoing
                .publish(self.measured.clone(), encode(&measured));
        }
    }

    fn append(&mut self, blocks: Vec<UsageBlock>) {
        for block in blocks {
            self.usage_appender.append(block.number, encode(&block));
        }
    }

    /// Asks for the next usage blocks, unless too many wait to be recorded.
    fn cut(&mut self, _: &mut Context<Self>) {
        if self.usage_appender.waiting() < WAITING {
            self.reads.cut.do_send(CutUsage);
        }
    }
}

impl Actor for VramPager {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(USAGE, |pager, ctx| {
            pager.outgoing.catch_up();
            Self::read(ctx, &pager.reads.usage, ReadUsage, Self::publish_usage);
        });
        ctx.run_interval(MEASURED, |pager, ctx| {
            let worker = &pager.reads.measured;
            Self::read(ctx, worker, TakeMeasured, Self::publish_measured);
        });
        ctx.run_interval(self.metering, Self::cut);
        ctx.run_interval(RECORDS, |pager, ctx| {
            if pager.kernels.waiting() == 0 {
                let worker = &pager.reads.times;
                Self::read(ctx, worker, TakeTimes(RECORDED), |pager, times| {
                    pager.kernels.add(times);
                });
            }
        });
        self.cut(ctx);
    }
}

impl Handler<Blocks> for VramPager {
    type Result = ();

    fn handle(&mut self, Blocks(blocks): Blocks, _: &mut Self::Context) {
        self.append(blocks);
    }
}

impl Handler<Leave> for VramPager {
    type Result = ();

    fn handle(&mut self, Leave(last): Leave, _: &mut Self::Context) {
        self.publish_measured(last.measured);
        self.publish_usage(last.usage);
        self.append(last.blocks);
        self.usage_appender.leave();
    }
}
