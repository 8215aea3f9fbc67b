//! The workers that a candidate hears.

use std::collections::BTreeSet;

use bus_schemas::{DeviceProperties, Epoch, GpuId, Incarnation, Residency, WorkerBeat, limits};

use crate::ids::IdMap;
use crate::input::{Rows, WorkerReport};
use crate::time::Nanos;

/// The rows of a heartbeat, up to their maximum number.
fn few<R: Clone>(said: Option<&Vec<R>>, most: usize) -> Option<Rows<R>> {
    said.map(|rows| Rows(rows.iter().take(most).cloned().collect()))
}

/// A residency report, cut to the sessions that a worker may name.
fn bounded(said: &Residency) -> Residency {
    let rows = said.sessions.iter().take(limits::RESIDENCY_ROWS);
    Residency {
        sessions: rows.copied().collect(),
        ..*said
    }
}

/// A worker as its heartbeats describe it.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) gpu: GpuId,
    pub(super) device: String,
    pub(super) properties: Option<DeviceProperties>,
    pub(super) draining: bool,
    /// True if it obeys a leader, or has obeyed one.
    pub(super) obeys: bool,
    /// The worker's list of quotas, if it takes any: its epoch and number.
    pub(super) quotas: Option<(Epoch, u64)>,
    /// The facts that placement needs.
    pub(super) report: WorkerReport,
    /// The last reported place of its sessions' memory, if that is overcommitted.
    pub(super) residency: Option<Residency>,
    /// Number of such reports.
    pub(super) residencies: u64,
}

/// Every worker that was heard and is not lost.
#[derive(Debug, Default)]
pub(super) struct Members {
    workers: IdMap<Incarnation, Member>,
    /// Time at which each was last heard. It is set with every message and kept apart from the rest
    /// of a member.
    seen_at: IdMap<Incarnation, Nanos>,
    /// Times at which connections were closed, by worker: the worker may have gone to another
    /// server.
    closed_at: IdMap<Incarnation, Nanos>,
    /// The longest silence of a worker that was heard again, since it was last taken.
    gap: Nanos,
    /// Time since which our connection is up: messages from before were not late.
    listening_since: Nanos,
    /// Start of our listening, moved by the time in which no worker could be heard.
    listened_since: Nanos,
}

impl Members {
    /// Takes the longest silence of any worker that was heard again since the last call.
    pub(super) fn take_gap(&mut self) -> Nanos {
        std::mem::take(&mut self.gap)
    }

    /// Notes that a worker was silent until now.
    fn heard_again(&mut self, now: Nanos, incarnation: Incarnation, seen_at: Nanos) {
        let gap = now.saturating_sub(seen_at.max(self.listening_since));
        if gap <= self.gap || !self.workers.contains_key(&incarnation) {
            return;
        }
        // A worker that went to another server was away, and not late.
        let closed = self.closed_at.get(&incarnation);
        if closed.is_none_or(|closed| *closed < seen_at) {
            self.gap = gap;
        }
    }

    /// Adds a time in which we stood still and heard no worker.
    pub(super) fn stood_still(&mut self, by: Nanos) {
        let times = self.seen_at.values_mut().chain(self.closed_at.values_mut());
        times.for_each(|at| *at = at.saturating_add(by));
        self.listening_since = self.listening_since.saturating_add(by);
        self.listened_since = self.listened_since.saturating_add(by);
    }

    /// Leaves out a time until now in which no worker could be heard.
    pub(super) fn heard_nothing(&mut self, now: Nanos, time: Nanos) {
        self.listened_since = self.listened_since.saturating_add(time).min(now);
    }

