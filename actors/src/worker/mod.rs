//! The worker's shell: the actors GpuWorker and VramPager, and the thread that owns the device.
//!
//! One connection and both actors live on the caller's thread, so that a message goes from the
//! socket to the sequencer and back without changing threads; only the device has its own.
//!
//! A launch passes these files in this order: `inbound` hands its batch, and then its grant, to the
//! sequencer; `actions` carries out what that decides (keep the ops, start the slice); `dispatch` gives
//! the slice, once memory and images are there, to `device_thread`; `completions` hands on what the
//! device has done, and `actions` publishes results and done reports.

mod actions;
mod actor;
mod compiler;
mod completions;
mod device_event;
mod device_thread;
mod dispatch;
mod event_times;
mod evidence;
mod handover;
mod images;
mod inbound;
mod kernel_records;
mod modules;
mod names;
mod pager;
mod send_on_change;
mod session_buffers;
mod sharing_domains;
mod spans;
mod stager;
mod usage_appender;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, AsyncContext, Context};
use bus_schemas::subject::{ConnectionName, Subjects};
use bus_schemas::{DeviceProperties, Failure, GpuId, Incarnation, Tenant};
use gpu_worker_core::dispatch::{Claims, Limits};
use gpu_worker_core::sequencer::{Config, Identity as CoreIdentity};
use gpu_worker_core::{Dispatch, Meter, Pager, Sequencer, WeightTable};
use tokio::sync::{mpsc, oneshot};

pub use compiler::CompileLimits;
pub use device_thread::MakeDevice;
pub use gpu_worker_core::sequencer::ExitReason;
pub use sharing_domains::Share;

use crate::publisher::BusPublisher;
use crate::timer::Timer;
use actor::{Drain, GpuWorker, Identity, OwnSubjects};
use bus::{BusError, BusSettings, Link, connect};
use device_thread::DeviceStart;
use evidence::Evidence;
use kernel_records::KernelRecords;
use modules::Modules;
use pager::VramPager;
use sharing_domains::SharingDomains;
use spans::Spans;
use stager::Stager;
use telemetry::Telemetry;
use usage_appender::UsageAppender;

/// Host memory for staged transfers at least and at most.
const STAGED: (u64, u64) = (64 << 20, 8 << 30);

/// How long the last messages may take to reach the broker.
const FLUSH: Duration = Duration::from_secs(1);

/// How a worker is set.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// The cluster.
    pub cluster: Tenant,
    /// The stable number of the device in the cluster.
    pub gpu: GpuId,
    /// This start of the worker; random if not given.
    pub incarnation: Option<Incarnation>,
    /// The group of workers that it is in.
    pub group: Option<Tenant>,
    /// It takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// Device memory that is given to nobody, bytes.
    pub reserve: u64,
    /// With whom sessions share what they hold alike.
    pub share: Share,
    /// Between two blocks of the accounts.
    pub metering: Duration,
    /// Where a line is appended for every position that ended.
    pub evidence: Option<PathBuf>,
    /// Bounds and periods.
    pub sequencer: Config,
    /// What preparing one image may take.
    pub compile: CompileLimits,
    /// Where spans and metrics go.
    pub telemetry: Telemetry,
}

impl WorkerOptions {
    /// Options for a cluster and device, everything else as it usually is.
    #[must_use]
    pub fn new(cluster: Tenant, gpu: GpuId) -> Self {
        Self {
            cluster,
            gpu,
            incarnation: None,
            group: None,
            exclusive: false,
            reserve: 0,
            share: Share::default(),
            metering: Duration::from_secs(1),
            evidence: None,
            sequencer: Config::default(),
            compile: CompileLimits::default(),
            telemetry: Telemetry::off(),
        }
    }
}

/// Why a worker cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// There is no connection.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A subscription was refused.
    #[error("cannot subscribe: {0}")]
    Subscribe(String),
    /// The device could not be made, or died.
    #[error("the device: {0}")]
    Device(Failure),
    /// The evidence log cannot be opened, or a thread cannot be started.
    #[error("{what}: {error}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        #[source]
        error: std::io::Error,
    },
}

