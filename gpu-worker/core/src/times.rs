//! Times of launches by kernel key, added to the cluster's kernel records now and then. They inform users;
//! usage and profiles do not come from here.

use std::collections::BTreeMap;

use bus_schemas::{KernelKey, KernelName, KernelRecord};

use device::KernelTime;

/// Maximum number of names kept: a record may have been forgotten by the time its kernel runs again.
const NAMES: usize = 1 << 15;

/// Measurements since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct Times {
    fresh: BTreeMap<KernelKey, KernelRecord>,
    names: BTreeMap<KernelKey, KernelName>,
    /// Start of the next search: behind the key that was taken last.
    next: KernelKey,
}

impl Times {
    /// Remembers the name of a key.
    pub(crate) fn name(&mut self, name: &KernelName) {
        if self.names.len() >= NAMES {
            self.names.clear();
        }
        self.names.insert(name.kernel, name.clone());
    }

    /// Returns the name of a key, if remembered.
    pub(crate) fn named(&self, key: KernelKey) -> Option<&KernelName> {
        self.names.get(&key)
    }

    /// Notes that launches of a slice ran.
    pub(crate) fn ran(&mut self, ran: &KernelTime) {
        let bounds = (ran.least_ns, ran.most_ns);
        let record = self.fresh.entry(ran.key).or_default();
        record.add(ran.count, ran.total_ns, bounds);
    }

    /// Takes the measurements of `most` keys, those first that have waited longest for their turn.
    pub(crate) fn take(&mut self, most: usize) -> Vec<(KernelKey, KernelRecord)> {
        let behind = self.fresh.range(self.next..);
        let before = self.fresh.range(..self.next);
        let keys = behind.chain(before).take(most).map(|(key, _)| *key);
        let keys: Vec<_> = keys.collect();
        if let Some(last) = keys.last() {
            self.next = KernelKey(last.0.wrapping_add(1));
        }
        let take = |key: KernelKey| {
            let mut record = self.fresh.remove(&key)?;
            record.name = self.names.get(&key).cloned();
            Some((key, record))
        };
        keys.into_iter().filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(key: u64, ns: u64) -> KernelTime {
        KernelTime {
            key: KernelKey(key),
            count: 1,
            total_ns: ns,
            sm_ns: ns,
            least_ns: ns,
            most_ns: ns,
        }
    }

    #[test]
    fn every_key_has_its_turn_and_is_taken_once() {
        let mut times = Times::default();
        let name = KernelName {
            kernel: KernelKey(u64::MAX),
            function: "last".into(),
            grid_dim: [1; 3],
            block_dim: [1; 3],
            shared_bytes: 0,
            module: None,
        };
        times.name(&name);
        let mut taken = BTreeMap::<KernelKey, KernelRecord>::new();
        for round in 0..20 {
            for key in [1, 2, 3, u64::MAX] {
                times.ran(&ran(key, 10 + round));
            }
            let some = times.take(1);
            assert_eq!(some.len(), 1);
            for (key, record) in some {
                taken.entry(key).or_default().merge(&record);
            }
            assert!(taken.len() as u64 >= 4.min(round + 1), "{round}");
        }
        for (key, record) in times.take(9) {
            taken.entry(key).or_default().merge(&record);
        }
        assert!(times.take(9).is_empty());
        assert!(taken.values().all(|record| record.launches == 20));
        assert_eq!(taken[&KernelKey(u64::MAX)].name, Some(name));
        assert_eq!(taken[&KernelKey(1)].name, None);
    }
}
