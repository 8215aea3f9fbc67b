//! Publishing from any thread, without waiting.

use std::collections::VecDeque;

use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// Messages kept while the connection takes no more. Beyond it they are dropped: the outbox sends
/// again what is not acknowledged.
const KEPT: usize = 1_024;

/// A message to publish.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) subject: Subject,
    pub(crate) reply: Option<Subject>,
    pub(crate) headers: Option<HeaderMap>,
    pub(crate) bytes: Bytes,
}

impl Outgoing {
    /// A message that asks for no reply.
    pub(crate) fn new(subject: &Subject, bytes: Bytes) -> Self {
        Self {
            subject: subject.clone(),
            reply: None,
            headers: None,
            bytes,
        }
    }
}

/// Hands a message to the connection, waiting while its queue is full.
pub(crate) async fn publish(client: &Client, message: Outgoing) {
    let (subject, bytes) = (message.subject, message.bytes);
    let done = match (message.reply, message.headers) {
        (None, None) => client.publish(subject, bytes).await,
        (Some(reply), None) => client.publish_with_reply(subject, reply, bytes).await,
        (None, Some(headers)) => client.publish_with_headers(subject, headers, bytes).await,
        (Some(reply), Some(headers)) => {
            client
                .publish_with_reply_and_headers(subject, reply, headers, bytes)
                .await
        }
    };
    if let Err(error) = done {
        // The connection is closed for good, as its events say.
        tracing::debug!(%error, "not published");
    }
}

/// Messages that the connection did not take at once, in order.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    kept: VecDeque<Outgoing>,
    /// They are being handed on.
    draining: bool,
}

impl Backlog {
    /// Publishes now if that needs no waiting, else later; true if somebody has to begin to
    /// hand the backlog on.
    pub(crate) fn publish(&mut self, client: &Client, message: Outgoing) -> bool {
        if !self.draining && publish(client, message.clone()).now_or_never().is_some() {
            return false;
        }
        if self.kept.len() < KEPT {
            self.kept.push_back(message);
        }
        !std::mem::replace(&mut self.draining, true)
    }

    /// The next message to hand on; with none the backlog is over.
    pub(crate) fn next(&mut self) -> Option<Outgoing> {
        let next = self.kept.pop_front();
        self.draining = next.is_some();
        next
    }
}
