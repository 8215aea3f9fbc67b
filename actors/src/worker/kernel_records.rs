//! Records of kernels in their bucket. Measurements are added to the stored ones, also those of
//! other workers. A record that cannot be written is added to the next one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream;
use async_nats::jetstream::kv::{Operation, Store, UpdateErrorKind};
use bus_schemas::subject::Subjects;
use bus_schemas::{KernelKey, KernelRecord};
use tokio::sync::Notify;

use storage::{Storage, Stored};

/// Timeout of the bucket.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a record is written again.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of lost races with other writers for one record.
const RIVALS: u32 = 16;

/// Writes records from handlers that may not wait.
pub(super) struct KernelRecords {
    queue: Rc<Queue>,
    task: tokio::task::JoinHandle<()>,
}

struct Queue {
    storage: Storage,
    /// Records that are not written yet.
    records: RefCell<BTreeMap<KernelKey, KernelRecord>>,
    more: Notify,
}

impl KernelRecords {
    /// Starts the writer. The first record creates the bucket.
    pub(super) fn start(client: Client, subjects: &Subjects) -> Self {
        let mut jetstream = jetstream::new(client);
        jetstream.set_timeout(REPLY_TIMEOUT);
        let queue = Rc::new(Queue {
            storage: Storage::new(jetstream, subjects),
            records: RefCell::default(),
            more: Notify::new(),
        });
        let task = actix::spawn(queue.clone().work());
        Self { queue, task }
    }

    /// Number of records that are not written yet.
    pub(super) fn waiting(&self) -> usize {
        self.queue.records.borrow().len()
    }

    /// Adds measurements.
    pub(super) fn add(&self, measured: Vec<(KernelKey, KernelRecord)>) {
        if measured.is_empty() {
            return;
        }
        let mut records = self.queue.records.borrow_mut();
        for (key, record) in measured {
            records.entry(key).or_default().merge(&record);
        }
        self.queue.more.notify_one();
    }
}

impl Drop for KernelRecords {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Queue {
    async fn work(self: Rc<Self>) {
        let mut store = None;
        loop {
            let next = self.records.borrow_mut().pop_first();
            let Some((key, record)) = next else {
                self.more.notified().await;
                continue;
            };
            if let Err(error) = self.write(&mut store, key, &record).await {
                tracing::debug!(%key, error, "a kernel's record is not written yet");
                store = None;
                self.records
                    .borrow_mut()
                    .entry(key)
                    .or_default()
                    .merge(&record);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn write(
        &self,
        store: &mut Option<Store>,
        key: KernelKey,
        fresh: &KernelRecord,
    ) -> Result<(), String> {
        let store = match store {
            Some(store) => store,
            None => store.insert(self.storage.bucket(Stored::Kernels).await?),
        };
        let key = key.to_string();
        for _ in 0..RIVALS {
            let entry = store.entry(&key).await;
            let entry = entry.map_err(|error| error.to_string())?;
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            let entry = entry.filter(|entry| entry.operation == Operation::Put);
            // An unreadable record is started anew.
            let known = entry.and_then(|entry| serde_json::from_slice(&entry.value).ok());
            let mut record: KernelRecord = known.unwrap_or_default();
            record.merge(fresh);
            let value = serde_json::to_vec(&record).map_err(|error| error.to_string())?;
            match store.update(&key, value.into(), revision).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("others write it all the time".into())
    }
}
