//! The links to all workers, and which of them something is due for: what happens to one worker
//! costs nothing for the thousand others.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Incarnation, InputNumber};

use super::config::{Config, Nanos};
use super::link::Link;

#[derive(Debug)]
struct Entry {
    link: Link,
    /// When it stands in `due`.
    listed: Option<Nanos>,
}

/// Every worker's link, by incarnation.
#[derive(Debug, Default)]
pub(super) struct Links {
    entries: BTreeMap<Incarnation, Entry>,
    /// Those that something may have happened to.
    stirred: Vec<Incarnation>,
    due: BTreeSet<(Nanos, Incarnation)>,
}

impl Links {
    pub(super) fn get(&self, worker: &Incarnation) -> Option<&Link> {
        self.entries.get(worker).map(|entry| &entry.link)
    }

    /// A link that something happens to: it is attended to at the end of the event.
    pub(super) fn get_mut(&mut self, worker: &Incarnation) -> Option<&mut Link> {
        let entry = self.entries.get_mut(worker)?;
        self.stirred.push(*worker);
        Some(&mut entry.link)
    }

    /// Takes a worker in, if it is new.
    pub(super) fn meet(&mut self, worker: Incarnation, link: impl FnOnce() -> Link) {
        let stirred = &mut self.stirred;
        self.entries.entry(worker).or_insert_with(|| {
            stirred.push(worker);
            Entry {
                link: link(),
                listed: None,
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

    /// Inputs are recorded through here.
    pub(super) fn recorded(&mut self, now: Nanos, recorded: InputNumber, config: &Config) {
        for (worker, entry) in &mut self.entries {
            if entry.link.recorded(now, recorded, config) {
                self.stirred.push(*worker);
            }
        }
    }

    /// The workers to be attended to now, in order. Each is to be [`Self::list`]ed behind it.
    pub(super) fn awake(&mut self, now: Nanos) -> Vec<Incarnation> {
        let mut awake = std::mem::take(&mut self.stirred);
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        awake.extend(due.map(|(_, worker)| *worker));
        awake.sort_unstable();
        awake.dedup();
        awake
    }

    /// A link to be attended to.
    pub(super) fn attend(&mut self, worker: Incarnation) -> Option<&mut Link> {
        self.entries.get_mut(&worker).map(|entry| &mut entry.link)
    }

    /// Notes when a link is due next.
    pub(super) fn list(&mut self, worker: Incarnation) {
        let Some(entry) = self.entries.get_mut(&worker) else {
            return;
        };
        let at = entry.link.deadline();
        if at == entry.listed {
            return;
        }
        if let Some(before) = std::mem::replace(&mut entry.listed, at) {
            self.due.remove(&(before, worker));
        }
        if let Some(at) = at {
            self.due.insert((at, worker));
        }
    }

    /// When the next is due.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.due.first().map(|(at, _)| *at)
    }
}
