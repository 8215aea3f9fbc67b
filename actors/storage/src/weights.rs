//! Published weights: an object store with an object for each tensor, and one for each name. The
//! name's object lists its tensors and the tenants they are published to.
//!
//! The name's object is written last and removed first, so that a name exists completely or not at
//! all. A tensor's object is named by its content, so writing another version of a name damages
//! nothing. The next writer sweeps away what a dead writer has left, whole objects or parts of one.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::object_store::{
    self, GetErrorKind, Object, ObjectMetadata, ObjectStore, PutErrorKind,
};
use async_nats::jetstream::stream::{self, StorageType};
use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{ContentHash, Tenant};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::refusals::{is_missing, lacks_room, lacks_servers, text};
use super::room::signed;
use super::store::Storage;

/// Maximum bytes of a name's object: weights of a terabyte have one of 32 MiB.
const INDEX_BYTES: usize = 64 << 20;
/// Minimum size of the store.
const LEAST_BYTES: u64 = 4 << 20;
/// Size of the store by default.
const USUAL_BYTES: u64 = 16 << 30;
/// Bytes that stay free for small messages: a removal needs some.
const SPARE_BYTES: u64 = 1 << 20;
/// Maximum bytes that the broker stores for a message beside its payload.
const MESSAGE_HEAD: u64 = 512;
/// Time after which unfinished parts of an object are abandoned. A live writer waits less for the
/// broker's answer.
const ABANDONED: Duration = Duration::from_secs(30);
/// An object written to read the broker's clock from its timestamp.
const CLOCK: &str = "/clock";

/// The error of a read or write.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The broker refuses the operation or does not answer.
    #[error("{0}")]
    Broker(String),
    /// The store's limit is reached.
    #[error("the store of weights is full")]
    Full,
    /// The data to write cannot be read.
    #[error("{0}")]
    Source(String),
    /// The stored data is of another build or damaged.
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, String),
}

impl WeightsError {
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let text = text(error);
        // Only the broker's text says so.
        match text.contains("maximum bytes exceeded") {
            true => Self::Full,
            false => Self::Broker(text),
        }
    }
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorChunks {
    /// The tensor's name in the file.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Hashes of the tensor's chunks, 32 bytes each.
    #[serde(with = "serde_bytes")]
    pub hashes: Vec<u8>,
}

impl TensorChunks {
    /// Returns the name of the tensor's object among the weights of a name; it contains a hash of
    /// the content.
    #[must_use]
    pub fn object(&self, weights: &str) -> String {
        let content = ContentHash::of([&self.hashes[..]]).to_string();
        let (short, _) = content.split_at(16);
        format!("{weights}/{short}/{}", self.name)
    }

    /// Returns the hashes of the chunks.
    pub fn chunks(&self) -> impl Iterator<Item = ContentHash> {
        self.hashes
            .as_chunks()
            .0
            .iter()
            .map(|hash| ContentHash(*hash))
    }
}

/// The weights published under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredWeights {
    /// The format's version: 1.
    pub v: u16,
    /// True if published to all tenants.
    pub public: bool,
    /// The tenants to which it is published.
    pub tenants: Vec<Tenant>,
    /// Time of publication, milliseconds since 1970.
    pub added_ms: u64,
    /// The tensors.
    pub tensors: Vec<TensorChunks>,
}

impl StoredWeights {
    /// True if other weights have the same contents and the same audience.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let audience = |of: &Self| (of.public, of.tenants.clone());
        audience(self) == audience(other) && self.tensors == other.tensors
    }

    /// Returns the bytes of all tensors.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }
}

/// The store, as far as it exists.
#[derive(Clone)]
pub struct WeightsStore {
    objects: ObjectStore,
    jetstream: Context,
    bucket: String,
}

impl std::fmt::Debug for WeightsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeightsStore").finish_non_exhaustive()
    }
}

