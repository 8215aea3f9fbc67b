//! Publishing from handlers that may not wait: in order, with a backlog while the connection's queue is
//! full.

use std::cell::RefCell;
use std::rc::Rc;

use async_nats::{Client, Subject};
use bus::{Backlog, Outgoing};
use bytes::Bytes;

/// Messages kept while the connection's queue is full.
const BACKLOG: usize = 8_192;

/// Publishes for actors of one thread. Clones share the backlog, so that what they publish keeps its
/// order.
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

    /// As [`Self::publish`], with the subject of answers where some are wanted.
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
        // Nobody has to be told of a backlog: the actors catch up by themselves.
        self.backlog.borrow_mut().publish(&self.client, message);
    }

    /// Publishes what had to be kept; whether nothing is left.
    pub(crate) fn catch_up(&self) -> bool {
        self.backlog.borrow_mut().catch_up(&self.client)
    }
}
