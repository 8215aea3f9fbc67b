//! Where controllers are, as the cluster's bucket for them has it: `warploom controller link` finds one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use warploom_cli::calendar::now_ms;

use crate::access::{AccessStore, Secret};
use crate::problem::Problem;

/// How long a controller that says nothing is taken to be there.
const LIFE: Duration = Duration::from_secs(60);
/// Between two words of it.
const AGAIN: Duration = Duration::from_secs(20);
/// What the keys begin with.
const PREFIX: &str = "controller.";

/// A controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    /// The address by which a browser on its host comes.
    pub(crate) url: String,
    /// When it began, milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// This controller's entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    key: String,
    presence: Presence,
}

impl Entry {
    /// The entry of a controller at that address.
    pub(crate) fn new(url: &str) -> Result<Self, Problem> {
        Ok(Self {
            key: format!("{PREFIX}{}", Secret::random()?.id),
            presence: Presence {
                url: url.into(),
                since_ms: now_ms(),
            },
        })
    }

    /// Says where the controller is, for a while.
    pub(crate) async fn say(&self, access: &AccessStore) -> Result<(), Problem> {
        access.renew(&self.key, &self.presence, LIFE).await
    }

    /// Says it again and again; ends never.
    pub(crate) async fn keep(&self, access: &AccessStore) {
        loop {
            tokio::time::sleep(AGAIN).await;
            if let Err(problem) = self.say(access).await {
                tracing::warn!("saying where this controller is: {}", problem.detail());
            }
        }
    }

    /// Takes it away: the controller ends.
    pub(crate) async fn remove(&self, access: &AccessStore) {
        if let Err(problem) = access.remove(&self.key).await {
            tracing::info!(
                "this controller's entry goes by itself: {}",
                problem.detail()
            );
        }
    }
}

/// The controllers that are there, the newest first.
pub(crate) async fn all(access: &AccessStore) -> Result<Vec<Presence>, Problem> {
    let all = access.under(PREFIX).await?.into_values();
    let mut all: Vec<Presence> = all.collect();
    all.sort_by_key(|presence| std::cmp::Reverse(presence.since_ms));
    Ok(all)
}
