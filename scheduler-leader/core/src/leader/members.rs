//! The workers a candidate hears of.

use std::collections::BTreeMap;

use bus_schemas::{DeviceProperties, Incarnation, WorkerBeat};

use super::config::Nanos;

/// A worker as its heartbeats describe it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) device: String,
    pub(super) properties: Option<DeviceProperties>,
    pub(super) draining: bool,
    pub(super) heard_at: Nanos,
}

/// Every worker heard of and not lost.
#[derive(Debug, Default)]
pub(super) struct Members {
    workers: BTreeMap<Incarnation, Member>,
}

impl Members {
    /// Takes a heartbeat in.
    pub(super) fn beat(&mut self, now: Nanos, incarnation: Incarnation, beat: &WorkerBeat) {
        let member = Member {
            device: beat.device.clone(),
            properties: beat.properties.clone(),
            draining: beat.draining,
            heard_at: now,
        };
        self.workers.insert(incarnation, member);
    }

    /// A worker said something else than a heartbeat.
    pub(super) fn heard(&mut self, now: Nanos, incarnation: Incarnation) {
        if let Some(member) = self.workers.get_mut(&incarnation) {
            member.heard_at = now;
        }
    }

    /// Our connection is up again: nobody was silent before now.
    pub(super) fn connected(&mut self, now: Nanos) {
        for member in self.workers.values_mut() {
            member.heard_at = now;
        }
    }

    /// Those not heard from since.
    pub(super) fn silent(&self, since: Nanos) -> Vec<Incarnation> {
        let silent = self
            .workers
            .iter()
            .filter(|(_, member)| member.heard_at <= since);
        silent.map(|(incarnation, _)| *incarnation).collect()
    }

    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&Member> {
        self.workers.get(&incarnation)
    }

    pub(super) fn remove(&mut self, incarnation: Incarnation) -> Option<Member> {
        self.workers.remove(&incarnation)
    }

    pub(super) fn incarnations(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.workers.keys().copied()
    }
}
