//! A session's weights: the large copies from the host that it holds. Leaders place by a sample of them.
//!
//! A program's weights reach a device as large copies that stay in place for the session's life. A program
//! with the same weights is best placed on a worker that has them. Leaders need not know all of them: for
//! each tenant, the few copies with the lowest fingerprints are named. Equal weights have equal fingerprints,
//! so two tenants with the same weights name the same copies.
//!
//! Writes of kernels, sets and small copies are ignored, because this is a hint for placement. The device
//! decides on sharing in the end by comparing bytes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bus_schemas::{SessionId, Tenant, WeightSample, limits};

/// Minimum bytes of weights: smaller copies are no weights, and smaller allocations hold none.
pub const LEAST: u64 = 1 << 20;
/// Maximum number of copies named for a tenant.
const SAMPLES: usize = 8;
/// Maximum number of copies known of a session; further ones are ignored.
const COPIES: usize = 1 << 16;

/// The effect of an op on the copies that its session holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// An allocation.
    Alloc {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A free of an allocation.
    Free {
        /// First address.
        address: u64,
    },
    /// A copy from the host.
    Copied {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// Fingerprint of the copied bytes: [`bus_schemas::Parcel::fingerprint`].
        fingerprint: u64,
    },
}

/// A copy at its place.
#[derive(Debug, Clone, Copy)]
struct Copy {
    end: u64,
    fingerprint: u64,
}

#[derive(Debug)]
struct Allocation {
    end: u64,
    /// Disjoint copies, by first address.
    copies: BTreeMap<u64, Copy>,
}

#[derive(Debug)]
struct Holding {
    tenant: Tenant,
    /// Allocations, by first address.
    allocations: BTreeMap<u64, Allocation>,
    copies: usize,
}

/// Copies with one fingerprint: the bytes of one, and their number.
#[derive(Debug, Clone, Copy)]
struct Known {
    bytes: u64,
    count: u32,
}

#[derive(Debug, Default)]
struct Owner {
    known: BTreeMap<u64, Known>,
    /// Bytes of all known copies, equal ones once.
    bytes: u64,
    /// Sample named when it last held something.
    last: Vec<u64>,
    /// The time of that sample, in ends of sessions.
    since: u64,
}

impl Owner {
    fn add(&mut self, fingerprint: u64, bytes: u64) {
        let known = self.known.entry(fingerprint).or_insert_with(|| {
            self.bytes += bytes;
            Known { bytes, count: 0 }
        });
        known.count += 1;
    }

    fn remove(&mut self, fingerprint: u64) {
        if let Some(known) = self.known.get_mut(&fingerprint) {
            known.count -= 1;
            if known.count == 0 {
                self.bytes -= known.bytes;
                self.known.remove(&fingerprint);
            }
        }
    }

    fn sample(&self) -> Vec<u64> {
        self.known.keys().take(SAMPLES).copied().collect()
    }

    /// Returns samples of the copies that it holds, or else of those that it held last.
    fn named(&self, tenant: &Tenant) -> Vec<WeightSample> {
        let here = self.sample();
        let (bytes, sample) = match here.len() as u64 {
            0 => (0, self.last.clone()),
            count => (self.bytes / count, here),
        };
        let named = sample.into_iter().map(|fingerprint| WeightSample {
            tenant: tenant.clone(),
            fingerprint,
            // Bytes are rounded down to a power of two, so that leaders need not hear of every copy.
            bytes: if bytes == 0 { 0 } else { 1 << bytes.ilog2() },
        });
        named.collect()
    }
}

/// The large copies from the host that the sessions of one worker hold.
#[derive(Debug, Default)]
pub struct WeightTable {
    sessions: BTreeMap<SessionId, Holding>,
    owners: BTreeMap<Tenant, Owner>,
    /// Number of sessions that have ended so far.
    ends: u64,
}