/// Serves until a leader declares the worker lost, or until `shutdown` comes and what was accepted
/// is done. The connection's name and inbox are set here. Runs in an actix system.
///
/// # Errors
/// [`WorkerError`], before it serves or when the device dies.
pub async fn serve(
    mut bus: BusSettings,
    options: WorkerOptions,
    make: MakeDevice,
    shutdown: impl Future<Output = ()>,
) -> Result<ExitReason, WorkerError> {
    let incarnation = options.incarnation.unwrap_or_else(random_incarnation);
    let subjects = Subjects::new(&options.cluster);
    bus.name = ConnectionName::Worker(incarnation).to_string();
    bus.inbox = subjects.cluster_inbox();
    bus.pulse = Some(subjects.leader_beat());
    let io = |what: &str| {
        let what = what.to_owned();
        move |error| WorkerError::Io { what, error }
    };
    let evidence = match &options.evidence {
        Some(path) => {
            let opened = Evidence::open(path, options.gpu, incarnation);
            Some(opened.map_err(io(&format!("opening {}", path.display())))?)
        }
        None => None,
    };
    let idle = tokio::task::spawn_blocking(|| DeviceStart::start(make)).await;
    let idle = idle
        .map_err(|error| io("making the device")(std::io::Error::other(error)))?
        .map_err(WorkerError::Device)?;
    let (client, links) = connect(&bus).await?;
    let mut sources = Vec::new();
    for subject in subjects.worker_inbound(incarnation) {
        let source = client.subscribe(subject).await;
        sources.push(source.map_err(|error| WorkerError::Subscribe(error.to_string()))?);
    }
    handover::serve(client.clone(), subjects.clone(), incarnation)
        .await
        .map_err(|error| WorkerError::Subscribe(error.to_string()))?;
    let capacity = idle.info.capacity.saturating_sub(options.reserve);
    let mut properties = idle.info.properties.clone();
    if properties.uuid == [0; 16] {
        properties.uuid = DeviceProperties::uuid_of(&options.cluster, options.gpu);
    }
    tracing::info!(
        %incarnation, gpu = options.gpu, device = %properties.name, kind = properties.kind,
        units = idle.info.units, capacity, "worker serves"
    );
    let identity = Identity {
        incarnation,
        gpu: options.gpu,
        capacity,
        properties,
        group: options.group.unwrap_or_else(default_group),
        exclusive: options.exclusive,
    };
    let mut config = options.sequencer;
    config.preemptive = idle.info.preemptive;
    config.staged_total = capacity.clamp(STAGED.0, STAGED.1).min(config.staged_total);
    let core = CoreIdentity {
        incarnation,
        gpu: options.gpu,
        capacity,
    };
    let (exit, exited) = oneshot::channel();
    let began = Instant::now();
    let subjects = OwnSubjects {
        done: subjects.done(incarnation).into(),
        beat: subjects.worker_beat(incarnation).into(),
        refusal: subjects.refusal(incarnation).into(),
        all: subjects,
    };
    let parts = Parts {
        core: Sequencer::new(config, core),
        began,
        outgoing: client.clone(),
        sources,
        evidence,
        telemetry: options.telemetry,
        metering: options.metering,
        compile: options.compile,
        sharing: SharingDomains::new(options.share),
        exit,
    };
    let started = start(parts, identity, subjects, idle).map_err(io("starting a thread"))?;
    let left = wait(started, exited, links, shutdown).await;
    // What was published last must reach the broker before the process goes; one that is away does not
    // keep it.
    match tokio::time::timeout(FLUSH, client.flush()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the last messages may be lost"),
        Err(_) => tracing::warn!("the broker is away: the last messages are lost"),
    }
    left
}

struct Parts {
    core: Sequencer,
    began: Instant,
    outgoing: async_nats::Client,
    sources: Vec<async_nats::Subscriber>,
    evidence: Option<Evidence>,
    telemetry: Telemetry,
    metering: Duration,
    compile: CompileLimits,
    sharing: SharingDomains,
    exit: oneshot::Sender<Result<ExitReason, Failure>>,
}

