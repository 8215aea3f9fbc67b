//! The work that the driver gets next, and the end of closed sessions.

use bus_schemas::SessionId;
use device_swap::Movable;

use crate::CudaDevice;
use crate::closing::Closing;
use crate::session::Surroundings;

impl CudaDevice {
    /// Hands the driver the work that may begin now, the most urgent first.
    pub(crate) fn pump(&mut self) {
        self.drop_ended();
        let now = self.now();
        let gate = self.feed.gate(now);
        let waiting = self.sessions.iter().filter(|(_, session)| session.waits());
        let mut waiting: Vec<(u8, SessionId)> = waiting
            .map(|(id, session)| (session.urgency(), *id))
            .filter(|(urgency, _)| gate.admits(*urgency))
            .collect();
        waiting.sort_unstable();
        for (urgency, id) in waiting {
            let depth = self.feed.depth(now, urgency);
            while let Some(freed) = self.refill(id, depth) {
                self.end_exports(id, Some(freed));
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.end_export(freed);
                }
            }
        }
    }

    /// Hands the driver ops of a session, up to one that frees memory which others use. Returns that
    /// allocation's address.
    fn refill(&mut self, id: SessionId, depth: u32) -> Option<u64> {
        let held = self.held();
        let session = self.sessions.get_mut(&id)?;
        let others = held.saturating_sub(session.held());
        let surroundings = Surroundings {
            context: &self.context,
            modules: &self.modules,
            loader: &self.loader,
            closing: !self.closing.is_empty(),
            sms: self.info.properties.sms,
            room: self.info.capacity.saturating_sub(others),
        };
        session.refill(&surroundings, depth);
        session.frees()
    }

    /// Drops closed sessions that have come to the end of their work.
    pub(crate) fn drop_ended(&mut self) {
        if self.closing.drop_ended() {
            self.look_whether_lost();
        }
    }

    /// Waits for closed sessions, if a session that is out does not fit beside them.
    pub(crate) fn make_room_for(&mut self, session: SessionId) {
        let needed = self.away.get(session).map_or(0, Movable::allocated);
        if needed > self.info.capacity.saturating_sub(self.held()) {
            self.closing = Closing::default();
        }
    }
}
