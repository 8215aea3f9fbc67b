//! The condition of a cluster, in a word and with reasons.

use std::fmt;

use bus_schemas::{LostWorker, Status, TenantStatus};

use crate::administrator::ServerStatus;
use crate::target::duration;

/// Minimum number of requests in the last minute by which a tenant's 99th percentile is judged.
const JUDGED: u64 = 100;
/// Maximum number of lost workers that are named.
const NAMED: usize = 8;

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
        let live = status.workers.iter().filter(|worker| !worker.lost);
        let live: Vec<_> = live.collect();
        let lost = lost(&status.lost);
        if live.is_empty() {
            let none = "no worker is there".to_owned();
            return Self::Down(std::iter::once(none).chain(lost).collect());
        }
        let held = status.held.then(|| "all grants are held".to_owned());
        let drained = live.iter().all(|worker| worker.draining);
        let drained = drained.then(|| "no worker takes new sessions".to_owned());
        let stores = status.stores.iter().filter(|it| !it.alarm.is_empty());
        let stores = stores.map(|store| format!("{}: {}", store.name, store.alarm));
        let reasons = held.into_iter().chain(drained).chain(lost).chain(stores);
        let reasons = reasons.chain(servers.iter().filter_map(silent));
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

/// The lost workers in words, by the numbers of their devices; of many, the first ones and how many
/// more.
#[must_use]
pub fn lost(workers: &[LostWorker]) -> Vec<String> {
    let mut sorted: Vec<_> = workers.iter().collect();
    sorted.sort_by_key(|worker| (worker.gpu, worker.incarnation));
    let mut reasons: Vec<_> = sorted.iter().take(NAMED).map(|it| is_lost(it)).collect();
    let others = sorted.len().saturating_sub(NAMED);
    if others > 0 {
        reasons.push(format!("other lost workers: {others}"));
    }
    reasons
}

/// Names a lost worker, with what is known of it.
fn is_lost(worker: &LostWorker) -> String {
    let (id, device) = (worker.incarnation, &worker.device);
    match worker.gpu {
        None => format!("worker {id} is lost"),
        Some(gpu) if device.is_empty() => format!("worker of gpu {gpu} ({id}) is lost"),
        Some(gpu) => format!("worker of gpu {gpu} ({id}, {device}) is lost"),
    }
}

/// A server of the broker that does not answer. A copy that is behind for a moment is no fault.
fn silent(server: &ServerStatus) -> Option<String> {
    let silent = server.name.is_none();
    silent.then(|| format!("broker {} does not answer", server.url))
}

/// The missed target of a tenant.
fn missed(tenant: &TenantStatus) -> Option<String> {
    let counted = tenant.attainment.as_ref()?;
    let target = tenant.settings.slo_ns;
    let beyond = counted.requests.saturating_sub(counted.within);
    let many = beyond.saturating_mul(100) > counted.requests;
    let misses = target > 0 && counted.requests >= JUDGED && many;
    misses.then(|| {
        format!(
            "{} misses its target of {}: {beyond} of {} requests took longer",
            tenant.tenant,
            duration(target),
            counted.requests
        )
    })
}

#[cfg(test)]
mod tests {
    use bus_schemas::{
        Attainment, Incarnation, StoreStatus, TenantSettings, WIRE_VERSION, WorkerStatus,
    };

    use super::*;

    fn worker(gpu: u32, draining: bool) -> WorkerStatus {
        WorkerStatus {
            incarnation: Default::default(),
            gpu,
            device: String::new(),
            sessions: 0,
            granted: 0,
            accepted: 0,
            chain: Default::default(),
            outstanding_ns: 0,
            lost: false,
            draining,
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
            lost: Vec::new(),
        }
    }

    fn missed(incarnation: u64, gpu: Option<u32>, device: &str) -> LostWorker {
        LostWorker {
            incarnation: Incarnation(incarnation),
            gpu,
            device: device.into(),
            lost_for_ns: 5,
        }
    }

    fn chat(requests: u64, within: u64) -> TenantStatus {
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
                within,
                p99_ns: 20_200_000,
            })),
        }
    }

    fn server(name: Option<&str>) -> ServerStatus {
        ServerStatus {
            url: "nats://10.0.0.1:4222".into(),
            name: name.map(str::to_owned),
            leads_lease: false,
            copies: 5,
            in_step: 4,
        }
    }

    #[test]
    fn a_sound_cluster_is_healthy_and_one_without_workers_is_down() {
        let sound = Status {
            tenants: vec![chat(500, 495), chat(JUDGED - 1, 0)],
            ..cluster(vec![worker(0, false), worker(1, true)])
        };
        assert_eq!(Health::of(&sound, &[server(Some("one"))]), Health::Healthy);
        let health = Health::of(&cluster(Vec::new()), &[]);
        assert_eq!(health.to_string(), "down: no worker is there");
    }

    #[test]
    fn a_lost_worker_degrades_a_cluster_and_the_last_one_ends_it() {
        let lost = vec![
            missed(0xa1, Some(2), "cpu, 2 threads"),
            missed(0xa2, Some(1), ""),
            missed(0xa3, None, ""),
        ];
        let reasons = "worker 00000000000000a3 is lost; worker of gpu 1 (00000000000000a2) is lost; \
                       worker of gpu 2 (00000000000000a1, cpu, 2 threads) is lost";
        let degraded = Status {
            lost: lost.clone(),
            ..cluster(vec![worker(0, false)])
        };
        let health = Health::of(&degraded, &[]);
        assert_eq!(health.to_string(), format!("degraded: {reasons}"));
        // A row that is marked as lost is no worker that is there.
        let marked = WorkerStatus {
            lost: true,
            ..worker(0, false)
        };
        for workers in [Vec::new(), vec![marked]] {
            let down = Status {
                lost: lost.clone(),
                ..cluster(workers)
            };
            let health = Health::of(&down, &[]).to_string();
            assert_eq!(health, format!("down: no worker is there; {reasons}"));
        }
    }

    #[test]
    fn of_many_lost_workers_some_are_named() {
        let many = 0..20;
        let lost = many.map(|gpu| missed(u64::from(gpu), Some(gpu), ""));
        let status = Status {
            lost: lost.collect(),
            ..cluster(vec![worker(30, false)])
        };
        let health = Health::of(&status, &[]);
        assert_eq!(health.reasons().len(), NAMED + 1);
        assert_eq!(health.reasons()[NAMED], "other lost workers: 12");
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
            tenants: vec![chat(JUDGED, JUDGED - 2)],
            ..cluster(vec![worker(0, true), worker(1, true)])
        };
        let health = Health::of(&status, &[server(None), server(Some("two"))]);
        assert_eq!(
            health.to_string(),
            "degraded: all grants are held; no worker takes new sessions; record: 90 % full; broker \
             nats://10.0.0.1:4222 does not answer; chat misses its target of 20 ms: 2 of 100 requests took longer"
        );
    }
}
