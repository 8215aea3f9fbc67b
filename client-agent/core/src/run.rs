//! The costs of ops that are not done yet, run-length coded.

use std::collections::VecDeque;

use bus_schemas::{CostRun, OpNumber, Row};

/// The ops through `last` that follow those of the previous run and have equal cost.
#[derive(Debug)]
struct Run {
    last: OpNumber,
    one: CostRun,
}

/// The costs of ops, and the progress of their announcement. They are kept until the ops are done
/// and the leader has them: a new leader may ask for any that no worker accepted.
#[derive(Debug)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
    next: OpNumber,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self {
            runs: VecDeque::new(),
            next: 1,
        }
    }

    /// Adds the cost of op `op`, the next one.
    #[inline]
    pub(crate) fn push(&mut self, op: OpNumber, one: CostRun) {
        match self.runs.back_mut() {
            Some(run) if run.one == one => run.last = op,
            _ => self.runs.push_back(Run { last: op, one }),
        }
    }

    /// Number of the op to announce next.
    pub(crate) fn next(&self) -> OpNumber {
        self.next
    }

    /// Continues the announcements at `op`.
    pub(crate) fn seek(&mut self, op: OpNumber) {
        self.next = op;
    }

    /// Packs the rows of the ops `next ..= through`, at most `most` ops, into `rows`; returns the
    /// first op and the number of ops.
    pub(crate) fn announce(
        &mut self,
        through: OpNumber,
        most: u32,
        rows: &mut Vec<u8>,
    ) -> Option<(OpNumber, u32)> {
        rows.clear();
        let first = self.next;
        let last = through.min(first.saturating_add(u64::from(most)) - 1);
        let from = self.runs.partition_point(|run| run.last < first);
        for run in self.runs.range(from..) {
            if self.next > last {
                break;
            }
            let end = run.last.min(last);
            // There are at most `most` ops, so the number fits.
            let count = (end + 1 - self.next) as u32;
            CostRun { count, ..run.one }.write(rows);
            self.next = end + 1;
        }
        let count = (self.next - first) as u32;
        (count > 0).then_some((first, count))
    }

    /// Forgets the ops through `op`, which are not announced again.
    pub(crate) fn forget(&mut self, op: OpNumber) {
        self.next = self.next.max(op + 1);
        while self.runs.front().is_some_and(|run| run.last <= op) {
            self.runs.pop_front();
        }
    }

    /// Forgets all ops.
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Column, CostClass, KernelKey};

    use super::*;

    fn launch(key: u64) -> CostRun {
        CostRun {
            key: KernelKey(key),
            bytes: 0,
            count: 1,
            class: CostClass::Launch,
        }
    }

    fn rows(bytes: &[u8]) -> Vec<(u64, u32)> {
        let column = Column::<CostRun>::new(bytes).unwrap();
        column.iter().map(|run| (run.key.0, run.count)).collect()
    }

    #[test]
    fn equal_costs_share_a_row_wherever_they_are_cut() {
        let (mut runs, mut bytes) = (Runs::new(), Vec::new());
        for (op, key) in (1..).zip([1, 1, 1, 2, 2, 3]) {
            runs.push(op, launch(key));
        }
        assert_eq!(runs.announce(2, 10, &mut bytes), Some((1, 2)));
        assert_eq!(rows(&bytes), [(1, 2)]);
        assert_eq!(runs.announce(6, 3, &mut bytes), Some((3, 3)));
        assert_eq!(rows(&bytes), [(1, 1), (2, 2)]);
        runs.push(7, launch(3));
        assert_eq!(runs.announce(9, 10, &mut bytes), Some((6, 2)));
        assert_eq!(rows(&bytes), [(3, 2)]);
        assert_eq!(runs.announce(9, 10, &mut bytes), None);
        runs.forget(4);
        runs.seek(5);
        assert_eq!(runs.announce(7, 10, &mut bytes), Some((5, 3)));
        assert_eq!(rows(&bytes), [(2, 1), (3, 2)]);
        runs.forget(7);
        runs.push(8, launch(3));
        assert_eq!(runs.announce(8, 10, &mut bytes), Some((8, 1)));
        assert_eq!(rows(&bytes), [(3, 1)]);
    }
}
