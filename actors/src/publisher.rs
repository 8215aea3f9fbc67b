//! Publishing from handlers that may not wait: in order, with a backlog while the connection's queue is
//! full.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// Messages kept while the connection's queue is full. Those beyond are dropped: whatever matters is sent
/// again.
const BACKLOG: usize = 8_192;

struct Message {
    subject: Subject,
    reply: Option<Subject>,
    payload: Bytes,
}

struct Inner {
    client: Client,
    backlog: VecDeque<Message>,
}

/// Publishes for actors of one thread. Clones share the backlog, so that what they publish keeps its
/// order.
#[derive(Clone)]
pub(crate) struct BusPublisher(Rc<RefCell<Inner>>);

impl BusPublisher {
    pub(crate) fn new(client: Client) -> Self {
        let backlog = VecDeque::new();
        Self(Rc::new(RefCell::new(Inner { client, backlog })))
    }

    /// Publishes now, or as soon as there is room.
    pub(crate) fn publish(&self, subject: Subject, payload: impl Into<Bytes>) {
        self.publish_with_reply(subject, None, payload);
    }

    /// As [`Self::publish`], with the subject of answers where some are wanted.
    pub(crate) fn publish_with_reply(
        &self,
        subject: Subject,
        reply: Option<Subject>,
        payload: impl Into<Bytes>,
    ) {
        let message = Message {
            subject,
            reply,
            payload: payload.into(),
        };
        let inner = &mut *self.0.borrow_mut();
        if inner.backlog.is_empty() && try_publish(&inner.client, &message) {
            return;
        }
        if inner.backlog.len() < BACKLOG {
            inner.backlog.push_back(message);
        }
    }

    /// Publishes what had to be kept; whether nothing is left.
    pub(crate) fn catch_up(&self) -> bool {
        let inner = &mut *self.0.borrow_mut();
        while let Some(message) = inner.backlog.front() {
            if !try_publish(&inner.client, message) {
                return false;
            }
            inner.backlog.pop_front();
        }
        true
    }
}

/// Whether the message needs no further try.
fn try_publish(client: &Client, message: &Message) -> bool {
    let (subject, payload) = (message.subject.clone(), message.payload.clone());
    let publish = async {
        match message.reply.clone() {
            Some(reply) => client.publish_with_reply(subject, reply, payload).await,
            None => client.publish(subject, payload).await,
        }
    };
    // The task's budget must not make a queue with room look full.
    match tokio::task::unconstrained(publish).now_or_never() {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            // Too large, or the connection is closed for good: keeping it would not help.
            tracing::warn!(subject = %message.subject, %error, "a message was not published");
            true
        }
        None => false,
    }
}
