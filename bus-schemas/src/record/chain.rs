//! The launch order as a hash chain: h(p) = H(h(p-1), p, tenant, ordinal, kind, op range).

use serde::{Deserialize, Serialize};

use crate::id::{GpuId, GpuPosition, OpNumber, Tenant};

/// The effect of a grant at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GrantKind {
    /// Runs a slice.
    Run,
    /// Begins a session on the worker; its op range is 0 to 0.
    Open,
    /// Ends a session and frees its memory; its op range is 0 to 0.
    Close,
    /// Runs all ops that its session sends from the grant's first op on. The worker closes it at
    /// the next position, at a seal, or when it drains. When granted, its last op is 0. It is
    /// accepted and enters the chain when it is closed, with the last op that was started (the op
    /// before the first if none was).
    Standing,
    /// Only closes the standing grant before it; its op range is 0 to 0.
    Revoke,
    /// Brings a session's swapped-out memory back to the device; its op range is 0 to 0. It ends
    /// once the memory is there. Sent only to workers that report the place of memory.
    Return,
}

impl GrantKind {
    /// Returns the number in packed columns and in the chain.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Run => 0,
            Self::Open => 1,
            Self::Close => 2,
            Self::Standing => 3,
            Self::Revoke => 4,
            Self::Return => 5,
        }
    }

    const ALL: [Self; 6] = [
        Self::Run,
        Self::Open,
        Self::Close,
        Self::Standing,
        Self::Revoke,
        Self::Return,
    ];

    /// Returns the kind of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Returns the kind of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name in evidence and exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Open => "open",
            Self::Close => "close",
            Self::Standing => "standing",
            Self::Revoke => "revoke",
            Self::Return => "return",
        }
    }
}

/// The contribution of one position to its GPU's chain. It has no session id: those differ from run
/// to run, but a tenant's ordinals do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEntry<'a> {
    /// The position.
    pub position: GpuPosition,
    /// The session's tenant.
    pub tenant: &'a Tenant,
    /// The session's number among the tenant's, from 1.
    pub ordinal: u64,
    /// The kind of the grant.
    pub kind: GrantKind,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
}

/// The value of a GPU's chain after a position; all zeros before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Chain(pub [u8; 32]);

impl Chain {
    /// Returns the chain after one more accepted position.
    #[must_use]
    pub fn then(self, entry: &ChainEntry<'_>) -> Self {
        let tenant = entry.tenant.as_str().as_bytes();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(&entry.position.to_le_bytes());
        hasher.update(&[tenant.len() as u8]);
        hasher.update(tenant);
        hasher.update(&entry.ordinal.to_le_bytes());
        hasher.update(&[entry.kind.number()]);
        hasher.update(&entry.first.to_le_bytes());
        hasher.update(&entry.last.to_le_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chain({self})")
    }
}

impl Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Chain {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: &[u8] = serde_bytes::deserialize(deserializer)?;
        let chain = bytes
            .try_into()
            .map_err(|_| serde::de::Error::custom("a chain is 32 bytes"))?;
        Ok(Self(chain))
    }
}

/// The end of one incarnation's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuTail {
    /// The device.
    pub gpu: GpuId,
    /// Last accepted position.
    pub position: GpuPosition,
    /// The chain there.
    pub chain: Chain,
}

/// Returns the launch order's digest: H over (gpu, last position, chain) in gpu order. Incarnations
/// that accepted nothing are left out.
#[must_use]
pub fn digest(tails: &[GpuTail]) -> Chain {
    let mut ordered = tails.to_vec();
    ordered.retain(|tail| tail.position > 0);
    ordered.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for tail in ordered {
        hasher.update(&tail.gpu.to_le_bytes());
        hasher.update(&tail.position.to_le_bytes());
        hasher.update(&tail.chain.0);
    }
    Chain(*hasher.finalize().as_bytes())
}
