//! The role: the tracer's tasks, each with its source or sink.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use admin::Administrator;
use admin::errors::ErrorCode;
use admin::process::{follow_parent, stop_signal};
use admin::settings::Settings;
use admin::telemetry::{logs, metrics, telemetry};
use anyhow::{Context as _, Result, bail};
use async_nats::jetstream::{self, kv};
use futures_util::StreamExt;
use storage::{Storage, Stored};
use telemetry::{Role, Telemetry, TelemetrySettings, Untraced, in_span};
use tokio::sync::oneshot::error::RecvError;
use tokio::task::LocalSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::clock::now;
use crate::export::{Exporter, Refused};
use crate::failed::Failed as FailedRequest;
use crate::record;
use crate::reports::{self, Mark, Reports};
use crate::sampling::Sampling;
use crate::tracer::{Failed, Tracer};

/// Interval at which requests are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Interval at which the tenants' targets are read.
const TARGETS: Duration = Duration::from_secs(10);
/// Delay before a stream that broke is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// Time that the end of the role waits for the export.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs the tracer of a cluster until it is told to stop.
///
/// # Errors
/// If it cannot start: it would export nothing, or there is no cluster.
pub(crate) fn role(settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(Role::Tracer, settings)?;
    let (cluster, endpoint) = (
        settings.text("cluster.name"),
        settings.text("telemetry.otlp"),
    );
    let chosen = TelemetrySettings::from_environment(Role::Tracer, cluster, endpoint);
    if chosen.is_off() && settings.given("tracer.metrics").is_none() {
        bail!(ErrorCode::ConfigValue.usage(
            "a tracer exports spans and metrics: set telemetry.otlp to a collector, such as \
             http://127.0.0.1:4318, or tracer.metrics to an address for Prometheus, such as 127.0.0.1:9466"
        ));
    }
    let exporter =
        Exporter::start(&chosen).context(ErrorCode::ConfigValue.usage("telemetry.otlp"))?;
    let telemetry = telemetry(Role::Tracer, settings)?;
    let _server = metrics("tracer.metrics", settings, &telemetry)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let sampling = Sampling::new(chosen.sample, chosen.obeys_parent);
    let running = run(settings, sampling, telemetry.clone(), exporter);
    let ended = LocalSet::new().block_on(&runtime, running);
    runtime.shutdown_background();
    telemetry.shutdown(FAREWELL);
    ended
}

/// The state that the tasks of the role share.
struct Shared {
    storage: Storage,
    administrator: Rc<Administrator>,
    tracer: Rc<RefCell<Tracer<Mark>>>,
    telemetry: Telemetry,
    /// The export of spans, if there is a collector.
    exporter: Option<Exporter>,
    is_sending: RefCell<bool>,
    /// True once the tenants' targets were read: without them no slow request would be kept.
    has_targets: Cell<bool>,
}

