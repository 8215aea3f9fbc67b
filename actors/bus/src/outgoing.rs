//! Messages published without waiting. Messages that the connection does not take at once are kept
//! in order.

use std::collections::VecDeque;

use async_nats::client::PublishErrorKind;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The subject.
    pub subject: Subject,
    /// Subject of the replies, if the message asks for any.
    pub reply: Option<Subject>,
    /// Headers of the message.
    pub headers: Option<HeaderMap>,
    /// The payload.
    pub bytes: Bytes,
}

impl Outgoing {
    /// Creates a message without headers that asks for no reply.
    pub fn new(subject: Subject, bytes: impl Into<Bytes>) -> Self {
        Self {
            subject,
            reply: None,
            headers: None,
            bytes: bytes.into(),
        }
    }

    /// Hands the message to the connection, and waits while its queue is full. Drops a message that
    /// the connection will never take, because keeping it would not help.
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
            // The connection is closed for good; its events report that.
            Err(error) if error.kind() == PublishErrorKind::Send => {
                tracing::debug!(subject = %self.subject, %error, "a message was not published");
            }
            Err(error) => {
                tracing::warn!(subject = %self.subject, %error, "a message was not published");
            }
        }
    }

    /// Tries to publish; true if the message needs no further attempt.
    fn try_publish(&self, client: &Client) -> bool {
        // The task's budget must not make a queue with room look full.
        let publish = tokio::task::unconstrained(self.clone().publish(client));
        publish.now_or_never().is_some()
    }
}

/// Messages that the connection did not take at once, in order. [`Self::catch_up`] publishes them.
/// A caller that may wait takes them one by one with [`Self::take_next`].
#[derive(Debug)]
pub struct Backlog {
    kept: VecDeque<Outgoing>,
    most: usize,
    /// True while messages wait, or the last one is being published. New messages go behind them.
    draining: bool,
}

impl Backlog {
    /// Creates a backlog of at most `most` messages. Messages beyond are dropped: the protocol
    /// repeats all that matter.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            most,
            draining: false,
        }
    }

    /// Publishes now if no wait is needed, else later. True if the caller must start to drain the
    /// backlog.
    pub fn publish(&mut self, client: &Client, message: Outgoing) -> bool {
        if !self.draining && message.try_publish(client) {
            return false;
        }
        if self.kept.len() < self.most {
            self.kept.push_back(message);
        }
        !std::mem::replace(&mut self.draining, true)
    }

    /// Takes the next message to publish; `None` ends the backlog.
    pub fn take_next(&mut self) -> Option<Outgoing> {
        let next = self.kept.pop_front();
        self.draining = next.is_some();
        next
    }

    /// Publishes the kept messages as far as no wait is needed; true if none is left.
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

    /// A connection that is never established takes as many messages as its queue has room for.
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
