//! Scenes, which are made from seeds: the cluster's shape, its tenants, programs, settings and troubles. A
//! scene is also the content of a script: everything that decides a run, and nothing else.

mod draw;

use std::collections::BTreeSet;

use bus_schemas::{ClusterSettings, Tenant, TenantSettings, limits};
use serde::{Deserialize, Serialize};

use sim_cluster::{Nanos, SECOND};

use crate::device::{LONG, LONG_TIME};
use crate::faults::{Fault, PATIENCE, Strike, Target, Troubles};
use crate::program::{Death, Program, SLOTS, Step};

/// The cluster's name.
pub(crate) const CLUSTER: &str = "sim";

/// Upper bound of nodes' numbers.
const MOST: u32 = 1 << 16;
/// The latest time of quiet.
const LONGEST: Nanos = 3600 * SECOND;

/// A leader candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Member {
    /// Its number, which faults use to name it and from which its random source follows.
    pub number: u32,
    /// Time at which it starts.
    #[serde(with = "sim_cluster::time_text")]
    pub start: Nanos,
}

/// A worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// Its number, which faults use to name it and from which its random source follows.
    pub number: u32,
    /// Time at which it starts.
    #[serde(with = "sim_cluster::time_text")]
    pub start: Nanos,
    /// The group that it names, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Tenant>,
    /// True if it takes only tenants bound to its group, and one at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SceneTenant {
    /// Its name.
    pub name: Tenant,
    /// Its settings.
    #[serde(flatten)]
    pub settings: TenantSettings,
}

/// A client process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Customer {
    /// Its number, which faults use to name it and from which its random source follows.
    pub number: u32,
    /// Its tenant.
    pub tenant: Tenant,
    /// Time at which it starts.
    #[serde(with = "sim_cluster::time_text")]
    pub start: Nanos,
    /// Time of silence after which its sessions fail; 0 means that they wait for ever.
    #[serde(
        default,
        with = "sim_cluster::time_text",
        skip_serializing_if = "is_none"
    )]
    pub deadline: Nanos,
    /// Its death, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies: Option<Death>,
    /// Its sessions.
    #[serde(rename = "session", default)]
    pub programs: Vec<Program>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_none(deadline: &Nanos) -> bool {
    *deadline == 0
}

fn all() -> u64 {
    100
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_all(percent: &u64) -> bool {
    *percent == all()
}

/// Cast and plot of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// Seed of everything that is left to chance: delays, timers, and the messages that weather loses.
    pub seed: u64,
    /// Time by which all faults are over.
    #[serde(with = "sim_cluster::time_text")]
    pub(crate) quiet: Nanos,
    /// Memory of each device, bytes.
    pub(crate) capacity: u64,
    /// Memory that the sessions of a device may hold together, in percent of its capacity.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub(crate) overcommit: u64,
    /// Settings of the leaders' order.
    pub settings: ClusterSettings,
    /// The tenants.
    #[serde(rename = "tenant", default)]
    pub(crate) tenants: Vec<SceneTenant>,
    /// The leader candidates.
    #[serde(rename = "leader", default)]
    pub(crate) leaders: Vec<Member>,
    /// The workers.
    #[serde(rename = "worker", default)]
    pub(crate) workers: Vec<Machine>,
    /// Faults, each with its time.
    #[serde(rename = "fault", default)]
    pub(crate) faults: Vec<Strike>,
    /// The client processes.
    #[serde(rename = "client", default)]
    pub(crate) clients: Vec<Customer>,
}

impl Scene {
    /// Bytes that the sessions of a device may hold together.
    pub(crate) fn memory_limit(&self) -> u64 {
        self.capacity * self.overcommit.max(100) / 100
    }

