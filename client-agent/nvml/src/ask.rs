//! Asking the cluster what a tenant has of its devices: the leader which there are, each worker what is
//! held there. Every wait has an end.

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

/// How long one request is waited for before it is sent again.
const ASK: Duration = Duration::from_millis(300);
/// Pause before asking again where nobody takes the question.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the leader's list of devices is good: it has more to do than to tell it.
const LISTED: Duration = Duration::from_secs(1);
/// The part of the patience that workers have at least: a half.
const WORKERS: u32 = 2;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No leader answers.
    #[error("no leader of the cluster answers, or it is older than this program")]
    NoLeader,
    /// What the leader says.
    #[error("{0}")]
    Refused(Failure),
    /// Its answer cannot be read.
    #[error("the leader's answer cannot be read: {0}")]
    Unreadable(String),
}

/// Who asks for a tenant, on its connection.
#[derive(Debug)]
pub struct Asker {
    client: Client,
    subjects: Subjects,
    tenant: Tenant,
    /// What the leader said last, and when.
    devices: Option<(Instant, Vec<TenantDevice>)>,
}

impl Asker {
    /// An asker that knows nothing yet.
    #[must_use]
    pub fn new(client: Client, subjects: Subjects, tenant: Tenant) -> Self {
        Self {
            client,
            subjects,
            tenant,
            devices: None,
        }
    }

    /// Asks for all of the tenant's devices, by number. A worker that does not answer in time has no
    /// share in the result; a leader that does not is believed to say what it said before.
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
                // Those that were there are gone.
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

    /// The leader's list.
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

    /// A worker's word; none where it does not come, or is not that worker's.
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

    /// Asks until there is an answer: questions may be lost, or be too many for who is asked.
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
