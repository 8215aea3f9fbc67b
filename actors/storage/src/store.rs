//! The streams and buckets of one cluster: finds, opens and creates them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::context::{GetStreamError, KeyValueError};
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy};
use async_nats::jetstream::{Context, kv};
use bus_schemas::subject::Subjects;

use super::refusals::{is_missing, lacks_room, lacks_servers, text};
use super::room::{fewer, signed};
use super::table::{RECORD_BYTES, Row, Stored};

/// Number of copies with several servers, unless the cluster sets another number: any one server
/// may be lost.
pub(super) const COPIES: usize = 3;

/// Maximum number of a tenant's reports of requests that are kept.
const REPORTS: i64 = 2_048;
/// Maximum bytes of one such report.
const REPORT_BYTES: i32 = 72 << 10;
/// Time for which they are kept.
const REPORT_AGE: Duration = Duration::from_secs(3_600);

/// The settings with the number of copies have not been read yet.
const UNREAD: usize = usize::MAX;

/// Opens and creates the streams and buckets of a cluster in its broker.
#[derive(Debug, Clone)]
pub struct Storage {
    pub(super) jetstream: Context,
    subjects: Subjects,
    /// Requested copies; 0 for the default, or [`UNREAD`].
    replicas: Arc<AtomicUsize>,
    record_bytes: Arc<AtomicU64>,
}

impl Storage {
    /// Creates access to the cluster's storage over a connection.
    #[must_use]
    pub fn new(jetstream: Context, subjects: &Subjects) -> Self {
        Self {
            jetstream,
            subjects: subjects.clone(),
            replicas: Arc::new(AtomicUsize::new(UNREAD)),
            record_bytes: Arc::new(AtomicU64::new(RECORD_BYTES)),
        }
    }

    /// Returns the connection.
    #[must_use]
    pub fn jetstream(&self) -> &Context {
        &self.jetstream
    }

    /// Returns the names of streams and buckets.
    pub(super) fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// Sets the record's size in bytes, which applies when it is next created or limited. True if
    /// that is a change.
    pub fn set_record_bytes(&self, bytes: u64) -> bool {
        self.record_bytes.swap(bytes, Ordering::Relaxed) != bytes
    }

    /// Returns the same storage over a connection with another timeout.
    #[must_use]
    pub fn over(&self, jetstream: Context) -> Self {
        Self {
            jetstream,
            ..self.clone()
        }
    }

    /// Sets the number of copies, which applies when a stream is next created or settled; 0 for the
    /// default. True if that is a change.
    pub fn set_replicas(&self, replicas: u32) -> bool {
        let replicas = replicas as usize;
        self.replicas.swap(replicas, Ordering::Relaxed) != replicas
    }

