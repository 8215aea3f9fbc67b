//! The counts of tenants' memory events beside their charges.

use std::collections::BTreeMap;

use bus_schemas::{MoveTotals, Place, SessionId, Tenant, invariant};
use device::Moved;

use super::Pager;
use super::account::Uncharged;
use crate::Nanos;

impl Pager {
    /// Notes that a session on the device saves this many bytes from now on.
    pub(super) fn save(&mut self, now: Nanos, session: SessionId, saved: u64) {
        let place = self.sessions.get(&session).map(|memory| memory.swap.place);
        if matches!(place, Some(Place::Resident | Place::Leaving)) {
            self.leave_uncharged(now, session, Uncharged { out: 0, saved });
        }
    }

    /// Notes that all of a session's memory on the device has left it, or is back. Once it is back, the
    /// session is charged for all of it.
    pub(super) fn carry(&mut self, now: Nanos, session: SessionId, out: bool) {
        let memory = self.sessions.get(&session).filter(|_| out);
        let held = memory.map_or(0, |memory| memory.usage.resident + memory.uncharged.saved);
        let uncharged = Uncharged {
            out: held,
            saved: 0,
        };
        self.leave_uncharged(now, session, uncharged);
    }

    fn leave_uncharged(&mut self, now: Nanos, session: SessionId, uncharged: Uncharged) {
        let Some(memory) = self.sessions.get_mut(&session) else {
            return;
        };
        let before = std::mem::replace(&mut memory.uncharged, uncharged);
        if before != uncharged {
            let account = self.accounts.entry(memory.tenant.clone()).or_default();
            account.replace(now, before, uncharged);
        }
    }

    /// Removes the uncharged bytes of a tenant's session that is gone.
    pub(super) fn settle_account(&mut self, now: Nanos, tenant: &Tenant, uncharged: Uncharged) {
        if uncharged != Uncharged::default() {
            let account = self.accounts.entry(tenant.clone()).or_default();
            account.replace(now, uncharged, Uncharged::default());
        }
    }

    /// Counts a move of a session's memory.
    pub(super) fn count_move(&mut self, ended: &Moved) {
        self.count(ended.session, |totals| {
            let (times, bytes) = match ended.out {
                true => (&mut totals.outs, &mut totals.out_bytes),
                false => (&mut totals.ins, &mut totals.in_bytes),
            };
            *times += 1;
            *bytes += ended.bytes;
        });
    }

    /// Counts the time for which a session with work has waited for memory.
    pub(super) fn count_wait(&mut self, session: SessionId, ns: Nanos) {
        if ns > 0 {
            self.count(session, |totals| totals.waited_ns += ns);
        }
    }

    /// Counts for the device and for the tenant. An event without a session belongs to no tenant and is not
    /// counted.
    fn count(&mut self, session: SessionId, count: impl Fn(&mut MoveTotals)) {
        let Some(memory) = self.sessions.get(&session) else {
            return;
        };
        let account = self.accounts.entry(memory.tenant.clone()).or_default();
        count(&mut account.events);
        count(&mut self.moves);
    }

    /// Returns the move totals of all tenants up to now, ended sessions included.
    #[must_use]
    pub fn moves(&self, now: Nanos) -> BTreeMap<Tenant, MoveTotals> {
        let accounts = self.accounts.iter();
        let moves = accounts.map(|(tenant, account)| (tenant.clone(), account.totals(now)));
        let mut sum = MoveTotals::default();
        self.accounts.values().for_each(|it| sum.add(&it.events));
        let device = self.moves;
        invariant!(I10, sum == device, "{sum:?} of tenants, {device:?} in all");
        moves.collect()
    }

    /// Returns the move totals of one tenant up to now.
    #[must_use]
    pub fn moves_of(&self, now: Nanos, tenant: &Tenant) -> MoveTotals {
        let account = self.accounts.get(tenant);
        account.map_or_else(MoveTotals::default, |account| account.totals(now))
    }
}
