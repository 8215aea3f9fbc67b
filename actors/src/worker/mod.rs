//! The worker's shell: the actors GpuWorker and VramPager, and the thread that owns the device.
//!
//! One connection and both actors live on the caller's thread. So a message goes from the socket to
//! the sequencer and back on one thread; only the device has its own.
//!
//! The core `gpu_worker_core::worker` decides. A launch passes these files in this order. `inbound`
//! hands its batch, and then its grant, to the core. `actions` sends the slice to `device_thread`.
//! `completions` hands the results of the device to the core, and `actions` publishes results and
//! done reports. `session_buffers` keeps the bytes meanwhile.

mod actions;
mod actor;
mod compiler;
mod completions;
mod device_command;
mod device_event;
mod device_loop;
mod device_thread;
mod evidence;
mod handover;
mod inbound;
mod kernel_records;
mod names;
mod offers;
mod pager;
mod pager_answers;
mod publications;
mod readings;
mod session_buffers;
mod settings;
mod slice_times;
mod stager;
mod usage_appender;

use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context};
use bus_schemas::subject::{ConnectionName, HearsTenants, Subjects};
use bus_schemas::{Failure, Incarnation};
use device::SwapUse;
use gpu_worker_core::dispatch::Limits;
use gpu_worker_core::sequencer::SequencerConfig;
use gpu_worker_core::worker::{CopySettings, WorkerSetup};
use gpu_worker_core::{Meter, Pager, Resources, Worker};
use tokio::sync::{mpsc, oneshot};

pub use compiler::CompileLimits;
pub use device_thread::MakeDevice;
pub use gpu_worker_core::sequencer::ExitReason;
pub use gpu_worker_core::sharing_domains::Share;
pub use settings::WorkerSettings;

use crate::inbox::Inbox;
use crate::publisher::BusPublisher;
use crate::timer::Timer;
use actor::{Drain, GpuWorker, Identity, OwnSubjects};
use bus::{BusError, BusSettings, ConnectionChange, connect, random_id};
use device_thread::DeviceStart;
use evidence::Evidence;
use kernel_records::KernelRecords;
use pager::{Reads, VramPager};
use publications::Publications;
use session_buffers::SessionBuffers;
use slice_times::SliceTimes;
use stager::Stager;
use usage_appender::UsageAppender;

/// Minimum and maximum host memory for staged transfers.
const STAGED: (u64, u64) = (64 << 20, 8 << 30);

/// Maximum time for the last messages to reach the broker.
const FLUSH: Duration = Duration::from_secs(1);

/// The reason that a worker cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no connection.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A subscription was refused.
    #[error("cannot subscribe: {0}")]
    Subscribe(String),
    /// The device could not be created.
    #[error("the device: {0}")]
    Device(Failure),
    /// The device served, and does no more. It may serve again in a new process.
    #[error("{0}")]
    DeviceLost(Failure),
    /// The evidence log cannot be opened, or a thread cannot be started.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The error.
        error: std::io::Error,
    },
}

