//! Messages between clients and workers about offered copies.

use bus_schemas::subject::{ToClient, ToWorker};
use bus_schemas::{CopyOffer, DataChunk, Incarnation, SessionId, Tenant, WorkerAck, decode};

use super::Watch;
use crate::check::CheckResult;

impl Watch {
    /// Notes a tenant's message about a session that a worker receives.
    pub(super) fn hears(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        what: ToWorker,
        bytes: &[u8],
    ) {
        if !self.own(tenant, session) {
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
            _ => {}
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
        let tenant = self.memory.tenant(session).cloned();
        match (what, tenant) {
            (ToClient::Worker, Some(tenant)) => match decode::<WorkerAck<'_>>(bytes) {
                Ok(ack) => self.copies.acknowledged(worker, (&tenant, session), &ack),
                Err(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
