//! What the leader says: publishing without waiting, in order.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::FutureExt;

/// Messages kept while the connection's queue is full. Beyond it they are dropped: whatever
/// matters is said again.
const KEPT: usize = 8_192;

struct Message {
    subject: Subject,
    reply: Option<Subject>,
    payload: Bytes,
}

struct Inner {
    client: Client,
    kept: VecDeque<Message>,
}

/// Publishes for all actors of the thread.
#[derive(Clone)]
pub(super) struct Outgoing(Rc<RefCell<Inner>>);

impl Outgoing {
    pub(super) fn new(client: Client) -> Self {
        let kept = VecDeque::new();
        Self(Rc::new(RefCell::new(Inner { client, kept })))
    }

    /// Publishes now, or as soon as there is room.
    pub(super) fn publish(&self, subject: &Arc<str>, reply: Option<&Arc<str>>, payload: Vec<u8>) {
        let message = Message {
            subject: Subject::from(&**subject),
            reply: reply.map(|reply| Subject::from(&**reply)),
            payload: payload.into(),
        };
        let inner = &mut *self.0.borrow_mut();
        if inner.kept.is_empty() && try_publish(&inner.client, &message) {
            return;
        }
        if inner.kept.len() < KEPT {
            inner.kept.push_back(message);
        }
    }

    /// Publishes what had to be kept; whether nothing is left.
    pub(super) fn catch_up(&self) -> bool {
        let inner = &mut *self.0.borrow_mut();
        while let Some(message) = inner.kept.front() {
            if !try_publish(&inner.client, message) {
                return false;
            }
            inner.kept.pop_front();
        }
        true
    }
}

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