    /// Time that we have listened, without the time in which no worker could be heard.
    pub(super) fn listened(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.listened_since)
    }

    /// Takes in a heartbeat.
    pub(super) fn beat(&mut self, now: Nanos, incarnation: Incarnation, beat: &WorkerBeat) {
        self.seen(now, incarnation);
        let before = self.workers.remove(&incarnation);
        let (before, residency, residencies) = before
            .map(|it| (it.report, it.residency, it.residencies))
            .unwrap_or_default();
        // None of these is in every heartbeat.
        let residencies = residencies + u64::from(beat.residency.is_some());
        let residency = beat.residency.as_ref().map(bounded).or(residency);
        let limit = residency.as_ref().map_or(0, |it| it.limit);
        let images = few(beat.images.as_ref().map(|it| &it.0), limits::IMAGES);
        let weights = few(beat.weights.as_ref().map(|it| &it.0), limits::WEIGHTS);
        let group = beat.group.clone();
        let member = Member {
            report: WorkerReport {
                group: group.unwrap_or_else(|| WorkerReport::default().group),
                exclusive: beat.exclusive,
                held: in_steps(beat.held, beat.capacity.max(limit)),
                images: images.unwrap_or(before.images),
                weights: weights.unwrap_or(before.weights),
            },
            gpu: beat.gpu,
            device: beat.device.clone(),
            properties: beat.properties.clone(),
            draining: beat.draining,
            obeys: beat.epoch > 0,
            quotas: beat.quotas.map(|number| (beat.epoch, number)),
            residency,
            residencies,
        };
        self.workers.insert(incarnation, member);
        self.seen_at.insert(incarnation, now);
    }

    /// Expects a worker that a previous leader had; it counts as silent from now on.
    pub(super) fn expect(&mut self, now: Nanos, incarnation: Incarnation) {
        self.seen_at.entry(incarnation).or_insert(now);
    }

    /// Returns true if a worker is expected that was not heard yet.
    pub(super) fn expects(&self, incarnation: Incarnation) -> bool {
        self.seen_at.contains_key(&incarnation) && !self.workers.contains_key(&incarnation)
    }

    /// Returns true if any worker is expected that was not heard yet.
    pub(super) fn expects_any(&self) -> bool {
        self.seen_at.len() > self.workers.len()
    }

    /// Notes a message of a worker that is not a heartbeat.
    pub(super) fn seen(&mut self, now: Nanos, incarnation: Incarnation) {
        if let Some(seen_at) = self.seen_at.get_mut(&incarnation) {
            let before = std::mem::replace(seen_at, now);
            self.heard_again(now, incarnation, before);
        }
    }

    /// Notes that our connection with the only server is up again: no worker counts as silent
    /// before now, and each had to connect again.
    pub(super) fn connected(&mut self, now: Nanos) {
        for seen_at in self.seen_at.values_mut() {
            *seen_at = now;
        }
        self.closed_at.clear();
        (self.listening_since, self.listened_since) = (now, now);
    }

    /// Notes that our connection with one of several servers is up again, after `away` in which we
    /// heard no worker. Silences do not start anew, or servers that die in turn would keep a dead
    /// worker alive.
    pub(super) fn connected_again(&mut self, now: Nanos, away: Nanos) {
        let times = self.seen_at.values_mut().chain(self.closed_at.values_mut());
        // For times in that interval, only the part after them counts.
        times.for_each(|at| *at = at.saturating_add(away.min(now.saturating_sub(*at))));
        self.listening_since = now;
        self.heard_nothing(now, away);
    }

    /// Time that a worker has not been heard though our connection was up.
    pub(super) fn unheard(&self, now: Nanos, incarnation: Incarnation) -> Nanos {
        let seen_at = self.seen_at.get(&incarnation);
        seen_at.map_or(0, |at| now.saturating_sub((*at).max(self.listening_since)))
    }

    /// Notes that a worker's connection was closed.
    pub(super) fn closed(&mut self, now: Nanos, incarnation: Incarnation) {
        if self.seen_at.contains_key(&incarnation) {
            self.closed_at.insert(incarnation, now);
        }
    }

    /// The workers with a closed connection that were not heard on another one within a patience,
    /// in order. The patience depends on the time of the closing. A message within `on_the_way` may
    /// be of the closed connection.
    pub(super) fn gone(
        &mut self,
        now: Nanos,
        on_the_way: Nanos,
        patience: impl Fn(Nanos) -> Nanos,
    ) -> Vec<Incarnation> {
        let seen_at = &self.seen_at;
        self.closed_at.retain(|incarnation, closed| {
            let since = closed.saturating_add(on_the_way);
            seen_at.get(incarnation).is_some_and(|at| *at < since)
        });
        let late = |closed: Nanos| now >= closed.saturating_add(patience(closed));
        let gone = self.closed_at.iter().filter(|(_, closed)| late(**closed));
        sorted(gone.map(|(incarnation, _)| *incarnation))
    }

    /// The workers that were not heard after `since`, in order.
    pub(super) fn silent(&self, since: Nanos) -> Vec<Incarnation> {
        let silent = self.seen_at.iter().filter(|(_, at)| **at <= since);
        sorted(silent.map(|(incarnation, _)| *incarnation))
    }

    /// Returns true if a worker was heard after `since`.
    pub(super) fn was_heard(&self, incarnation: Incarnation, since: Nanos) -> bool {
        let known = self.workers.contains_key(&incarnation);
        known && self.seen_at.get(&incarnation).is_some_and(|at| *at > since)
    }

    /// The devices of workers that were heard after `since`.
    pub(super) fn served(&self, since: Nanos) -> BTreeSet<GpuId> {
        let workers = self.workers.iter();
        let heard = workers.filter(|(worker, _)| self.was_heard(**worker, since));
        heard.map(|(_, member)| member.gpu).collect()
    }

    pub(super) fn get(&self, incarnation: Incarnation) -> Option<&Member> {
        self.workers.get(&incarnation)
    }

    pub(super) fn remove(&mut self, incarnation: Incarnation) -> Option<Member> {
        self.seen_at.remove(&incarnation);
        self.closed_at.remove(&incarnation);
        self.workers.remove(&incarnation)
    }

    /// All workers, in order.
    pub(super) fn incarnations(&self) -> Vec<Incarnation> {
        sorted(self.workers.keys().copied())
    }
}

