//! The workers a candidate hears of.

use bus_schemas::{DeviceProperties, Incarnation, WorkerBeat, limits};

use crate::ids::IdMap;
use crate::input::{Rows, WorkerReport};
use crate::time::Nanos;

/// As many of what a heartbeat says as it may say.
fn few<R: Clone>(said: Option<&Vec<R>>, most: usize) -> Option<Rows<R>> {
    said.map(|rows| Rows(rows.iter().take(most).cloned().collect()))
}

/// A worker as its heartbeats describe it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) device: String,
    pub(super) properties: Option<DeviceProperties>,
    pub(super) draining: bool,
    /// What placement needs to know of it.
    pub(super) report: WorkerReport,
}

/// Every worker heard of and not lost.
#[derive(Debug, Default)]
pub(super) struct Members {
    workers: IdMap<Incarnation, Member>,
    /// When each was heard last: noted with every message, and nothing else of a member is.
    heard_at: IdMap<Incarnation, Nanos>,
}

impl Members {
    /// Takes a heartbeat in.
    pub(super) fn beat(&mut self, now: Nanos, incarnation: Incarnation, beat: &WorkerBeat) {
        let before = self.workers.remove(&incarnation);
        let before = before.map(|it| it.report).unwrap_or_default();
        // Neither is said with every heartbeat.
        let images = few(beat.images.as_ref().map(|it| &it.0), limits::IMAGES);
        let weights = few(beat.weights.as_ref().map(|it| &it.0), limits::WEIGHTS);
        let group = beat.group.clone();
        let member = Member {
            report: WorkerReport {
                group: group.unwrap_or_else(|| WorkerReport::default().group),
                exclusive: beat.exclusive,
                held: in_steps(beat.held, beat.capacity),
                images: images.unwrap_or(before.images),
                weights: weights.unwrap_or(before.weights),
            },
            device: beat.device.clone(),
            properties: beat.properties.clone(),
            draining: beat.draining,
        };
        self.workers.insert(incarnation, member);
        self.heard_at.insert(incarnation, now);
    }

    /// A worker said something else than a heartbeat.
    pub(super) fn heard(&mut self, now: Nanos, incarnation: Incarnation) {
        if let Some(heard_at) = self.heard_at.get_mut(&incarnation) {
            *heard_at = now;
        }
    }

    /// Our connection is up again: nobody was silent before now.
    pub(super) fn connected(&mut self, now: Nanos) {
        for heard_at in self.heard_at.values_mut() {
            *heard_at = now;
        }
    }

    /// Those not heard from since, in order.
    pub(super) fn silent(&self, since: Nanos) -> Vec<Incarnation> {
        let silent = self.heard_at.iter().filter(|(_, at)| **at <= since);
        sorted(silent.map(|(incarnation, _)| *incarnation))
    }

    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&Member> {
        self.workers.get(&incarnation)
    }

    pub(super) fn remove(&mut self, incarnation: Incarnation) -> Option<Member> {
        self.heard_at.remove(&incarnation);
        self.workers.remove(&incarnation)
    }

    /// All of them, in order.
    pub(super) fn incarnations(&self) -> Vec<Incarnation> {
        sorted(self.workers.keys().copied())
    }
}

fn sorted(incarnations: impl Iterator<Item = Incarnation>) -> Vec<Incarnation> {
    let mut sorted: Vec<_> = incarnations.collect();
    sorted.sort_unstable();
    sorted
}

/// Memory held, rounded up to a 64th of the device: what is recorded does not change with every
/// allocation. A device that is not full does not seem to be.
fn in_steps(held: u64, capacity: u64) -> u64 {
    let step = (capacity / 64).max(1);
    let rounded = held.div_ceil(step).saturating_mul(step);
    if held < capacity {
        rounded.min(capacity - 1)
    } else {
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_steps() {
        assert_eq!(in_steps(0, 640), 0);
        assert_eq!(in_steps(1, 640), 10);
        assert_eq!(in_steps(10, 640), 10);
        assert_eq!(in_steps(639, 640), 639, "not full");
        assert_eq!(in_steps(640, 640), 640);
        assert_eq!(in_steps(5, 0), 5);
    }
}
