//! Opening a session: a client's request, and the devices that it gets. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::codec::decode_budget::{list, rows, text};
use crate::codec::message::{Message, WIRE_VERSION};
use crate::control::placement::OtherDevice;
use crate::control::properties::DeviceProperties;
use crate::error::Failure;
use crate::id::{Epoch, GpuId, Incarnation, LeaderId, SessionId};

/// Client to leader, a request to open a session. The subject names the tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Wire version.
    pub v: u16,
    /// Random; repeated requests with the same nonce open only one session.
    pub nonce: u64,
    /// Name of the client's connection, by which a disconnect event reveals its death.
    #[serde(with = "text")]
    pub connection: String,
    /// Number of devices, each on another worker: all or none. The nonces after this one identify
    /// those after the first.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub devices: u32,
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

impl Message for OpenRequest {
    const ARRAY: bool = false;
}

/// An opened session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// The worker that holds it.
    pub incarnation: Incarnation,
    /// The device of that worker.
    pub gpu: GpuId,
    /// The session's addresses. The client allocates in the lower 15/16; the rest is the worker's,
    /// for module globals.
    pub window: Window,
    /// Memory that the tenant may hold on this device, bytes.
    pub quota: u64,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// Properties of the device, if the worker reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<DeviceProperties>,
    /// True if the cluster traces: the program reports its requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub traced: bool,
}

/// The answer to an open request: either a session or a failure is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAnswer {
    /// Wire version.
    pub v: u16,
    /// The session; with several devices, the first one.
    pub opened: Option<Opened>,
    /// The refusal, if there is no session.
    pub failure: Option<Failure>,
    /// The other devices.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherDevice>,
    /// Properties of those, in the same order.
    #[serde(default, with = "list", skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<DeviceProperties>,
}

impl OpenAnswer {
    /// Creates an answer with these devices.
    #[must_use]
    pub fn of(devices: &[Opened]) -> Self {
        let others = devices.iter().skip(1);
        Self {
            v: WIRE_VERSION,
            opened: devices.first().cloned(),
            failure: None,
            properties: others
                .clone()
                .map(|it| it.properties.clone().unwrap_or_default())
                .collect(),
            others: others
                .map(|it| OtherDevice {
                    session: it.session,
                    ordinal: it.ordinal,
                    incarnation: it.incarnation,
                    gpu: it.gpu,
                    window: it.window,
                    quota: it.quota,
                })
                .collect(),
        }
    }

    /// Creates an answer with a failure.
    #[must_use]
    pub fn refusal(failure: Failure) -> Self {
        Self {
            v: WIRE_VERSION,
            opened: None,
            failure: Some(failure),
            others: Vec::new(),
            properties: Vec::new(),
        }
    }

    /// Returns all devices; empty for a refusal.
    #[must_use]
    pub fn devices(self) -> Vec<Opened> {
        let Some(first) = self.opened else {
            return Vec::new();
        };
        let mut properties = self.properties.into_iter();
        let others: Vec<_> = self.others.into_iter().collect();
        let others = others.into_iter().map(|it| Opened {
            session: it.session,
            ordinal: it.ordinal,
            incarnation: it.incarnation,
            gpu: it.gpu,
            window: it.window,
            quota: it.quota,
            epoch: first.epoch,
            leader: first.leader,
            // A device without reported properties has no multiprocessors either.
            properties: properties.next().filter(|it| it.sms > 0),
            traced: first.traced,
        });
        let others: Vec<_> = others.collect();
        std::iter::once(first).chain(others).collect()
    }
}

impl Message for OpenAnswer {
    const ARRAY: bool = false;
}
