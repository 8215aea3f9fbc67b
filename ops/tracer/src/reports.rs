//! The reports of programs, taken from their stream one after the other. A report is removed from the stream when all
//! its requests are exported, so that a tracer that starts again finds the others there.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{self, consumer};
use bus_schemas::subject::Subjects;
use bus_schemas::{RequestReport, RequestReports, decode, limits};
use storage::{Storage, Stored};
use time::OffsetDateTime;

use crate::join::Request;

/// Name of the tracer's consumer.
const CONSUMER: &str = "tracer";
/// Maximum number of messages with requests that are not exported yet.
const PENDING: i64 = 16_384;
/// Time for which a message waits for its export: as long as the stream keeps it.
const EXPORT: Duration = Duration::from_secs(3_600);

/// The messages of the stream.
pub(crate) type Messages = consumer::pull::Stream;

/// Sequences of the messages with requests that are under way.
type InHand = Rc<RefCell<HashSet<u64>>>;

/// A message, until the last request of it is exported or dropped.
#[derive(Clone)]
pub(crate) struct Mark(Rc<Marked>);

struct Marked {
    acker: Acker,
    sequence: u64,
    in_hand: InHand,
    /// Number of its requests that are under way.
    left: Cell<usize>,
}

impl Mark {
    /// Notes that a request of the message is exported or dropped. Removes the message after its last one.
    pub(crate) async fn done(self) {
        let left = self.0.left.get().saturating_sub(1);
        self.0.left.set(left);
        if left > 0 {
            return;
        }
        // If this is lost, the requests come again when the tracer is started again, with the same ids.
        if let Err(error) = self.0.acker.ack().await {
            tracing::debug!(%error, "a report is not removed yet");
        }
        self.0.in_hand.borrow_mut().remove(&self.0.sequence);
    }
}

/// The reports as this tracer takes them.
#[derive(Default)]
pub(crate) struct Reports {
    in_hand: InHand,
    /// The time at which its consumer was made.
    consumer: Option<OffsetDateTime>,
}

impl Reports {
    /// Takes the stream over, from the oldest report that was not exported. `None` if another tracer has done so since
    /// this one did.
    pub(crate) async fn take_over(&mut self, storage: &Storage) -> Result<Option<Messages>> {
        let stream = storage.stream(Stored::Requests).await;
        let stream = stream.map_err(|why| anyhow!("the stream of requests: {why}"))?;
        if let Some(own) = self.consumer {
            match stream.consumer_info(CONSUMER).await {
                Ok(there) if there.created != own => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {}
                Err(error) => return Err(error).context("the stream of requests: its consumer"),
            }
        }
        // Reports that were delivered and not exported come again only through a new consumer: those of an earlier
        // tracer, and those of a lost connection.
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
        self.consumer = Some(consumer.cached_info().created);
        let messages = consumer.messages().await;
        messages.context("the stream of requests").map(Some)
    }

    /// The requests of a message, each with its mark; none of a message that is in hand already. A message without
    /// requests is removed.
    pub(crate) async fn requests(
        &self,
        message: jetstream::Message,
        subjects: &Subjects,
    ) -> Vec<(Request, Mark)> {
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        if !self.in_hand.borrow_mut().insert(sequence) {
            return Vec::new();
        }
        let requests = read(&message, subjects).unwrap_or_default();
        // The payload is not needed any more.
        let (_, acker) = message.split();
        let mark = Mark(Rc::new(Marked {
            acker,
            sequence,
            in_hand: Rc::clone(&self.in_hand),
            left: Cell::new(requests.len()),
        }));
        if requests.is_empty() {
            mark.done().await;
            return Vec::new();
        }
        let marked = requests.into_iter().map(|request| (request, mark.clone()));
        marked.collect()
    }
}

/// Number of reports that are not exported; 0 if that is not known.
pub(crate) async fn left(storage: &Storage) -> u64 {
    let stream = storage.find_stream(Stored::Requests).await;
    let Ok(Some(stream)) = stream else {
        return 0;
    };
    stream.cached_info().state.messages
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
    if reports.failure.len() > limits::BRIEF_FAILURE_BYTES
        || reports.rows.len() > limits::REQUESTS
        || reports.runs.len().max(reports.loads.len()) > limits::REQUEST_RUNS
    {
        tracing::debug!(%tenant, "a report of too many requests");
        return None;
    }
    if reports.dropped > 0 {
        let (session, dropped) = (reports.session, reports.dropped);
        tracing::debug!(%tenant, %session, dropped, "requests were not reported");
    }
    let failure: Rc<str> = reports.failure.as_str().into();
    let rows = reports.rows.iter().enumerate();
    let request = |(index, report): (usize, &RequestReport)| {
        let mut runs: Vec<_> = reports.runs_of(index).collect();
        // In order and within, as an honest program sends them.
        runs.sort_unstable();
        let within = |it: &&(u64, u64)| report.first <= it.0 && it.1 <= report.last;
        let loads: Vec<_> = reports.loads_of(index).collect();
        let runs = runs.iter().filter(within).copied();
        Request {
            tenant: tenant.clone(),
            session: reports.session,
            process: reports.process,
            report: *report,
            failure: report.error.map(|_| Rc::clone(&failure)),
            runs: runs.collect(),
            loads: loads.iter().filter(within).copied().collect(),
        }
    };
    Some(rows.map(request).collect())
}
