//! What a cluster keeps in its broker: every stream and bucket in one table, each with an end.
//!
//! A stream with a limit has its bytes reserved: the broker refuses to make another one that would
//! need them. So nothing here is without a limit, and what others need is not taken by the record.
//! The lease is kept in memory, in a bucket of its own: whatever becomes of the broker's disk, a
//! leader can be elected.

mod copies;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, GetStreamError, GetStreamErrorKind, KeyValueError,
};
use async_nats::jetstream::stream::{self, DiscardPolicy, StorageType};
use async_nats::jetstream::{Context, kv};
use bus_schemas::limits;
use bus_schemas::subject::Subjects;

pub use copies::{Copies, Copy};

const MIB: u64 = 1 << 20;
/// Bytes of the record stream where the cluster is not set to anything else.
pub const RECORD_BYTES: u64 = 8 << 30;
/// A kernel that ran nowhere for so long is forgotten.
const KERNEL_AGE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long the marker of an expired lease stays.
const MARKER: Duration = Duration::from_secs(10);
/// Copies on as many servers, where there are several and the cluster is not set to anything else:
/// any one of them may be lost.
const COPIES: usize = 3;

/// The settings, which say how many copies there are to be, were not read yet.
const UNREAD: usize = usize::MAX;

/// The key, beside the lease, of what whoever tends the broker says is wrong with its disk: in
/// memory, so that it can be said while nothing else can be written.
pub const FAULT: &str = "fault";

/// A stream or bucket of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stored {
    /// Bucket: who leads.
    Lease,
    /// Bucket: tenants, settings, profile, pin, placement.
    State,
    /// Stream: the leaders' inputs.
    Record,
    /// Stream: what tenants used.
    Usage,
    /// Bucket: what was measured of kernels.
    Kernels,
}

impl Stored {
    /// All there are, the most important first.
    pub const ALL: [Self; 5] = [
        Self::Lease,
        Self::State,
        Self::Usage,
        Self::Kernels,
        Self::Record,
    ];
}

/// A row of the table.
#[derive(Debug)]
struct Row {
    storage: StorageType,
    /// Bytes it may hold.
    bytes: u64,
    /// Bytes it may hold where the broker has no room for as many.
    least: u64,
    /// Of a bucket: values kept of each key, their age, whether what expires leaves a marker.
    bucket: Option<(i64, Duration, Option<Duration>)>,
}

impl Row {
    /// The table: the one place that says what is kept where, and how much of it.
    const fn of(stored: Stored) -> Self {
        let (file, forever) = (StorageType::File, Duration::ZERO);
        match stored {
            Stored::Lease => Self {
                storage: StorageType::Memory,
                bytes: MIB,
                least: MIB,
                bucket: Some((1, forever, Some(MARKER))),
            },
            Stored::State => Self {
                storage: file,
                bytes: 128 * MIB,
                least: 8 * MIB,
                bucket: Some((limits::STATE_HISTORY, forever, None)),
            },
            Stored::Record => Self {
                storage: file,
                bytes: RECORD_BYTES,
                least: 4 * MIB,
                bucket: None,
            },
            Stored::Usage => Self {
                storage: file,
                bytes: 1024 * MIB,
                least: 4 * MIB,
                bucket: None,
            },
            Stored::Kernels => Self {
                storage: file,
                bytes: 64 * MIB,
                least: 4 * MIB,
                bucket: Some((1, KERNEL_AGE, None)),
            },
        }
    }
}

/// Why something is not there.
type Failed = Box<dyn Error + Send + Sync>;

/// Opens and makes what a cluster keeps in its broker.
#[derive(Debug, Clone)]
pub struct Storage {
    jetstream: Context,
    subjects: Subjects,
    /// Copies asked for; 0 for what the cluster allows, or [`UNREAD`].
    replicas: Arc<AtomicUsize>,
    record_bytes: Arc<AtomicU64>,
}

impl Storage {
    /// What a cluster keeps behind this connection.
    #[must_use]
    pub fn new(jetstream: Context, subjects: &Subjects) -> Self {
        Self {
            jetstream,
            subjects: subjects.clone(),
            replicas: Arc::new(AtomicUsize::new(UNREAD)),
            record_bytes: Arc::new(AtomicU64::new(RECORD_BYTES)),
        }
    }

    /// The connection.
    #[must_use]
    pub fn jetstream(&self) -> &Context {
        &self.jetstream
    }

    /// Bytes that the record may hold from the next time on that it is made or limited.
    /// Whether that is news.
    pub fn set_record_bytes(&self, bytes: u64) -> bool {
        self.record_bytes.swap(bytes, Ordering::Relaxed) != bytes
    }

    /// The same over a connection that waits longer or shorter.
    #[must_use]
    pub fn over(&self, jetstream: Context) -> Self {
        Self {
            jetstream,
            ..self.clone()
        }
    }

