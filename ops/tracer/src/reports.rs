//! The reports of programs, taken from their stream one after the other. A report is removed from the stream when all
//! its requests are exported, so that a tracer that starts again finds the others there.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{self, consumer};
use bus_schemas::subject::Subjects;
use bus_schemas::{RequestReport, RequestReports, decode, limits};
use storage::{Storage, Stored};

use crate::join::Request;

/// Name of the tracer's consumer.
const CONSUMER: &str = "tracer";
/// Maximum number of messages with requests that are not exported yet.
const PENDING: i64 = 16_384;
/// Time for which a message waits for its export: as long as the stream keeps it.
const EXPORT: Duration = Duration::from_secs(3_600);

/// The messages of the stream.
pub(crate) type Messages = consumer::pull::Stream;

/// A message, until the last request of it is exported or dropped.
#[derive(Clone)]
pub(crate) struct Mark(Rc<Marked>);

struct Marked {
    acker: Acker,
    /// Number of its requests that are under way.
    left: Cell<usize>,
}

impl Mark {
    /// Notes that a request of the message is exported or dropped. Removes the message after its last one.
    pub(crate) async fn done(self) {
        let left = self.0.left.get().saturating_sub(1);
        self.0.left.set(left);
        // If this is lost, the requests come again when the tracer is started again, with the same ids.
        if left == 0
            && let Err(error) = self.0.acker.ack().await
        {
            tracing::debug!(%error, "a report is not removed yet");
        }
    }
}

/// Takes the stream over, from the oldest report that was not exported.
pub(crate) async fn take_over(storage: &Storage) -> Result<Messages> {
    let stream = storage.stream(Stored::Requests).await;
    let stream = stream.map_err(|why| anyhow!("the stream of requests: {why}"))?;
    // Reports that an earlier tracer had taken and not exported come again only through a new consumer.
    let _ = stream.delete_consumer(CONSUMER).await;
    let config = consumer::pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: consumer::AckPolicy::Explicit,
        ack_wait: EXPORT,
        max_ack_pending: PENDING,
        ..consumer::pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await;
    let consumer = consumer.context("the stream of requests: a consumer")?;
    let messages = consumer.messages().await;
    messages.context("the stream of requests")
}

/// Goes on with this tracer's consumer, after the connection was lost. `None` if there is none any more: another tracer
/// has taken the stream over, or it was made anew.
pub(crate) async fn go_on(storage: &Storage) -> Result<Option<Messages>> {
    let stream = storage.find_stream(Stored::Requests).await?;
    let Some(stream) = stream else {
        return Ok(None);
    };
    let consumer = stream
        .get_consumer::<consumer::pull::Config>(CONSUMER)
        .await;
    let Ok(consumer) = consumer else {
        return Ok(None);
    };
    let messages = consumer.messages().await;
    messages.context("the stream of requests").map(Some)
}

/// Number of reports that are not exported; 0 if that is not known.
pub(crate) async fn left(storage: &Storage) -> u64 {
    let stream = storage.find_stream(Stored::Requests).await;
    let Ok(Some(stream)) = stream else {
        return 0;
    };
    stream.cached_info().state.messages
}

/// The requests of a message, each with its mark. A message that is none is removed.
pub(crate) async fn requests(
    message: jetstream::Message,
    subjects: &Subjects,
) -> Vec<(Request, Mark)> {
    let requests = read(&message, subjects).unwrap_or_default();
    // The payload is not needed any more.
    let (_, acker) = message.split();
    let mark = Mark(Rc::new(Marked {
        acker,
        left: Cell::new(requests.len()),
    }));
    if requests.is_empty() {
        mark.done().await;
        return Vec::new();
    }
    let marked = requests.into_iter().map(|request| (request, mark.clone()));
    marked.collect()
}

fn read(message: &jetstream::Message, subjects: &Subjects) -> Option<Vec<Request>> {
    let tenant = subjects.parse_request_reports(&message.subject)?;
    let reports: RequestReports = match decode(&message.payload) {
        Ok(reports) => reports,
        Err(error) => {
            tracing::debug!(%tenant, %error, "a report that cannot be read");
            return None;
        }
    };
    if reports.rows.len() > limits::REQUESTS || reports.runs.len() > limits::REQUEST_RUNS {
        tracing::debug!(%tenant, "a report of too many requests");
        return None;
    }
    if reports.dropped > 0 {
        let (session, dropped) = (reports.session, reports.dropped);
        tracing::debug!(%tenant, %session, dropped, "requests were not reported");
    }
    let rows = reports.rows.iter().enumerate();
    let request = |(index, report): (usize, &RequestReport)| {
        let mut runs: Vec<_> = reports.runs_of(index).collect();
        // In order and within, as an honest program sends them.
        runs.sort_unstable();
        let within = |it: &&(u64, u64)| report.first <= it.0 && it.1 <= report.last;
        let runs = runs.iter().filter(within).copied();
        Request {
            tenant: tenant.clone(),
            session: reports.session,
            process: reports.process,
            report: *report,
            runs: runs.collect(),
        }
    };
    Some(rows.map(request).collect())
}
