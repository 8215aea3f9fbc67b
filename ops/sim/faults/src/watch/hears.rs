//! Messages between clients and workers about offered copies and shared memory.

use bus_schemas::subject::{ToClient, ToWorker};
use bus_schemas::{
    CopyOffer, DataChunk, Incarnation, IpcAnswer, IpcRequest, SessionId, Tenant, WorkerAck, decode,
};

use sim_cluster::WorkerFact;

use super::Watch;
use crate::check::CheckResult;
use crate::hostile;

impl Watch {
    /// The tenant of a session, unless it is hostile.
    fn honest(&self, session: SessionId) -> Option<&Tenant> {
        let tenant = self.memory.tenant(session);
        tenant.filter(|tenant| **tenant != hostile::tenant())
    }

    /// Notes a tenant's message about a session that a worker receives.
    pub(super) fn hears(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        what: ToWorker,
        bytes: &[u8],
    ) {
        if self.honest(session) != Some(tenant) {
            return;
        }
        match what {
            ToWorker::Offer => {
                if let Ok(offer) = decode::<CopyOffer<'_>>(bytes) {
                    self.copies.offered(worker, (tenant, session), &offer);
                }
            }
            ToWorker::Data => {
                if let Ok(data) = decode::<DataChunk<'_>>(bytes) {
                    self.copies.received(worker, (tenant, session), &data);
                }
            }
            ToWorker::Ipc => {
                if let Ok(request) = decode::<IpcRequest>(bytes) {
                    self.exports.asked(session, &request);
                }
            }
            _ => {}
        }
    }

    /// Checks a worker's fact about memory that sessions share.
    pub(super) fn shares(&mut self, worker: Incarnation, fact: &WorkerFact) -> CheckResult {
        match *fact {
            WorkerFact::Exchanged {
                session,
                action,
                bytes,
            } => match self.honest(session).cloned() {
                Some(tenant) => {
                    let whose = (&tenant, session);
                    self.exports.carried_out(worker, whose, action, bytes)
                }
                None => Ok(()),
            },
            WorkerFact::ExportForgotten { export } => {
                self.exports.forgotten(worker, export);
                Ok(())
            }
            WorkerFact::ExportGone { export } => {
                self.exports.gone(worker, export);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a worker's message to a session's client.
    pub(super) fn answers(
        &mut self,
        worker: Incarnation,
        session: SessionId,
        what: ToClient,
        bytes: &[u8],
    ) -> CheckResult {
        let Some(tenant) = self.honest(session).cloned() else {
            return Ok(());
        };
        if what == ToClient::Worker
            && let Ok(ack) = decode::<WorkerAck<'_>>(bytes)
        {
            return self.copies.acknowledged(worker, (&tenant, session), &ack);
        }
        if what == ToClient::Ipc
            && let Ok(answer) = decode::<IpcAnswer>(bytes)
        {
            return self.exports.answers(worker, (&tenant, session), &answer);
        }
        Ok(())
    }
}