fn sorted(incarnations: impl Iterator<Item = Incarnation>) -> Vec<Incarnation> {
    let mut sorted: Vec<_> = incarnations.collect();
    sorted.sort_unstable();
    sorted
}

/// Memory held, rounded up to a 64th of the capacity, so that the record does not change with every
/// allocation. A device that is not full does not appear full.
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
    use crate::leader::LeaderConfig;

    #[test]
    fn a_closed_connection_may_be_followed_by_another() {
        const MS: Nanos = 1_000_000;
        let config = LeaderConfig::new("lab".parse().unwrap()).on_servers();
        let servers = config.cluster_of.unwrap();
        let gone = |members: &mut Members, now| {
            members.gone(now, servers.on_the_way, |_| servers.worker_moves)
        };
        let beat = |incarnation| WorkerBeat::new(incarnation, 0, 0);
        let mut members = Members::default();
        let (moved, dead) = (Incarnation(1), Incarnation(2));
        for worker in [moved, dead] {
            members.beat(0, worker, &beat(worker));
            members.closed(10 * MS, worker);
            // A message that was on its way when the connection was closed.
            members.seen(200 * MS, worker);
        }
        members.seen(400 * MS, moved);
        assert_eq!(gone(&mut members, 1_000 * MS), []);
        assert_eq!(gone(&mut members, 1_600 * MS), [dead]);
        members.remove(dead);
        // An unknown worker cannot be lost.
        members.closed(1_700 * MS, dead);
        assert_eq!(gone(&mut members, 9_000 * MS), []);
        // The time in which we heard nothing is added, and restarts nothing.
        members.seen(2_000 * MS, moved);
        members.closed(2_000 * MS, moved);
        members.connected_again(2_500 * MS, 400 * MS);
        assert_eq!(gone(&mut members, 3_800 * MS), []);
        assert_eq!(members.silent(2_399 * MS), []);
        assert_eq!(members.silent(2_400 * MS), [moved]);
        assert_eq!(gone(&mut members, 3_900 * MS), [moved]);
        // With the only server, all had to connect again.
        members.connected(9_000 * MS);
        assert_eq!(gone(&mut members, 19_000 * MS), []);
        assert_eq!(members.silent(8_999 * MS), []);
    }

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
