//! What the controller measures: its own requests, and the cluster as its leader and workers tell it.

use std::time::Duration;

use bus_schemas::{MemoryStatus, Status, Tenant};
use telemetry::{ClusterReading, TenantMemoryReading, TenantReading};
use warploom_cli::memory::holdings;

use crate::cluster::{Cluster, Moment, Shared};

/// How often the cluster is looked at where metrics are posted without anybody asking.
const LOOK: Duration = Duration::from_secs(10);

/// What a request was, for those who count: from a list that does not grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted(pub(crate) &'static str);

impl Cluster {
    /// Brings the cluster's figures up to date. Without a leader they are none.
    pub(crate) async fn measure(&self) {
        let moment = self.moment().await;
        let mut reading = moment.map_or_else(|_| ClusterReading::default(), |it| reading(&it));
        reading.streams = self.open_streams();
        self.telemetry.meters().controller().cluster(reading);
    }
}

/// Brings the cluster's figures up to date now and then, for a collector that does not ask.
pub(crate) async fn watch(cluster: Shared) {
    if !cluster.telemetry.posts_metrics() {
        return;
    }
    loop {
        cluster.measure().await;
        tokio::time::sleep(LOOK).await;
    }
}

fn reading(moment: &Moment) -> ClusterReading {
    let mut reading = of_status(&moment.status);
    for device in moment.memory.iter() {
        if let Some(said) = &device.said {
            // A device whose worker came back is told once: the last word counts.
            reading.capacity.insert(device.gpu, said.capacity);
            for (tenant, memory) in of_memory(said) {
                reading.memory.insert((device.gpu, tenant), memory);
            }
        }
    }
    reading
}

fn of_status(status: &Status) -> ClusterReading {
    // Leaders of builds before name lost ones too.
    let there = status.workers.iter().filter(|worker| !worker.lost);
    let (draining, live): (Vec<_>, Vec<_>) = there.partition(|worker| worker.draining);
    let tenants = status.tenants.iter().map(|row| {
        let attained = row.attainment.as_deref();
        let reading = TenantReading {
            sessions: row.sessions,
            queued: row.queued,
            target_ns: row.settings.slo_ns,
            requests: attained.map_or(0, |it| it.requests),
            within: attained.map_or(0, |it| it.within),
            p99_ns: attained.map_or(0, |it| it.p99_ns),
        };
        (row.tenant.clone(), reading)
    });
    ClusterReading {
        epoch: Some(status.epoch),
        workers: [live.len() as u64, draining.len() as u64],
        tenants: tenants.collect(),
        ..ClusterReading::default()
    }
}

fn of_memory(said: &MemoryStatus) -> impl Iterator<Item = (Tenant, TenantMemoryReading)> {
    holdings(said).into_iter().map(|(tenant, holding)| {
        let reading = TenantMemoryReading {
            held: holding.held,
            resident: holding.resident,
            swapped: holding.swapped,
            saved: holding.saved,
        };
        (tenant, reading)
    })
}
