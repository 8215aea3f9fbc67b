//! Published weights on their way to a worker: what is published to whom, and tensors that it asks for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::Recipient;
use async_nats::{Client, jetstream};
use bus_schemas::subject::Subjects;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::storage::{Storage, Weights, WeightsError, WeightsStore};

/// Between two looks for a store that is not there, or after one that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// How long the broker may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a tensor may take.
const TENSOR: Duration = Duration::from_secs(30);
/// Tensors on their way at a time.
const FETCHES: usize = 2;

/// A tensor of published weights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TensorName {
    pub(super) weights: Arc<str>,
    pub(super) tensor: Arc<str>,
}

/// News of the store.
pub(super) enum Publication {
    /// This is published under a name now; none: nothing is.
    Changed(String, Option<Box<Weights>>),
    /// A tensor that was asked for; none where it could not be had.
    Tensor(TensorName, Option<Vec<Bytes>>),
}

impl actix::Message for Publication {
    type Result = ();
}

/// The task. Dropping it ends it.
pub(super) struct Publications {
    asked: UnboundedSender<TensorName>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Publications {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Publications {
    /// Begins; tensors of more than `most` bytes are not fetched.
    pub(super) fn start(
        client: Client,
        subjects: &Subjects,
        most: u64,
        to: Recipient<Publication>,
    ) -> Self {
        let mut jetstream = jetstream::new(client);
        jetstream.set_timeout(TIMEOUT);
        let storage = Storage::new(jetstream, subjects);
        // Bounded: one that was asked for is not asked for again before it came.
        let (asked, asks) = unbounded_channel();
        let work = async move {
            tokio::join!(follow(&storage, &to), fetch(&storage, most, asks, &to));
        };
        let task = actix::spawn(work);
        Self { asked, task }
    }

    /// Asks for a tensor: it comes, or that it does not.
    pub(super) fn ask(&self, tensor: TensorName) {
        // The task ends with this value.
        let _ = self.asked.send(tensor);
    }
}

/// Tells what is published, as long as the worker lives.
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

/// Brings what is asked for.
async fn fetch(
    storage: &Storage,
    most: u64,
    asks: UnboundedReceiver<TensorName>,
    to: &Recipient<Publication>,
) {
    let asks = futures_util::stream::unfold(asks, async |mut asks| {
        let asked = asks.recv().await?;
        Some((asked, asks))
    });
    let tensors = asks.map(async |asked| {
        let found = tokio::time::timeout(TENSOR, tensor(storage, &asked, most)).await;
        let bytes = match found {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                tracing::warn!(%error, ?asked, "a published tensor");
                None
            }
            Err(_) => {
                tracing::warn!(?asked, "a published tensor does not come");
                None
            }
        };
        to.do_send(Publication::Tensor(asked, bytes));
    });
    tensors
        .buffer_unordered(FETCHES)
        .for_each(async |()| {})
        .await;
}

async fn tensor(
    storage: &Storage,
    asked: &TensorName,
    most: u64,
) -> Result<Option<Vec<Bytes>>, WeightsError> {
    let Some(store) = storage.find_weights().await? else {
        return Ok(None);
    };
    let bytes = store.tensor(&asked.weights, &asked.tensor, most).await?;
    Ok(Some(bytes))
}
