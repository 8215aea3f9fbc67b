//! The list of quotas that a worker got from its leader.

use bus_schemas::{Epoch, Quotas};

/// The list that was taken last. Heartbeats name it, and the leader sends the list in force until they do.
#[derive(Debug, Default, Clone, Copy)]
pub struct QuotaList {
    epoch: Epoch,
    number: u64,
}

impl QuotaList {
    /// Takes a list of the current leader. Returns true if it is new: messages may come twice, or late.
    pub fn take(&mut self, list: &Quotas) -> bool {
        let newer = (list.epoch, list.number) > (self.epoch, self.number);
        if newer {
            (self.epoch, self.number) = (list.epoch, list.number);
        }
        newer
    }

    /// Number of the list taken from an epoch's leader; 0 before the first.
    #[must_use]
    pub fn of(&self, epoch: Epoch) -> u64 {
        if epoch == self.epoch { self.number } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{LeaderId, WIRE_VERSION};

    use super::*;

    #[test]
    fn the_newest_list_counts_and_each_leader_sends_its_own() {
        let list = |epoch, number| Quotas {
            v: WIRE_VERSION,
            epoch,
            leader: LeaderId(1),
            number,
            quotas: Vec::new(),
            pinned: Vec::new(),
            tenants: Vec::new(),
        };
        let mut taken = QuotaList::default();
        assert_eq!(taken.of(1), 0);
        assert!(taken.take(&list(1, 2)));
        assert!(!taken.take(&list(1, 1)) && !taken.take(&list(1, 2)));
        assert_eq!((taken.of(1), taken.of(2)), (2, 0));
        assert!(taken.take(&list(2, 1)) && !taken.take(&list(1, 3)));
        assert_eq!((taken.of(1), taken.of(2)), (0, 1));
    }
}
