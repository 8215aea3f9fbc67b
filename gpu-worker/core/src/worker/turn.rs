//! One call of [`super::Worker::handle`]: the event's bytes, and the actions so far.

use bus_schemas::subject::ToClient;
use bus_schemas::{Batch, Failure, Ops, Rejected, SessionId, Tenant, WIRE_VERSION, encode};
use bytes::Bytes;

use super::api::{Action, Buffers, Command, To};
use super::results::Answers;
use crate::Nanos;
use crate::content::CopyChunks;

/// Bytes and results of the current event, to which the sequencer's actions refer.
pub(super) enum Current<'a, B: Buffers> {
    Nothing,
    Batch(&'a Tenant, &'a B::Payload, &'a Batch<'a>, &'a Ops<'a>),
    Chunk(&'a Tenant, &'a [u8]),
    Offer(&'a Tenant, &'a CopyChunks<B::Chunk>),
    Results(&'a mut Answers),
}

/// The time of a call, and its actions.
pub(super) struct Turn<'a, B: Buffers> {
    pub(super) now: Nanos,
    pub(super) actions: &'a mut Vec<Action<B>>,
}

impl<B: Buffers> Turn<'_, B> {
    pub(super) fn command(&mut self, command: Command<B>) {
        self.actions.push(Action::Device(command));
    }

    pub(super) fn publish(&mut self, to: To, message: impl Into<Bytes>) {
        self.actions.push(Action::Publish(to, message.into()));
    }

    /// Publishes a failure about a message or a session to a client.
    pub(super) fn reject(&mut self, tenant: Tenant, session: SessionId, failure: Failure) {
        let rejected = Rejected {
            v: WIRE_VERSION,
            failure,
        };
        let to = To::Client(tenant, session, ToClient::Error);
        self.publish(to, encode(&rejected));
    }
}
