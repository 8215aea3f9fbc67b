//! Rows of the display: sorted and filtered from a sample of the cluster.

use std::cmp::Reverse;

use admin::memory::{Holding, holdings};
use admin::{DeviceMemory, SessionRow};
use bus_schemas::{Status, TenantStatus};
use serde::Serialize;

/// A sample of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The leader's status.
    pub(crate) status: Status,
    /// The workers' memory.
    pub(crate) memory: Vec<DeviceMemory>,
    /// The sessions.
    pub(crate) sessions: Vec<SessionRow>,
}

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ClusterRow {
    pub(crate) leader: String,
    pub(crate) epoch: u64,
    pub(crate) held: bool,
    pub(crate) global: u64,
    pub(crate) alarms: Vec<String>,
    /// The lost workers, in words.
    pub(crate) lost: Vec<String>,
}

/// A device and its worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct GpuRow {
    pub(crate) gpu: u32,
    pub(crate) worker: String,
    pub(crate) device: String,
    pub(crate) state: &'static str,
    pub(crate) sessions: u64,
    /// The part of its time that was recently granted, 0 to 1; `None` if the leader does not report
    /// it.
    pub(crate) busy: Option<f64>,
    pub(crate) outstanding_ns: u64,
    pub(crate) capacity: Option<u64>,
    pub(crate) held: Option<u64>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TenantRow {
    pub(crate) tenant: String,
    pub(crate) priority: u8,
    pub(crate) suspended: bool,
    pub(crate) sessions: u64,
    pub(crate) queued: u64,
    pub(crate) target_ns: u64,
    pub(crate) p99_ns: Option<u64>,
    /// The share of the last minute's requests within the target.
    pub(crate) attained: Option<f64>,
    /// The part of the last second in which its launches ran, on the busiest device.
    pub(crate) busy: f64,
    pub(crate) held: u64,
    pub(crate) swapped: u64,
}

impl TenantRow {
    /// Combines the leader's status of a tenant with its holdings on each device.
    fn of<'h>(tenant: &TenantStatus, holdings: impl Iterator<Item = &'h Holding>) -> Self {
        let counted = tenant.attainment.as_ref().filter(|it| it.requests > 0);
        let target = tenant.settings.slo_ns;
        let mut row = Self {
            tenant: tenant.tenant.to_string(),
            priority: tenant.settings.priority,
            suspended: tenant.settings.suspended,
            sessions: tenant.sessions,
            queued: tenant.queued,
            target_ns: target,
            p99_ns: counted.map(|it| it.p99_ns),
            attained: counted
                .filter(|_| target > 0)
                .map(|it| it.within as f64 / it.requests as f64),
            busy: 0.0,
            held: 0,
            swapped: 0,
        };
        for holding in holdings {
            row.held += holding.held;
            row.swapped += holding.swapped;
            row.busy = row.busy.max(f64::from(holding.busy_ppm) / 1e6);
        }
        row
    }
}

/// Sort order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Sort {
    /// The name, or the id of a session.
    #[default]
    Name,
    /// The time that launches ran, the busiest first.
    Busy,
    /// Queued ops, the longest queue first.
    Queue,
    /// Memory held, the most first.
    Memory,
}

impl Sort {
    /// The next sort order.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Name => Self::Busy,
            Self::Busy => Self::Queue,
            Self::Queue => Self::Memory,
            Self::Memory => Self::Name,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Busy => "busy",
            Self::Queue => "queue",
            Self::Memory => "memory",
        }
    }
}

/// Parts per million as an integer, for sorting.
fn ppm(part: f64) -> u64 {
    (part * 1e6) as u64
}

impl Sample {
    /// The cluster.
    pub(crate) fn cluster(&self) -> ClusterRow {
        let stores = self.status.stores.iter();
        let alarms = stores.filter(|store| !store.alarm.is_empty());
        ClusterRow {
            leader: self.status.leader.to_string(),
            epoch: self.status.epoch,
            held: self.status.held,
            global: self.status.global,
            alarms: alarms
                .map(|store| format!("{}: {}", store.name, store.alarm))
                .collect(),
            lost: admin::health::lost(&self.status.lost),
        }
    }

    /// The devices with a live worker, by number.
    pub(crate) fn gpus(&self) -> Vec<GpuRow> {
        let workers = self.status.workers.iter().enumerate();
        let live = workers.filter(|(_, worker)| !worker.lost);
        let mut rows: Vec<_> = live
            .map(|(index, worker)| {
                let place = self.status.places.get(index);
                let mut memory = self.memory.iter();
                let memory = memory.find(|device| device.incarnation == worker.incarnation);
                let said = memory.and_then(|device| device.said.as_ref());
                GpuRow {
                    gpu: worker.gpu,
                    worker: worker.incarnation.to_string(),
                    device: worker.device.clone(),
                    state: if worker.draining { "draining" } else { "live" },
                    sessions: worker.sessions,
                    busy: place.map(|place| f64::from(place.busy) / 100.0),
                    outstanding_ns: worker.outstanding_ns,
                    capacity: said.map(|said| said.capacity),
                    held: said.map(|said| said.held),
                }
            })
            .collect();
        rows.sort_by(|one, other| (one.gpu, &one.worker).cmp(&(other.gpu, &other.worker)));
        rows
    }

