//! The devices that a tenant may use: a request to the leader that opens no session. Maps by field
//! name.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::control::properties::DeviceProperties;
use crate::error::Failure;
use crate::id::{GpuId, Incarnation};

/// Tenant to leader, a request for the devices that its sessions may be placed on. The subject
/// names the tenant. Answered by [`Devices`].
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
    /// Properties of the device; all are 0 or empty if the worker does not report them.
    pub properties: DeviceProperties,
}

/// The leader's answer to a [`DevicesRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// Wire version.
    pub v: u16,
    /// The devices by number, at most [`crate::limits::DEVICES_NAMED`]: those of the tenant's
    /// groups with workers that are alive and not drained.
    #[serde(with = "list")]
    pub devices: Vec<TenantDevice>,
    /// The reason that none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Message for Devices {
    const ARRAY: bool = false;
}