    /// Copies of everything from the next time on that it is made or settled; 0 for what the
    /// cluster allows. Whether that is news.
    pub fn set_replicas(&self, replicas: u32) -> bool {
        let replicas = replicas as usize;
        self.replicas.swap(replicas, Ordering::Relaxed) != replicas
    }

    /// Whether the broker is a cluster of servers.
    #[must_use]
    pub fn is_clustered(&self) -> bool {
        self.jetstream.client().server_info().cluster.is_some()
    }

    /// Copies that there should be of what is made, or of what `has` some.
    fn copies(&self, has: Option<usize>) -> usize {
        match (self.replicas.load(Ordering::Relaxed), has) {
            (UNREAD, Some(has)) => has,
            (UNREAD | 0, _) if self.is_clustered() => COPIES,
            (UNREAD | 0, _) => 1,
            (set, _) => set,
        }
    }

    /// Name of a bucket, or of a stream that is none.
    #[must_use]
    pub fn name(&self, stored: Stored) -> String {
        match stored {
            Stored::Lease => self.subjects.lease_bucket(),
            Stored::State => self.subjects.state_bucket(),
            Stored::Record => self.subjects.record_stream(),
            Stored::Usage => self.subjects.usage_stream(),
            Stored::Kernels => self.subjects.kernel_bucket(),
        }
    }

    /// Name of the stream that it is, or that the bucket is kept in.
    #[must_use]
    pub fn stream_name(&self, stored: Stored) -> String {
        match Row::of(stored).bucket {
            Some(_) => format!("KV_{}", self.name(stored)),
            None => self.name(stored),
        }
    }

    /// Bytes it is to hold at most, and bytes that will do.
    fn bytes(&self, stored: Stored) -> (u64, u64) {
        let row = Row::of(stored);
        let bytes = match stored {
            Stored::Record => self.record_bytes.load(Ordering::Relaxed),
            _ => row.bytes,
        };
        (bytes, row.least.min(bytes))
    }

    /// Opens a bucket; one that is not there is made.
    ///
    /// # Errors
    /// Why it can be neither opened nor made.
    pub async fn bucket(&self, stored: Stored) -> Result<kv::Store, String> {
        match self.find_bucket(stored).await {
            Ok(Some(store)) => Ok(store),
            Ok(None) => self.make_bucket(stored).await,
            Err(error) => Err(text(&error)),
        }
    }

    /// A bucket; none where the broker says that it is not there.
    ///
    /// # Errors
    /// Where the broker does not say.
    pub async fn find_bucket(&self, stored: Stored) -> Result<Option<kv::Store>, KeyValueError> {
        match self.jetstream.get_key_value(self.name(stored)).await {
            Ok(store) => Ok(Some(store)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A stream, or that of a bucket; none where the broker says that it is not there.
    ///
    /// # Errors
    /// Where the broker does not say.
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

    /// Makes a bucket.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn make_bucket(&self, stored: Stored) -> Result<kv::Store, String> {
        let row = Row::of(stored);
        let (history, max_age, limit_markers) = row.bucket.unwrap_or_default();
        let (mut bytes, least) = self.bytes(stored);
        let mut copies = self.copies(None);
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
                Err(error) if copies > 1 && lacks_servers(&error, bytes <= least) => copies = 1,
                Err(error) => bytes = fewer(stored, bytes, least, error.into())?,
            }
        }
    }

