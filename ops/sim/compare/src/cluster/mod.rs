//! Warploom itself: the real leader, worker and client cores over a modelled bus, in virtual
//! time. The shells here do what the actors do and no more; every message is encoded, sent,
//! delayed and decoded.

mod bus;
mod client;
mod leader;
mod place;
mod plain;
mod slices;
mod voice;
mod worker;

use self::bus::{Bus, Event, Party};
use self::client::Client;
use self::leader::LeaderShell;
use self::place::Place;
use self::worker::WorkerShell;
use crate::outcome::Outcome;
use crate::scenario::{Scenario, SimulationError};
use sim_cluster::{Nanos, SECOND};

/// By then every session is open, or something is wrong.
const UP: Nanos = SECOND;

struct Cluster<'a> {
    scenario: &'a Scenario,
    place: Place,
    bus: Bus,
    leader: LeaderShell,
    worker: WorkerShell,
    clients: Vec<Client>,
    outcome: Outcome,
}

/// Runs a scenario on a cluster.
pub(crate) fn run(scenario: &Scenario) -> Result<Outcome, SimulationError> {
    let place = Place::new(scenario)?;
    let count = scenario.tenants.len();
    let mut cluster = Cluster {
        bus: Bus::new(scenario, count),
        leader: LeaderShell::new(scenario, &place),
        worker: WorkerShell::new(scenario),
        clients: (0..count)
            .map(|index| Client::new(scenario, index))
            .collect(),
        outcome: Outcome::new(scenario),
        place,
        scenario,
    };
    cluster.leader.start(0, &mut cluster.bus);
    while let Some(now) = cluster.next_at().filter(|now| *now <= scenario.end()) {
        cluster.turn(now)?;
    }
    cluster.finish()
}

impl Cluster<'_> {
    fn next_at(&mut self) -> Option<Nanos> {
        let clients = self.clients.iter().filter_map(|client| client.wake);
        let others = [self.bus.next_at(), self.worker.wake(), self.leader.wake];
        clients.chain(others.into_iter().flatten()).min()
    }

    /// Everything that is due now.
    fn turn(&mut self, now: Nanos) -> Result<(), SimulationError> {
        let bus = &mut self.bus;
        let common = (self.scenario, &self.place);
        self.worker
            .device_turn(now, common, bus, &mut self.outcome)?;
        while let Some(event) = self.bus.due(now) {
            self.take(now, event)?;
        }
        let due = |wake: Option<Nanos>| wake.is_some_and(|at| at <= now);
        if due(self.leader.wake) {
            self.leader.timer(now, &mut self.bus);
        }
        if due(self.worker.core_wake()) {
            self.worker.tick(now, &self.place, &mut self.bus);
        }
        for client in &mut self.clients {
            if due(client.wake) {
                client.drive(now, self.scenario, &self.place, &mut self.bus)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Nanos, event: Event) -> Result<(), SimulationError> {
        let bus = &mut self.bus;
        match event {
            Event::Message { to, message } => match to {
                Party::Leader => self.leader.message(now, &message, bus),
                Party::Worker => self.worker.message(now, &message, &self.place, bus)?,
                Party::Client(index) => {
                    let tenancy = &mut self.outcome.tenants[index];
                    let client = &mut self.clients[index];
                    client.message(now, &message, (self.scenario, &self.place), bus, tenancy)?;
                }
            },
            Event::Stored(answer) => self.leader.stored(now, answer, bus),
            Event::Completed(slice) => self.worker.completed(now, &slice, &self.place, bus),
            Event::Measured => self.worker.report_measured(now, &self.place, bus),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Outcome, SimulationError> {
        let shut = |client: &Client| !client.is_open();
        if self.scenario.end() > UP && self.clients.iter().any(shut) {
            return Err(SimulationError::Cluster("a session never opened".into()));
        }
        for (client, tenancy) in self.clients.iter_mut().zip(&mut self.outcome.tenants) {
            client.finish(self.scenario, tenancy);
        }
        self.outcome.active_ns = self.worker.active(self.scenario.end());
        self.outcome.messages = self.bus.messages();
        self.outcome.finish();
        Ok(self.outcome)
    }
}
