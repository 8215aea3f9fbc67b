//! I8 and I9: memory that sessions hold and touch, checked by the windows and quotas from leaders and by
//! the allocations of clients.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Incarnation, OpNumber, OpenGrant, SessionId, Tenant, Window};

use super::{CheckResult, Violation};
use crate::hostile;

/// Allocations are charged in multiples of this.
const GRAIN: u64 = 256;

/// Window and quota of a session, and its client's allocations.
#[derive(Debug)]
struct Home {
    incarnation: Incarnation,
    /// True if it was on its device and has left.
    left: bool,
    tenant: Tenant,
    window: Window,
    quota: u64,
    /// Maximum bytes that its client has asked its worker for; `None` if it does not ask.
    requested: Option<u64>,
    /// Allocations and frees (bytes 0), in op order.
    steps: Vec<(OpNumber, u64, u64)>,
    /// Number of steps already applied, and the allocations that are live after them.
    taken: usize,
    live: BTreeMap<u64, u64>,
}

/// All sessions' memory.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Capacity of each device in bytes, and the maximum that its sessions may hold together.
    capacity: u64,
    limit: u64,
    homes: BTreeMap<SessionId, Home>,
    /// Sessions on each device, each with the maximum that it may hold.
    held: BTreeMap<Incarnation, BTreeMap<SessionId, u64>>,
    /// Sessions with memory that has left the device.
    out: BTreeSet<SessionId>,
    /// Number of moves of memory out of a device.
    pub swaps: u64,
    /// Sessions that were refused memory.
    pub denied: BTreeSet<SessionId>,
    /// Number of answers to requests for memory.
    pub promised: u64,
    /// Number of checked accesses.
    pub touched: u64,
}

impl Memory {
    /// Makes empty devices of this capacity. Their sessions may together hold `limit` bytes.
    #[must_use]
    pub(crate) fn new(capacity: u64, limit: u64) -> Self {
        Self {
            capacity,
            limit,
            homes: BTreeMap::new(),
            held: BTreeMap::new(),
            out: BTreeSet::new(),
            swaps: 0,
            denied: BTreeSet::new(),
            promised: 0,
            touched: 0,
        }
    }

    /// Notes an open grant that a leader published.
    pub(crate) fn given(&mut self, incarnation: Incarnation, open: &OpenGrant) {
        self.homes.entry(open.session).or_insert_with(|| Home {
            incarnation,
            left: false,
            tenant: open.tenant.clone(),
            window: open.window,
            quota: open.quota,
            requested: None,
            steps: Vec::new(),
            taken: 0,
            live: BTreeMap::new(),
        });
    }

    /// The tenant of a session.
    #[must_use]
    pub(crate) fn tenant(&self, session: SessionId) -> Option<&Tenant> {
        self.homes.get(&session).map(|home| &home.tenant)
    }

    /// Notes an allocation, or a free (bytes 0), that a client pushed.
    pub(crate) fn pushed(
        &mut self,
        session: SessionId,
        op: OpNumber,
        (address, bytes): (u64, u64),
    ) {
        if let Some(home) = self.homes.get_mut(&session) {
            home.steps.push((op, address, bytes));
        }
    }

    /// Notes that a client asked its worker for memory.
    pub(crate) fn requested(&mut self, session: SessionId, wanted: u64) {
        if let Some(home) = self.homes.get_mut(&session) {
            home.requested = home.requested.max(Some(wanted));
        }
    }

    /// Checks a worker's answer to such a request.
    pub(crate) fn promised(&mut self, session: SessionId, committed: u64) -> CheckResult {
        self.promised += 1;
        let wanted = self.homes.get(&session).and_then(|home| home.requested);
        if wanted.is_some_and(|wanted| committed <= wanted) {
            return Ok(());
        }
        let what = format!("session {session} was promised {committed} bytes, not {wanted:?}");
        Err(Violation::new("I8", what))
    }

    /// Checks that a device began or ended a session.
    pub(crate) fn device(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        open: bool,
    ) -> CheckResult {
        let on = self.held.entry(incarnation).or_default();
        if !open {
            on.remove(&session);
            self.out.remove(&session);
            if let Some(home) = self.homes.get_mut(&session) {
                home.left = true;
            }
            return Ok(());
        }
        let window = |session: &SessionId| self.homes.get(session).map(|home| home.window);
        let Some(own) = window(&session) else {
            let what = format!("{incarnation} opened {session}, which no leader opened");
            return Err(Violation::new("I9", what));
        };
        let others = on.keys().filter_map(|other| Some((other, window(other)?)));
        let overlap = |window: &Window| own.base < window.end() && window.base < own.end();
        let met = others.into_iter().find(|(_, window)| overlap(window));
        if let Some((other, _)) = met {
            let what = format!("{incarnation}: the windows of {session} and {other} overlap");
            return Err(Violation::new("I9", what));
        }
        on.insert(session, 0);
        Ok(())
    }

