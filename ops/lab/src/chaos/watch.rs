//! A watch over the bus: the leaders by epoch, the workers, and the lost workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use admin::Administrator;
use anyhow::Result;
use bus_schemas::{Epoch, GpuId, Incarnation, LeaderBeat, LeaderId, Lost, WorkerBeat, decode};
use futures_util::StreamExt;

/// Time without a heartbeat after which a leader counts as silent (docs/internals/leader.md).
pub(super) const SILENCE: Duration = Duration::from_millis(300);

/// A leader that was heard to lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Term {
    /// Its epoch.
    pub(super) epoch: Epoch,
    /// The leader.
    pub(super) leader: LeaderId,
    /// Time at which it was first heard.
    pub(super) at: Instant,
    /// True if it has announced its departure.
    pub(super) leaving: bool,
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Its beginning.
    pub(super) from: Instant,
    /// Its end.
    pub(super) until: Instant,
}

/// A worker's incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Worker {
    /// The number of its device.
    pub(super) gpu: GpuId,
    /// Time at which it was first heard.
    pub(super) at: Instant,
}

/// Observations so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// Leaders, by epoch.
    pub(super) terms: BTreeMap<Epoch, Term>,
    /// Times in which no leader was heard.
    pub(super) leaderless: Vec<Span>,
    /// Workers.
    pub(super) workers: BTreeMap<Incarnation, Worker>,
    /// Workers that a leader declared lost, each with the time.
    pub(super) lost: BTreeMap<Incarnation, Instant>,
    last_beat: Option<Instant>,
    ignored: BTreeSet<Epoch>,
}

impl Heard {
    fn beat(&mut self, now: Instant, beat: &LeaderBeat) {
        if let Some(from) = self.last_beat.replace(now)
            && now.saturating_duration_since(from) > SILENCE
        {
            self.leaderless.push(Span { from, until: now });
        }
        let term = self.terms.entry(beat.epoch).or_insert(Term {
            epoch: beat.epoch,
            leader: beat.leader,
            at: now,
            leaving: false,
        });
        if term.leader == beat.leader {
            term.leaving |= beat.leaving;
        } else if self.ignored.insert(beat.epoch) {
            tracing::error!(?term, ?beat, "two leaders say that they lead in one epoch");
        }
    }

    /// Spans in which no leader was heard, including one that lasts at `now`.
    pub(super) fn leaderless_until(&self, now: Instant) -> Vec<Span> {
        let mut spans = self.leaderless.clone();
        let last = self.last_beat.map(|from| Span { from, until: now });
        spans.extend(last.filter(|span| span.until.saturating_duration_since(span.from) > SILENCE));
        spans
    }

    /// The worker of a device at a given time: the last one heard before it.
    pub(super) fn worker_at(&self, gpu: GpuId, at: Instant) -> Option<Incarnation> {
        let known = self.workers.iter();
        let known = known.filter(|(_, worker)| worker.gpu == gpu && worker.at <= at);
        let last = known.max_by_key(|(_, worker)| worker.at);
        last.map(|(incarnation, _)| *incarnation)
    }

    /// True if a worker of a device was first heard at that time or later.
    pub(super) fn has_joined(&self, gpu: GpuId, since: Instant) -> bool {
        let mut workers = self.workers.values();
        workers.any(|worker| worker.gpu == gpu && worker.at >= since)
    }

    fn note(&mut self, now: Instant, subject: &str, payload: &[u8]) {
        if subject.ends_with(".s.l.beat") {
            if let Ok(beat) = decode::<LeaderBeat>(payload) {
                self.beat(now, &beat);
            }
        } else if subject.ends_with(".s.lost") {
            if let Ok(lost) = decode::<Lost>(payload) {
                self.lost.entry(lost.incarnation).or_insert(now);
            }
        } else if let Ok(beat) = decode::<WorkerBeat>(payload) {
            let worker = Worker {
                gpu: beat.gpu,
                at: now,
            };
            self.workers.entry(beat.incarnation).or_insert(worker);
        }
    }
}

/// Listens for the lifetime of the runtime.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Heard>>);

impl Watch {
    /// Starts to listen, on a task of the current runtime.
    ///
    /// # Errors
    /// If the broker refuses the subscriptions.
    pub(super) async fn start(administrator: &Administrator) -> Result<Self> {
        let watch = Self::default();
        let subjects = administrator.subjects();
        let workers = subjects.all().replace('>', "s.l.worker.*");
        for subject in [subjects.leader_beat(), subjects.lost(), workers] {
            let subscription = administrator.client().subscribe(subject).await?;
            let watch = watch.clone();
            tokio::spawn(subscription.for_each(move |message| {
                watch.see(|heard| heard.note(Instant::now(), &message.subject, &message.payload));
                std::future::ready(())
            }));
        }
        administrator.client().flush().await?;
        Ok(watch)
    }

    fn see<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Time of the last heartbeat of a leader.
    pub(super) fn last_beat(&self) -> Option<Instant> {
        self.see(|heard| heard.last_beat)
    }

    /// Returns the observations so far.
    pub(super) fn heard(&self) -> Heard {
        self.see(|heard| heard.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_joins_when_it_is_heard_and_not_by_the_word_of_another() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut heard = Heard::default();
        for (incarnation, gpu, ms) in [(1, 0, 100), (2, 1, 900)] {
            let worker = Worker { gpu, at: at(ms) };
            heard.workers.insert(Incarnation(incarnation), worker);
        }
        assert!(heard.has_joined(0, at(50)));
        assert!(!heard.has_joined(0, at(500)), "the one before, killed");
        assert!(heard.has_joined(1, at(500)));
    }
}
