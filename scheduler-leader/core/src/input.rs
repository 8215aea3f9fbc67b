//! The inputs of the order: a closed set, numbered by their order and recorded.

use bus_schemas::{
    Chain, CloseReason, ClusterSettings, Code, CostRun, DoneReport, Epoch, GpuPosition,
    Incarnation, KernelKey, LeaderId, OpNumber, ProfileHash, Row, SealAnswer, SealedGrant,
    SealedName, SessionId, SessionResidency, Tenant, TenantSettings, WeightSample,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum of any number in an honest worker's seal answer; above it sums might not fit.
pub(crate) const HIGHEST: u64 = 1 << 62;

/// Estimated device times by kernel key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Counts up with every change.
    pub version: u64,
    /// The hash of all estimates after this profile is taken in; absent in records made before
    /// hashes existed.
    #[serde(default)]
    pub hash: ProfileHash,
    /// True if these are all estimates: others are forgotten.
    #[serde(default)]
    pub whole: bool,
    /// Estimated nanoseconds of one launch, by key, in key order; 0 forgets the key.
    pub entries: Vec<(KernelKey, u64)>,
}

impl Profile {
    /// A profile of these estimates and no others, in any order.
    #[must_use]
    pub fn of(version: u64, mut entries: Vec<(KernelKey, u64)>) -> Self {
        entries.retain(|(_, ns)| *ns > 0);
        entries.sort_unstable();
        entries.dedup_by_key(|(key, _)| *key);
        Self {
            version,
            hash: ProfileHash::of(entries.iter().copied()),
            whole: true,
            entries,
        }
    }
}

/// The start of a new leader's order, beside the workers' seal answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Takeover {
    /// The rules that decide: [`crate::ORDER_VERSION`] of the leader.
    pub order_version: u32,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The settings of the order.
    pub settings: ClusterSettings,
    /// Every tenant.
    pub tenants: Vec<(Tenant, TenantSettings)>,
    /// Estimated costs of kernels.
    pub profile: Profile,
    /// The highest ordinal each tenant is known to have used.
    pub ordinals: Vec<(Tenant, u64)>,
    /// True if grants are held.
    pub held: bool,
}

/// One input of the order. Variant and field names are the record's format: they never change
/// their meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Input {
    /// The first input of an epoch.
    Takeover(Box<Takeover>),
    /// A worker obeys this epoch; its sessions go on.
    WorkerSealed {
        /// The worker.
        incarnation: Incarnation,
        /// Sessions and accepted grants of the worker.
        answer: Box<SealAnswer>,
    },
    /// A part of the tail of a worker that is about to be sealed: grants that it accepted behind
    /// what it knows to be recorded. It comes ahead of the worker's answer. Only replays use it; it
    /// decides nothing.
    WorkerTail {
        /// The worker.
        incarnation: Incarnation,
        /// Accepted grants, in position order.
        grants: Rows<SealedGrant>,
        /// The owners of their sessions.
        named: Rows<SealedName>,
    },
    /// A worker is gone for good.
    WorkerLost {
        /// The worker.
        incarnation: Incarnation,
        /// True if the worker had announced that it drains: it left, and its chain counts.
        left: bool,
        /// The last position that it is known to have accepted. A worker that left accepted no
        /// more.
        #[serde(default)]
        accepted: GpuPosition,
        /// Its chain at that position, as the worker reported it; replays compare it with theirs.
        /// `None` if this leader had not sealed the worker, and in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain: Option<Chain>,
    },
    /// A worker starts or stops to drain: it finishes what it has accepted and then leaves.
    Draining {
        /// The worker.
        incarnation: Incarnation,
        /// True if it drains.
        draining: bool,
    },
    /// An administrator wants a worker to take no new sessions, or to take them again. Its present
    /// sessions go on as before.
    Cordon {
        /// The worker.
        incarnation: Incarnation,
        /// True if it takes no new sessions.
        cordoned: bool,
    },
    /// A worker reports its group and its holdings.
    Report {
        /// The worker.
        incarnation: Incarnation,
        /// Its report.
        report: WorkerReport,
    },
    /// A worker with overcommitted memory reports what its sessions hold, and where.
    Residency {
        /// The worker.
        incarnation: Incarnation,
        /// Bytes that all its sessions may hold together.
        limit: u64,
        /// Nanoseconds that a mebibyte takes to move, as measured last; 0 before the first.
        ns_per_mib: u64,
        /// Its sessions, while what they hold does not fit on the device.
        sessions: Rows<SessionResidency>,
    },
    /// A tenant asks for a session, or for several on different workers.
    SessionOpen {
        /// The tenant.
        tenant: Tenant,
        /// The request's nonce, which tells the answer's effect from others. Further devices have
        /// the numbers after it.
        nonce: u64,
        /// Number of devices.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        devices: u32,
        /// True if its window has room for three times the bytes that may be allocated; else, as in
        /// records of earlier builds, for twice as many.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        wide: bool,
    },
    /// A session is to end.
    SessionClose {
        /// The session.
        session: SessionId,
        /// The op to wait for, if the client asked for the close.
        after: OpNumber,
        /// The reason.
        reason: CloseReason,
    },
    /// Ops of a session that may be ordered: the next ones, without a gap.
    Intent {
        /// The session.
        session: SessionId,
        /// Number of the first op.
        first: OpNumber,
        /// Their costs.
        runs: Rows<CostRun>,
    },
    /// Positions of a worker ended, in the order it reported them.
    Done {
        /// The worker.
        incarnation: Incarnation,
        /// Their outcomes.
        reports: Rows<DoneReport>,
    },
    /// Ops that a worker has of a doubted session.
    Received {
        /// The session.
        session: SessionId,
        /// Ops received without a gap.
        received: OpNumber,
    },
    /// A session can run no more.
    Fault {
        /// The session.
        session: SessionId,
        /// The op that failed, or 0 if no op did.
        op: OpNumber,
        /// The error.
        code: Code,
    },
    /// The cluster's settings changed.
    Settings(ClusterSettings),
    /// A tenant was added or changed, or (without settings) removed.
    TenantSet {
        /// The tenant.
        tenant: Tenant,
        /// Its present settings.
        settings: Option<TenantSettings>,
    },
    /// Changed estimates, while the others stay; or all estimates, if the profile is whole.
    Profile(Profile),
    /// Grants are held back from now on, or released.
    Hold {
        /// True if they are held.
        held: bool,
    },
    /// One fixed period has passed.
    Tick,
}

