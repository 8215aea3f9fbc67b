//! The condition of a cluster, in a word and with reasons.

use std::fmt;

use bus_schemas::{Status, TenantStatus, WorkerStatus};

use crate::administrator::ServerStatus;
use crate::target::duration;

/// Minimum number of requests in the last minute by which a tenant's 99th percentile is judged.
const JUDGED: u64 = 100;

/// The condition of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// All parts work as promised.
    Healthy,
    /// Programs run, and some promise is not kept.
    Degraded(Vec<String>),
    /// No program can run.
    Down(Vec<String>),
}

impl Health {
    /// The condition by a leader's status and the broker's servers.
    #[must_use]
    pub fn of(status: &Status, servers: &[ServerStatus]) -> Self {
        let lives = |worker: &&WorkerStatus| !worker.lost;
        if status.workers.iter().filter(lives).count() == 0 {
            return Self::Down(vec!["no worker is there".into()]);
        }
        let held = status.held.then(|| "all grants are held".to_owned());
        let partial = status
            .partial
            .then(|| "the leader waits for a worker to be sealed".to_owned());
        let lost = status.workers.iter().filter(|worker| worker.lost);
        let lost = lost.map(|worker| format!("gpu {} is lost", worker.gpu));
        let stores = status.stores.iter().filter(|it| !it.alarm.is_empty());
        let stores = stores.map(|store| format!("{}: {}", store.name, store.alarm));
        let reasons = held.into_iter().chain(partial).chain(lost).chain(stores);
        let reasons = reasons.chain(servers.iter().filter_map(lag));
        let reasons = reasons.chain(status.tenants.iter().filter_map(missed));
        match reasons.collect::<Vec<_>>() {
            none if none.is_empty() => Self::Healthy,
            reasons => Self::Degraded(reasons),
        }
    }

    /// The word: `healthy`, `degraded` or `down`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded(_) => "degraded",
            Self::Down(_) => "down",
        }
    }

    /// The reasons why it is not healthy.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::Healthy => &[],
            Self::Degraded(reasons) | Self::Down(reasons) => reasons,
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reasons() {
            [] => f.write_str(self.word()),
            reasons => write!(f, "{}: {}", self.word(), reasons.join("; ")),
        }
    }
}

/// The fault of a server of the broker.
fn lag(server: &ServerStatus) -> Option<String> {
    match &server.name {
        None => Some(format!("broker {} does not answer", server.url)),
        Some(name) if server.in_step < server.copies => Some(format!(
            "broker {name} has {} of {} copies in step",
            server.in_step, server.copies
        )),
        Some(_) => None,
    }
}

/// The missed target of a tenant.
fn missed(tenant: &TenantStatus) -> Option<String> {
    let counted = tenant.attainment.as_ref()?;
    let target = tenant.settings.slo_ns;
    let misses = target > 0 && counted.requests >= JUDGED && counted.p99_ns > target;
    misses.then(|| {
        format!(
            "{} misses its target: 99 of 100 requests took {}, not {}",
            tenant.tenant,
            duration(counted.p99_ns),
            duration(target)
        )
    })
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Attainment, StoreStatus, TenantSettings, WIRE_VERSION};

    use super::*;

    fn worker(gpu: u32, lost: bool) -> WorkerStatus {
        WorkerStatus {
            incarnation: Default::default(),
            gpu,
            device: String::new(),
            sessions: 0,
            granted: 0,
            accepted: 0,
            chain: Default::default(),
            outstanding_ns: 0,
            lost,
            draining: false,
        }
    }

    fn cluster(workers: Vec<WorkerStatus>) -> Status {
        Status {
            v: WIRE_VERSION,
            epoch: 1,
            leader: Default::default(),
            input: 0,
            recorded: 0,
            global: 0,
            held: false,
            partial: false,
            workers,
            places: Vec::new(),
            tenants: Vec::new(),
            settings: None,
            profile: None,
            stores: Vec::new(),
        }
    }

    fn chat(requests: u64, p99_ns: u64) -> TenantStatus {
        TenantStatus {
            tenant: "chat".parse().unwrap(),
            settings: TenantSettings {
                slo_ns: 20_000_000,
                ..TenantSettings::default()
            },
            sessions: 1,
            queued: 0,
            granted: 0,
            attainment: Some(Box::new(Attainment {
                counted_ns: 60_000_000_000,
                total_requests: requests,
                total_within: 0,
                requests,
                within: 0,
                p99_ns,
            })),
        }
    }

    fn server(name: Option<&str>, in_step: usize) -> ServerStatus {
        ServerStatus {
            url: "nats://10.0.0.1:4222".into(),
            name: name.map(str::to_owned),
            leads_lease: false,
            copies: 5,
            in_step,
        }
    }

    #[test]
    fn a_sound_cluster_is_healthy_and_one_without_workers_is_down() {
        let sound = Status {
            tenants: vec![chat(500, 19_000_000), chat(JUDGED - 1, 30_000_000)],
            ..cluster(vec![worker(0, false)])
        };
        assert_eq!(
            Health::of(&sound, &[server(Some("one"), 5)]),
            Health::Healthy
        );
        for workers in [vec![], vec![worker(0, true)]] {
            let health = Health::of(&cluster(workers), &[]);
            assert_eq!(health.to_string(), "down: no worker is there");
        }
    }

    #[test]
    fn each_broken_promise_is_a_reason() {
        let status = Status {
            held: true,
            stores: vec![StoreStatus {
                name: "record".into(),
                bytes: 9,
                limit: 10,
                alarm: "90 % full".into(),
            }],
            tenants: vec![chat(JUDGED, 30_000_000)],
            ..cluster(vec![worker(0, false), worker(1, true)])
        };
        let health = Health::of(&status, &[server(None, 0), server(Some("two"), 4)]);
        assert_eq!(
            health.to_string(),
            "degraded: all grants are held; gpu 1 is lost; record: 90 % full; broker nats://10.0.0.1:4222 does not \
             answer; broker two has 4 of 5 copies in step; chat misses its target: 99 of 100 requests took 30 ms, not \
             20 ms"
        );
    }
}