impl WeightTable {
    /// Notes the effect of the session's next op, which will run.
    pub fn touch(&mut self, session: SessionId, tenant: &Tenant, touch: Touch) {
        match touch {
            Touch::Alloc { address, bytes } if bytes >= LEAST => {
                let end = address.saturating_add(bytes);
                let allocation = Allocation {
                    end,
                    copies: BTreeMap::new(),
                };
                let new = || Holding {
                    tenant: tenant.clone(),
                    allocations: BTreeMap::new(),
                    copies: 0,
                };
                let holding = self.sessions.entry(session).or_insert_with(new);
                // An allocation over a live one fails, and the session with it.
                holding.allocations.entry(address).or_insert(allocation);
            }
            Touch::Alloc { .. } => {}
            Touch::Free { address } => self.free(session, address),
            Touch::Copied {
                address,
                bytes,
                fingerprint,
            } => self.copied(session, address, bytes, fingerprint),
        }
    }

    fn free(&mut self, session: SessionId, address: u64) {
        let Some(holding) = self.sessions.get_mut(&session) else {
            return;
        };
        let Some(freed) = holding.allocations.remove(&address) else {
            return;
        };
        holding.copies -= freed.copies.len();
        let owner = self.owners.entry(holding.tenant.clone()).or_default();
        for copy in freed.copies.values() {
            owner.remove(copy.fingerprint);
        }
    }

    fn copied(&mut self, session: SessionId, address: u64, bytes: u64, fingerprint: u64) {
        let Some(holding) = self.sessions.get_mut(&session) else {
            return;
        };
        let before = holding.allocations.range_mut(..=address);
        let Some((_, allocation)) = before.last() else {
            return;
        };
        let Some(end) = address
            .checked_add(bytes)
            .filter(|end| *end <= allocation.end)
        else {
            return;
        };
        let owner = self.owners.entry(holding.tenant.clone()).or_default();
        let copies = &mut allocation.copies;
        let over = copies.range(..end).rev();
        let over = over.take_while(|(_, copy)| copy.end > address);
        let over: Vec<_> = over.map(|(at, copy)| (*at, copy.fingerprint)).collect();
        holding.copies -= over.len();
        for (at, fingerprint) in over {
            copies.remove(&at);
            owner.remove(fingerprint);
        }
        if bytes >= LEAST && holding.copies < COPIES {
            copies.insert(address, Copy { end, fingerprint });
            owner.add(fingerprint, bytes);
            holding.copies += 1;
        }
    }

    /// Forgets a session that has ended.
    pub fn close(&mut self, session: SessionId) {
        let Some(holding) = self.sessions.remove(&session) else {
            return;
        };
        self.ends += 1;
        let Some(owner) = self.owners.get_mut(&holding.tenant) else {
            return;
        };
        if holding.copies > 0 {
            (owner.last, owner.since) = (owner.sample(), self.ends);
        }
        let allocations = holding.allocations.values();
        for copy in allocations.flat_map(|it| it.copies.values()) {
            owner.remove(copy.fingerprint);
        }
        self.bound();
    }

    /// Limits the remembered tenants without copies to the number that can be named.
    fn bound(&mut self) {
        let mut gone: Vec<_> = self
            .owners
            .iter()
            .filter(|(_, owner)| owner.known.is_empty())
            .map(|(tenant, owner)| (Reverse(owner.since), tenant.clone()))
            .collect();
        gone.sort_unstable();
        for (_, tenant) in gone.into_iter().skip(limits::WEIGHTS) {
            self.owners.remove(&tenant);
        }
    }

    /// Returns the samples for leaders, sorted. The tenants that hold most come first, then those that held
    /// something last, as far as there is room.
    #[must_use]
    pub fn sample(&self) -> Vec<WeightSample> {
        let mut owners: Vec<_> = self.owners.iter().collect();
        owners.sort_unstable_by_key(|(tenant, owner)| {
            (Reverse(owner.bytes), Reverse(owner.since), *tenant)
        });
        let named = owners
            .iter()
            .flat_map(|(tenant, owner)| owner.named(tenant));
        let mut named: Vec<_> = named.take(limits::WEIGHTS).collect();
        named.sort_unstable();
        named
    }
}
