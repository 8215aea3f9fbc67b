//! Settings of the cluster and of tenants, and measurements of kernels, as they travel.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::control::allowance::Allowance;
use crate::control::placement::Groups;
use crate::id::{Incarnation, KernelKey, SessionId, Tenant};
use crate::limits::{ADDRESS_FIRST, ADDRESS_LAST, TRANSFER_BYTES};

/// A tenant as administrators set it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantSettings {
    /// Priority, 0 (highest) to 4.
    pub priority: u8,
    /// Share within the priority, 1 to 1000.
    pub weight: u32,
    /// Device memory the tenant may hold on one device, bytes; 0 is the device's capacity.
    pub quota: u64,
    /// Sessions at a time; 0 is what the cluster's settings say.
    pub sessions: u32,
    /// Charged work that may be granted and not done at a time, nanoseconds; 0 is no bound.
    pub outstanding_ns: u64,
    /// Percent of each device's time that the tenant may use at most; 0 is no cap.
    #[serde(default)]
    pub cap: u8,
    /// What the 99th percentile of its requests is to stay within, nanoseconds; 0 is no target. A
    /// request is what lies between two syncs.
    #[serde(default)]
    pub slo_ns: u64,
    /// Groups of workers that its sessions go to; none is every group that is not exclusive.
    #[serde(default)]
    pub groups: Groups,
    /// Device addresses that its sessions may have on one device, bytes; 0 is what the cluster's
    /// settings say.
    #[serde(default, skip_serializing_if = "is_none")]
    pub addresses: u64,
    /// What the images of modules that its sessions have may take on one worker; 0 likewise.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub modules: Allowance,
    /// What its sessions may have staged on one worker; 0 likewise.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub staged: Allowance,
    /// Whether the memory of its sessions may be swapped out.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub swap: bool,
    /// Nothing more of its sessions is granted, and it gets no others, until it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_yes(value: &bool) -> bool {
    *value
}

impl TenantSettings {
    /// What the tenant may have at most: what was set for it, else the cluster's default.
    #[must_use]
    pub fn limits(&self, cluster: &ClusterSettings) -> TenantLimits {
        let own = |own: u64, usual: u64| match (own, usual) {
            (0, 0) => u64::MAX,
            (0, usual) => usual,
            (own, _) => own,
        };
        let said = |own: Allowance| if own.is_none() { 0 } else { own.bytes() };
        TenantLimits {
            sessions: own(self.sessions.into(), cluster.tenant_sessions.into()),
            addresses: own(self.addresses, cluster.tenant_addresses),
            modules: own(said(self.modules), cluster.tenant_modules),
            staged: own(said(self.staged), cluster.tenant_staged),
        }
    }
}

/// What a tenant may have at most; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TenantLimits {
    /// Sessions at a time, on all workers together.
    pub sessions: u64,
    /// Device addresses of its sessions on one worker, bytes.
    pub addresses: u64,
    /// What the images that its sessions have take on one worker, bytes.
    pub modules: u64,
    /// What its sessions have staged on one worker, bytes.
    pub staged: u64,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            priority: 2,
            weight: 1,
            quota: 0,
            sessions: 0,
            outstanding_ns: 0,
            cap: 0,
            slo_ns: 0,
            groups: Groups::default(),
            addresses: 0,
            modules: Allowance::NONE,
            staged: Allowance::NONE,
            swap: true,
            suspended: false,
        }
    }
}

/// How the leader orders, as administrators set it. What is not named has its default: an entry of
/// the state bucket holds what was set, and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSettings {
    /// Charged work granted to a GPU and not done, per priority and above, nanoseconds.
    pub window_ns: u64,
    /// A slice is cut when its cost reaches this, nanoseconds.
    pub quantum_ns: u64,
    /// Cost of a kernel the profile does not know, nanoseconds.
    pub unknown_ns: u64,
    /// Whether measured times make new profile versions. Off, the profile is pinned and the order
    /// depends on nothing measured.
    pub learn: bool,
    /// Percent of a GPU's granted work that lower priorities are left, by priority; 0 is none.
    pub floors: [u8; 5],
    /// Whether work that took more than a quantum longer than it was charged is charged the rest.
    pub settle: bool,
    /// The window of priorities below that of a tenant with a target, while that tenant is active;
    /// 0 is the window that all have.
    pub slo_window_ns: u64,
    /// Ticks (10 ms) that a slice too long for an active tenant's target is set aside at most.
    pub slo_wait_ticks: u32,
    /// Whether the foremost session of a GPU runs its ops as they arrive, without waiting for the
    /// leader. Off where the order must not depend on when ops arrived.
    pub standing: bool,
    /// Bytes that the record may hold: what is older than the newest of them is cut off behind an
    /// anchor.
    pub record_max_bytes: u64,
    /// Seconds that the record is kept at most.
    pub record_max_age_s: u64,
    /// Bytes of inputs that a leader keeps while they cannot be recorded; above it they go
    /// unrecorded, and the gap is named.
    pub record_buffer: u64,
    /// Seconds that what was used is kept in detail; what is older is kept by days.
    pub usage_max_age_s: u64,
    /// Copies of all that is kept in a broker of several servers; 0 is what the broker allows.
    pub broker_replicas: u32,
    /// Sessions at a time of a tenant for which nothing else is set. 0, in what was written before
    /// there was a limit, is none.
    #[serde(default)]
    pub tenant_sessions: u32,
    /// Device addresses that such a tenant's sessions may have on one device, bytes; 0 likewise.
    #[serde(default)]
    pub tenant_addresses: u64,
    /// What the images that such a tenant's sessions have may take on one worker, bytes; 0 likewise.
    #[serde(default)]
    pub tenant_modules: u64,
    /// What such a tenant's sessions may have staged on one worker, bytes; 0 likewise.
    #[serde(default)]
    pub tenant_staged: u64,
    /// Says that `tenant create` alone makes tenants: `run` and `submit` do not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tenant_create_only: bool,
}

