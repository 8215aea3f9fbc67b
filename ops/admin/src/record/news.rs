//! New blocks of the record as they arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bus_schemas::Epoch;
use futures_util::StreamExt;
use scheduler_leader_core::replay::Anchor;

use super::messages::{KEPT, name, open, sequence};
use crate::administrator::Administrator;
use crate::errors::ErrorCode;

/// Time that a new epoch waits for late blocks of the epoch before.
const STRAGGLERS: Duration = Duration::from_millis(300);

/// Blocks as they come into the stream.
pub(super) struct News {
    messages: pull::Ordered,
    /// The last sequence read before, for each epoch.
    read: BTreeMap<Epoch, u64>,
    /// The newest epoch of a returned block.
    newest: Epoch,
}

impl News {
    pub(super) async fn open(
        administrator: &Administrator,
        from: u64,
        read: BTreeMap<Epoch, u64>,
    ) -> Result<Self> {
        let place = DeliverPolicy::ByStartSequence {
            start_sequence: from,
        };
        let (_, messages) = open(administrator, None, (place, false)).await?;
        let newest = read.last_key_value().map_or(0, |(epoch, _)| *epoch);
        Ok(Self {
            messages: messages.live(),
            read,
            newest,
        })
    }

    /// The next blocks, in the order of their epochs; `None` once the stream has ended. At the
    /// beginning of an epoch, waits for blocks that an earlier leader may still be storing.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<jetstream::Message>>> {
        let Some(message) = self.messages.next().await else {
            return Ok(None);
        };
        let message = message.map_err(|error| KEPT.failed(error))?;
        let (epoch, number) = name(&message)?;
        // A process that cuts the record stores an anchor, of an old epoch.
        if number == Anchor::NUMBER {
            return Ok(Some(vec![message]));
        }
        if epoch < self.newest {
            let read = self.read.get(&epoch).copied().unwrap_or(0);
            if sequence(&message) <= read {
                return Ok(Some(Vec::new()));
            }
            bail!(ErrorCode::Replay.failed(format!(
                "a block of epoch {epoch} was stored late: the record is to be read anew"
            )));
        }
        let begins = self.newest > 0 && epoch > self.newest;
        self.newest = self.newest.max(epoch);
        let mut messages = vec![message];
        if !begins {
            return Ok(Some(messages));
        }
        let until = tokio::time::Instant::now() + STRAGGLERS;
        while let Ok(Some(message)) = tokio::time::timeout_at(until, self.messages.next()).await {
            messages.push(message.map_err(|error| KEPT.failed(error))?);
        }
        let mut by_epoch = Vec::with_capacity(messages.len());
        for message in messages {
            by_epoch.push((name(&message)?.0, message));
        }
        by_epoch.sort_by_key(|(epoch, _)| *epoch);
        self.newest = by_epoch.last().map_or(epoch, |(epoch, _)| *epoch);
        let messages = by_epoch.into_iter().map(|(_, message)| message);
        Ok(Some(messages.collect()))
    }
}
