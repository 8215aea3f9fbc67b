//! Messages to the actor Leader, from the actors and tasks around it.

use actix::Message;
use async_nats::Subject;
use bus_schemas::subject::{Author, LeaderSubject};
use bus_schemas::{CostRun, Epoch, Incarnation, OpNumber, SessionId, StoreStatus};
use bytes::Bytes;
use scheduler_leader_core::StateSnapshot;

use super::lease::Answer;

/// A message to the actor Leader.
pub(super) enum LeaderMessage {
    /// A message, but for intents and seal answers.
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
    /// Our connection is up, or down.
    Connected(bool),
    /// The broker closed a connection of this name, made with this one's login.
    Closed(String, Author),
    /// The store answered.
    Lease(Answer),
    /// The state bucket, as it is now.
    State(Box<StateSnapshot>),
    /// What is kept in the broker, as it was just seen.
    Stores(Vec<StoreStatus>),
    /// A block is recorded.
    Recorded { epoch: Epoch, number: u64 },
    /// A session's queue is gone: an error in it was its last.
    QueueDied(SessionId),
    /// Hand over.
    Leave,
}

impl Message for LeaderMessage {
    type Result = ();
}
