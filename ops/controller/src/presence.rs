//! Addresses of the controllers, in the cluster's bucket for them: `warploom controller link` looks
//! them up.

use std::time::Duration;

use admin::calendar::now_ms;
use serde::{Deserialize, Serialize};

use crate::access::{AccessStore, Secret};
use crate::problem::Problem;

/// Time after which a silent controller's entry expires.
const LIFE: Duration = Duration::from_secs(60);
/// Interval of renewing the entry.
const AGAIN: Duration = Duration::from_secs(20);
/// Prefix of the keys.
const PREFIX: &str = "controller.";

/// A controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    /// The URL for a browser on the controller's host.
    pub(crate) url: String,
    /// Start time, milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// This controller's entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    key: String,
    presence: Presence,
}

impl Entry {
    /// The entry of a controller at this URL.
    pub(crate) fn new(url: &str) -> Result<Self, Problem> {
        Ok(Self {
            key: format!("{PREFIX}{}", Secret::random()?.id),
            presence: Presence {
                url: url.into(),
                since_ms: now_ms(),
            },
        })
    }

    /// Publishes the controller's entry, which expires after a while.
    pub(crate) async fn say(&self, access: &AccessStore) -> Result<(), Problem> {
        access.renew(&self.key, &self.presence, LIFE).await
    }

    /// Renews the entry periodically; never returns.
    pub(crate) async fn keep(&self, access: &AccessStore) {
        loop {
            tokio::time::sleep(AGAIN).await;
            if let Err(problem) = self.say(access).await {
                tracing::warn!("saying where this controller is: {}", problem.detail());
            }
        }
    }

    /// Removes the entry when the controller ends.
    pub(crate) async fn remove(&self, access: &AccessStore) {
        if let Err(problem) = access.remove(&self.key).await {
            tracing::info!(
                "this controller's entry goes by itself: {}",
                problem.detail()
            );
        }
    }
}

/// The running controllers, the newest first.
pub(crate) async fn all(access: &AccessStore) -> Result<Vec<Presence>, Problem> {
    let all = access.under(PREFIX).await?.into_values();
    let mut all: Vec<Presence> = all.collect();
    all.sort_by_key(|presence| std::cmp::Reverse(presence.since_ms));
    Ok(all)
}
