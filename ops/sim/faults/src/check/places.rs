//! Placement of sessions on workers. A tenant may use the worker. A request for several devices gets
//! different workers, and either all or none. A refused request could not have been placed.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Code, GpuId, Groups, Incarnation, OpenGrant, Opened, SessionId, Tenant, TenantSettings, Window,
};

use super::{CheckResult, Violation};
use crate::scene::Machine;
use sim_cluster::NodeId;
use sim_cluster::{MILLI, Nanos};

/// Maximum age of a leader's knowledge of its workers, and of its answers to clients, without trouble.
const NEWS: Nanos = 600 * MILLI;

/// A running worker.
#[derive(Debug)]
struct Host {
    gpu: GpuId,
    /// True if some leader has sealed it.
    sealed: bool,
    /// Sessions on its device, each with its tenant and the maximum that it may hold.
    on: BTreeMap<SessionId, (Tenant, u64)>,
}

/// A client's request for sessions.
#[derive(Debug)]
struct Request {
    tenant: Tenant,
    devices: u32,
    /// Time since which enough workers could take it; `None` while there are too few.
    enough: Option<Nanos>,
    /// Sessions that leaders granted for it and that were on a device.
    begun: BTreeSet<SessionId>,
    /// Sessions that its client got.
    had: Vec<SessionId>,
    /// Number of those that failed or ended.
    gone: usize,
}

/// A session as a leader placed it.
#[derive(Debug)]
struct Placed {
    incarnation: Incarnation,
    window: Window,
    tenant: Tenant,
    nonce: u64,
}

/// Placement of all sessions.
#[derive(Debug)]
pub(crate) struct Places {
    capacity: u64,
    machines: BTreeMap<GpuId, (Tenant, bool)>,
    groups: BTreeMap<Tenant, Groups>,
    hosts: BTreeMap<Incarnation, Host>,
    gpus: BTreeMap<Incarnation, GpuId>,
    /// Workers that died, or that a leader declared lost.
    lost: BTreeSet<Incarnation>,
    placed: BTreeMap<SessionId, Placed>,
    requests: BTreeMap<(NodeId, u64), Request>,
    /// The request of each session that a client got.
    of: BTreeMap<SessionId, (NodeId, u64)>,
    /// True if refusals are judged: there is no trouble, and memory is plenty.
    pub exact: bool,
    /// Granted requests for several devices.
    pub several: u64,
    /// Number of refusals sent to clients.
    pub declined: u64,
    /// Requests for several devices during which a worker died, when some sessions had begun and others had
    /// not.
    pub halved: u64,
}

fn wrong(what: String) -> CheckResult {
    Err(Violation::new("placement", what))
}

impl Places {
    /// Makes a checker without sessions.
    #[must_use]
    pub(crate) fn new(
        machines: &[Machine],
        tenants: &[(Tenant, TenantSettings)],
        capacity: u64,
    ) -> Self {
        let machine = |it: &Machine| (it.number, (it.group(), it.exclusive));
        let bound = |(name, it): &(Tenant, TenantSettings)| (name.clone(), it.groups.clone());
        Self {
            capacity,
            machines: machines.iter().map(machine).collect(),
            groups: tenants.iter().map(bound).collect(),
            hosts: BTreeMap::new(),
            gpus: BTreeMap::new(),
            lost: BTreeSet::new(),
            placed: BTreeMap::new(),
            requests: BTreeMap::new(),
            of: BTreeMap::new(),
            exact: false,
            several: 0,
            declined: 0,
            halved: 0,
        }
    }

    fn is_exclusive(&self, gpu: GpuId) -> bool {
        self.machines.get(&gpu).is_some_and(|(_, alone)| *alone)
    }

    /// True if a tenant may use a worker at all, regardless of the sessions there.
    fn may_use(&self, tenant: &Tenant, gpu: GpuId) -> bool {
        let Some((group, exclusive)) = self.machines.get(&gpu) else {
            return false;
        };
        match self.groups.get(tenant) {
            Some(groups) if !groups.is_empty() => groups.contains(group),
            _ => !exclusive,
        }
    }

    /// Number of workers that could take a session of a tenant.
    fn could(&self, tenant: &Tenant) -> usize {
        let able = |host: &&Host| {
            let mut on = host.on.values();
            let vacant = !self.is_exclusive(host.gpu) || on.all(|(other, _)| other == tenant);
            let held: u64 = host.on.values().map(|(_, most)| most).sum();
            host.sealed && vacant && held < self.capacity && self.may_use(tenant, host.gpu)
        };
        self.hosts.values().filter(able).count()
    }

    /// Updates, after a change, which requests could be placed.
    fn look(&mut self, now: Nanos) {
        let mut requests = std::mem::take(&mut self.requests);
        for request in requests
            .values_mut()
            .filter(|request| request.had.is_empty())
        {
            let enough = self.could(&request.tenant) >= request.devices as usize;
            request.enough = enough.then(|| request.enough.unwrap_or(now));
        }
        self.requests = requests;
    }

