//! The collector of a cluster's spans, and the stream of reports that its tracer has not exported.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use storage::{Storage, Stored};
use tokio::time::sleep;
use warploom_cli::local::LocalCluster;

use super::received::Received;
use crate::bench::spans::Receiver;

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Time in which the last report has to be exported.
const PATIENCE: Duration = Duration::from_secs(30);

/// A collector.
pub(super) struct Collector {
    receiver: Receiver,
    storage: Storage,
}

impl Collector {
    /// Makes the receiver the collector of a cluster, and waits for the stream of reports. Its tracer makes the
    /// stream; what is reported before is lost.
    ///
    /// # Errors
    /// If the stream does not come.
    pub(super) async fn of(cluster: &LocalCluster, receiver: Receiver) -> Result<Self> {
        let administrator = cluster.administrator().await?;
        let jetstream = jetstream::new(administrator.client().clone());
        let storage = Storage::new(jetstream, administrator.subjects());
        let collector = Self { receiver, storage };
        let asked = Instant::now();
        while collector.left().await?.is_none() {
            ensure!(
                asked.elapsed() < PATIENCE,
                "the tracer does not make the stream of requests in {PATIENCE:?}"
            );
            sleep(LOOK).await;
        }
        Ok(collector)
    }

    /// Number of reports that are not exported; `None` if their stream is not there.
    async fn left(&self) -> Result<Option<u64>> {
        let stream = self.storage.find_stream(Stored::Requests).await;
        let stream = stream.context("the stream of requests")?;
        Ok(stream.map(|it| it.cached_info().state.messages))
    }

    /// Waits until every report is exported or dropped, and at least so many launches have come. Returns what has come
    /// since the last call.
    ///
    /// # Errors
    /// If they do not come.
    pub(super) async fn exported(&self, launches: u64) -> Result<Received> {
        let (asked, mut received) = (Instant::now(), Received::default());
        loop {
            // The collector has a report's spans before it leaves the stream.
            let left = self.left().await?;
            received.take(&self.receiver.take())?;
            let came = received.launches();
            if left == Some(0) && came >= launches {
                return Ok(received);
            }
            ensure!(
                asked.elapsed() < PATIENCE,
                "after {PATIENCE:?} {came} of {launches} launches have come, and {left:?} reports are left"
            );
            sleep(LOOK).await;
        }
    }
}
