//! The grant streams to all workers, and the streams with something due. An event of one worker
//! costs nothing for the thousand others.

use std::collections::BTreeSet;

use bus_schemas::{Incarnation, InputNumber};

use super::grant_stream::GrantStream;
use super::record_acks::RecordAcks;
use crate::ids::IdMap;
use crate::time::Nanos;

#[derive(Debug)]
struct Entry {
    stream: GrantStream,
    /// Time of its entry in `due`: at or before the time at which it is due.
    listed: Option<Nanos>,
    /// True if it is in `stirred`.
    stirred: bool,
}

/// Every worker's grant stream, by incarnation.
#[derive(Debug, Default)]
pub(super) struct GrantStreams {
    entries: IdMap<Incarnation, Entry>,
    /// Workers that an event may have changed.
    stirred: Vec<Incarnation>,
    /// Workers to look at, by time. Most are put off earlier, message by message, which is not
    /// noted here: they are looked at once more than needed.
    due: BTreeSet<(Nanos, Incarnation)>,
    acks: RecordAcks,
}

impl GrantStreams {
    pub(super) fn get(&self, worker: &Incarnation) -> Option<&GrantStream> {
        self.entries.get(worker).map(|entry| &entry.stream)
    }

    /// Reads ahead what a report of a worker needs of its grant stream.
    pub(super) fn fetch(&self, worker: &Incarnation) -> u64 {
        let entry = self.entries.get(worker);
        entry.map_or(0, |entry| entry.stream.fetch() ^ u64::from(entry.stirred))
    }

    /// The grant stream of a worker that an event changes: it is attended to at the end of the
    /// event.
    pub(super) fn get_mut(&mut self, worker: &Incarnation) -> Option<&mut GrantStream> {
        let entry = self.entries.get_mut(worker)?;
        if !std::mem::replace(&mut entry.stirred, true) {
            self.stirred.push(*worker);
        }
        Some(&mut entry.stream)
    }

    /// The grant stream of a worker, for a change that needs no attention.
    pub(super) fn note_in(&mut self, worker: Incarnation) -> Option<&mut GrantStream> {
        self.entries.get_mut(&worker).map(|entry| &mut entry.stream)
    }

    /// Adds a worker, if it is new.
    pub(super) fn meet(&mut self, worker: Incarnation, stream: impl FnOnce() -> GrantStream) {
        let stirred = &mut self.stirred;
        self.entries.entry(worker).or_insert_with(|| {
            stirred.push(worker);
            Entry {
                stream: stream(),
                listed: None,
                stirred: true,
            }
        });
    }

    pub(super) fn remove(&mut self, worker: Incarnation) {
        let entry = self.entries.remove(&worker);
        if let Some(at) = entry.and_then(|entry| entry.listed) {
            self.due.remove(&(at, worker));
        }
    }

    /// Returns true if all workers that were met are sealed.
    pub(super) fn are_sealed(&self) -> bool {
        self.entries.values().all(|entry| entry.stream.sealed)
    }

    /// Notes that inputs are recorded through `recorded`. Each grant stream handles that when it is
    /// due.
    pub(super) fn recorded(&mut self, now: Nanos, recorded: InputNumber, linger: Nanos) {
        self.acks.note(now, recorded, linger);
    }

    /// Attends to the workers that an event changed or that are due, in order.
    pub(super) fn attend(
        &mut self,
        now: Nanos,
        mut attend: impl FnMut(Incarnation, &mut GrantStream, &RecordAcks),
    ) {
        let mut awake = std::mem::take(&mut self.stirred);
        while let Some((at, worker)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            if let Some(entry) = self.entries.get_mut(&worker) {
                entry.listed = None;
                awake.push(worker);
            }
        }
        awake.sort_unstable();
        awake.dedup();
        for worker in awake.drain(..) {
            let Some(entry) = self.entries.get_mut(&worker) else {
                continue;
            };
            entry.stirred = false;
            attend(worker, &mut entry.stream, &self.acks);
            let Some(at) = entry.stream.next_wakeup() else {
                continue;
            };
            if entry.listed.is_none_or(|listed| at < listed) {
                if let Some(before) = entry.listed.replace(at) {
                    self.due.remove(&(before, worker));
                }
                self.due.insert((at, worker));
            }
        }
        self.stirred = awake;
    }

