//! Requests for what the device's memory is held for, of administrators and of tenants, on their way
//! to the pager.

use std::collections::BTreeMap;

use async_nats::Message;
use bus_schemas::{MemoryStatusRequest, SessionId, Tenant, decode};

use super::actor::GpuWorker;
use super::pager::{PagerMessage, StatusAsked};

impl GpuWorker {
    /// The pager answers, on an inbox of the tenant that asks. Who asks too often, or when the pager
    /// has much to do, gets no answer and asks again.
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

    /// The sessions whose launches the device runs, and since when. Where slices do not overlap it is
    /// one: of the most urgent slices the one that the device got first, since it was free.
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
