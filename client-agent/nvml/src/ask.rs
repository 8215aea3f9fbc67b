//! Requests to the cluster for a tenant's use of its devices. The leader lists the devices, and
//! each worker reports the memory held there. Every wait has a deadline.

use std::time::Duration;

use async_nats::{Client, Request};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Devices, DevicesRequest, Failure, MemoryStatus, MemoryStatusRequest, Tenant, TenantDevice,
    WIRE_VERSION, decode, encode, limits,
};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use crate::snapshot::DeviceState;

/// Time after which an unanswered request is sent again.
const ASK: Duration = Duration::from_millis(300);
/// Pause before a repeated request if no peer receives it.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for which the leader's list of devices stays valid, to save the leader work.
const LISTED: Duration = Duration::from_secs(1);
/// Divisor of the patience: workers get at least this part, a half.
const WORKERS: u32 = 2;

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No leader answers.
    #[error("no leader of the cluster answers, or it is older than this program")]
    NoLeader,
    /// The leader refused the request.
    #[error("{0}")]
    Refused(Failure),
    /// Its answer cannot be read.
    #[error("the leader's answer cannot be read: {0}")]
    Unreadable(String),
}

/// A client that asks leader and workers for the state of a tenant's devices, on the tenant's connection.
#[derive(Debug)]
pub struct StatusClient {
    client: Client,
    subjects: Subjects,
    tenant: Tenant,
    /// The leader's last list, and the time at which it came.
    devices: Option<(Instant, Vec<TenantDevice>)>,
}

impl StatusClient {
    /// Makes a client without any list.
    #[must_use]
    pub fn new(client: Client, subjects: Subjects, tenant: Tenant) -> Self {
        Self {
            client,
            subjects,
            tenant,
            devices: None,
        }
    }

    /// Asks for all of the tenant's devices, sorted by number. A worker that does not answer in
    /// time has no share in the result. If the leader does not answer, its previous list is used.
    ///
    /// # Errors
    /// [`AskError`], within `patience`.
    pub async fn ask(&mut self, patience: Duration) -> Result<Vec<DeviceState>, AskError> {
        let deadline = Instant::now() + patience;
        let is_new = |(said, _): &(Instant, _)| said.elapsed() < LISTED;
        if !self.devices.as_ref().is_some_and(is_new) {
            match self.list(deadline - patience / WORKERS).await {
                Ok(devices) => self.devices = Some((Instant::now(), devices)),
                Err(AskError::NoLeader) if self.devices.is_some() => {}
                // The devices of the earlier list are gone.
                Err(AskError::Refused(failure))
                    if self.devices.is_some() && failure.code.is_placement() =>
                {
                    self.devices = Some((Instant::now(), Vec::new()));
                }
                Err(error) => return Err(error),
            }
        }
        let devices = self.devices.iter().flat_map(|(_, devices)| devices);
        let states = devices.map(|device| async {
            let status = self.share(device, deadline).await;
            DeviceState::new(device.clone(), status.as_ref())
        });
        Ok(join_all(states).await)
    }

    /// Asks for the devices that the tenant's sessions may be placed on, and no worker for its
    /// share.
    ///
    /// # Errors
    /// [`AskError`], within `patience`.
    pub async fn listed(&self, patience: Duration) -> Result<Vec<TenantDevice>, AskError> {
        self.list(Instant::now() + patience).await
    }

    /// Asks the leader for its list.
    async fn list(&self, deadline: Instant) -> Result<Vec<TenantDevice>, AskError> {
        let subject = self.subjects.to_leader(&self.tenant, ToLeader::Devices);
        let request = encode(&DevicesRequest { v: WIRE_VERSION });
        let bytes = self.answer(subject, request, deadline).await;
        let bytes = bytes.ok_or(AskError::NoLeader)?;
        let answer: Devices =
            decode(&bytes).map_err(|error| AskError::Unreadable(error.to_string()))?;
        match answer.failure {
            Some(failure) => Err(AskError::Refused(failure)),
            None => {
                let mut devices = answer.devices;
                devices.truncate(limits::DEVICES_NAMED);
                Ok(devices)
            }
        }
    }

    /// Asks a worker for its status; `None` if it does not answer, or if another worker does.
    async fn share(&self, device: &TenantDevice, deadline: Instant) -> Option<MemoryStatus> {
        let subject = self
            .subjects
            .tenant_memory(&self.tenant, device.incarnation);
        let request = MemoryStatusRequest {
            v: WIRE_VERSION,
            after: None,
        };
        let bytes = self.answer(subject, encode(&request), deadline).await?;
        let status: MemoryStatus = decode(&bytes).ok()?;
        (status.incarnation == device.incarnation).then_some(status)
    }

    /// Repeats a request until there is an answer: a request may be lost, or the receiver may be
    /// overloaded.
    async fn answer(&self, subject: String, request: Vec<u8>, deadline: Instant) -> Option<Bytes> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let request = Request::new().payload(request.clone().into()).timeout(None);
            let asked = self.client.send_request(subject.clone(), request);
            if let Ok(Ok(message)) = timeout(ASK.min(left), asked).await {
                return Some(message.payload);
            }
            sleep(PAUSE.min(left)).await;
        }
    }
}
