//! Metrics of the controller: its own requests, and the cluster as its leader and workers report
//! it.

use std::time::Duration;

use admin::memory::holdings;
use bus_schemas::{MemoryStatus, Status, Tenant};
use telemetry::{ClusterReading, TenantMemoryReading, TenantReading};

use crate::cluster::{Cluster, Moment, Shared};

/// Interval of measuring the cluster if metrics are pushed.
const LOOK: Duration = Duration::from_secs(10);

/// The operation of a request, for metrics: one of a fixed list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted(pub(crate) &'static str);

impl Cluster {
    /// Updates the cluster's figures. Without a leader they are cleared.
    pub(crate) async fn measure(&self) {
        let moment = self.moment().await;
        let mut reading = moment.map_or_else(|_| ClusterReading::default(), |it| reading(&it));
        reading.streams = self.open_streams();
        self.telemetry.meters().controller().cluster(reading);
    }
}

/// Updates the cluster's figures periodically, for a collector that metrics are pushed to.
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
            // A device with a restarted worker is reported once: the last report counts.
            reading.capacity.insert(device.gpu, said.capacity);
            for (tenant, memory) in of_memory(said) {
                reading.memory.insert((device.gpu, tenant), memory);
            }
        }
    }
    reading
}

fn of_status(status: &Status) -> ClusterReading {
    // Leaders of earlier builds also list lost workers.
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
