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
use tokio::sync::oneshot::error::RecvError;
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clock::now;
use crate::export::Exporter;
use crate::ids::Ids;
use crate::join::{Join, Joined, Request};
use crate::kernels::Kernels;
use crate::record;
use crate::reports::{self, Mark, Reports};
use crate::sampling::Sampling;
use crate::trace::{Context, spans, trace_of};

/// Interval at which requests are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Interval at which the tenants' targets are read.
const TARGETS: Duration = Duration::from_secs(10);
/// Time for which a joined request waits for the names of its kernels, nanoseconds. Workers record new kernels every
/// two seconds.
const NAMES: u64 = 3_000_000_000;
/// Delay before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of requests that are under way; above it no more reports are taken from the stream.
const UNDER_WAY: usize = 16_384;
/// Number of them from which on a tenant with more than its share gets no more.
const CROWDED: usize = UNDER_WAY / 2;
/// Share of a tenant in crowded times.
const SHARE: usize = UNDER_WAY / 4;
/// Maximum number of traces of one batch, and number of spans at which it is full.
const BATCH: (usize, usize) = (256, 4_096);
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
    named: VecDeque<Joined<Mark>>,
    is_sending: bool,
    /// Number of requests that were reported and not traced, since the start.
    untold: u64,
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
    let following = record::follow(Rc::clone(&administrator), Rc::clone(&shared.join));
    let working = work(Rc::clone(&shared), Rc::new(exporter));
    tokio::select! {
        () = farewell(stop, &shared.storage) => {}
        () = following => {}
        () = learn_kernels(&shared) => {}
        () = read_targets(&administrator, &shared) => {}
        ended = working => return ended,
        ended = take_reports(&shared) => return ended,
    }
    Ok(())
}

/// Completes after the stop, once every report is exported, or after a while. The next tracer exports what is left.
async fn farewell(stop: impl Future<Output = ()>, storage: &Storage) {
    stop.await;
    let exported = async {
        while reports::left(storage).await > 0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = timeout(FAREWELL, exported).await;
}

/// Looks at requests from time to time, and exports them. Ends after the export has ended.
async fn work(shared: Rc<Shared>, exporter: Rc<Exporter>) -> Result<()> {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        shared.look().await;
        shared.send(&exporter).await?;
    }
}

impl Outbox {
    /// Number of requests.
    fn len(&self) -> usize {
        self.unnamed.len() + self.named.len()
    }

    /// Notes requests that were reported and are not traced: the record shows nothing of them, or their tenant has too
    /// many. Warns at each power of two.
    fn note_untold(&mut self, count: usize) {
        let before = self.untold;
        self.untold += count as u64;
        if before.checked_ilog2() != self.untold.checked_ilog2() {
            let untold = self.untold;
            tracing::warn!(untold, "requests were reported and are not traced");
        }
    }
}

impl Shared {
    /// Number of requests that are under way.
    fn under_way(&self) -> usize {
        self.join.borrow().waiting() + self.outbox.borrow().len()
    }

    /// Takes the requests that are due. A tenant may report anything, so only requests with ops in the record are
    /// exported.
    async fn look(&self) {
        let now = now();
        let due = {
            let mut join = self.join.borrow_mut();
            let due = join.due(now);
            join.forget(now);
            due
        };
        let (mut dropped, mut untold) = (Vec::new(), 0);
        for joined in due {
            let is_nothing = joined.parts.is_empty() && !joined.has_run;
            if is_nothing || !self.is_kept(&joined) {
                untold += usize::from(is_nothing);
                dropped.push(joined.mark);
                continue;
            }
            let named_by = now.saturating_add(NAMES);
            self.outbox
                .borrow_mut()
                .unnamed
                .push_back((named_by, joined));
        }
        if untold > 0 {
            self.outbox.borrow_mut().note_untold(untold);
        }
        for mark in dropped {
            mark.done().await;
        }
        let mut outbox = self.outbox.borrow_mut();
        for _ in 0..outbox.unnamed.len() {
            if let Some((named_by, joined)) = outbox.unnamed.pop_front() {
                match now >= named_by || self.is_named(&joined) {
                    true => outbox.named.push_back(joined),
                    false => outbox.unnamed.push_back((named_by, joined)),
                }
            }
        }
    }

    fn is_kept(&self, joined: &Joined<Mark>) -> bool {
        let trace = trace_of(&joined.request, &self.ids);
        let sampling = self.sampling.borrow();
        sampling.keeps(&joined.request, trace).is_some()
    }

