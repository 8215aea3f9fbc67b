//! Settings of the cluster and of tenants, and measurements of kernels, as sent in messages.

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
    /// Device memory that the tenant may hold on one device, bytes; 0 is the device's capacity.
    pub quota: u64,
    /// Maximum number of open sessions; 0 is the cluster's setting.
    pub sessions: u32,
    /// Maximum charged work that is granted and not done, nanoseconds; 0 is no bound.
    pub outstanding_ns: u64,
    /// Maximum percent of each device's time that the tenant may use; 0 is no cap.
    #[serde(default)]
    pub cap: u8,
    /// Target for the 99th percentile of its requests, nanoseconds; 0 is no target. A request is
    /// the work between two syncs.
    #[serde(default)]
    pub slo_ns: u64,
    /// Groups of workers for its sessions; if empty, every group that is not exclusive.
    #[serde(default)]
    pub groups: Groups,
    /// Device addresses that its sessions may have on one device, bytes; 0 is the cluster's
    /// setting.
    #[serde(default, skip_serializing_if = "is_none")]
    pub addresses: u64,
    /// Maximum memory of its sessions' module images on one worker; 0 likewise.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub modules: Allowance,
    /// Maximum staged memory of its sessions on one worker; 0 likewise.
    #[serde(default, skip_serializing_if = "Allowance::is_none")]
    pub staged: Allowance,
    /// True if the memory of its sessions may be swapped out.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub swap: bool,
    /// True if the tenant is suspended: its sessions get no grants, and it gets no sessions, until
    /// it is resumed.
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
    /// Returns the tenant's limits: its own settings, else the cluster's defaults.
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

/// Limits of a tenant; `u64::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TenantLimits {
    /// Maximum number of open sessions on all workers together.
    pub sessions: u64,
    /// Device addresses of its sessions on one worker, bytes.
    pub addresses: u64,
    /// Memory of its sessions' images on one worker, bytes.
    pub modules: u64,
    /// Staged memory of its sessions on one worker, bytes.
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

/// The leader's settings, made by administrators. A setting that is not named has its default: an
/// entry of the state bucket holds only those that were set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSettings {
    /// Maximum charged work of a priority and above that is granted to a GPU and not done, in
    /// nanoseconds.
    pub window_ns: u64,
    /// Cost at which a slice is cut, nanoseconds.
    pub quantum_ns: u64,
    /// Cost of a kernel that the profile does not know, nanoseconds.
    pub unknown_ns: u64,
    /// True if measured times make new profile versions. If false, the profile is pinned and the
    /// order depends on no measurement.
    pub learn: bool,
    /// Percent of a GPU's granted work that lower priorities keep, by priority; 0 is none.
    pub floors: [u8; 5],
    /// True if work that exceeds its charge by more than a quantum is charged for the rest.
    pub settle: bool,
    /// The window of priorities below that of a tenant with a target, while that tenant is active;
    /// 0 is the general window.
    pub slo_window_ns: u64,
    /// Maximum number of ticks (10 ms) for which a slice too long for an active tenant's target is
    /// set aside.
    pub slo_wait_ticks: u32,
    /// True if the foremost session of a GPU runs its ops as they arrive, without waiting for the
    /// leader. Set to false if the order must not depend on arrival times.
    pub standing: bool,
    /// Maximum bytes of the record; an older part is cut off behind an anchor.
    pub record_max_bytes: u64,
    /// Maximum age of the record, seconds.
    pub record_max_age_s: u64,
    /// Maximum bytes of inputs that a leader keeps while they cannot be recorded. Above it they are
    /// not recorded, and the gap is named.
    pub record_buffer: u64,
    /// Time for which usage is kept in detail, seconds; older usage is kept by days.
    pub usage_max_age_s: u64,
    /// Number of copies of all stored data in a broker of several servers; 0 is what the broker
    /// allows.
    pub broker_replicas: u32,
    /// Maximum number of open sessions of a tenant without a setting of its own. 0, in data from
    /// before limits existed, is no limit.
    #[serde(default)]
    pub tenant_sessions: u32,
    /// Device addresses that the sessions of such a tenant may have on one device, bytes; 0
    /// likewise.
    #[serde(default)]
    pub tenant_addresses: u64,
    /// Maximum memory of the images of such a tenant's sessions on one worker, bytes; 0 likewise.
    #[serde(default)]
    pub tenant_modules: u64,
    /// Maximum staged memory of such a tenant's sessions on one worker, bytes; 0 likewise.
    #[serde(default)]
    pub tenant_staged: u64,
    /// True if only `tenant create` creates tenants: `run` and `submit` do not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tenant_create_only: bool,
}

impl ClusterSettings {
    /// Returns the settings with default values for unset limits. An entry of the state bucket is
    /// read like this, but a record is not: decisions made without limits must be repeated without
    /// them.
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
    /// Sum of their device nanoseconds.
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
    /// SM-nanoseconds: sum of occupied SMs times measured nanoseconds.
    pub sm_ns: u64,
    /// Device nanoseconds, with overlaps split in proportion.
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
    /// Bytes that sessions hold but that are not stored for each of them, because they share.
    #[serde(default, skip_serializing_if = "is_none")]
    pub saved: u64,
    /// One row per session, including closed ones.
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