    /// Makes a stream, if it is not there.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn stream(&self, stored: Stored) -> Result<stream::Stream, String> {
        let (mut bytes, least) = self.bytes(stored);
        let mut copies = self.copies(None);
        loop {
            let config = stream::Config {
                name: self.name(stored),
                subjects: vec![match stored {
                    Stored::Usage => self.subjects.usage_blocks_all(),
                    _ => self.subjects.record_all(),
                }],
                max_bytes: signed(bytes),
                // What is full refuses more: nothing is lost that nobody was told of.
                discard: DiscardPolicy::New,
                storage: Row::of(stored).storage,
                num_replicas: copies,
                ..stream::Config::default()
            };
            match self.jetstream.get_or_create_stream(config).await {
                Ok(stream) => return Ok(stream),
                Err(error) if copies > 1 && lacks_servers(&error, bytes <= least) => copies = 1,
                Err(error) => bytes = fewer(stored, bytes, least, error.into())?,
            }
        }
    }

    /// Makes what is not there, and gives what is there the limit and the copies it should have.
    ///
    /// # Errors
    /// Why the first of them that failed cannot be made, limited or copied; the others are, all
    /// the same.
    pub async fn ensure(&self) -> Result<(), String> {
        let mut failed = None;
        for stored in Stored::ALL {
            if let Err(error) = self.ensure_one(stored).await {
                failed.get_or_insert(format!("{}: {error}", self.name(stored)));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// [`Storage::ensure`] for one of them.
    ///
    /// # Errors
    /// Why it cannot be made, limited or copied.
    pub async fn ensure_one(&self, stored: Stored) -> Result<(), String> {
        let stream = match Row::of(stored).bucket {
            Some(_) => self.bucket(stored).await?.stream,
            None => self.stream(stored).await?,
        };
        let config = stream.cached_info().config.clone();
        let config = self.limit(stored, config).await?;
        self.copy(config).await
    }

    /// Sets the limit of a stream that has another one. One that the broker had no room for keeps
    /// what it got.
    async fn limit(
        &self,
        stored: Stored,
        mut config: stream::Config,
    ) -> Result<stream::Config, String> {
        let (mut bytes, least) = self.bytes(stored);
        loop {
            let has = u64::try_from(config.max_bytes).unwrap_or(u64::MAX);
            let bounded = has != u64::MAX && config.max_bytes != 0;
            let wanted = signed(bytes);
            if config.max_bytes == wanted && config.discard == DiscardPolicy::New {
                return Ok(config);
            }
            let before = config.clone();
            (config.max_bytes, config.discard) = (wanted, DiscardPolicy::New);
            match self.jetstream.update_stream(&config).await {
                Ok(_) => return Ok(config),
                Err(error) => match fewer(stored, bytes, least, error.into()) {
                    Ok(next) => bytes = next,
                    // Bounded as it is, if not as it should be.
                    Err(_) if bounded => return Ok(before),
                    Err(error) => return Err(error),
                },
            }
            config = before;
        }
    }

    /// Gives a stream the copies that it should have: it may have been made when there were fewer
    /// servers, or when one was away.
    async fn copy(&self, mut config: stream::Config) -> Result<(), String> {
        let (has, wanted) = (config.num_replicas, self.copies(Some(config.num_replicas)));
        if has == wanted {
            return Ok(());
        }
        config.num_replicas = wanted;
        match self.jetstream.update_stream(&config).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let why = text(&error);
                Err(format!("{has} of {wanted} copies: {why}"))
            }
        }
    }
}

/// How many bytes to ask for next, where the broker has no room for as many as were asked for. The
/// record takes what it can get, the others what will do: so there is some left for it.
fn fewer(stored: Stored, bytes: u64, least: u64, error: Failed) -> Result<u64, String> {
    if bytes <= least || !lacks_room(&*error) {
        return Err(text(&*error));
    }
    let next = match stored {
        Stored::Record => (bytes / 2).max(least),
        _ => least,
    };
    tracing::debug!(?stored, bytes, next, "the broker has no room for as much");
    Ok(next)
}

/// Whether the broker says that it cannot reserve as many bytes.
fn lacks_room(error: &(dyn Error + 'static)) -> bool {
    let codes = [
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::MEMORY_RESOURCES_EXCEEDED,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::STREAM_MAX_STREAM_BYTES_EXCEEDED,
    ];
    refusal(error).is_some_and(|code| codes.contains(&code)) || lacks_roomy_servers(error)
}

/// Whether the broker says that it has not as many servers, or not at the moment. Those that lack
/// room count as missing where fewer bytes cannot be asked for (`least`).
fn lacks_servers(error: &(dyn Error + 'static), least: bool) -> bool {
    let codes = [
        ErrorCode::CLUSTER_NO_PEERS,
        ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
    ];
    let missing = refusal(error).is_some_and(|code| codes.contains(&code));
    missing && (least || !lacks_roomy_servers(error))
}

/// Whether the broker has servers enough, but not with so much room: its text alone says so.
fn lacks_roomy_servers(error: &(dyn Error + 'static)) -> bool {
    refusal(error) == Some(ErrorCode::CLUSTER_NO_PEERS)
        && text(error).contains("insufficient storage")
}

/// Whether the broker says that there is no such stream.
pub(crate) fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(asked) = this.downcast_ref::<GetStreamError>()
            && let GetStreamErrorKind::JetStream(refused) = asked.kind()
        {
            return refused.error_code() == ErrorCode::STREAM_NOT_FOUND;
        }
        error = this.source();
    }
    false
}

/// What the broker answered, if it did.
fn refusal(error: &(dyn Error + 'static)) -> Option<ErrorCode> {
    let mut error = Some(error);
    while let Some(this) = error {
        if let Some(made) = this.downcast_ref::<CreateStreamError>()
            && let CreateStreamErrorKind::JetStream(refused) = made.kind()
        {
            return Some(refused.error_code());
        }
        error = this.source();
    }
    None
}

/// An error with what caused it.
fn text(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(this) = cause {
        let more = this.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = this.source();
    }
    text
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
