//! Requests of administrators and tenants for the use of the device's memory, on their way to the
//! pager.

use std::collections::BTreeMap;

use async_nats::Message;
use bus_schemas::{MemoryStatusRequest, SessionId, Tenant, decode};

use super::actor::GpuWorker;
use super::pager::{PagerMessage, StatusAsked};

impl GpuWorker {
    /// Passes a request to the pager, which answers on an inbox of the tenant. A tenant that asks
    /// too often, or while the pager is busy, gets no answer and asks again.
    pub(super) fn on_memory_status(&mut self, of: Option<Tenant>, message: &Message) {
        let request = decode::<MemoryStatusRequest>(&message.payload);
        let (Ok(request), Some(reply)) = (request, message.reply.clone()) else {
            self.malformed += 1;
            return;
        };
        if let Some(tenant) = &of {
            let is_own = self.subjects.all.is_inbound_of(tenant, &reply);
            if !is_own || !self.answered.admits(self.now(), tenant) {
                return;
            }
        }
        let asked = StatusAsked {
            of,
            after: request.after,
            reply,
            running: self.running(),
        };
        let _ = self.pager.try_send(PagerMessage::Status(asked));
    }

    /// Returns the sessions with running launches, each with their start time. If slices do not
    /// overlap, that is one session: of the most urgent slices, the first that the device got, from
    /// when the device was free.
    fn running(&self) -> BTreeMap<SessionId, u64> {
        let begun = self.held.iter().filter_map(|(session, held)| {
            let slice = held.started.front()?;
            Some((slice.launches?, slice.priority, *session))
        });
        if self.identity.overlaps {
            return begun.map(|(since, _, session)| (session, since)).collect();
        }
        let first = begun.min_by_key(|(since, priority, session)| (*priority, *since, *session));
        first
            .map(|(since, _, session)| (session, since.max(self.completed_at)))
            .into_iter()
            .collect()
    }
}
