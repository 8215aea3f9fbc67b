//! The devices that a tenant may use: its question to the leader, without opening a session. Maps by
//! field name.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::control::properties::DeviceProperties;
use crate::error::Failure;
use crate::id::{GpuId, Incarnation};

/// Tenant to leader, a request: which devices may my sessions be placed on? Who asks is read from the
/// subject. Answered by [`Devices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesRequest {
    /// Wire version.
    pub v: u16,
}

impl Message for DevicesRequest {
    const ARRAY: bool = false;
}

/// A device that sessions of a tenant may be placed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantDevice {
    /// Its worker.
    pub incarnation: Incarnation,
    /// The device.
    pub gpu: GpuId,
    /// Bytes that the tenant may hold there.
    pub quota: u64,
    /// What the device is; of a worker that does not say so all are 0 or empty.
    pub properties: DeviceProperties,
}

/// The leader's answer to a [`DevicesRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Wire version.
    pub v: u16,
    /// The devices by number, [`crate::limits::DEVICES_NAMED`] at most: those of the tenant's groups
    /// whose workers are there and are not drained.
    #[serde(with = "list")]
    pub devices: Vec<TenantDevice>,
    /// Why none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for Devices {
    const ARRAY: bool = false;
}
