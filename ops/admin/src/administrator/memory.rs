//! Use of the devices' memory, as reported by the workers themselves.

use std::time::Duration;

use bus_schemas::{
    GpuId, Incarnation, MemoryStatus, MemoryStatusRequest, Status, WIRE_VERSION, decode, encode,
};
use futures_util::future::join_all;

use super::Administrator;

/// Time that one worker has to answer. A busy worker takes it all. A worker of an earlier build
/// does not subscribe to the question, which the broker reports at once.
const ASK: Duration = Duration::from_secs(3);
/// Maximum number of pages of one worker.
const PAGES: usize = 1_000;

/// A device, with its worker's report on its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// The worker's report, with all tenants; `None` if the worker does not answer.
    pub said: Option<MemoryStatus>,
}

impl Administrator {
    /// Asks each live worker for the use of its device's memory; sorted by device.
    pub async fn memory(&self, status: &Status) -> Vec<DeviceMemory> {
        let live = status.workers.iter().filter(|worker| !worker.lost);
        let asked = live.map(async |worker| DeviceMemory {
            incarnation: worker.incarnation,
            gpu: worker.gpu,
            said: self.memory_of(worker.incarnation).await,
        });
        let mut devices = join_all(asked).await;
        devices.sort_by_key(|device| (device.gpu, device.incarnation));
        devices
    }

    /// All pages of one worker's report; `None` if it does not answer.
    pub(super) async fn memory_of(&self, worker: Incarnation) -> Option<MemoryStatus> {
        let subject = self.subjects().memory(worker);
        let mut all: Option<MemoryStatus> = None;
        for _ in 0..PAGES {
            let after = all.as_ref().and_then(|all| all.tenants.last());
            let request = encode(&MemoryStatusRequest {
                v: WIRE_VERSION,
                after: after.map(|row| row.tenant.clone()),
            });
            let answer = self.client().request(subject.clone(), request.into());
            let answer = tokio::time::timeout(ASK, answer).await.ok()?.ok()?;
            let page: MemoryStatus = decode(&answer.payload).ok()?;
            let is_last = !page.more || page.tenants.is_empty();
            match &mut all {
                None => all = Some(page),
                Some(all) => {
                    all.tenants.extend(page.tenants);
                    all.sessions.extend(page.sessions);
                    if let (Some(all), Some(page)) = (&mut all.swap, page.swap) {
                        all.sessions.extend(page.sessions);
                    }
                }
            }
            if is_last {
                break;
            }
        }
        all
    }
}