/// Serves until a leader declares the worker lost, or until `shutdown` completes and accepted work
/// is done. Sets name, inbox and pulse of the connection. Must run in an actix system.
///
/// # Errors
/// [`WorkerError`], before it serves or when the device is lost.
pub async fn serve(
    settings: WorkerSettings,
    make: MakeDevice,
    shutdown: impl Future<Output = ()>,
) -> Result<ExitReason, WorkerError> {
    let incarnation = settings
        .incarnation
        .unwrap_or_else(|| Incarnation(random_id()));
    let subjects = Subjects::new(&settings.cluster);
    let io = |what: &str| {
        let what = what.to_owned();
        move |error| WorkerError::Io { what, error }
    };
    let evidence = match &settings.evidence {
        Some(path) => {
            let opened = Evidence::open(path, settings.gpu, incarnation);
            Some(opened.map_err(io(&format!("opening {}", path.display())))?)
        }
        None => None,
    };
    let device = tokio::task::spawn_blocking(|| DeviceStart::start(make)).await;
    let device = device
        .map_err(|error| io("making the device")(std::io::Error::other(error)))?
        .map_err(WorkerError::Device)?;
    let bus = BusSettings {
        name: ConnectionName::Worker(incarnation).to_string(),
        inbox: subjects.cluster_inbox(),
        pulse: Some(subjects.leader_beat()),
        ..settings.bus.clone()
    };
    let (client, links) = connect(&bus).await?;
    let refused = |error: async_nats::SubscribeError| WorkerError::Subscribe(error.to_string());
    let mut sources = Vec::new();
    for subject in subjects.worker_inbound(incarnation) {
        sources.push(client.subscribe(subject).await.map_err(refused)?);
    }
    let hears = HearsTenants::Worker(incarnation);
    let tenants = Inbox::open(client.clone(), subjects.clone(), hears);
    let tenants = tenants.await.map_err(refused)?;
    let handover = handover::serve(client.clone(), subjects.clone(), incarnation);
    handover.await.map_err(refused)?;
    let identity = Identity::new(&settings, incarnation, &device.info);
    tracing::info!(
        %incarnation, gpu = identity.gpu, device = %identity.properties.name,
        kind = identity.properties.kind, units = device.info.units,
        capacity = identity.capacity, "worker serves"
    );
    let (exit, exited) = oneshot::channel();
    let parts = Parts {
        settings,
        identity,
        subjects,
        client: client.clone(),
        sources,
        tenants,
        evidence,
        exit,
    };
    let started = parts.start(device).map_err(io("starting a thread"))?;
    let left = wait(started, exited, links, shutdown).await;
    // The last messages must reach the broker before the process ends; an unreachable broker does
    // not delay that.
    match tokio::time::timeout(FLUSH, client.flush()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the last messages may be lost"),
        Err(_) => tracing::warn!("the broker is away: the last messages are lost"),
    }
    left
}

/// Parts of both actors.
struct Parts {
    settings: WorkerSettings,
    identity: Identity,
    subjects: Subjects,
    client: async_nats::Client,
    sources: Vec<async_nats::Subscriber>,
    tenants: Inbox,
    evidence: Option<Evidence>,
    exit: oneshot::Sender<Result<ExitReason, Failure>>,
}

impl Parts {
    fn pager(&self, worker: &actix::Addr<GpuWorker>) -> VramPager {
        let Identity {
            incarnation, gpu, ..
        } = self.identity;
        let (client, subjects) = (&self.client, &self.subjects);
        VramPager {
            reads: Reads {
                usage: worker.clone().recipient(),
                measured: worker.clone().recipient(),
                times: worker.clone().recipient(),
                cut: worker.clone().recipient(),
            },
            outgoing: BusPublisher::new(client.clone()),
            usage: subjects.usage(incarnation).into(),
            measured: subjects.measured(incarnation).into(),
            telemetry: self.settings.telemetry.clone(),
            gpu,
            identity: self.identity.shown(),
            usage_appender: UsageAppender::start(client.clone(), subjects, incarnation),
            kernels: KernelRecords::start(client.clone(), subjects),
            metering: self.settings.metering,
        }
    }

    /// Creates the core.
    fn worker(&self, device: &DeviceStart, stager: &Rc<Stager>) -> Worker<SessionBuffers> {
        let (info, settings) = (&device.info, &self.settings);
        let Identity {
            incarnation,
            gpu,
            capacity,
            ..
        } = self.identity;
        let limit = memory_limit(settings, info.capacity, device.swap);
        let pager = Pager::new(capacity)
            .with_first_block(device::FIRST_BLOCK, device::FIRST_BLOCKS)
            .with_swap(limit, nanos_of(settings.swap_idle));
        let meter = Meter::new(0, incarnation, gpu, info.units, !info.overlaps);
        let setup = WorkerSetup {
            config: SequencerConfig {
                preemptive: info.preemptive,
                staged_total: capacity
                    .clamp(STAGED.0, STAGED.1)
                    .min(settings.sequencer.staged_total),
                ..settings.sequencer.clone()
            },
            beat: self.identity.beat(),
            limits: Limits {
                blocks: info.blocks,
                small_launch: device::SMALL_LAUNCH,
                launch_bytes: bus_schemas::limits::LAUNCH_BYTES,
            },
            overlaps: info.overlaps,
            copies: CopySettings {
                share: settings.share,
                memory: settings.chunk_memory,
                idle: nanos_of(settings.chunk_idle),
            },
        };
        let buffers = SessionBuffers::new(device.spares(), Rc::clone(stager));
        let resources = Resources::new(pager, meter, device::SMALL_LAUNCH);
        Worker::new(setup, resources, buffers)
    }