    /// Notes that a worker began.
    pub(crate) fn began(&mut self, incarnation: Incarnation, gpu: GpuId) {
        self.gpus.insert(incarnation, gpu);
        let host = Host {
            gpu,
            sealed: false,
            on: BTreeMap::new(),
        };
        self.hosts.insert(incarnation, host);
    }

    /// Notes that a worker answered a leader's seal.
    pub(crate) fn sealed(&mut self, now: Nanos, incarnation: Incarnation) {
        if let Some(host) = self.hosts.get_mut(&incarnation) {
            host.sealed = true;
        }
        self.look(now);
    }

    /// Notes that a worker is gone.
    pub(crate) fn worker_died(&mut self, now: Nanos, incarnation: Incarnation) {
        self.hosts.remove(&incarnation);
        self.lost.insert(incarnation);
        self.halved += self.halves(incarnation);
        self.look(now);
    }

    /// Number of requests with a session that is placed on the worker and has not begun, and another that
    /// has.
    fn halves(&self, incarnation: Incarnation) -> u64 {
        let half = |((_, first), request): &(&(NodeId, u64), &Request)| {
            let of = |placed: &Placed| {
                placed.tenant == request.tenant
                    && placed.nonce.wrapping_sub(*first) < u64::from(request.devices)
            };
            let mut placed = self.placed.iter();
            let waits = placed.any(|(session, placed)| {
                let begun = request.begun.contains(session);
                placed.incarnation == incarnation && of(placed) && !begun
            });
            request.had.is_empty() && !request.begun.is_empty() && waits
        };
        self.requests.iter().filter(half).count() as u64
    }

    /// Removes the requests of a client that is gone.
    pub(crate) fn client_died(&mut self, client: NodeId) {
        self.requests.retain(|(of, _), _| *of != client);
    }

    /// Notes that a leader declared a worker lost.
    pub(crate) fn lost(&mut self, incarnation: Incarnation) {
        self.lost.insert(incarnation);
    }

    /// Notes a client's request.
    pub(crate) fn asked(
        &mut self,
        now: Nanos,
        (client, nonce): (NodeId, u64),
        tenant: Tenant,
        devices: u32,
    ) {
        let request = Request {
            tenant,
            devices,
            enough: None,
            begun: BTreeSet::new(),
            had: Vec::new(),
            gone: 0,
        };
        self.requests.entry((client, nonce)).or_insert(request);
        self.look(now);
    }

    /// Checks a session that a leader granted on a worker.
    pub(crate) fn granted(&mut self, incarnation: Incarnation, open: &OpenGrant) -> CheckResult {
        let Some(gpu) = self.gpus.get(&incarnation).copied() else {
            return wrong(format!("{} was placed on no worker", open.session));
        };
        if !self.may_use(&open.tenant, gpu) {
            let (group, _) = &self.machines[&gpu];
            let (session, tenant) = (open.session, &open.tenant);
            return wrong(format!(
                "session {session} of {tenant} was placed on worker {gpu} of group {group}"
            ));
        }
        let placed = Placed {
            incarnation,
            window: open.window,
            tenant: open.tenant.clone(),
            nonce: open.nonce,
        };
        self.placed.entry(open.session).or_insert(placed);
        Ok(())
    }

    /// Checks that a device began or ended a session.
    pub(crate) fn device(
        &mut self,
        now: Nanos,
        incarnation: Incarnation,
        session: SessionId,
        open: bool,
    ) -> CheckResult {
        let Some(placed) = self.placed.get(&session) else {
            return Ok(());
        };
        let tenant = placed.tenant.clone();
        let (machines, Some(host)) = (&self.machines, self.hosts.get_mut(&incarnation)) else {
            return Ok(());
        };
        if !open {
            host.on.remove(&session);
            self.look(now);
            return Ok(());
        }
        let exclusive = machines.get(&host.gpu).is_some_and(|(_, alone)| *alone);
        let mut others = host.on.iter();
        let other = others.find(|(_, (other, _))| exclusive && *other != tenant);
        if let Some((other, (owner, _))) = other {
            let gpu = host.gpu;
            return wrong(format!(
                "{session} of {tenant} began on exclusive worker {gpu}, where {other} of {owner} is"
            ));
        }
        let nonce = placed.nonce;
        host.on.insert(session, (tenant.clone(), 0));
        let mut requests = self.requests.iter_mut();
        let request = requests.find(|((_, first), request)| {
            request.tenant == tenant && nonce.wrapping_sub(*first) < u64::from(request.devices)
        });
        if let Some((_, request)) = request {
            request.begun.insert(session);
        }
        self.look(now);
        Ok(())
    }

    /// Number of sessions on a worker's device.
    #[must_use]
    pub(crate) fn on(&self, incarnation: Incarnation) -> usize {
        self.hosts.get(&incarnation).map_or(0, |host| host.on.len())
    }

