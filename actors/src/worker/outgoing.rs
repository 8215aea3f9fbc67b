//! Publishing for the worker without waiting.

use std::collections::VecDeque;

use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// Messages kept while the connection's queue is full. Beyond it they are dropped: whatever
/// matters is sent again.
const KEPT: usize = 4_096;

/// Publishes from handlers that may not wait, in order.
pub(super) struct Outgoing {
    client: Client,
    kept: VecDeque<(Subject, Bytes)>,
    /// Messages dropped so far.
    pub(super) dropped: u64,
}

impl Outgoing {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            kept: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Publishes now, or as soon as there is room.
    pub(super) fn publish(&mut self, subject: Subject, payload: impl Into<Bytes>) {
        let payload = payload.into();
        if self.kept.is_empty() && try_publish(&self.client, &subject, &payload) {
            return;
        }
        if self.kept.len() == KEPT {
            self.dropped += 1;
            return;
        }
        self.kept.push_back((subject, payload));
    }

    /// Publishes what had to be kept; whether nothing is left.
    pub(super) fn catch_up(&mut self) -> bool {
        while let Some((subject, payload)) = self.kept.front() {
            if !try_publish(&self.client, subject, payload) {
                return false;
            }
            self.kept.pop_front();
        }
        true
    }
}

fn try_publish(client: &Client, subject: &Subject, payload: &Bytes) -> bool {
    // The task's budget must not make a queue with room look full.
    let publish = tokio::task::unconstrained(client.publish(subject.clone(), payload.clone()));
    match publish.now_or_never() {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            // Too large, or the connection is closed for good: keeping it would not help.
            tracing::warn!(%subject, %error, "a message was not published");
            true
        }
        None => false,
    }
}
