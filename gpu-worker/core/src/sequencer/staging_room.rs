//! Room for staged transfers: the bytes that a session may reserve, and the end of its wait for them.

use bus_schemas::{Code, Failure, SessionId, limits};

use super::Sequencer;
use super::session::Session;
use crate::Nanos;

impl Sequencer {
    /// Host bytes that a session's new transfers may reserve, within the total and within its tenant's limit.
    pub(super) fn staging_room(&self, session: &Session) -> u64 {
        let most = session.staged_most.bytes();
        let own = most.saturating_sub(self.staged.of(&session.tenant));
        let all = self.config.staged_total.saturating_sub(self.staged.bytes());
        own.min(all)
    }

    /// True if there is enough room in total that credit need not shrink.
    pub(super) fn has_staging_room(&self) -> bool {
        let room = self.config.staged_total.saturating_sub(self.staged.bytes());
        room >= limits::TRANSFER_BYTES.min(self.config.staged_total / 2)
    }

    /// Notes that a part of a session's transfer was stored.
    pub(super) fn stored(&mut self, now: Nanos, session: SessionId) {
        if let Some(entry) = self.sessions.get_mut(session) {
            entry.starved = None;
            self.staged.moved(now, &entry.tenant);
        }
    }

    /// Handles a part of a transfer of `total` bytes that was not stored. Returns the session's failure if
    /// its tenant cannot stage so much, or has long staged all it may without any progress.
    pub(super) fn starved(
        &mut self,
        now: Nanos,
        session: SessionId,
        total: u64,
    ) -> Option<Failure> {
        let entry = self.sessions.get_mut(session)?;
        let (most, used) = (entry.staged_most.bytes(), self.staged.of(&entry.tenant));
        if used.saturating_add(total) <= most {
            // Other tenants' staged bytes leave it no room, or the part came before.
            entry.starved = None;
            return None;
        }
        let since = *entry.starved.get_or_insert(now);
        let moved = self.staged.moved_at(&entry.tenant);
        let since = moved.map_or(since, |moved| moved.max(since));
        let never = total > most;
        if !never && now < since.saturating_add(self.config.stall_ns) {
            return None;
        }
        let tenant = &entry.tenant;
        let (total, used, most) = (mib(total), mib(used), most >> 20);
        let why = format!(
            "a transfer of {total} MiB: the sessions of tenant {tenant} have {used} MiB staged of the \
             {most} MiB that they may have on a worker; use what is staged, or raise the limit with \
             `warploom tenant set {tenant} --staged SIZE`"
        );
        Some(Failure::new(Code::StagedShare, why))
    }
}

fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}
