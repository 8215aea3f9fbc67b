//! Published weights on their way to a worker: the list of publications, and the tensors that it
//! requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use async_nats::{Client, jetstream};
use bus_schemas::ContentHash;
use bus_schemas::subject::Subjects;
use device::{Chunk, Keeper, SharingDomain};
use futures_util::StreamExt;
use gpu_worker_core::content::ChunkId;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use storage::{Storage, StoredWeights, WeightsError, WeightsStore};

/// Interval of the checks for a missing store, and pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Timeout of the broker.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a tensor.
const TENSOR: Duration = Duration::from_secs(30);
/// Maximum number of concurrent fetches of tensors.
const FETCHES: usize = 2;

/// The domain of published chunks on a device: that of `worker.share = all`. If tenants are
/// separated, no tenant has this domain, and their copies are their own.
const DOMAIN: SharingDomain = SharingDomain(0);

/// A change in the store.
pub(super) enum Publication {
    /// Weights published under a name; `None` if there are none.
    Changed(String, Option<Box<StoredWeights>>),
    /// The chunks of a requested tensor, under hashes computed here; `None` if it could not be
    /// fetched.
    Tensor(Arc<str>, Option<Vec<(ChunkId, Arc<dyn Chunk>)>>),
}

impl actix::Message for Publication {
    type Result = ();
}

/// The task. Dropping it ends it.
pub(super) struct Publications {
    asked: UnboundedSender<Arc<str>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Publications {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Publications {
    /// Starts the task; its fetches take at most `most` bytes at a time.
    pub(super) fn start(
        client: Client,
        subjects: &Subjects,
        (most, keeper): (u64, Arc<dyn Keeper>),
        to: Recipient<Publication>,
    ) -> Self {
        let mut jetstream = jetstream::new(client);
        jetstream.set_timeout(TIMEOUT);
        let storage = Storage::new(jetstream, subjects);
        // Bounded in effect: a tensor is requested again only after it came.
        let (asked, asks) = unbounded_channel();
        let work = async move {
            let fetched = fetch(&storage, (most, &keeper), asks, &to);
            tokio::join!(follow(&storage, &to), fetched);
        };
        let task = actix::spawn(work);
        Self { asked, task }
    }

    /// Requests a tensor; a [`Publication::Tensor`] follows, also on failure.
    pub(super) fn fetch(&self, tensor: Arc<str>) {
        // The task ends with this value.
        let _ = self.asked.send(tensor);
    }
}

/// Reports publications as long as the worker lives.
async fn follow(storage: &Storage, to: &Recipient<Publication>) {
    let mut told = BTreeSet::new();
    loop {
        match storage.find_weights().await {
            Ok(Some(store)) => {
                if let Err(error) = follow_store(&store, &mut told, to).await {
                    tracing::warn!(%error, "published weights");
                }
            }
            Ok(None) => {
                for name in std::mem::take(&mut told) {
                    to.do_send(Publication::Changed(name, None));
                }
            }
            Err(error) => tracing::debug!(%error, "published weights"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow_store(
    store: &WeightsStore,
    told: &mut BTreeSet<String>,
    to: &Recipient<Publication>,
) -> Result<(), WeightsError> {
    let mut changes = std::pin::pin!(store.changes().await?);
    while let Some(change) = changes.next().await {
        let (name, published) = change?;
        let weights = match published {
            true => match store.get(&name).await {
                Ok(weights) => weights,
                Err(error @ WeightsError::Unreadable(..)) => {
                    tracing::warn!(%error, "published weights");
                    None
                }
                Err(error) => return Err(error),
            },
            false => None,
        };
        match weights.is_some() {
            true => drop(told.insert(name.clone())),
            false => drop(told.remove(&name)),
        }
        tracing::info!(name, published = weights.is_some(), "published weights");
        to.do_send(Publication::Changed(name, weights.map(Box::new)));
    }
    Ok(())
}

/// Fetches the requested tensors.
async fn fetch(
    storage: &Storage,
    (most, keeper): (u64, &Arc<dyn Keeper>),
    asks: UnboundedReceiver<Arc<str>>,
    to: &Recipient<Publication>,
) {
    let asks = futures_util::stream::unfold(asks, async |mut asks| {
        let asked = asks.recv().await?;
        Some((asked, asks))
    });
    let tensors = asks.map(async |asked| {
        let fetched = tensor(storage, &asked, (most / FETCHES as u64, keeper));
        let chunks = match tokio::time::timeout(TENSOR, fetched).await {
            Ok(Ok(chunks)) => chunks,
            Ok(Err(error)) => {
                tracing::warn!(%error, ?asked, "a published tensor");
                None
            }
            Err(_) => {
                tracing::warn!(?asked, "a published tensor does not come");
                None
            }
        };
        to.do_send(Publication::Tensor(asked, chunks));
    });
    tensors
        .buffer_unordered(FETCHES)
        .for_each(async |()| {})
        .await;
}

/// Keeps a tensor's chunks one by one, so that none of it is in memory twice.
async fn tensor(
    storage: &Storage,
    object: &str,
    (most, keeper): (u64, &Arc<dyn Keeper>),
) -> Result<Option<Vec<(ChunkId, Arc<dyn Chunk>)>>, WeightsError> {
    let Some(store) = storage.find_weights().await? else {
        return Ok(None);
    };
    let (mut tensor, mut chunks) = (store.tensor(object, most).await?, Vec::new());
    while let Some(bytes) = tensor.next_chunk().await? {
        let keeper = Arc::clone(keeper);
        // Neither hashing nor copying may keep the worker from the bus.
        let kept = tokio::task::spawn_blocking(move || {
            let id = ChunkId {
                hash: ContentHash::of([&bytes[..]]),
                bytes: bytes.len() as u64,
            };
            (
                id,
                keeper.keep(Some(DOMAIN), &mut std::iter::once(&bytes[..])),
            )
        });
        match kept.await {
            Ok(kept) => chunks.push(kept),
            // This happens when the runtime ends.
            Err(_) => return Ok(None),
        }
    }
    Ok(Some(chunks))
}
