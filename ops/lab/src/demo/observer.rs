//! An observer of the bus while a demo runs: grants, chains, use.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use bus_schemas::{Chain, Done, Epoch, GpuPosition, GrantBatch, Incarnation, Usage, decode};
use futures_util::StreamExt;

use warploom_cli::admin::Administrator;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// When the first grant of each epoch passed.
    pub first_grant: BTreeMap<Epoch, Instant>,
    /// Last accepted position and chain of workers, as they said.
    pub tails: BTreeMap<Incarnation, (GpuPosition, Chain)>,
    /// Last use of workers.
    pub usage: BTreeMap<Incarnation, Usage>,
}

impl Seen {
    fn note(&mut self, subject: &str, payload: &[u8]) {
        let mut tokens = subject.rsplit('.');
        let last = tokens.next().unwrap_or_default();
        let worker = tokens.next().unwrap_or_default();
        if last == "order" {
            if let Ok(order) = decode::<GrantBatch<'_>>(payload)
                && !order.grants.is_empty()
            {
                self.first_grant
                    .entry(order.epoch)
                    .or_insert_with(Instant::now);
            }
            return;
        }
        let Ok(incarnation) = last.parse::<Incarnation>() else {
            return;
        };
        match worker {
            "done" => {
                if let Ok(done) = decode::<Done<'_>>(payload) {
                    let tail = self.tails.entry(incarnation).or_default();
                    if done.accepted >= tail.0 {
                        *tail = (done.accepted, done.chain);
                    }
                }
            }
            "usage" => {
                if let Ok(usage) = decode::<Usage>(payload) {
                    self.usage.insert(incarnation, usage);
                }
            }
            _ => {}
        }
    }
}

/// Listens to what leaders and workers say among themselves.
#[derive(Clone, Default)]
pub struct RunObserver(Arc<Mutex<Seen>>);

impl RunObserver {
    /// Begins to listen, on a task of the current runtime.
    ///
    /// # Errors
    /// When the broker refuses the subscriptions.
    pub async fn start(administrator: &Administrator) -> Result<Self> {
        let observer = Self::default();
        let root = administrator.subjects().all();
        let root = root.trim_end_matches('>');
        for subject in ["s.w.*.order", "s.l.done.*", "s.usage.*"] {
            let subscription = administrator
                .client()
                .subscribe(format!("{root}{subject}"))
                .await?;
            let observer = observer.clone();
            tokio::spawn(subscription.for_each(move |message| {
                observer.see(|seen| seen.note(&message.subject, &message.payload));
                std::future::ready(())
            }));
        }
        administrator.client().flush().await?;
        Ok(observer)
    }

    /// Looks at what was seen.
    pub fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
