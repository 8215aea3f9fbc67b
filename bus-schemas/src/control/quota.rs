//! Quotas: the device memory that tenants may hold, as sent by a leader to its workers.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::id::{Epoch, LeaderId, Tenant};

/// A tenant's quota: a row of 40 bytes, fields in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantQuota {
    /// The tenant.
    pub tenant: Tenant,
    /// Device memory that it may hold on one device, bytes.
    pub quota: u64,
}

impl Row for TenantQuota {
    const SIZE: usize = 40;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.quota]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            quota: fields.u64()?,
        })
    }
}

/// Leader to worker, until its heartbeats confirm it: the quotas in force. Map by field name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The list's number in the epoch, from 1.
    pub number: u64,
    /// The tenants with a quota, by name. Others may hold all of the device's memory.
    #[serde(with = "rows")]
    pub quotas: Vec<TenantQuota>,
    /// The tenants with memory that is never swapped out, by name.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<Tenant>,
    /// All tenants, by name: the worker may subscribe to each. Empty if there are more than 4,096.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<Tenant>,
}

impl Message for Quotas {
    const ARRAY: bool = false;
}
