//! The use of a device's memory: a worker's answer to administrators and tenants, exact at the time
//! of the request. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::control::process::{ClientProcess, ShortText};
use crate::control::residency::SwapStatus;
use crate::id::{GpuId, Incarnation, SessionId, Tenant};
use crate::record::usage::TenantMoves;

/// Administrator or tenant to worker, a request for the holders of the device's memory. A tenant
/// gets only its own rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatusRequest {
    /// Wire version.
    pub v: u16,
    /// Only tenants with names after this one: the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Tenant>,
}

impl Message for MemoryStatusRequest {
    const ARRAY: bool = false;
}

/// The worker's answer to a [`MemoryStatusRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Bytes that all sessions may hold together; for a tenant, that it may hold.
    pub capacity: u64,
    /// Bytes that they have allocated.
    pub held: u64,
    /// Bytes that may still be allocated there.
    pub free: u64,
    /// The tenants of this page by name, at most [`crate::limits::STATUS_TENANTS`]. A tenant gets
    /// only itself, or no row if it has no session there.
    #[serde(with = "rows")]
    pub tenants: Vec<TenantMemoryStatus>,
    /// Their sessions in the same order, at most [`crate::limits::STATUS_SESSIONS`].
    #[serde(with = "rows")]
    pub sessions: Vec<SessionMemoryStatus>,
    /// True if there are more tenants: ask again with the last name in `after`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// State of swapping, if the device's memory is overcommitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatus>,
    /// Moves of the tenants' memory since the worker's start; only of tenants with any.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "rows")]
    pub moves: Vec<TenantMoves>,
}

impl MemoryStatus {
    /// Returns the listed sessions of one tenant.
    pub fn sessions_of(&self, tenant: &Tenant) -> impl Iterator<Item = &SessionMemoryStatus> {
        self.sessions
            .iter()
            .filter(move |session| session.tenant == *tenant)
    }
}

impl Message for MemoryStatus {
    const ARRAY: bool = false;
}

/// Memory of one tenant on a device: a row of 88 bytes, fields in this order, each number of 8
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantMemoryStatus {
    /// The tenant.
    pub tenant: Tenant,
    /// Bytes that it may hold there: its quota, or the device's memory.
    pub total: u64,
    /// Bytes that its sessions have allocated.
    pub held: u64,
    /// Bytes that it may still allocate: the rest of `total`, or of the device if that is less.
    pub free: u64,
    /// Bytes that its sessions may hold without another request.
    pub committed: u64,
    /// Bytes charged to it: those that the device reports its sessions to hold.
    pub resident: u64,
    /// Part of the last second with at least one of its launches running, parts per million.
    pub busy_ppm: u32,
    /// Number of its open sessions; the answer lists as many as fit.
    pub sessions: u32,
}

impl Row for TenantMemoryStatus {
    const SIZE: usize = 88;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.total, self.held, self.free]);
        put(out, &[self.committed, self.resident]);
        put(out, &[u64::from(self.busy_ppm), u64::from(self.sessions)]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            total: fields.u64()?,
            held: fields.u64()?,
            free: fields.u64()?,
            committed: fields.u64()?,
            resident: fields.u64()?,
            busy_ppm: fields.u64()?.try_into().ok()?,
            sessions: fields.u64()?.try_into().ok()?,
        })
    }
}

/// Memory of one session on a device: a row of 192 bytes, fields in this order. Each number has 8
/// bytes, the process is its id, and host and name have 64 bytes each, zero-padded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMemoryStatus {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Bytes that it has allocated.
    pub held: u64,
    /// Part of the last second with at least one of its launches running, parts per million.
    pub busy_ppm: u32,
    /// The client process, if reported.
    pub process: Option<ClientProcess>,
}

impl Row for SessionMemoryStatus {
    const SIZE: usize = 192;

    fn write(&self, out: &mut Vec<u8>) {
        let process = self.process.as_ref();
        let pid = process.map_or(0, |process| process.pid);
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.held]);
        put(out, &[u64::from(self.busy_ppm), u64::from(pid)]);
        for text in [
            process.map(|process| process.host),
            process.map(|process| process.name),
        ] {
            out.extend_from_slice(text.unwrap_or_default().padded());
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (tenant, session) = (fields.tenant()?, SessionId(fields.u64()?));
        let (held, busy_ppm) = (fields.u64()?, fields.u64()?.try_into().ok()?);
        let pid = fields.u64()?.try_into().ok()?;
        let host = ShortText::from_padded(fields.array()?)?;
        let name = ShortText::from_padded(fields.array()?)?;
        Some(Self {
            tenant,
            session,
            held,
            busy_ppm,
            process: (pid != 0).then_some(ClientProcess { host, pid, name }),
        })
    }
}
