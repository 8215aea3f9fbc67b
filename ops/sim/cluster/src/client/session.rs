//! One open session of a client: its outbox, and the delivery of the outbox's messages.

use std::collections::BTreeMap;
use std::rc::Rc;

use bus_schemas::subject::{Subjects, ToClient, ToLeader, ToWorker};
use bus_schemas::{MemoryRequest, OpNumber, Opened, Tenant, decode};
use client_agent_core::{Action, Outbox, OutboxSettings};

use super::program::ClientProgram;
use crate::Nanos;
use crate::fact::{ClientFact, NodeFact};
use crate::node::Io;

/// One open session.
pub(super) struct Session {
    pub(super) opened: Opened,
    pub(super) outbox: Outbox,
    /// Received bytes of copies that are not answered yet.
    arrived: BTreeMap<OpNumber, Vec<u8>>,
    pub(super) failed: bool,
    pub(super) closing: bool,
    /// Time until which pushed ops linger.
    pub(super) linger: Option<Nanos>,
    batches: Rc<str>,
    states: Rc<str>,
    intents: Rc<str>,
}

impl Session {
    /// Makes a session that was just opened.
    pub(super) fn new(
        opened: Opened,
        settings: OutboxSettings,
        subjects: &Subjects,
        tenant: &Tenant,
    ) -> Self {
        let (session, worker) = (opened.session, opened.incarnation);
        let to_worker = |what| subjects.to_worker(tenant, worker, session, what).into();
        Self {
            outbox: Outbox::new(settings),
            arrived: BTreeMap::new(),
            failed: false,
            closing: false,
            linger: None,
            batches: to_worker(ToWorker::Batch),
            states: to_worker(ToWorker::State),
            intents: subjects.to_leader(tenant, ToLeader::Intent(session)).into(),
            opened,
        }
    }

    /// Publishes the requests about memory that are due.
    pub(super) fn request(
        &self,
        io: &mut Io,
        (subjects, tenant): (&Subjects, &Tenant),
        program: &mut impl ClientProgram,
    ) {
        let (session, worker) = (self.opened.session, self.opened.incarnation);
        while let Some((what, bytes)) = program.request(io.now) {
            if what == ToWorker::Memory
                && let Ok(request) = decode::<MemoryRequest>(&bytes)
            {
                let wanted = request.wanted;
                io.fact(ClientFact::Requested { session, wanted });
            }
            io.publish(subjects.to_worker(tenant, worker, session, what), bytes);
        }
    }

    /// Carries out actions. Returns true once the session has ended.
    pub(super) fn carry_out(
        &mut self,
        io: &mut Io,
        (subjects, tenant): (&Subjects, &Tenant),
        program: &mut impl ClientProgram,
        actions: Vec<Action>,
    ) -> bool {
        let session = self.opened.session;
        let mut over = false;
        for action in actions {
            match action {
                Action::PublishBatch { bytes, last, .. } => {
                    if let Some(bytes) = program.batch(last, &bytes) {
                        io.publish(self.batches.clone(), bytes);
                    }
                }
                Action::PublishIntent { bytes } => {
                    io.publish(self.intents.clone(), program.intent(&bytes));
                }
                Action::PublishState { bytes } => io.publish(self.states.clone(), bytes.to_vec()),
                Action::PublishChunk {
                    transfer,
                    offset,
                    len,
                } => {
                    if let Some(bytes) = self.outbox.chunk(transfer, offset, len) {
                        let worker = self.opened.incarnation;
                        let subject = subjects.to_worker(tenant, worker, session, ToWorker::Data);
                        io.publish(subject, bytes.to_vec());
                    }
                }
                Action::PublishOffer { bytes } => {
                    let worker = self.opened.incarnation;
                    let subject = subjects.to_worker(tenant, worker, session, ToWorker::Offer);
                    io.publish(subject, bytes.to_vec());
                }
                Action::PublishClose { bytes } => {
                    let reply = subjects.to_client(tenant, session, ToClient::Leader);
                    let subject = subjects.to_leader(tenant, ToLeader::Close);
                    io.request(subject, reply, bytes.to_vec());
                }
                Action::Part { op, offset, bytes } => {
                    let whole = self.arrived.entry(op).or_default();
                    let (start, end) = (offset as usize, offset as usize + bytes.len());
                    whole.resize(whole.len().max(end), 0);
                    whole[start..end].copy_from_slice(&bytes);
                }
                Action::Result { op, bytes, .. } => {
                    let bytes = self.arrived.remove(&op).unwrap_or(bytes);
                    let right = program.answered(io.now, op, &bytes);
                    io.fact(ClientFact::Answered { session, op, right });
                }
                Action::Failed { op, failure } => {
                    self.failed = true;
                    io.fact(ClientFact::Failed {
                        session,
                        op,
                        failure,
                    });
                }
                Action::Image { refused, .. } => {
                    if refused.is_some() {
                        let why = "an image that is none was refused".into();
                        io.fact(NodeFact::Broken { why });
                    }
                }
                Action::Ended => {
                    over = true;
                    io.fact(ClientFact::Ended { session });
                }
            }
        }
        over
    }
}
