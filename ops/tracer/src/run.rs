//! The role: it takes in reports and the record, and hands finished traces to the export.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use admin::Administrator;
use admin::errors::ErrorCode;
use admin::process::{follow_parent, stop_signal};
use admin::settings::Settings;
use admin::telemetry::logs;
use anyhow::{Context as _, Result, bail};
use async_nats::jetstream::{self, kv};
use bus_schemas::CostClass;
use bus_schemas::subject::Subjects;
use futures_util::StreamExt;
use storage::{Storage, Stored};
use telemetry::{FinishedSpan, Role, TelemetrySettings};
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clock::now;
use crate::export::Exporter;
use crate::ids::Ids;
use crate::join::{Join, Joined};
use crate::kernels::Kernels;
use crate::record;
use crate::reports::{self, Mark};
use crate::sampling::Sampling;
use crate::trace::{Context, spans, trace_of};

/// Interval at which requests are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Interval at which the tenants' targets are read.
const TARGETS: Duration = Duration::from_secs(10);
/// Time for which a joined request waits for the names of its kernels, nanoseconds. Workers record new kernels every two
/// seconds.
const NAMES: u64 = 3_000_000_000;
/// Delay before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of requests that are under way; above it no more reports are taken from the stream.
const UNDER_WAY: usize = 8_192;
/// Maximum number of traces of one batch.
const BATCH: usize = 256;
/// Time that the end of the role waits for the export.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs the tracer of a cluster until it is told to stop.
///
/// # Errors
/// If it cannot start: no endpoint for spans is set, or there is no cluster.
pub(crate) fn role(settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(settings)?;
    let (cluster, endpoint) = (
        settings.text("cluster.name"),
        settings.text("telemetry.otlp"),
    );
    let chosen = TelemetrySettings::from_environment(Role::Tracer, cluster, endpoint);
    if chosen.traces.is_none() {
        bail!(ErrorCode::ConfigValue.usage(
            "a tracer exports spans: set telemetry.otlp to a collector, such as http://127.0.0.1:4318"
        ));
    }
    let exporter =
        Exporter::start(&chosen).context(ErrorCode::ConfigValue.failed("telemetry.otlp"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = LocalSet::new().block_on(&runtime, run(settings, &chosen, exporter));
    runtime.shutdown_background();
    ended
}

/// The state that the tasks of the role share.
struct Shared {
    subjects: Subjects,
    storage: Storage,
    join: Rc<RefCell<Join<Mark>>>,
    kernels: Rc<RefCell<Kernels>>,
    sampling: RefCell<Sampling>,
    outbox: RefCell<Outbox>,
    ids: Ids,
}

/// Joined requests on their way to the collector.
#[derive(Default)]
struct Outbox {
    /// Requests with kernels that have no name yet, each with the time at which it goes all the same.
    unnamed: VecDeque<(u64, Joined<Mark>)>,
    traces: VecDeque<(Vec<FinishedSpan>, Mark)>,
    is_sending: bool,
}

async fn run(settings: &Settings, chosen: &TelemetrySettings, exporter: Exporter) -> Result<()> {
    let stop = stop_signal()?;
    let administrator = Rc::new(Administrator::as_role(settings, None).await?);
    let subjects = administrator.subjects().clone();
    let jetstream = jetstream::new(administrator.client().clone());
    let shared = Rc::new(Shared {
        storage: Storage::new(jetstream, &subjects),
        ids: Ids::new(subjects.cluster()),
        subjects,
        join: Rc::new(RefCell::new(Join::new())),
        kernels: Rc::default(),
        sampling: RefCell::new(Sampling::new(chosen.sample)),
        outbox: RefCell::default(),
    });
    let exporter = Rc::new(exporter);
    tokio::task::spawn_local(record::follow(
        Rc::clone(&administrator),
        Rc::clone(&shared.join),
    ));
    tokio::task::spawn_local(learn_kernels(Rc::clone(&shared)));
    tokio::task::spawn_local(read_targets(administrator, Rc::clone(&shared)));
    tokio::task::spawn_local(take_reports(Rc::clone(&shared)));
    let working = Rc::clone(&shared);
    tokio::task::spawn_local(async move {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            working.look(&exporter).await;
        }
    });
    stop.await;
    let sent = async {
        while reports::left(&shared.storage).await > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    // What is not exported is there for the next tracer.
    let _ = timeout(FAREWELL, sent).await;
    Ok(())
}

impl Outbox {
    /// Number of requests.
    fn len(&self) -> usize {
        self.unnamed.len() + self.traces.len()
    }
}

impl Shared {
    /// Number of requests that are under way.
    fn under_way(&self) -> usize {
        self.join.borrow().waiting() + self.outbox.borrow().len()
    }

    /// Makes traces of the requests that are due, and sends those that are made.
    async fn look(self: &Rc<Self>, exporter: &Rc<Exporter>) {
        let now = now();
        let due = {
            let mut join = self.join.borrow_mut();
            let due = join.due(now);
            join.forget(now);
            due
        };
        let mut dropped = Vec::new();
        for joined in due {
            // A tenant may report anything. A request is exported only if the record shows ops of it.
            if joined.parts.is_empty() || !self.is_kept(&joined) {
                dropped.push(joined.mark);
                continue;
            }
            let named_by = now.saturating_add(NAMES);
            self.outbox
                .borrow_mut()
                .unnamed
                .push_back((named_by, joined));
        }
        for mark in dropped {
            mark.done().await;
        }
        self.make(now);
        self.send(exporter);
    }

    fn is_kept(&self, joined: &Joined<Mark>) -> bool {
        let trace = trace_of(&joined.request, &self.ids);
        self.sampling
            .borrow()
            .keeps(&joined.request, trace)
            .is_some()
    }

    /// Makes the traces of requests with named kernels, and of those that have waited for them for long enough.
    fn make(&self, now: u64) {
        let mut outbox = self.outbox.borrow_mut();
        for _ in 0..outbox.unnamed.len() {
            let Some((named_by, joined)) = outbox.unnamed.pop_front() else {
                return;
            };
            if now < named_by && !self.is_named(&joined) {
                outbox.unnamed.push_back((named_by, joined));
                continue;
            }
            let (sampling, kernels) = (self.sampling.borrow(), self.kernels.borrow());
            let trace = trace_of(&joined.request, &self.ids);
            let made = sampling.keeps(&joined.request, trace).map(|kept| {
                let context = Context {
                    ids: &self.ids,
                    kernels: &kernels,
                    target: sampling.target(&joined.request.tenant),
                    kept,
                };
                spans(&joined, &context)
            });
            outbox
                .traces
                .push_back((made.unwrap_or_default(), joined.mark));
        }
    }

    fn is_named(&self, joined: &Joined<Mark>) -> bool {
        let kernels = self.kernels.borrow();
        let mut work = joined.parts.iter().flat_map(|part| part.work.iter());
        work.all(|run| run.class != CostClass::Launch || kernels.knows(run.key))
    }

    /// Sends the next batch, if none is on its way.
    fn send(self: &Rc<Self>, exporter: &Rc<Exporter>) {
        let mut outbox = self.outbox.borrow_mut();
        if outbox.is_sending || outbox.traces.is_empty() {
            return;
        }
        let (mut batch, mut marks) = (Vec::new(), Vec::new());
        while marks.len() < BATCH
            && let Some((spans, mark)) = outbox.traces.pop_front()
        {
            batch.extend(spans);
            marks.push(mark);
        }
        outbox.is_sending = true;
        let sent = exporter.send(batch);
        let (shared, exporter) = (Rc::clone(self), Rc::clone(exporter));
        tokio::task::spawn_local(async move {
            // Dropped after a long time of failures, or taken: both are done.
            let _ = sent.await;
            for mark in marks {
                mark.done().await;
            }
            shared.outbox.borrow_mut().is_sending = false;
            shared.send(&exporter);
        });
    }
}

/// Takes in the reports of programs.
async fn take_reports(shared: Rc<Shared>) {
    loop {
        match reports::open(&shared.storage).await {
            Ok(messages) => take_from(messages, &shared).await,
            Err(error) => tracing::warn!("{error:#}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn take_from(mut messages: reports::Messages, shared: &Shared) {
    loop {
        while shared.under_way() >= UNDER_WAY {
            tokio::time::sleep(LOOK).await;
        }
        let message = match messages.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => {
                tracing::debug!(%error, "the stream of requests broke");
                return;
            }
            None => return,
        };
        for (request, mark) in reports::requests(message, &shared.subjects).await {
            shared.join.borrow_mut().request(request, now(), mark);
        }
    }
}

/// Learns the names and times of kernels as workers record them.
async fn learn_kernels(shared: Rc<Shared>) {
    loop {
        if let Err(error) = learn_from(&shared).await {
            tracing::debug!("the kernels: {error:#}");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn learn_from(shared: &Shared) -> Result<()> {
    let found = shared.storage.find_bucket(Stored::Kernels).await?;
    let bucket = found.context("no kernel was measured")?;
    let mut entries = bucket.watch_with_history(">").await?;
    while let Some(entry) = entries.next().await {
        let entry = entry?;
        if entry.operation != kv::Operation::Put {
            continue;
        }
        let record = serde_json::from_slice(&entry.value);
        if let (Ok(key), Ok(record)) = (entry.key.parse(), record) {
            shared.kernels.borrow_mut().learn(key, &record);
        }
    }
    Ok(())
}

/// Reads the tenants' targets from time to time.
async fn read_targets(administrator: Rc<Administrator>, shared: Rc<Shared>) {
    loop {
        match administrator.tenants().await {
            Ok(tenants) => {
                let target = |(tenant, settings): (_, bus_schemas::TenantSettings)| {
                    (tenant, settings.slo_ns)
                };
                let targets: HashMap<_, _> = tenants.into_iter().map(target).collect();
                shared.sampling.borrow_mut().set_targets(targets);
            }
            Err(error) => tracing::debug!("the tenants' targets: {error:#}"),
        }
        tokio::time::sleep(TARGETS).await;
    }
}