    /// Every grant stream, in the order of the workers' ids.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut GrantStream> {
        let mut entries: Vec<_> = self.entries.iter_mut().collect();
        entries.sort_unstable_by_key(|(worker, _)| **worker);
        entries.into_iter().map(|(_, entry)| &mut entry.stream)
    }

    /// Time at which the next stream is due.
    pub(super) fn next_wakeup(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::subject::Subjects;
    use bus_schemas::{
        Chain, Grant, GrantBatch, GrantKind, LeaderId, SealAnswer, SessionId, decode,
    };

    use super::*;
    use crate::leader::publisher::Publisher;
    use crate::leader::{Action, LeaderConfig};

    const WORKER: Incarnation = Incarnation(7);
    const MS: Nanos = 1_000_000;

    /// A single, sealed grant stream.
    fn streams() -> GrantStreams {
        let mut streams = GrantStreams::default();
        streams.meet(WORKER, || GrantStream::new("order".into(), 0));
        let answer = SealAnswer {
            v: 1,
            epoch: 1,
            leader: LeaderId(1),
            gpu: 0,
            capacity: 0,
            position: 0,
            chain: Chain::default(),
            global: 0,
            reports: 0,
            sessions: Vec::new(),
            outstanding: Vec::new(),
            tail_epoch: 0,
            tail_recorded: 0,
            tail: Vec::new(),
            ordinals: Vec::new(),
            faults: Vec::new(),
            named: Vec::new(),
            forgotten: None,
        };
        streams.get_mut(&WORKER).unwrap().seal(&answer);
        streams
    }

    fn grant(input: InputNumber) -> Grant {
        Grant {
            kind: GrantKind::Run,
            priority: 2,
            global: 1,
            session: SessionId(1),
            first: 1,
            last: 1,
            cost: 1,
            declared: 0,
            input,
            epoch: 1,
        }
    }

    /// The messages to the worker at a time: number of grants, and last recorded input.
    fn sent(streams: &mut GrantStreams, now: Nanos) -> Vec<(usize, InputNumber)> {
        let cluster = "lab".parse().unwrap();
        let publisher = Publisher {
            subjects: Subjects::new(&cluster),
            epoch: 1,
            leader: LeaderId(1),
            connected: true,
        };
        let (config, mut actions) = (LeaderConfig::new(cluster), Vec::new());
        streams.attend(now, |_, stream, acks| {
            let recorded = (acks.through(), acks);
            stream.flush(now, recorded, &publisher, &config, &mut actions);
        });
        let sent = actions.iter().map(|action| match action {
            Action::Publish { bytes, .. } => {
                let batch: GrantBatch<'_> = decode(bytes).unwrap();
                (batch.grants.len(), batch.recorded)
            }
            other => panic!("{other:?}"),
        });
        sent.collect()
    }

    #[test]
    fn a_worker_learns_soon_after_that_its_grants_are_recorded() {
        let config = LeaderConfig::new("lab".parse().unwrap());
        let mut streams = streams();
        streams.get_mut(&WORKER).unwrap().push(grant(3), None);
        assert_eq!(sent(&mut streams, 0), [(1, 0)]);
        let stream = streams.get_mut(&WORKER).unwrap();
        stream.accept(MS, 1, Chain::default(), &config);
        assert_eq!(sent(&mut streams, MS), []);
        // By then it would have been sent again.
        assert_eq!(sent(&mut streams, 5 * MS), []);
        streams.recorded(6 * MS, 2, config.record_linger);
        streams.recorded(9 * MS, 3, config.record_linger);
        let mut received = Vec::new();
        while let Some(due) = streams.next_wakeup() {
            received.extend(sent(&mut streams, due).into_iter().map(|it| (due, it)));
        }
        // The first acknowledgement is news for it; all recorded inputs are reported then.
        assert_eq!(received, [(26 * MS, (0, 3))]);
    }

    #[test]
    fn a_worker_that_has_no_grants_is_sent_no_recording() {
        let config = LeaderConfig::new("lab".parse().unwrap());
        let mut streams = streams();
        assert_eq!(sent(&mut streams, 0), []);
        streams.recorded(6 * MS, 2, config.record_linger);
        assert_eq!(
            (sent(&mut streams, 60 * MS), streams.next_wakeup()),
            (vec![], None)
        );
    }
}
