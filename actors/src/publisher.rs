//! Publishing from handlers that may not wait: in order, with a backlog while the connection's
//! queue is full.

use std::cell::RefCell;
use std::rc::Rc;

use async_nats::{Client, Subject};
use bus::{Backlog, Outgoing};
use bytes::Bytes;

/// Maximum number of messages kept while the connection's queue is full.
const BACKLOG: usize = 8_192;

/// Publishes for the actors of one thread. Clones share the backlog, so that their messages keep
/// their order.
#[derive(Clone)]
pub(crate) struct BusPublisher {
    client: Client,
    backlog: Rc<RefCell<Backlog>>,
}

impl BusPublisher {
    pub(crate) fn new(client: Client) -> Self {
        let backlog = Rc::new(RefCell::new(Backlog::new(BACKLOG)));
        Self { client, backlog }
    }

    /// Publishes now, or as soon as there is room.
    pub(crate) fn publish(&self, subject: Subject, payload: impl Into<Bytes>) {
        self.publish_with_reply(subject, None, payload);
    }

    /// As [`Self::publish`], with a subject for replies if the message asks for any.
    pub(crate) fn publish_with_reply(
        &self,
        subject: Subject,
        reply: Option<Subject>,
        payload: impl Into<Bytes>,
    ) {
        let message = Outgoing {
            reply,
            ..Outgoing::new(subject, payload)
        };
        // A backlog needs no notification: the actors drain it by themselves.
        self.backlog.borrow_mut().publish(&self.client, message);
    }

    /// Publishes the kept messages as far as possible; true if none is left.
    pub(crate) fn catch_up(&self) -> bool {
        self.backlog.borrow_mut().catch_up(&self.client)
    }
}
