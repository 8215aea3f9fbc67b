//! The reports of programs, taken from their stream one after the other. A report is removed from the stream when all
//! its requests are exported, so that a tracer that starts again finds the others there.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{self, consumer};
use bus_schemas::subject::Subjects;
use bus_schemas::{RequestReport, RequestReports, Tenant, decode, limits};
use storage::{Storage, Stored};
use time::OffsetDateTime;

use crate::drops::Drops;
use crate::gaps::Gaps;
use crate::join::Request;
use crate::parts::Met;

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

/// The things that a message tells.
#[derive(Default)]
pub(crate) struct Taken {
    /// Its requests, each with its mark.
    pub(crate) requests: Vec<(Request, Mark)>,
    /// Number of requests that its program did not report since the last message of the session.
    pub(crate) dropped: u64,
    /// Number of messages that the stream has dropped before this one.
    pub(crate) expired: u64,
}

/// The reports as this tracer takes them.
#[derive(Default)]
pub(crate) struct Reports {
    in_hand: InHand,
    drops: Drops,
    gaps: Gaps,
    /// The time at which its consumer was made.
    consumer: Option<OffsetDateTime>,
}

impl Reports {
    /// Takes the stream over, from the oldest report that was not exported. `None` if another tracer has done so since
    /// this one did.
    pub(crate) async fn take_over(&mut self, storage: &Storage) -> Result<Option<Messages>> {
        let stream = storage.stream(Stored::Requests).await;
        let stream = stream.map_err(|why| anyhow!("the stream of requests: {why}"))?;
        let reached = match stream.consumer_info(CONSUMER).await {
            Ok(there) => match self.consumer {
                Some(own) if there.created != own => return Ok(None),
                Some(_) => None,
                None => Some(there.delivered.stream_sequence),
            },
            // An earlier tracer may have had all messages.
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {
                Some(stream.cached_info().state.last_sequence)
            }
            Err(error) => return Err(error).context("the stream of requests: its consumer"),
        };
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
        self.gaps.begin(reached);
        let messages = consumer.messages().await;
        messages.context("the stream of requests").map(Some)
    }

    /// Takes a message in. One that is in hand already has no requests; one without requests is removed.
    pub(crate) async fn take(&mut self, message: jetstream::Message, subjects: &Subjects) -> Taken {
        let numbers = message.info();
        let (sequence, delivery) =
            numbers.map_or((0, 0), |it| (it.stream_sequence, it.consumer_sequence));
        let mut taken = Taken {
            expired: self.gaps.delivered(sequence, delivery),
            ..Taken::default()
        };
        if !self.in_hand.borrow_mut().insert(sequence) {
            return taken;
        }
        let mut requests = Vec::new();
        if let Some((tenant, reports)) = read(&message, subjects) {
            taken.dropped = self
                .drops
                .told(&tenant, &reports, self.gaps.is_new(sequence));
            requests = requests_of(&tenant, &reports);
        }
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
            return taken;
        }
        let marked = requests.into_iter().map(|request| (request, mark.clone()));
        taken.requests = marked.collect();
        taken
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

fn read(message: &jetstream::Message, subjects: &Subjects) -> Option<(Tenant, RequestReports)> {
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
        || reports.errors.len() > limits::REQUESTS * limits::CALL_ERRORS
    {
        tracing::debug!(%tenant, "a report of too many requests");
        return None;
    }
    Some((tenant, reports))
}

fn requests_of(tenant: &Tenant, reports: &RequestReports) -> Vec<Request> {
    let failure: Rc<str> = reports.failure.as_str().into();
    let rows = reports.rows.iter().enumerate();
    let mut errors = errors_of(reports);
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
            errors: errors.remove(&index).unwrap_or_default(),
        }
    };
    rows.map(request).collect()
}

/// The errors of failed calls by request: few of each, as an honest program sends them.
fn errors_of(reports: &RequestReports) -> HashMap<usize, Vec<Met>> {
    let mut errors = HashMap::<_, Vec<_>>::new();
    for (error, words) in reports.errors_in_words() {
        let Ok(index) = usize::try_from(error.report) else {
            continue;
        };
        let of_request = errors.entry(index).or_default();
        if of_request.len() < limits::CALL_ERRORS && words.len() <= limits::CALL_ERROR_BYTES {
            of_request.push(Met {
                at: error.at,
                count: error.count,
                code: error.code,
                words: words.into(),
            });
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use bus_schemas::{CallError, Code, SessionId};

    use super::*;
    use crate::join::tests::request;

    #[test]
    fn each_request_has_its_own_errors_and_few_of_them() {
        let error = |report, words: u16| CallError {
            report,
            at: 5,
            count: 2,
            code: Code::Quota,
            words,
        };
        let mut told = vec![error(0, 4), error(2, 1), error(1, 300), error(u64::MAX, 1)];
        told.extend([error(2, 1); 9]);
        let reports = RequestReports {
            v: 1,
            session: SessionId(1),
            process: None,
            dropped: 0,
            rows: vec![request("chat", 1, (1, 4)).report; 3],
            runs: Vec::new(),
            loads: Vec::new(),
            failure: String::new(),
            errors: told,
            words: "full".to_owned() + &"x".repeat(400),
        };
        let requests = requests_of(&"chat".parse().expect("a name"), &reports);
        let words = |request: &Request| -> Vec<_> {
            let met = request.errors.iter();
            met.map(|it| (it.at, it.count, it.code, it.words.len()))
                .collect()
        };
        let all: Vec<_> = requests.iter().map(words).collect();
        let one = (5, 2, Code::Quota, 1);
        assert_eq!(all, [vec![(5, 2, Code::Quota, 4)], vec![], vec![one; 4]]);
        assert_eq!(&*requests[0].errors[0].words, "full");
    }
}