    /// Sets the maximum that a session holds.
    pub(crate) fn held(
        &mut self,
        now: Nanos,
        incarnation: Incarnation,
        session: SessionId,
        most: u64,
    ) {
        let host = self.hosts.get_mut(&incarnation);
        let Some((_, held)) = host.and_then(|host| host.on.get_mut(&session)) else {
            return;
        };
        *held = most;
        self.look(now);
    }

    /// Checks the devices that a client got.
    pub(crate) fn had(&mut self, client: NodeId, nonce: u64, devices: &[Opened]) -> CheckResult {
        let Some(request) = self.requests.get_mut(&(client, nonce)) else {
            return wrong(format!("request {nonce:x} was answered and never made"));
        };
        if devices.len() != request.devices as usize {
            let (had, asked) = (devices.len(), request.devices);
            return wrong(format!("request {nonce:x} for {asked} devices had {had}"));
        }
        for (index, device) in devices.iter().enumerate() {
            let session = device.session;
            let placed = self.placed.get(&session);
            let right = placed.is_some_and(|placed| {
                (placed.incarnation, placed.window) == (device.incarnation, device.window)
                    && placed.tenant == request.tenant
                    && placed.nonce == nonce.wrapping_add(index as u64)
            });
            if !right {
                return wrong(format!("{device:?} was answered, and granted {placed:?}"));
            }
            let apart = |other: &Opened| {
                let (a, b) = (other.window, device.window);
                other.incarnation != device.incarnation && (a.end() <= b.base || b.end() <= a.base)
            };
            if !devices[..index].iter().all(apart) {
                return wrong(format!("devices that are not apart: {devices:?}"));
            }
            self.of.insert(session, (client, nonce));
            request.had.push(session);
        }
        self.several += u64::from(devices.len() > 1);
        Ok(())
    }

    /// Checks a refused request.
    pub(crate) fn declined(
        &mut self,
        now: Nanos,
        request: (NodeId, u64),
        code: Code,
    ) -> CheckResult {
        self.declined += 1;
        let Some(asked) = self.requests.get(&request) else {
            return Ok(());
        };
        let long = asked.enough.is_some_and(|since| now >= since + NEWS);
        if !self.exact || !code.is_placement() || !long {
            return Ok(());
        }
        let (tenant, devices) = (&asked.tenant, asked.devices);
        let could = self.could(tenant);
        wrong(format!(
            "{tenant} asked for {devices} devices and was refused ({}), where {could} workers could",
            code.name()
        ))
    }

    /// Checks the failure that a client was told of.
    pub(crate) fn failed(&mut self, session: SessionId, code: Code) -> CheckResult {
        self.left(session);
        let placed = self.placed.get(&session);
        let on = placed.map(|placed| placed.incarnation);
        if code == Code::DeviceLost && on.is_some_and(|on| !self.lost.contains(&on)) {
            return wrong(format!(
                "session {session} was told that its device is lost, which lives, and no leader said so"
            ));
        }
        Ok(())
    }

    /// Notes that a client's session is over.
    pub(crate) fn left(&mut self, session: SessionId) {
        let request = self.of.remove(&session);
        if let Some(request) = request.and_then(|request| self.requests.get_mut(&request)) {
            request.gone += 1;
        }
    }

    /// Checks at the end that requests still waiting could not have been placed.
    pub(crate) fn finish(&self) -> CheckResult {
        let waits = |request: &&Request| request.had.is_empty() && request.enough.is_some();
        match self.requests.values().find(waits) {
            None => Ok(()),
            Some(request) => {
                let (tenant, devices) = (&request.tenant, request.devices);
                let could = self.could(tenant);
                let what = format!("{tenant} waits for {devices} devices, {could} workers could");
                Err(Violation::new("liveness", what))
            }
        }
    }

    /// States, by their names in [`crate::coverage`], of a client's requests, of the requests with sessions
    /// on a worker, or of all.
    pub(crate) fn states(
        &self,
        client: Option<NodeId>,
        worker: Option<Incarnation>,
    ) -> impl Iterator<Item = &'static str> {
        let requests = self.requests.iter().filter(move |((of, _), request)| {
            let on = |session: &SessionId| {
                let placed = self.placed.get(session);
                placed.map(|placed| placed.incarnation) == worker
            };
            client.is_none_or(|client| client == *of)
                && (worker.is_none() || request.begun.iter().any(on))
        });
        requests.filter_map(|(_, request)| request.state())
    }
}

impl Request {
    /// Its state; `None` if it is not of interest.
    fn state(&self) -> Option<&'static str> {
        let several = self.devices > 1;
        let begun = self.begun.len();
        Some(match () {
            () if self.had.is_empty() && begun == 0 && self.enough.is_none() => "waits for a place",
            () if !several || self.had.is_empty() && begun == 0 => return None,
            () if self.had.is_empty() && begun < self.devices as usize => "some begun",
            () if self.had.is_empty() => "all begun, none had",
            () if self.gone == 0 => "several had",
            () if self.gone < self.had.len() => "one of several gone",
            () => return None,
        })
    }
}
