//! Messages published without waiting: what the connection does not take at once is kept, in order.

use std::collections::VecDeque;

use async_nats::client::PublishErrorKind;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Where it goes.
    pub subject: Subject,
    /// Where answers go, if some are wanted.
    pub reply: Option<Subject>,
    /// What is said beside the payload.
    pub headers: Option<HeaderMap>,
    /// The payload.
    pub bytes: Bytes,
}

impl Outgoing {
    /// A message without headers that asks for no reply.
    pub fn new(subject: Subject, bytes: impl Into<Bytes>) -> Self {
        Self {
            subject,
            reply: None,
            headers: None,
            bytes: bytes.into(),
        }
    }

    /// Hands the message to the connection, waiting while its queue is full. One that the connection
    /// will never take is given up: to keep it would not help.
    pub async fn publish(self, client: &Client) {
        let (subject, bytes) = (self.subject.clone(), self.bytes);
        let done = match (self.reply, self.headers) {
            (None, None) => client.publish(subject, bytes).await,
            (Some(reply), None) => client.publish_with_reply(subject, reply, bytes).await,
            (None, Some(headers)) => client.publish_with_headers(subject, headers, bytes).await,
            (Some(reply), Some(headers)) => {
                client
                    .publish_with_reply_and_headers(subject, reply, headers, bytes)
                    .await
            }
        };
        match done {
            Ok(()) => {}
            // The connection is closed for good, as its events say.
            Err(error) if error.kind() == PublishErrorKind::Send => {
                tracing::debug!(subject = %self.subject, %error, "a message was not published");
            }
            Err(error) => {
                tracing::warn!(subject = %self.subject, %error, "a message was not published");
            }
        }
    }

    /// Whether the message needs no further try.
    fn try_publish(&self, client: &Client) -> bool {
        // The task's budget must not make a queue with room look full.
        let publish = tokio::task::unconstrained(self.clone().publish(client));
        publish.now_or_never().is_some()
    }
}

/// Messages that the connection did not take at once, in order. They are handed on by
/// [`Self::catch_up`], or one by one by whoever may wait, with [`Self::take_next`].
#[derive(Debug)]
pub struct Backlog {
    kept: VecDeque<Outgoing>,
    most: usize,
    /// Some wait, or the last of them is being handed on: what is published now comes after them.
    draining: bool,
}

impl Backlog {
    /// A backlog of so many messages. Those beyond are dropped: whatever matters is sent again.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            most,
            draining: false,
        }
    }

    /// Publishes now if that needs no waiting, else later; true if somebody has to begin to hand the
    /// backlog on.
    pub fn publish(&mut self, client: &Client, message: Outgoing) -> bool {
        if !self.draining && message.try_publish(client) {
            return false;
        }
        if self.kept.len() < self.most {
            self.kept.push_back(message);
        }
        !std::mem::replace(&mut self.draining, true)
    }

    /// The next message to hand on; with none the backlog is over.
    pub fn take_next(&mut self) -> Option<Outgoing> {
        let next = self.kept.pop_front();
        self.draining = next.is_some();
        next
    }

    /// Publishes what is kept as far as that needs no waiting; whether nothing is left.
    pub fn catch_up(&mut self, client: &Client) -> bool {
        while self.kept.front().is_some_and(|it| it.try_publish(client)) {
            self.kept.pop_front();
        }
        self.draining = !self.kept.is_empty();
        !self.draining
    }
}

#[cfg(test)]
mod tests {
    use async_nats::ConnectOptions;

    use super::*;

    /// A connection that never comes about takes as many messages as its queue has room for.
    async fn unconnected(room: usize) -> Client {
        let options = ConnectOptions::new().client_capacity(room);
        let options = options.retry_on_initial_connect();
        options.connect("127.0.0.1:1").await.expect("a client")
    }

    fn message(subject: &'static str) -> Outgoing {
        Outgoing::new(Subject::from_static(subject), "")
    }

    fn subject(message: Option<Outgoing>) -> Option<String> {
        message.map(|message| message.subject.to_string())
    }

    #[tokio::test]
    async fn what_finds_no_room_is_kept_in_order_and_what_exceeds_the_backlog_is_dropped() {
        let client = unconnected(1).await;
        let mut backlog = Backlog::new(2);
        assert!(!backlog.publish(&client, message("taken")));
        assert!(backlog.publish(&client, message("first")), "it begins");
        assert!(!backlog.publish(&client, message("second")));
        assert!(!backlog.publish(&client, message("dropped")));
        assert!(!backlog.catch_up(&client), "there is still no room");
        assert_eq!(subject(backlog.take_next()), Some("first".into()));
        assert_eq!(subject(backlog.take_next()), Some("second".into()));
        assert_eq!(subject(backlog.take_next()), None);
        assert!(backlog.catch_up(&client), "nothing is left");
    }

    #[tokio::test]
    async fn what_comes_while_the_last_kept_message_is_handed_on_waits_for_it() {
        let (full, free) = (unconnected(1).await, unconnected(8).await);
        let mut backlog = Backlog::new(2);
        backlog.publish(&full, message("taken"));
        backlog.publish(&full, message("last"));
        assert_eq!(subject(backlog.take_next()), Some("last".into()));
        assert!(!backlog.publish(&free, message("behind")));
        assert_eq!(subject(backlog.take_next()), Some("behind".into()));
    }

    #[tokio::test]
    async fn a_backlog_is_published_once_there_is_room() {
        let (full, free) = (unconnected(1).await, unconnected(8).await);
        let mut backlog = Backlog::new(2);
        backlog.publish(&full, message("taken"));
        backlog.publish(&full, message("kept"));
        assert!(backlog.catch_up(&free));
        assert!(!backlog.publish(&free, message("at once")));
        assert_eq!(subject(backlog.take_next()), None);
    }
}
