//! A session's weights: the large copies from the host that it holds. Leaders place by a sample of them.
//!
//! A program's weights reach a device as large copies that stay where they are for the session's
//! life. Whoever brings the same ones is best placed where they are already. Leaders need not know
//! all of them: of what a tenant holds the few copies with the lowest fingerprints are named, and as
//! equal weights have equal fingerprints, two tenants that hold the same name the same.
//!
//! What kernels, sets and small copies write over is not looked at: this is a hint for placement,
//! and what is shared in the end the device decides by comparing bytes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bus_schemas::{SessionId, Tenant, WeightSample, limits};

/// Copies of fewer bytes are no weights, and allocations of fewer hold none.
pub const LEAST: u64 = 1 << 20;
/// Copies that are named of a tenant.
const SAMPLES: usize = 8;
/// Copies that are known of a session; of further ones nothing is.
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
    /// It is freed.
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
        /// Of what was copied: [`bus_schemas::Parcel::fingerprint`].
        fingerprint: u64,
    },
}

/// A copy where it lies.
#[derive(Debug, Clone, Copy)]
struct Copy {
    end: u64,
    fingerprint: u64,
}

#[derive(Debug)]
struct Allocation {
    end: u64,
    /// By first address: disjoint.
    copies: BTreeMap<u64, Copy>,
}

#[derive(Debug)]
struct Holding {
    tenant: Tenant,
    /// By first address.
    allocations: BTreeMap<u64, Allocation>,
    copies: usize,
}

/// Of one fingerprint: the bytes of one copy, and how many there are.
#[derive(Debug, Clone, Copy)]
struct Known {
    bytes: u64,
    count: u32,
}

#[derive(Debug, Default)]
struct Owner {
    known: BTreeMap<u64, Known>,
    /// The bytes of all that are known, equal ones once.
    bytes: u64,
    /// What was named of it when it last held something.
    last: Vec<u64>,
    /// When that was, in ends of sessions.
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

    /// Of what it holds, or else of what it held last.
    fn named(&self, tenant: &Tenant) -> Vec<WeightSample> {
        let here = self.sample();
        let (bytes, sample) = match here.len() as u64 {
            0 => (0, self.last.clone()),
            count => (self.bytes / count, here),
        };
        let named = sample.into_iter().map(|fingerprint| WeightSample {
            tenant: tenant.clone(),
            fingerprint,
            // In steps of a factor of two: leaders need not hear of every copy.
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
    /// Ends of sessions so far.
    ends: u64,
}

impl WeightTable {
    /// The session's next op will run.
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
                // Over one that lives it fails, and with it the session.
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

    /// The session has ended.
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

    /// Of tenants that hold nothing no more are remembered than can be named.
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

    /// What to tell leaders, sorted: first of the tenants that hold most, then of those that held
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