    /// True if the broker is a cluster of servers.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.jetstream.client().server_info().cluster.is_some()
    }

    /// Returns the number of copies for a new stream, or for one that `has` some.
    pub(super) fn copies(&self, has: Option<usize>) -> usize {
        match (self.replicas.load(Ordering::Relaxed), has) {
            (UNREAD, Some(has)) => has,
            (UNREAD | 0, _) if self.is_clustered() => COPIES,
            (UNREAD | 0, _) => 1,
            (set, _) => set,
        }
    }

    /// Returns the name of a bucket, or of a stream that is not a bucket's.
    #[must_use]
    pub fn name(&self, stored: Stored) -> String {
        match stored {
            Stored::Lease => self.subjects.lease_bucket(),
            Stored::State => self.subjects.state_bucket(),
            Stored::Record => self.subjects.record_stream(),
            Stored::Usage => self.subjects.usage_stream(),
            Stored::Kernels => self.subjects.kernel_bucket(),
            Stored::Control => self.subjects.control_bucket(),
            Stored::Answers => self.subjects.answers_bucket(),
            Stored::Requests => self.subjects.requests_stream(),
        }
    }

    /// Returns the name of the stream, or of the stream behind the bucket.
    #[must_use]
    pub fn stream_name(&self, stored: Stored) -> String {
        match Row::of(stored).bucket {
            Some(_) => format!("KV_{}", self.name(stored)),
            None => self.name(stored),
        }
    }

    /// Returns the maximum and the least size in bytes.
    pub(super) fn bytes(&self, stored: Stored) -> (u64, u64) {
        let row = Row::of(stored);
        let bytes = match stored {
            Stored::Record => self.record_bytes.load(Ordering::Relaxed),
            _ => row.bytes,
        };
        (bytes, row.least.min(bytes))
    }

    /// Opens a bucket; creates it if it is missing.
    ///
    /// # Errors
    /// The reason that it can be neither opened nor created.
    pub async fn bucket(&self, stored: Stored) -> Result<kv::Store, String> {
        match self.find_bucket(stored).await {
            Ok(Some(store)) => Ok(store),
            Ok(None) => self.make_bucket(stored).await,
            Err(error) => Err(text(&error)),
        }
    }

    /// Returns a bucket; `None` if the broker reports that it does not exist.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn find_bucket(&self, stored: Stored) -> Result<Option<kv::Store>, KeyValueError> {
        match self.jetstream.get_key_value(self.name(stored)).await {
            Ok(store) => Ok(Some(store)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a stream, or that of a bucket; `None` if the broker reports that it does not exist.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn find_stream(
        &self,
        stored: Stored,
    ) -> Result<Option<stream::Stream>, GetStreamError> {
        match self.jetstream.get_stream(self.stream_name(stored)).await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a bucket.
    ///
    /// # Errors
    /// The reason that it cannot be created.
    pub async fn make_bucket(&self, stored: Stored) -> Result<kv::Store, String> {
        let row = Row::of(stored);
        let (history, max_age, limit_markers) = row.bucket.unwrap_or_default();
        let (mut bytes, least) = self.bytes(stored);
        let (mut copies, mut made_room) = (self.copies(None), false);
        loop {
            let config = kv::Config {
                bucket: self.name(stored),
                history,
                max_age,
                limit_markers,
                max_bytes: signed(bytes),
                storage: row.storage,
                num_replicas: copies,
                ..kv::Config::default()
            };
            match self.jetstream.create_key_value(config).await {
                Ok(store) => return Ok(store),
                Err(error) if bytes == least && !made_room && lacks_room(&error) => {
                    self.make_room().await;
                    made_room = true;
                }
                Err(error) if copies > 1 && lacks_servers(&error, bytes <= least) => copies = 1,
                Err(error) => bytes = fewer(stored, bytes, least, error.into())?,
            }
        }
    }

    /// The subjects of a stream, and the rules of its messages.
    fn stream_config(&self, stored: Stored) -> stream::Config {
        let named = stream::Config {
            name: self.name(stored),
            ..stream::Config::default()
        };
        match stored {
            // A tenant's reports displace its own first, and none is kept when it is exported. The server would send
            // acknowledgements to any subject that a tenant names as its reply.
            Stored::Requests => stream::Config {
                no_ack: true,
                subjects: vec![self.subjects.request_reports_all()],
                retention: RetentionPolicy::WorkQueue,
                discard: DiscardPolicy::Old,
                max_age: REPORT_AGE,
                max_messages_per_subject: REPORTS,
                max_message_size: REPORT_BYTES,
                ..named
            },
            // A full stream rejects new messages, so that no loss goes unnoticed.
            _ => stream::Config {
                subjects: vec![match stored {
                    Stored::Usage => self.subjects.usage_blocks_all(),
                    _ => self.subjects.record_all(),
                }],
                discard: DiscardPolicy::New,
                ..named
            },
        }
    }

    /// Creates a stream if it is missing.
    ///
    /// # Errors
    /// The reason that it cannot be created.
    pub async fn stream(&self, stored: Stored) -> Result<stream::Stream, String> {
        let (mut bytes, least) = self.bytes(stored);
        let (mut copies, mut made_room) = (self.copies(None), false);
        loop {
            let config = stream::Config {
                max_bytes: signed(bytes),
                storage: Row::of(stored).storage,
                num_replicas: copies,
                ..self.stream_config(stored)
            };
            match self.jetstream.get_or_create_stream(config).await {
                Ok(stream) => return Ok(stream),
                Err(error) if bytes == least && !made_room && lacks_room(&error) => {
                    self.make_room().await;
                    made_room = true;
                }
                Err(error) if copies > 1 && lacks_servers(&error, bytes <= least) => copies = 1,
                Err(error) => bytes = fewer(stored, bytes, least, error.into())?,
            }
        }
    }
}