impl Storage {
    /// Returns the store of weights; `None` if none were ever published.
    ///
    /// # Errors
    /// The broker does not answer.
    pub async fn find_weights(&self) -> Result<Option<WeightsStore>, WeightsError> {
        let name = self.subjects().weights_store();
        match self.jetstream.get_object_store(name).await {
            Ok(objects) => Ok(Some(self.store_of(objects))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(WeightsError::of(&error)),
        }
    }

    fn store_of(&self, objects: ObjectStore) -> WeightsStore {
        WeightsStore {
            objects,
            jetstream: self.jetstream.clone(),
            bucket: self.subjects().weights_store(),
        }
    }

    /// Opens the store of weights, and creates it if it is missing. `most` sets its size, as far as
    /// the broker has room; `None` keeps the size. Returns the size too.
    ///
    /// # Errors
    /// The reason that it can be neither created nor limited.
    pub async fn weights(&self, most: Option<u64>) -> Result<(WeightsStore, u64), WeightsError> {
        let most = most.map(|bytes| bytes.max(LEAST_BYTES));
        if let Some(store) = self.find_weights().await? {
            let limit = self.limit_weights(most).await?;
            return Ok((store, limit));
        }
        let (mut bytes, mut copies) = (most.unwrap_or(USUAL_BYTES), self.copies(None));
        loop {
            let config = object_store::Config {
                bucket: self.subjects().weights_store(),
                max_bytes: signed(bytes),
                storage: StorageType::File,
                num_replicas: copies,
                ..object_store::Config::default()
            };
            match self.jetstream.create_object_store(config).await {
                Ok(objects) => return Ok((self.store_of(objects), bytes)),
                Err(error) if copies > 1 && lacks_servers(&error, false) => copies = 1,
                Err(error) if bytes > LEAST_BYTES && lacks_room(&error) => {
                    bytes = (bytes / 2).max(LEAST_BYTES);
                }
                Err(error) => return Err(WeightsError::of(&error)),
            }
        }
    }

    /// Limits the existing store; keeps its size if the broker has no room.
    async fn limit_weights(&self, most: Option<u64>) -> Result<u64, WeightsError> {
        let name = format!("OBJ_{}", self.subjects().weights_store());
        let stream = self.jetstream.get_stream(name).await;
        let stream = stream.map_err(|error| WeightsError::of(&error))?;
        let mut config = stream.cached_info().config.clone();
        let has = u64::try_from(config.max_bytes).unwrap_or(u64::MAX);
        let Some(bytes) = most.filter(|bytes| *bytes != has) else {
            return Ok(has);
        };
        config.max_bytes = signed(bytes);
        match self.jetstream.update_stream(&config).await {
            Ok(_) => Ok(bytes),
            Err(error) if lacks_room(&error) => Ok(has),
            Err(error) => Err(WeightsError::of(&error)),
        }
    }
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Number of objects of the name.
    pub objects: usize,
    /// Number of objects of any name that were abandoned unfinished.
    pub abandoned: usize,
}

/// A tensor that is being read.
pub struct TensorReader {
    object: Object,
    name: String,
    left: usize,
}

impl std::fmt::Debug for TensorReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TensorReader")
            .field("name", &self.name)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl TensorReader {
    /// Returns the next chunk, of [`CONTENT_BYTES`] except for the last; `None` at the end.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, WeightsError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; self.left.min(CONTENT_BYTES)];
        let read = self.object.read_exact(&mut chunk).await;
        read.map_err(|error| WeightsError::Unreadable(self.name.clone(), error.to_string()))?;
        self.left -= chunk.len();
        Ok(Some(chunk.into()))
    }
}