    /// Sets the maximum that a session may hold from now on.
    pub(crate) fn held(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        most: u64,
    ) -> CheckResult {
        let Some(on) = self.held.get_mut(&incarnation) else {
            return Ok(());
        };
        let Some(bytes) = on.get_mut(&session) else {
            // The session is closed, and holds nothing.
            return Ok(());
        };
        *bytes = most;
        self.fits(incarnation)?;
        let Some(on) = self.held.get(&incarnation) else {
            return Ok(());
        };
        let Some(home) = self.homes.get(&session) else {
            return Ok(());
        };
        let tenant_of = |session| self.homes.get(session).map(|home| &home.tenant);
        let own = on
            .iter()
            .filter(|(other, _)| tenant_of(other) == Some(&home.tenant));
        let tenant: u64 = own.map(|(_, bytes)| bytes).sum();
        // A quota of the whole device is no quota.
        let quota = match home.quota {
            quota if quota >= self.capacity => self.limit,
            quota => quota,
        };
        if tenant > quota {
            let name = &home.tenant;
            let what =
                format!("{name} holds {tenant} bytes on {incarnation}, its quota is {quota}");
            return Err(Violation::new("I8", what));
        }
        Ok(())
    }

    /// Checks that a device's resident memory fits, and that its sessions do not hold too much together.
    fn fits(&self, incarnation: Incarnation) -> CheckResult {
        let Some(on) = self.held.get(&incarnation) else {
            return Ok(());
        };
        let all: u64 = on.values().sum();
        let there = on.iter().filter(|(session, _)| !self.out.contains(session));
        let there: u64 = there.map(|(_, bytes)| bytes).sum();
        if there > self.capacity || all > self.limit {
            let (capacity, limit) = (self.capacity, self.limit);
            let what = format!(
                "{incarnation} has {there} bytes of {capacity}, and holds {all} of {limit}"
            );
            return Err(Violation::new("I8", what));
        }
        Ok(())
    }

    /// Notes that a session's memory has left its device, or is about to return.
    pub(crate) fn swapped(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        out: bool,
    ) -> CheckResult {
        let on = self.held.get(&incarnation);
        if out && on.is_some_and(|on| on.contains_key(&session)) {
            self.swaps += 1;
            self.out.insert(session);
        } else {
            self.out.remove(&session);
        }
        self.fits(incarnation)
    }

    /// Notes that a device ran an op.
    pub(crate) fn ran(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        op: OpNumber,
    ) -> CheckResult {
        if self.out.contains(&session) {
            let what = format!("{incarnation} ran op {op} of {session} with its memory elsewhere");
            return Err(Violation::new("I8", what));
        }
        Ok(())
    }

    /// Checks a refused allocation. It may be refused only if it might not have fitted, even with nothing
    /// freed meanwhile.
    pub(crate) fn denied(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        op: OpNumber,
    ) -> CheckResult {
        self.denied.insert(session);
        let Some(home) = self.homes.get(&session) else {
            return Ok(());
        };
        if home.requested.is_some() {
            let what = format!("{incarnation} refused op {op} of {session} promised memory");
            return Err(Violation::new("I8", what));
        }
        // Memory is promised before a session is on its device, while the slices before it run.
        let here = |other: &&Home| other.incarnation == incarnation && !other.left;
        // The check does not know how much a hostile tenant has allocated.
        if self.homes.values().filter(here).any(Home::is_hostile) {
            return Ok(());
        }
        let (mut device, mut tenant) = (0, 0);
        for other in self.homes.values().filter(here) {
            device += other.most();
            tenant += match other.tenant == home.tenant {
                true => other.most(),
                false => 0,
            };
        }
        if device <= self.capacity && tenant <= home.quota {
            let what = format!("{incarnation} refused op {op} of {session} memory that was free");
            return Err(Violation::new("I8", what));
        }
        Ok(())
    }

    /// Checks an op's access to memory.
    pub(crate) fn touched(
        &mut self,
        session: SessionId,
        op: OpNumber,
        (address, bytes): (u64, u64),
    ) -> CheckResult {
        self.touched += 1;
        let Some(home) = self.homes.get_mut(&session) else {
            return Ok(());
        };
        home.take_through(op);
        let end = address.saturating_add(bytes);
        let within = address >= home.window.base && end <= home.window.end();
        let below = home.live.range(..=address).next_back();
        let own = below.is_some_and(|(start, length)| end <= start + length);
        if within && (own || home.is_hostile()) {
            return Ok(());
        }
        let what = format!("op {op} of session {session} touched {bytes} bytes at {address:#x}");
        Err(Violation::new("I9", what))
    }

    /// Removes a dead worker with all its memory.
    pub(crate) fn worker_died(&mut self, incarnation: Incarnation) {
        for session in self
            .held
            .remove(&incarnation)
            .unwrap_or_default()
            .into_keys()
        {
            self.out.remove(&session);
        }
    }
}

impl Home {
    /// Applies the allocations and frees up to and including an op.
    fn take_through(&mut self, op: OpNumber) {
        while let Some((at, address, bytes)) = self.steps.get(self.taken).copied()
            && at <= op
        {
            self.taken += 1;
            if bytes == 0 {
                self.live.remove(&address);
            } else {
                self.live.insert(address, bytes);
            }
        }
    }

    /// True if its client is not one of the scene's.
    fn is_hostile(&self) -> bool {
        self.tenant == hostile::tenant()
    }

    /// Maximum bytes that it can hold: all that it ever allocated or asked for.
    fn most(&self) -> u64 {
        let bytes = self.steps.iter().map(|(.., bytes)| bytes);
        let allocated: u64 = bytes.map(|bytes| bytes.next_multiple_of(GRAIN)).sum();
        allocated.max(self.requested.unwrap_or(0))
    }
}