    /// Checks that the scene can be played.
    pub(crate) fn sense(&self) -> Result<(), &'static str> {
        let twice = |numbers: Vec<u32>| {
            let kinds: BTreeSet<u32> = numbers.iter().copied().collect();
            kinds.len() < numbers.len() || numbers.iter().any(|number| *number >= MOST)
        };
        let leaders = self.leaders.iter().map(|leader| leader.number).collect();
        let workers = self.workers.iter().map(|worker| worker.number).collect();
        let clients = self.clients.iter().map(|client| client.number).collect();
        let known = |client: &Customer| {
            let mut tenants = self.tenants.iter();
            tenants.any(|tenant| tenant.name == client.tenant)
        };
        let over = |strike: &Strike| strike.at + strike.fault.time() <= self.quiet;
        let elsewhere = |strike: &Strike| match strike.fault {
            Fault::Drain { node, .. } => !matches!(node, Target::Worker(_)),
            _ => false,
        };
        let loads = |program: &Program| {
            let slots = |step: &Step| matches!(step, Step::Load { slot, .. } if *slot >= SLOTS);
            !program.steps.iter().any(slots)
        };
        let few = |program: &Program| (1..=limits::DEVICES).contains(&program.devices);
        if self.leaders.is_empty() || self.workers.is_empty() {
            Err("a scene needs a leader and a worker")
        } else if twice(leaders) || twice(workers) || twice(clients) {
            Err("two nodes of a role have one number, or one has a number above 65535")
        } else if !self.clients.iter().all(known) {
            Err("a client's tenant is none of the scene's")
        } else if !self.faults.iter().all(over) {
            Err("a fault is not over by the time of quiet")
        } else if self.faults.iter().any(elsewhere) {
            Err("only workers are drained")
        } else if self.quiet > LONGEST {
            Err("a scene is quiet after an hour at the latest")
        } else if !self.clients.iter().flat_map(|c| &c.programs).all(loads) {
            Err("a session has module slots 0 to 3")
        } else if !self.clients.iter().flat_map(|c| &c.programs).all(few) {
            Err("a session is on 1 to 16 devices")
        } else {
            Ok(())
        }
    }

    /// The kinds of trouble in the scene.
    #[must_use]
    pub(crate) fn troubles(&self) -> Troubles {
        Troubles::of(&self.faults)
    }

    /// True if no leader and no worker may lose its place: the only trouble is slow nodes, and their delays
    /// are tolerable.
    #[must_use]
    pub(crate) fn steady(&self) -> bool {
        let borne = |strike: &Strike| match strike.fault {
            Fault::SlowNode { by, .. } => by <= PATIENCE,
            _ => true,
        };
        // With short epochs, a leader takes over from itself.
        let long = self.settings.record_max_age_s == ClusterSettings::default().record_max_age_s;
        self.troubles().patient() && long && self.faults.iter().all(borne)
    }

    /// Time by which all work must be done. Expiry takes 60 s, for a dead client, and for a session that
    /// was opened while its answer and its leader were lost. On an exclusive worker other tenants begin
    /// only after that. A capped tenant that leaves a long kernel also pays for it.
    #[must_use]
    pub(crate) fn deadline(&self) -> Nanos {
        let deaths = self.clients.iter().any(|client| client.dies.is_some());
        let expiry = !self.faults.is_empty() || deaths;
        let turns = self.workers.iter().any(|worker| worker.exclusive);
        let seconds = if expiry { 110 } else { 45 } + if turns { 60 } else { 0 };
        self.quiet + seconds * SECOND + owed(self)
    }

    /// The tenants' settings, as the leaders get them.
    #[must_use]
    pub(crate) fn tenant_settings(&self) -> Vec<(Tenant, TenantSettings)> {
        let pair = |tenant: &SceneTenant| (tenant.name.clone(), tenant.settings.clone());
        self.tenants.iter().map(pair).collect()
    }
}

/// Maximum time for which long kernels keep their tenant from more work. A cap holds over any time: a
/// kernel of 30 s at 20 percent is paid for after 150 s.
fn owed(scene: &Scene) -> Nanos {
    let owed = scene.clients.iter().map(|client| {
        let mut tenants = scene.tenants.iter();
        let tenant = tenants.find(|tenant| tenant.name == client.tenant);
        let steps = client.programs.iter().flat_map(|it| &it.steps);
        let long = steps.filter(|step| matches!(step, Step::Launch { function: LONG, .. }));
        match tenant.map_or(0, |tenant| tenant.settings.cap) {
            0 => 0,
            cap => long.count() as u64 * LONG_TIME * 100 / u64::from(cap.min(100)),
        }
    });
    owed.sum()
}
