//! Blocks on their way into the record stream: appended again until acknowledged.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use actix::Recipient;
use async_nats::jetstream::{Context, stream};
use bus_schemas::subject::Subjects;
use bus_schemas::{Epoch, LeaderId};
use bytes::Bytes;
use tokio::sync::Semaphore;

use super::told::Told;

/// How long the stream may take to acknowledge.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before a block is appended again.
const PAUSE: Duration = Duration::from_millis(100);
/// Blocks on their way at a time.
const FLIGHT: usize = 64;

/// Appends blocks. How many bytes wait here is bounded by the core.
#[derive(Clone)]
pub(super) struct Appender {
    jetstream: Context,
    subjects: Subjects,
    leader: LeaderId,
    bytes: Option<u64>,
    /// The epoch that is written, 0 for none: blocks of another are given up.
    epoch: Rc<Cell<Epoch>>,
    flight: Rc<Semaphore>,
}

impl Appender {
    pub(super) fn new(
        mut jetstream: Context,
        subjects: &Subjects,
        leader: LeaderId,
        bytes: Option<u64>,
    ) -> Self {
        jetstream.set_timeout(PATIENCE);
        Self {
            jetstream,
            subjects: subjects.clone(),
            leader,
            bytes,
            epoch: Rc::default(),
            flight: Rc::new(Semaphore::new(FLIGHT)),
        }
    }

    /// A reign begins, or (with 0) ends.
    pub(super) fn reign(&self, epoch: Epoch) {
        self.epoch.set(epoch);
    }

    /// Appends a block until it is acknowledged or the reign is over.
    pub(super) fn append(
        &self,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
        leader: Recipient<Told>,
    ) {
        let (this, bytes) = (self.clone(), Bytes::from(bytes));
        actix::spawn(async move {
            let Ok(_permit) = this.flight.acquire().await else {
                return;
            };
            while this.epoch.get() == epoch {
                match this.try_append(epoch, number, bytes.clone()).await {
                    Ok(()) => {
                        // Nobody is left to hear it if this fails.
                        let _ = leader.send(Told::Recorded { epoch, number }).await;
                        return;
                    }
                    Err(error) => {
                        tracing::warn!(epoch, number, error, "a block is not recorded yet");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        });
    }

    async fn try_append(&self, epoch: Epoch, number: u64, bytes: Bytes) -> Result<(), String> {
        let id = format!("{epoch}.{}.{number}", self.leader);
        let subject = self.subjects.record(epoch).into();
        let config = || self.config();
        crate::stream::append(&self.jetstream, subject, &id, bytes, config).await
    }

    fn config(&self) -> stream::Config {
        stream::Config {
            name: self.subjects.record_stream(),
            subjects: vec![self.subjects.record_all()],
            max_bytes: self
                .bytes
                .map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            storage: stream::StorageType::File,
            ..stream::Config::default()
        }
    }

    /// The highest epoch in the stream: a store that lost the lease must not repeat it.
    pub(super) async fn last_epoch(jetstream: &Context, subjects: &Subjects) -> Epoch {
        let Ok(stream) = jetstream.get_stream(subjects.record_stream()).await else {
            return 0;
        };
        let last = stream.cached_info().state.last_sequence;
        let Ok(message) = stream.get_raw_message(last).await else {
            return 0;
        };
        let epoch = message.subject.rsplit('.').next();
        epoch.and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
    }
}