    /// Starts both actors and connects the device's thread to them.
    fn start(self, device: DeviceStart) -> std::io::Result<actix::Addr<GpuWorker>> {
        let began = Instant::now();
        let context = Context::<GpuWorker>::new();
        let address = context.address();
        let stager = Stager::start(address.clone().recipient(), address.clone().recipient())?;
        let stager = Rc::new(stager);
        let publications = Publications::start(
            self.client.clone(),
            &self.subjects,
            (self.settings.chunk_memory, Arc::clone(&device.keeper)),
            address.clone().recipient(),
        );
        Ok(context.run(GpuWorker {
            worker: self.worker(&device, &stager),
            pager: self.pager(&address).start(),
            began,
            slice_times: SliceTimes::new(self.settings.telemetry, self.identity.gpu),
            subjects: OwnSubjects::new(self.subjects, self.identity.incarnation),
            clients: HashMap::new(),
            reply: None,
            outgoing: BusPublisher::new(self.client),
            publications,
            keeper: Arc::clone(&device.keeper),
            device: device.serve(address.recipient(), self.settings.compile),
            stager,
            evidence: self.evidence,
            small: false,
            actions: Vec::new(),
            sources: self.sources,
            tenants: self.tenants,
            timer: Timer::default(),
            malformed: 0,
            exit: Some(self.exit),
            left: None,
            lost: None,
        }))
    }
}

/// Returns the bytes that sessions may hold together, swapped out or not. Overcommitting is limited
/// to what the swap space could hold, so that each session can be swapped out.
fn memory_limit(settings: &WorkerSettings, capacity: u64, swap: Option<SwapUse>) -> u64 {
    let wanted = device::overcommitted(capacity, settings.overcommit);
    let space = swap.map_or(0, |swap| swap.memory.1.saturating_add(swap.file.1));
    let limit = wanted.min(space).max(capacity);
    if limit < wanted {
        tracing::warn!(
            limit,
            wanted,
            space,
            "the swap space is smaller than what sessions may hold together: they may hold less"
        );
    }
    limit
}

fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until the worker has left; asks it to leave when `shutdown` completes.
async fn wait(
    worker: actix::Addr<GpuWorker>,
    mut exited: oneshot::Receiver<Result<ExitReason, Failure>>,
    mut links: mpsc::UnboundedReceiver<ConnectionChange>,
    shutdown: impl Future<Output = ()>,
) -> Result<ExitReason, WorkerError> {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut asked = false;
    loop {
        tokio::select! {
            left = &mut exited => {
                let gone = "the worker's actor died";
                let gone = Failure::new(bus_schemas::Code::Device, gone);
                return left.unwrap_or(Err(gone)).map_err(WorkerError::DeviceLost);
            }
            () = &mut shutdown, if !asked => {
                tracing::info!("the worker drains");
                asked = true;
                worker.do_send(Drain);
            }
            Some(link) = links.recv() => match link {
                ConnectionChange::Up => tracing::info!("the broker is there"),
                ConnectionChange::Down => tracing::warn!("the broker is away"),
                ConnectionChange::Slow => tracing::warn!("messages were dropped: the worker fell behind"),
                ConnectionChange::Refused(why) => tracing::error!(why, "the broker refused something"),
            },
        }
    }
}
