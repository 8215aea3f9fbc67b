//! Messages to the Leader actor from the actors and tasks around it.

use actix::Message;
use async_nats::Subject;
use bus_schemas::subject::{Author, LeaderSubject};
use bus_schemas::{CostRun, Epoch, Incarnation, OpNumber, SessionId, StoreStatus};
use bytes::Bytes;
use scheduler_leader_core::StateSnapshot;

use super::lease::Answer;

/// A message to the Leader actor.
pub(super) enum LeaderMessage {
    /// A message of the bus, except intents and seal answers.
    Message {
        subject: LeaderSubject,
        reply: Option<Subject>,
        bytes: Bytes,
    },
    /// A worker's answer to a seal.
    SealReply {
        incarnation: Incarnation,
        bytes: Bytes,
    },
    /// The next ops of a session, from its queue.
    Ready {
        session: SessionId,
        first: OpNumber,
        runs: Vec<CostRun>,
    },
    /// Our connection is up or down.
    Connected(bool),
    /// The broker closed a connection with this name and the login of this author.
    Closed(String, Author),
    /// The store answered.
    Lease(Answer),
    /// The current state bucket.
    State(Box<StateSnapshot>),
    /// The current state of the streams and buckets in the broker.
    Stores(Vec<StoreStatus>),
    /// A block is recorded.
    Recorded { epoch: Epoch, number: u64 },
    /// A session's queue is gone: it died of an error.
    QueueDied(SessionId),
    /// Hand the lead over.
    Leave,
}

impl Message for LeaderMessage {
    type Result = ();
}