/// Starts both actors and lets the device's thread serve them.
fn start(
    parts: Parts,
    identity: Identity,
    subjects: OwnSubjects,
    idle: DeviceStart,
) -> std::io::Result<actix::Addr<GpuWorker>> {
    let context = Context::<GpuWorker>::new();
    let address = context.address();
    let (sms, exclusive) = (idle.info.units, !idle.info.overlaps);
    let meter = Meter::new(0, identity.incarnation, identity.gpu, sms, exclusive);
    let resident = Arc::default();
    let limits = Limits {
        blocks: idle.info.blocks,
        small_launch: device::SMALL_LAUNCH,
        launch_bytes: bus_schemas::limits::LAUNCH_BYTES,
    };
    let pager = VramPager {
        pager: Pager::new(identity.capacity),
        meter,
        began: parts.began,
        outgoing: BusPublisher::new(parts.outgoing.clone()),
        usage: subjects.all.usage(identity.incarnation).into(),
        measured: subjects.all.measured(identity.incarnation).into(),
        worker: address.clone().recipient(),
        telemetry: parts.telemetry.clone(),
        gpu: identity.gpu,
        usage_appender: UsageAppender::start(
            parts.outgoing.clone(),
            &subjects.all,
            identity.incarnation,
        ),
        kernels: KernelRecords::start(parts.outgoing.clone(), &subjects.all),
        metering: parts.metering,
        resident: Arc::clone(&resident),
        claims: Claims::new(limits.small_launch),
        saved: 0,
    }
    .start();
    let stager = Stager::start(address.clone().recipient())?;
    Ok(context.run(GpuWorker {
        core: parts.core,
        began: parts.began,
        spans: Spans::new(parts.telemetry, identity.gpu),
        identity,
        subjects,
        outgoing: BusPublisher::new(parts.outgoing),
        held: HashMap::new(),
        modules: Modules::default(),
        resident,
        weights: WeightTable::default(),
        sent: Default::default(),
        sharing: parts.sharing,
        device: idle.serve(address.recipient(), parts.compile),
        pager,
        stager,
        evidence: parts.evidence,
        dispatch: Dispatch::new(limits),
        small: false,
        actions: Vec::new(),
        sources: parts.sources,
        timer: Timer::default(),
        waiting: false,
        rejected: VecDeque::new(),
        malformed: 0,
        exit: Some(parts.exit),
        left: None,
    }))
}

/// Until the worker has left; asks it to when `shutdown` comes.
async fn wait(
    worker: actix::Addr<GpuWorker>,
    mut exited: oneshot::Receiver<Result<ExitReason, Failure>>,
    mut links: mpsc::UnboundedReceiver<Link>,
    shutdown: impl Future<Output = ()>,
) -> Result<ExitReason, WorkerError> {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut asked = false;
    loop {
        tokio::select! {
            left = &mut exited => {
                let gone = "the worker's actor died";
                let gone = Failure::new(bus_schemas::Code::Device, gone);
                return left.unwrap_or(Err(gone)).map_err(WorkerError::Device);
            }
            () = &mut shutdown, if !asked => {
                tracing::info!("the worker drains");
                asked = true;
                worker.do_send(Drain);
            }
            Some(link) = links.recv() => match link {
                Link::Up => tracing::info!("the broker is there"),
                Link::Down => tracing::warn!("the broker is away"),
                Link::Slow => tracing::warn!("messages were dropped: the worker fell behind"),
                Link::Refused(why) => tracing::error!(why, "the broker refused something"),
            },
        }
    }
}

/// The group of workers for which none is set.
fn default_group() -> Tenant {
    "default".parse().expect("a name")
}

/// Keyed from the system's random numbers, as the standard library keys its hash maps.
fn random_incarnation() -> Incarnation {
    let seed = (std::process::id(), Instant::now());
    Incarnation(RandomState::new().hash_one(seed).max(1))
}