    fn is_named(&self, joined: &Joined<Mark>) -> bool {
        let kernels = self.kernels.borrow();
        let mut work = joined.parts.iter().flat_map(|part| part.work.iter());
        work.all(|run| run.class != CostClass::Launch || kernels.knows(run.key))
    }

    /// The spans of a request; none if it is not kept any more.
    fn spans(&self, joined: &Joined<Mark>) -> Vec<FinishedSpan> {
        let (sampling, kernels) = (self.sampling.borrow(), self.kernels.borrow());
        let trace = trace_of(&joined.request, &self.ids);
        let kept = sampling.keeps(&joined.request, trace);
        let made = kept.map(|kept| {
            let context = Context {
                ids: &self.ids,
                kernels: &kernels,
                target: sampling.target(&joined.request.tenant),
                kept,
            };
            spans(joined, &context)
        });
        made.unwrap_or_default()
    }

    /// Makes the spans of the next batch. Returns them with the marks of their requests.
    fn batch(&self) -> (Vec<FinishedSpan>, Vec<Mark>) {
        let (mut batch, mut marks) = (Vec::new(), Vec::new());
        while marks.len() < BATCH.0 && batch.len() < BATCH.1 {
            let next = self.outbox.borrow_mut().named.pop_front();
            let Some(joined) = next else {
                break;
            };
            batch.extend(self.spans(&joined));
            marks.push(joined.mark);
        }
        (batch, marks)
    }

    /// Sends the next batch, if none is on its way.
    ///
    /// # Errors
    /// If the export has ended.
    async fn send(self: &Rc<Self>, exporter: &Rc<Exporter>) -> Result<()> {
        if self.outbox.borrow().is_sending {
            return Ok(());
        }
        loop {
            let (batch, marks) = self.batch();
            if marks.is_empty() {
                return Ok(());
            }
            let mut sent = exporter.send(batch);
            // The collector answers within moments. While it does not, requests are looked at as before.
            match timeout(LOOK, &mut sent).await {
                Ok(answer) => finish(answer, marks).await?,
                Err(_) => {
                    self.outbox.borrow_mut().is_sending = true;
                    let shared = Rc::clone(self);
                    tokio::task::spawn_local(async move {
                        if let Err(error) = finish(sent.await, marks).await {
                            // The next batch meets it too.
                            tracing::warn!("{error:#}");
                        }
                        shared.outbox.borrow_mut().is_sending = false;
                    });
                    return Ok(());
                }
            }
        }
    }
}

/// Removes the reports of a batch: the collector has taken it, or never will.
async fn finish(answer: Result<bool, RecvError>, marks: Vec<Mark>) -> Result<()> {
    answer.context("the thread of the export has ended")?;
    for mark in marks {
        mark.done().await;
    }
    Ok(())
}

/// Takes in the reports of programs.
///
/// # Errors
/// If another tracer has taken them over.
async fn take_reports(shared: &Shared) -> Result<()> {
    let mut reports = Reports::default();
    loop {
        match reports.take_over(&shared.storage).await {
            Ok(Some(messages)) => take_from(messages, &reports, shared).await,
            Ok(None) => bail!(ErrorCode::Stopped.failed("another tracer has taken over")),
            Err(error) => tracing::warn!("{error:#}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn take_from(mut messages: reports::Messages, reports: &Reports, shared: &Shared) {
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
        for (request, mark) in reports.requests(message, &shared.subjects).await {
            if let Some(refused) = shared.take(request, mark) {
                shared.outbox.borrow_mut().note_untold(1);
                refused.done().await;
            }
        }
    }
}

impl Shared {
    /// Takes in a request. Returns the mark of one that may not be told, or of a tenant that takes more than its share
    /// of what is under way.
    fn take(&self, request: Request, mark: Mark) -> Option<Mark> {
        let mut join = self.join.borrow_mut();
        let crowded = join.waiting() >= CROWDED && join.is_shared();
        if crowded && join.waiting_of(&request.tenant) >= SHARE {
            return Some(mark);
        }
        join.request(request, now(), mark)
    }
}

/// Learns the names and times of kernels as workers record them.
async fn learn_kernels(shared: &Shared) {
    loop {
        if let Err(error) = learn_from(shared).await {
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
async fn read_targets(administrator: &Administrator, shared: &Shared) {
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