async fn run(
    settings: &Settings,
    sampling: Sampling,
    telemetry: Telemetry,
    exporter: Option<Exporter>,
) -> Result<()> {
    let stop = stop_signal()?;
    let administrator = Rc::new(Administrator::as_role(settings, None).await?);
    let subjects = administrator.subjects().clone();
    let jetstream = jetstream::new(administrator.client().clone());
    let tracer = Tracer::new(&subjects, sampling, exporter.is_some(), now());
    let shared = Rc::new(Shared {
        storage: Storage::new(jetstream, &subjects),
        administrator,
        tracer: Rc::new(RefCell::new(tracer)),
        telemetry,
        exporter,
        is_sending: RefCell::new(false),
        has_targets: Cell::new(false),
    });
    let following = record::follow(
        Rc::clone(&shared.administrator),
        Rc::clone(&shared.tracer),
        shared.telemetry.clone(),
    );
    tokio::select! {
        () = farewell(stop, &shared.storage) => {}
        () = following => {}
        () = learn_kernels(&shared) => {}
        () = read_targets(&shared) => {}
        ended = work(Rc::clone(&shared)) => return ended,
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
async fn work(shared: Rc<Shared>) -> Result<()> {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        if !shared.has_targets.get() {
            continue;
        }
        let meters = shared.telemetry.meters().tracer();
        let looked = shared.tracer.borrow_mut().look(now(), meters);
        looked.failed.iter().for_each(log);
        for mark in looked.dropped {
            mark.done().await;
        }
        shared.send().await?;
    }
}

/// Logs a request that ended with an error, with the ids of its span.
fn log(Failed { request, span }: &Failed) {
    let Some(code) = request.report.error else {
        return;
    };
    let (tenant, session) = (request.tenant.as_str(), request.session.to_string());
    // Other texts are the program's own words.
    let failed = FailedRequest::new(code, request);
    let (code, why) = (code.name(), failed.fault());
    in_span(*span, || {
        tracing::warn!(tenant, session, code, why, "a request failed");
    });
}

impl Shared {
    /// Sends the next batch, if none is on its way.
    ///
    /// # Errors
    /// If the export has ended.
    async fn send(self: &Rc<Self>) -> Result<()> {
        let Some(exporter) = &self.exporter else {
            return Ok(());
        };
        if *self.is_sending.borrow() {
            return Ok(());
        }
        loop {
            let (batch, marks) = self.tracer.borrow_mut().batch();
            if marks.is_empty() {
                return Ok(());
            }
            let mut sent = exporter.send(batch);
            // The collector answers within moments. While it does not, requests are looked at as before.
            match timeout(LOOK, &mut sent).await {
                Ok(answer) => self.finish(answer, marks).await?,
                Err(_) => {
                    *self.is_sending.borrow_mut() = true;
                    let shared = Rc::clone(self);
                    tokio::task::spawn_local(async move {
                        if let Err(error) = shared.finish(sent.await, marks).await {
                            // The next batch meets it too.
                            tracing::warn!("{error:#}");
                        }
                        *shared.is_sending.borrow_mut() = false;
                    });
                    return Ok(());
                }
            }
        }
    }

    /// Removes the reports of a batch: the collector has taken it, or never will.
    async fn finish(&self, answer: Result<Refused, RecvError>, marks: Vec<Mark>) -> Result<()> {
        let refused = answer.context("the thread of the export has ended")?;
        self.note_untold(Untraced::Refused, refused.len() as u64);
        for mark in marks {
            mark.done().await;
        }
        Ok(())
    }

    fn note_untold(&self, reason: Untraced, count: u64) {
        let meters = self.telemetry.meters().tracer();
        self.tracer.borrow_mut().note_untold(reason, count, meters);
    }
}

/// Takes in the reports of programs.
///
/// # Errors
/// If another tracer has taken them over.
async fn take_reports(shared: &Shared) -> Result<()> {
    let mut reports = Reports::default();
    loop {
        match reports.take_over(&shared.storage).await {
            Ok(Some(messages)) => take_from(messages, &mut reports, shared).await,
            Ok(None) => bail!(ErrorCode::Stopped.failed("another tracer has taken over")),
            Err(error) => tracing::warn!("{error:#}"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn take_from(mut messages: reports::Messages, reports: &mut Reports, shared: &Shared) {
    loop {
        while shared.tracer.borrow().is_full() {
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
        let subjects = shared.administrator.subjects();
        let taken = reports.take(message, subjects).await;
        shared.note_untold(Untraced::Client, taken.dropped);
        shared.note_untold(Untraced::Expired, taken.expired);
        for (request, mark) in taken.requests {
            let refused = shared.tracer.borrow_mut().take(request, now(), mark);
            if let Some((refused, reason)) = refused {
                if let Some(reason) = reason {
                    shared.note_untold(reason, 1);
                }
                refused.done().await;
            }
        }
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
            shared.tracer.borrow_mut().learn(key, &record);
        }
    }
    Ok(())
}

/// Reads the tenants' targets from time to time, and asks for the leader.
async fn read_targets(shared: &Shared) {
    loop {
        match shared.administrator.tenants().await {
            Ok(tenants) => {
                let target = |(tenant, settings): (_, bus_schemas::TenantSettings)| {
                    (tenant, settings.slo_ns)
                };
                let targets: HashMap<_, _> = tenants.into_iter().map(target).collect();
                shared.tracer.borrow_mut().set_targets(targets);
                shared.has_targets.set(true);
            }
            Err(error) => {
                tracing::debug!("the tenants' targets: {error:#}");
                if !shared.has_targets.get() {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            }
        }
        if shared.administrator.status(TARGETS).await.is_ok() {
            shared.tracer.borrow_mut().is_led(now());
        }
        tokio::time::sleep(TARGETS).await;
    }
}