impl ClusterSettings {
    /// The same with the defaults of limits that nobody has set. An entry of the state bucket is read
    /// so. A record is not: what was decided without limits is decided so again.
    #[must_use]
    pub fn with_limits(mut self) -> Self {
        let usual = Self::default();
        if self.tenant_sessions == 0 {
            self.tenant_sessions = usual.tenant_sessions;
        }
        for (limit, usual) in [
            (&mut self.tenant_addresses, usual.tenant_addresses),
            (&mut self.tenant_modules, usual.tenant_modules),
            (&mut self.tenant_staged, usual.tenant_staged),
        ] {
            if *limit == 0 {
                *limit = usual;
            }
        }
        self
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            window_ns: 2_000_000,
            quantum_ns: 500_000,
            unknown_ns: 20_000,
            learn: true,
            floors: [0; 5],
            settle: true,
            slo_window_ns: 500_000,
            slo_wait_ticks: 20,
            standing: true,
            record_max_bytes: 8 << 30,
            record_max_age_s: 7 * 86_400,
            record_buffer: 256 << 20,
            usage_max_age_s: 90 * 86_400,
            broker_replicas: 0,
            tenant_sessions: 1_024,
            tenant_addresses: (ADDRESS_LAST - ADDRESS_FIRST) / 8,
            tenant_modules: 4 << 30,
            tenant_staged: TRANSFER_BYTES,
            tenant_create_only: false,
        }
    }
}

/// Totals of one kernel key since the incarnation began: a row of a measured message, 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredKernel {
    /// The key.
    pub key: KernelKey,
    /// Launches.
    pub count: u64,
    /// Their device nanoseconds, added up.
    pub total_ns: u64,
}

impl Row for MeasuredKernel {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.key.0, self.count, self.total_ns]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            key: KernelKey(fields.u64()?),
            count: fields.u64()?,
            total_ns: fields.u64()?,
        })
    }
}

/// Worker to leader: measured times for the next profile version. Only keys that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Wire version.
    pub v: u16,
    /// The kernels.
    #[serde(with = "rows")]
    pub kernels: Vec<MeasuredKernel>,
}

impl Message for Measured {
    const ARRAY: bool = false;
}

/// One session's use of a device since the incarnation began: a row of a usage message, 80 bytes,
/// fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageRow {
    /// The tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Launches run.
    pub launches: u64,
    /// SM-nanoseconds: SMs occupied times measured nanoseconds, added up.
    pub sm_ns: u64,
    /// Device nanoseconds, overlap split in proportion.
    pub device_ns: u64,
    /// Byte-milliseconds resident.
    pub byte_ms: u64,
    /// Bytes resident now.
    pub resident: u64,
}

impl Row for UsageRow {
    const SIZE: usize = 80;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.launches, self.sm_ns]);
        put(out, &[self.device_ns, self.byte_ms, self.resident]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            session: SessionId(fields.u64()?),
            launches: fields.u64()?,
            sm_ns: fields.u64()?,
            device_ns: fields.u64()?,
            byte_ms: fields.u64()?,
            resident: fields.u64()?,
        })
    }
}

/// Worker to everyone in the cluster: metering, absolute totals since the incarnation began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// SMs of the device.
    pub sms: u32,
    /// Nanoseconds since the incarnation began.
    pub elapsed_ns: u64,
    /// Nanoseconds with at least one launch running.
    pub active_ns: u64,
    /// Nanoseconds in which a launch was ready and waiting while the device was busy.
    pub starved_ns: u64,
    /// SM-nanoseconds of all sessions, closed ones too.
    pub sm_ns: u64,
    /// Bytes that sessions hold and that are not stored for each of them, because they share.
    #[serde(default, skip_serializing_if = "is_none")]
    pub saved: u64,
    /// One row a session, closed ones too.
    #[serde(with = "rows")]
    pub sessions: Vec<UsageRow>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl Message for Usage {
    const ARRAY: bool = false;
}