    /// The tenants with a text in their names.
    pub(crate) fn tenants(&self, sort: Sort, filter: &str) -> Vec<TenantRow> {
        let tenants = self.status.tenants.iter();
        let wanted = tenants.filter(|it| it.tenant.as_str().contains(filter));
        let said = self.memory.iter().filter_map(|it| it.said.as_ref());
        let devices: Vec<_> = said.map(holdings).collect();
        let row = |tenant: &TenantStatus| {
            let holdings = devices.iter().filter_map(|it| it.get(&tenant.tenant));
            TenantRow::of(tenant, holdings)
        };
        let mut rows: Vec<_> = wanted.map(row).collect();
        rows.sort_by(|one, other| one.tenant.cmp(&other.tenant));
        match sort {
            Sort::Name => {}
            Sort::Busy => rows.sort_by_key(|row| Reverse(ppm(row.busy))),
            Sort::Queue => rows.sort_by_key(|row| Reverse(row.queued)),
            Sort::Memory => rows.sort_by_key(|row| Reverse(row.held)),
        }
        rows
    }

    /// The sessions with a text in their tenant, id or program.
    pub(crate) fn sessions(&self, sort: Sort, filter: &str) -> Vec<SessionRow> {
        let wanted = |row: &&SessionRow| {
            let program = row.process.as_ref().map_or("", |process| &process.name);
            let id = row.id.to_string();
            [row.tenant.as_str(), &id, program]
                .iter()
                .any(|text| text.contains(filter))
        };
        let mut rows: Vec<_> = self.sessions.iter().filter(wanted).cloned().collect();
        rows.sort_by_key(|row| row.id.to_string());
        match sort {
            Sort::Name => {}
            Sort::Busy => rows.sort_by_key(|row| Reverse(row.busy_ppm)),
            Sort::Queue => rows.sort_by_key(|row| Reverse(row.queued)),
            Sort::Memory => rows.sort_by_key(|row| Reverse(row.held)),
        }
        rows
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use bus_schemas::{
        Chain, Incarnation, LeaderId, SessionId, SessionWait, TenantSettings, WIRE_VERSION,
        WorkerStatus,
    };

    use super::*;

    fn tenant(name: &str, queued: u64, suspended: bool) -> TenantStatus {
        TenantStatus {
            tenant: name.parse().expect("a name"),
            settings: TenantSettings {
                suspended,
                ..TenantSettings::default()
            },
            sessions: 1,
            queued,
            granted: 0,
            attainment: None,
        }
    }

    /// A sample of a small cluster.
    pub(crate) fn sample() -> Sample {
        let worker = WorkerStatus {
            incarnation: Incarnation(0xa1),
            gpu: 0,
            device: "a device".into(),
            sessions: 1,
            granted: 5,
            accepted: 5,
            chain: Chain::default(),
            outstanding_ns: 1_500_000,
            lost: false,
            draining: false,
        };
        Sample {
            status: Status {
                v: WIRE_VERSION,
                epoch: 3,
                leader: LeaderId(7),
                input: 1,
                recorded: 1,
                global: 17,
                held: false,
                partial: false,
                workers: vec![worker],
                places: Vec::new(),
                tenants: vec![tenant("train", 9, true), tenant("chat", 2, false)],
                settings: None,
                profile: None,
                stores: Vec::new(),
                lost: Vec::new(),
            },
            memory: Vec::new(),
            sessions: vec![SessionRow {
                id: SessionId(0x2a),
                tenant: "chat".parse().expect("a name"),
                ordinal: 1,
                incarnation: Incarnation(0xa1),
                gpu: 0,
                queued: 2,
                outstanding_ns: 0,
                waits_for: SessionWait::Order,
                held: Some(3 << 20),
                busy_ppm: Some(250_000),
                place: Some("resident"),
                pinned: Some(false),
                process: None,
            }],
        }
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let sample = sample();
        let names = |sort, filter| {
            let rows = sample.tenants(sort, filter);
            rows.into_iter().map(|row| row.tenant).collect::<Vec<_>>()
        };
        assert_eq!(names(Sort::Name, ""), ["chat", "train"]);
        assert_eq!(names(Sort::Queue, ""), ["train", "chat"]);
        assert_eq!(names(Sort::Name, "ai"), ["train"]);
        assert_eq!(sample.sessions(Sort::Memory, "2a").len(), 1);
        assert_eq!(sample.sessions(Sort::Memory, "nobody").len(), 0);
        let mut sort = Sort::Name;
        for _ in 0..4 {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Name);
    }
}
