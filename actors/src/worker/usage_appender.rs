//! Usage blocks on their way into their stream: one after the other, each appended again until it
//! is acknowledged.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use async_nats::jetstream;
use async_nats::{Client, Subject};
use bus_schemas::Incarnation;
use bus_schemas::subject::Subjects;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::repeated::Repeated;
use storage::{Storage, Stored};

/// Timeout for the stream's acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a block is appended again.
const PAUSE: Duration = Duration::from_millis(500);

/// Appends blocks from handlers that may not wait.
pub(super) struct UsageAppender {
    client: Client,
    queue: Rc<Queue>,
    task: tokio::task::JoinHandle<()>,
}

struct Queue {
    storage: Storage,
    subject: Subject,
    incarnation: Incarnation,
    /// Blocks without an acknowledgement, oldest first.
    blocks: RefCell<VecDeque<(u64, Bytes)>>,
    more: Notify,
}

impl UsageAppender {
    /// Starts the appender; creates the stream if it is missing.
    pub(super) fn start(client: Client, subjects: &Subjects, incarnation: Incarnation) -> Self {
        let mut jetstream = jetstream::new(client.clone());
        jetstream.set_timeout(ACK_TIMEOUT);
        let queue = Rc::new(Queue {
            storage: Storage::new(jetstream, subjects),
            subject: subjects.usage_blocks(incarnation).into(),
            incarnation,
            blocks: RefCell::default(),
            more: Notify::new(),
        });
        let task = actix::spawn(queue.clone().work());
        Self {
            client,
            queue,
            task,
        }
    }

    /// Number of blocks without an acknowledgement.
    pub(super) fn waiting(&self) -> usize {
        self.queue.blocks.borrow().len()
    }

    /// Appends a block after those before it.
    pub(super) fn append(&self, number: u64, bytes: Vec<u8>) {
        let mut blocks = self.queue.blocks.borrow_mut();
        blocks.push_back((number, bytes.into()));
        self.queue.more.notify_one();
    }

    /// Publishes the remaining blocks without waiting for acknowledgements, which would have no
    /// receiver.
    pub(super) fn leave(&self) {
        for (number, bytes) in self.queue.blocks.borrow().iter() {
            let headers = crate::stream::headers(&self.queue.id(*number));
            let subject = self.queue.subject.clone();
            let publish = self
                .client
                .publish_with_headers(subject, headers, bytes.clone());
            let published = tokio::task::unconstrained(publish).now_or_never();
            if !matches!(published, Some(Ok(()))) {
                tracing::warn!(number, "the last usage may be lost");
            }
        }
    }
}

impl Drop for UsageAppender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Queue {
    async fn work(self: Rc<Self>) {
        if let Err(error) = self.storage.stream(Stored::Usage).await {
            tracing::debug!(error, "the usage stream is not there yet");
        }
        let mut repeated = Repeated::default();
        loop {
            let next = self.blocks.borrow().front().cloned();
            let Some((number, bytes)) = next else {
                self.more.notified().await;
                continue;
            };
            match self.try_append(number, bytes).await {
                Ok(()) => {
                    repeated.is_over();
                    self.blocks.borrow_mut().pop_front();
                }
                Err(error) => {
                    if let Some(unsaid) = repeated.happened(Instant::now()) {
                        tracing::warn!(number, error, unsaid, "usage is not recorded yet");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Returns the message id of a block.
    fn id(&self, number: u64) -> String {
        format!("{}.{number}", self.incarnation)
    }

    async fn try_append(&self, number: u64, bytes: Bytes) -> Result<(), String> {
        let (subject, id) = (self.subject.clone(), self.id(number));
        crate::stream::append(&self.storage, Stored::Usage, subject, &id, bytes).await
    }
}