impl Input {
    /// Returns true for the inputs that hand over what a worker accepted before it was sealed.
    pub(crate) fn is_handed_over(&self) -> bool {
        matches!(self, Self::WorkerSealed { .. } | Self::WorkerTail { .. })
    }
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_one(devices: &u32) -> bool {
    *devices == 1
}

/// A worker's report of itself, as needed by placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// Its group of workers.
    pub group: Tenant,
    /// True if it takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// Memory that sessions hold, bytes.
    pub held: u64,
    /// Images that it has: the tenant that sent each, and the first 64 bits of its hash.
    pub images: Rows<(Tenant, u64)>,
    /// A sample of the weights that its sessions hold.
    #[serde(default, skip_serializing_if = "Rows::is_empty")]
    pub weights: Rows<WeightSample>,
}

impl WorkerReport {
    /// The group of workers that name none.
    pub const GROUP: &str = "default";
}

impl Default for WorkerReport {
    #[expect(clippy::expect_used, reason = "a constant, which a test below reads")]
    fn default() -> Self {
        Self {
            group: Self::GROUP.parse().expect("a name"),
            exclusive: false,
            held: 0,
            images: Rows::default(),
            weights: Rows::default(),
        }
    }
}

/// Rows that are recorded packed: one bin field instead of a map per row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<R>(pub Vec<R>);

impl<R> Rows<R> {
    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<R> Default for Rows<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<R: Row> Serialize for Rows<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut packed = Vec::with_capacity(self.0.len() * R::SIZE);
        self.0.iter().for_each(|row| row.write(&mut packed));
        serializer.serialize_bytes(&packed)
    }
}

impl<'de, R: Row> Deserialize<'de> for Rows<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: &[u8] = serde_bytes::deserialize(deserializer)?;
        let rows = bytes.chunks(R::SIZE).map(|row| {
            let whole = (row.len() == R::SIZE).then_some(row);
            whole.and_then(R::read)
        });
        let rows: Option<Vec<R>> = rows.collect();
        rows.map(Self)
            .ok_or_else(|| serde::de::Error::custom("rows that mean nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_workers_that_say_nothing_is_a_name() {
        let report = WorkerReport::default();
        assert_eq!(report.group.as_str(), WorkerReport::GROUP);
    }
}
