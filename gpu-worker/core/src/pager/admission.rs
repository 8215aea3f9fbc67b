//! The admission of slices: the decision whether the next slice may have its memory now.

use bus_schemas::{OpNumber, Place, SessionId, invariant};

use super::Pager;
use super::need::{MemoryDecision, Need};
use super::session::Undo;
use super::sums::Sums;
use super::tally::{Tally, quota_for_launches};

impl Pager {
    /// Admits the next slice of a session, which begins with op `first`. `needs` are the needs of its ops, in
    /// op order.
    #[expect(
        clippy::too_many_lines,
        reason = "one decision, with all that it depends on"
    )]
    pub fn admit(&mut self, first: OpNumber, session: SessionId, needs: &[Need]) -> MemoryDecision {
        if self.is_overcommitted() {
            self.update(session, |memory| memory.swap.kept = 0);
        }
        let most = self.most(session);
        let Some(memory) = self.sessions.get_mut(&session) else {
            return MemoryDecision::Fits;
        };
        let Some(tenant) = self.tenants.get_mut(&memory.tenant) else {
            return MemoryDecision::Fits;
        };
        if memory.swap.place != Place::Resident {
            // A session that is leaving may be kept after all; the pager then reports it.
            self.want_more(session, 1);
            return MemoryDecision::Later;
        }
        self.granted.clear();
        let (before, held) = (memory.sums(), memory.live);
        let quota = quota_for_launches(tenant, needs);
        let others = |all: u64, own: u64| all.saturating_sub(own);
        let mut tally = Tally {
            capacity: self.capacity,
            limit: self.limit,
            most,
            first_block: self.first_block,
            first_blocks: self
                .first_blocks
                .saturating_sub(self.uncounted - memory.uncounted),
            uncounted: 0,
            lacks_first_block: false,
            quota: tenant.quota,
            launch_quota: quota,
            others: (
                others(self.all.live, before.live),
                others(tenant.live, before.live),
            ),
            beside: (
                others(self.all.charge, before.charge),
                others(tenant.charge, before.charge),
            ),
            present: others(self.all.present, before.present),
            peak: memory.live + memory.fixed,
            fixed_peak: memory.fixed,
            undo: Undo::of(memory, needs),
            granted: &mut self.granted,
            memory,
        };
        let refused = needs.iter().try_for_each(|need| tally.take(need)).err();
        let lacks = tally.lacks_first_block;
        let (running, undo) = tally.end(first);
        let uncounted_before = memory.uncounted;
        memory.running.push_back(running);
        memory.recharge();
        let after = memory.sums();
        let (grown, swells) = (after.charge > before.charge, after.present > before.present);
        let charge = (
            self.all.charge - before.charge + after.charge,
            tenant.charge - before.charge + after.charge,
        );
        let present = self.all.present - before.present + after.present;
        let over = charge.0 > self.limit || charge.1 > quota;
        // Only memory that is on the device or in use there can stand in the way; memory that will be held
        // later fits.
        if lacks || grown && over || swells && present > self.capacity {
            memory.running.pop_back();
            memory.recharge();
            memory.restore(undo);
            if lacks || grown && over {
                return MemoryDecision::Wait;
            }
            self.want_more(session, after.present - before.present);
            return MemoryDecision::Later;
        }
        if memory.live < held
            && let Some(commitment) = &mut memory.commitment
        {
            commitment.freed();
        }
        tenant.add(before, after);
        self.all.add(before, after);
        self.uncounted = self.uncounted - uncounted_before + memory.uncounted;
        self.slice_admitted(session);
        self.check_admitted(session, (before, after), quota);
        refused.map_or(MemoryDecision::Fits, |(op, failure)| {
            MemoryDecision::Refused(op, failure)
        })
    }

    fn check_admitted(&self, session: SessionId, (before, after): (Sums, Sums), quota: u64) {
        let Some(tenant) = self.owner(session).and_then(|it| self.tenants.get(it)) else {
            return;
        };
        let (all, limit, capacity) = (&self.all, self.limit, self.capacity);
        invariant!(
            I8,
            all.charge <= limit && (after.charge <= before.charge || tenant.charge <= quota),
            "{} bytes of {limit} are charged, {} of the tenant's {quota}",
            all.charge,
            tenant.charge
        );
        let grew = after.live > before.live;
        invariant!(
            I8,
            all.live <= limit && (!grew || tenant.live <= quota),
            "{} bytes of {limit} will be held, {} of the tenant's {quota}",
            all.live,
            tenant.live
        );
        invariant!(
            I8,
            all.present <= capacity,
            "{} bytes are on a device of {capacity}",
            all.present
        );
    }
}