impl WeightsStore {
    /// Returns the weights published under a name.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub async fn get(&self, name: &str) -> Result<Option<StoredWeights>, WeightsError> {
        let mut found = match self.objects.get(name).await {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), GetErrorKind::NotFound) => {
                return Ok(None);
            }
            Err(error) => return Err(WeightsError::of(&error)),
        };
        let unreadable = |why: String| WeightsError::Unreadable(name.to_owned(), why);
        if found.info().size > INDEX_BYTES {
            return Err(unreadable(format!("it has {} bytes", found.info().size)));
        }
        let mut bytes = Vec::new();
        let read = found.read_to_end(&mut bytes).await;
        read.map_err(|error| unreadable(error.to_string()))?;
        let weights = rmp_serde::from_slice::<StoredWeights>(&bytes);
        let weights = weights.map_err(|error| unreadable(error.to_string()))?;
        match weights.v {
            1 => Ok(Some(weights)),
            newer => Err(unreadable(format!("its format is version {newer}"))),
        }
    }

    /// Returns the names that have published weights.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub async fn names(&self) -> Result<Vec<String>, WeightsError> {
        let mut names: Vec<_> = self.all().await?;
        names.retain(|name| !name.contains('/'));
        names.sort_unstable();
        Ok(names)
    }

    async fn all(&self) -> Result<Vec<String>, WeightsError> {
        let list = self.objects.list().await;
        let list = list.map_err(|error| WeightsError::of(&error))?;
        let names = list.map_ok(|info| info.name).try_collect().await;
        names.map_err(|error| WeightsError::of(&error))
    }

    /// Checks that there is room for objects of `bytes` in total, in `messages` messages.
    ///
    /// # Errors
    /// [`WeightsError::Full`] if there is none; nothing is written then.
    pub async fn room_for(&self, bytes: u64, messages: u64) -> Result<(), WeightsError> {
        let stream = self.stream().await?;
        let info = stream.cached_info();
        let most = u64::try_from(info.config.max_bytes).unwrap_or(u64::MAX);
        let wanted = bytes.saturating_add(messages.saturating_mul(MESSAGE_HEAD));
        let used = info.state.bytes.saturating_add(SPARE_BYTES);
        match used.saturating_add(wanted) <= most {
            true => Ok(()),
            false => Err(WeightsError::Full),
        }
    }

    async fn stream(&self) -> Result<stream::Stream, WeightsError> {
        let stream = self
            .jetstream
            .get_stream(format!("OBJ_{}", self.bucket))
            .await;
        stream.map_err(|error| WeightsError::of(&error))
    }

    /// Writes a tensor that will be published under a name.
    ///
    /// # Errors
    /// [`WeightsError`]; partial data is swept away later.
    pub async fn put_tensor(
        &self,
        name: &str,
        tensor: &TensorChunks,
        bytes: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), WeightsError> {
        self.put(tensor.object(name), bytes).await
    }

    /// Publishes a name. All of its tensors must be stored.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub async fn publish(&self, name: &str, weights: &StoredWeights) -> Result<(), WeightsError> {
        let bytes = rmp_serde::to_vec_named(weights);
        let bytes = bytes.map_err(|error| WeightsError::of(&error))?;
        self.put(name.to_owned(), &mut &bytes[..]).await
    }

    async fn put(
        &self,
        name: String,
        bytes: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), WeightsError> {
        let meta = ObjectMetadata {
            name,
            chunk_size: Some(CONTENT_BYTES),
            ..ObjectMetadata::default()
        };
        match self.objects.put(meta, bytes).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), PutErrorKind::ReadChunks) => {
                Err(WeightsError::Source(text(&error)))
            }
            Err(error) => Err(WeightsError::of(&error)),
        }
    }

    /// Removes a name, and then every tensor that was written under it.
    ///
    /// # Errors
    /// [`WeightsError`]; the removal may be retried.
    pub async fn remove(&self, name: &str) -> Result<Removed, WeightsError> {
        let published = self.all().await?.iter().any(|has| has == name);
        if published {
            self.delete(name).await?;
        }
        let mut removed = self.keep_only(name, &[]).await?;
        removed.objects += usize::from(published);
        Ok(removed)
    }

    /// Removes the tensors of a name that are not in the given list.
    ///
    /// # Errors
    /// [`WeightsError`].
    pub async fn keep_only(
        &self,
        name: &str,
        tensors: &[TensorChunks],
    ) -> Result<Removed, WeightsError> {
        let kept: BTreeSet<_> = tensors.iter().map(|tensor| tensor.object(name)).collect();
        let own = format!("{name}/");
        let mut objects = 0;
        for stray in self.all().await? {
            if stray.starts_with(&own) && !kept.contains(&stray) {
                self.delete(&stray).await?;
                objects += 1;
            }
        }
        let abandoned = self.sweep().await?;
        Ok(Removed { objects, abandoned })
    }

    /// Removes the parts of abandoned objects. Returns the number of those objects.
    async fn sweep(&self) -> Result<usize, WeightsError> {
        // By the broker's clock, read from a message that is written now.
        self.put(CLOCK.to_owned(), &mut &b"."[..]).await?;
        let list = self.objects.list().await;
        let list = list.map_err(|error| WeightsError::of(&error))?;
        let finished = list.map_ok(|info| info.nuid).try_collect::<BTreeSet<_>>();
        let finished = finished.await.map_err(|error| WeightsError::of(&error))?;
        let stream = self.stream().await?;
        let now = stream.cached_info().state.last_timestamp;
        let parts = format!("$O.{}.C.", self.bucket);
        let subjects = stream.info_with_subjects(format!("{parts}>")).await;
        let subjects = subjects.map_err(|error| WeightsError::of(&error))?;
        let subjects = subjects
            .map_ok(|(subject, _)| subject)
            .try_collect::<Vec<_>>();
        let mut swept = 0;
        for subject in subjects.await.map_err(|error| WeightsError::of(&error))? {
            let id = subject.strip_prefix(&parts).unwrap_or_default();
            if finished.contains(id) {
                continue;
            }
            // An object that is gone meanwhile needs no sweep.
            let Ok(last) = stream.get_last_raw_message_by_subject(&subject).await else {
                continue;
            };
            if now - last.time > ABANDONED {
                let purged = stream.purge().filter(&subject).await;
                purged.map_err(|error| WeightsError::of(&error))?;
                swept += 1;
            }
        }
        Ok(swept)
    }

    async fn delete(&self, object: &str) -> Result<(), WeightsError> {
        let deleted = self.objects.delete(object).await;
        deleted.map_err(|error| WeightsError::of(&error))
    }

    /// Reads a tensor of at most `most` bytes, by the name of its object
    /// ([`TensorChunks::object`]).
    ///
    /// # Errors
    /// [`WeightsError`]; also if it has more bytes.
    pub async fn tensor(&self, name: &str, most: u64) -> Result<TensorReader, WeightsError> {
        let object = self.objects.get(name).await;
        let object = object.map_err(|error| WeightsError::of(&error))?;
        let (name, left) = (name.to_owned(), object.info().size);
        if left as u64 > most {
            let why = format!("it has {left} bytes, and {most} are fetched at most");
            return Err(WeightsError::Unreadable(name, why));
        }
        Ok(TensorReader { object, name, left })
    }

    /// Streams the published names, and then each one that is published anew (true) or removed
    /// (false).
    ///
    /// # Errors
    /// [`WeightsError`]; the stream's items are errors if it cannot go on.
    pub async fn changes(
        &self,
    ) -> Result<impl Stream<Item = Result<(String, bool), WeightsError>> + use<>, WeightsError>
    {
        let watch = self.objects.watch_with_history().await;
        let watch = watch.map_err(|error| WeightsError::of(&error))?;
        let changes = watch.map(|change| match change {
            Ok(info) => Ok((info.name, !info.deleted)),
            Err(error) => Err(WeightsError::of(&error)),
        });
        Ok(changes.try_filter(|(name, _)| std::future::ready(!name.contains('/'))))
    }
}
