//! The publisher of a leader's messages. Each message carries the leader's epoch and id, and none
//! is published while the bus is away. Important messages are published again later.

use std::sync::Arc;

use bus_schemas::subject::{Subjects, ToClient};
use bus_schemas::{
    Epoch, Failure, GpuPosition, LeaderBeat, LeaderId, LeaderNotice, Leave, Lost, OpNumber, Seal,
    SessionId, Tenant, WIRE_VERSION, encode,
};

use super::event::Action;

/// A leader's reason for telling a worker to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    /// An administrator drains it, and it has no session.
    Drained,
    /// It announced that it leaves, and the leader has noted it.
    Noted,
    /// A live worker has its gpu number.
    NumberTaken,
}

#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) subjects: Subjects,
    pub(super) epoch: Epoch,
    pub(super) leader: LeaderId,
    pub(super) connected: bool,
}

impl Publisher {
    pub(super) fn publish(&self, subject: Arc<str>, bytes: Vec<u8>, actions: &mut Vec<Action>) {
        if self.connected {
            actions.push(Action::Publish {
                subject,
                reply: None,
                bytes,
            });
        }
    }

    /// Publishes a heartbeat to leaders or, with a tenant, to its clients.
    pub(super) fn beat(&self, tenant: Option<&Tenant>, leaving: bool, actions: &mut Vec<Action>) {
        let beat = LeaderBeat {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            leaving,
        };
        let subject = match tenant {
            Some(tenant) => self.subjects.term(tenant),
            None => self.subjects.leader_beat(),
        };
        self.publish(subject.into(), encode(&beat), actions);
    }

    pub(super) fn lost(&self, incarnation: bus_schemas::Incarnation, actions: &mut Vec<Action>) {
        let lost = Lost {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            incarnation,
        };
        self.publish(self.subjects.lost().into(), encode(&lost), actions);
    }

    /// Tells a worker to leave.
    pub(super) fn leave(
        &self,
        worker: bus_schemas::Incarnation,
        why: Leaving,
        actions: &mut Vec<Action>,
    ) {
        let leave = Leave {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            noted: why == Leaving::Noted,
            taken: why == Leaving::NumberTaken,
        };
        self.publish(self.subjects.leave(worker).into(), encode(&leave), actions);
    }

    pub(super) fn seal(
        &self,
        incarnation: bus_schemas::Incarnation,
        after: GpuPosition,
        reply: Arc<str>,
        actions: &mut Vec<Action>,
    ) {
        let seal = Seal {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            after: Some(after),
            times: true,
        };
        if self.connected {
            actions.push(Action::Publish {
                subject: self.subjects.seal(incarnation).into(),
                reply: Some(reply),
                bytes: encode(&seal),
            });
        }
    }

    /// Publishes that a session has ended, to its client or on a reply subject.
    pub(super) fn ended(
        &self,
        to: Result<&Arc<str>, (&Tenant, SessionId)>,
        granted: OpNumber,
        failure: &Failure,
        actions: &mut Vec<Action>,
    ) {
        let notice = LeaderNotice {
            v: WIRE_VERSION,
            epoch: self.epoch,
            leader: self.leader,
            queued: granted,
            granted,
            queue_through: granted,
            ended: Some(failure.clone()),
            alone: false,
        };
        let subject = match to {
            Ok(reply) => reply.clone(),
            Err((tenant, session)) => {
                let subjects = &self.subjects;
                subjects.to_client(tenant, session, ToClient::Leader).into()
            }
        };
        self.publish(subject, encode(&notice), actions);
    }
}
