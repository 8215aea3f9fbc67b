//! The links to all workers, and which of them something is due for: what happens to one worker
//! costs nothing for the thousand others.

use std::collections::BTreeSet;

use bus_schemas::{Incarnation, InputNumber};

use super::link::Link;
use super::recordings::Recordings;
use crate::ids::IdMap;
use crate::time::Nanos;

#[derive(Debug)]
struct Entry {
    link: Link,
    /// When it stands in `due`: when it is due, or before.
    listed: Option<Nanos>,
    /// It stands in `stirred`.
    stirred: bool,
}

/// Every worker's link, by incarnation.
#[derive(Debug, Default)]
pub(super) struct Links {
    entries: IdMap<Incarnation, Entry>,
    /// Those that something may have happened to.
    stirred: Vec<Incarnation>,
    /// Those that are to be looked at then. Most are put off before, message by message, which is
    /// not noted here: they are looked at once more than needed.
    due: BTreeSet<(Nanos, Incarnation)>,
    recordings: Recordings,
}

impl Links {
    pub(super) fn get(&self, worker: &Incarnation) -> Option<&Link> {
        self.entries.get(worker).map(|entry| &entry.link)
    }

    /// Reads what a report of a worker needs of its link.
    pub(super) fn fetch(&self, worker: &Incarnation) -> u64 {
        let entry = self.entries.get(worker);
        entry.map_or(0, |entry| entry.link.fetch() ^ u64::from(entry.stirred))
    }

    /// A link that something happens to: it is attended to at the end of the event.
    pub(super) fn get_mut(&mut self, worker: &Incarnation) -> Option<&mut Link> {
        let entry = self.entries.get_mut(worker)?;
        if !std::mem::replace(&mut entry.stirred, true) {
            self.stirred.push(*worker);
        }
        Some(&mut entry.link)
    }

    /// A link that nothing happens to which needs attention.
    pub(super) fn note_in(&mut self, worker: Incarnation) -> Option<&mut Link> {
        self.entries.get_mut(&worker).map(|entry| &mut entry.link)
    }

    /// Takes a worker in, if it is new.
    pub(super) fn meet(&mut self, worker: Incarnation, link: impl FnOnce() -> Link) {
        let stirred = &mut self.stirred;
        self.entries.entry(worker).or_insert_with(|| {
            stirred.push(worker);
            Entry {
                link: link(),
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

    /// Whether all workers that were met are sealed.
    pub(super) fn are_sealed(&self) -> bool {
        self.entries.values().all(|entry| entry.link.sealed)
    }

    /// Inputs are recorded through here. Each link sees to what that means for it when it is due.
    pub(super) fn recorded(&mut self, now: Nanos, recorded: InputNumber, linger: Nanos) {
        self.recordings.note(now, recorded, linger);
    }

    /// Attends to the workers that something has happened to or is due for, in order.
    pub(super) fn attend(
        &mut self,
        now: Nanos,
        mut attend: impl FnMut(Incarnation, &mut Link, &Recordings),
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
            attend(worker, &mut entry.link, &self.recordings);
            let Some(at) = entry.link.deadline() else {
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

    /// Every link, in the order of the workers' ids.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Link> {
        let mut entries: Vec<_> = self.entries.iter_mut().collect();
        entries.sort_unstable_by_key(|(worker, _)| **worker);
        entries.into_iter().map(|(_, entry)| &mut entry.link)
    }

    /// When the next is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::subject::Subjects;
    use bus_schemas::{Chain, Grant, GrantKind, LeaderId, Order, SealAnswer, SessionId, decode};

    use super::*;
    use crate::leader::voice::Voice;
    use crate::leader::{Action, Config};

    const WORKER: Incarnation = Incarnation(7);
    const MS: Nanos = 1_000_000;

    /// A link that is sealed, on its own.
    fn links() -> Links {
        let mut links = Links::default();
        links.meet(WORKER, || Link::new("order".into(), 0));
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
        links.get_mut(&WORKER).unwrap().seal(&answer);
        links
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

    /// What the worker is told at a time: grants, and through where they are recorded.
    fn told(links: &mut Links, now: Nanos) -> Vec<(usize, InputNumber)> {
        let cluster = "lab".parse().unwrap();
        let voice = Voice {
            subjects: Subjects::new(&cluster),
            epoch: 1,
            leader: LeaderId(1),
            connected: true,
        };
        let (config, mut actions) = (Config::new(cluster), Vec::new());
        links.attend(now, |_, link, recordings| {
            let recorded = (recordings.through(), recordings);
            link.flush(now, recorded, &voice, &config, &mut actions);
        });
        let told = actions.iter().map(|action| match action {
            Action::Publish { bytes, .. } => {
                let order: Order<'_> = decode(bytes).unwrap();
                (order.grants.len(), order.recorded)
            }
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn a_worker_learns_soon_after_that_its_grants_are_recorded() {
        let config = Config::new("lab".parse().unwrap());
        let mut links = links();
        links.get_mut(&WORKER).unwrap().push(grant(3), None);
        assert_eq!(told(&mut links, 0), [(1, 0)]);
        let link = links.get_mut(&WORKER).unwrap();
        link.accept(MS, 1, Chain::default(), &config);
        assert_eq!(told(&mut links, MS), []);
        // By then it would have been sent again.
        assert_eq!(told(&mut links, 5 * MS), []);
        links.recorded(6 * MS, 2, config.record_linger);
        links.recorded(9 * MS, 3, config.record_linger);
        let mut heard = Vec::new();
        while let Some(due) = links.deadline() {
            heard.extend(told(&mut links, due).into_iter().map(|it| (due, it)));
        }
        // Of the first acknowledgement there is news for it; all that is recorded is told then.
        assert_eq!(heard, [(26 * MS, (0, 3))]);
    }

    #[test]
    fn a_worker_that_has_no_grants_is_told_of_no_recording() {
        let config = Config::new("lab".parse().unwrap());
        let mut links = links();
        assert_eq!(told(&mut links, 0), []);
        links.recorded(6 * MS, 2, config.record_linger);
        assert_eq!(
            (told(&mut links, 60 * MS), links.deadline()),
            (vec![], None)
        );
    }
}
