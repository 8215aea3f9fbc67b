//! The end of an incarnation's usage: the usage missing after it, if the worker was killed.

use std::collections::BTreeMap;

use super::{UsageBlock, UseTotals};
use crate::id::{GpuId, Incarnation, Tenant};

/// The end of one incarnation's blocks, as far as they were read, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageEnd {
    /// Its device.
    pub gpu: GpuId,
    /// True if it has left in order: no usage is missing after it.
    pub left: bool,
    /// Time of the last cut, milliseconds since 1970.
    pub at_ms: u64,
    /// The last block that completes its cut.
    whole: u64,
    reports: Option<u64>,
    /// Blocks of cuts that continue in other blocks.
    begun: BTreeMap<u64, BTreeMap<Tenant, UseTotals>>,
}

impl UsageEnd {
    fn take(&mut self, block: &UsageBlock) {
        self.gpu = block.gpu;
        self.left |= block.last;
        self.at_ms = self.at_ms.max(block.at_ms);
        if block.reports.is_none() {
            let rows = self.begun.entry(block.number).or_default();
            rows.clear();
            for row in &block.kernels {
                rows.entry(row.tenant.clone()).or_default().add_kernel(row);
            }
        } else if block.number > self.whole {
            (self.whole, self.reports) = (block.number, block.reports);
            self.begun = self.begun.split_off(&self.whole);
        }
    }

    /// Returns the last done report for which the blocks have all usage reported through it; `None`
    /// if no block names one.
    #[must_use]
    pub fn reports(&self) -> Option<u64> {
        self.reports
    }

    /// Returns the usage in blocks, by tenant, that later reports cover. Other blocks of the same
    /// cut were lost.
    #[must_use]
    pub fn beyond(&self) -> BTreeMap<Tenant, UseTotals> {
        let mut sums = BTreeMap::<_, UseTotals>::new();
        let begun = self.begun.range(self.whole..);
        for (tenant, sum) in begun.flat_map(|(_, rows)| rows) {
            sums.entry(tenant.clone()).or_default().add(sum);
        }
        sums
    }
}

/// The end of the usage of every incarnation.
#[derive(Debug, Clone, Default)]
pub struct UsageEnds {
    workers: BTreeMap<Incarnation, UsageEnd>,
}

impl UsageEnds {
    /// Takes in a block.
    pub fn take(&mut self, block: &UsageBlock) {
        let worker = self.workers.entry(block.incarnation).or_default();
        worker.take(block);
    }

    /// Returns every incarnation that has blocks.
    pub fn workers(&self) -> impl Iterator<Item = (&Incarnation, &UsageEnd)> {
        self.workers.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::block;
    use super::*;

    fn end(blocks: &[UsageBlock]) -> UsageEnd {
        let mut ends = UsageEnds::default();
        blocks.iter().for_each(|block| ends.take(block));
        ends.workers().next().unwrap().1.clone()
    }

    #[test]
    fn blocks_whose_rest_is_lost_are_beyond_the_last_report() {
        let whole = block(1, 3, 0);
        let mut begun = [block(2, 4, 3), block(3, 5, 7)];
        for block in &mut begun {
            block.reports = None;
        }
        let [second, third] = begun.clone();
        for order in [
            [&whole, &second, &third],
            [&third, &whole, &second],
            [&second, &third, &second],
        ] {
            let order: Vec<_> = order.into_iter().chain([&whole]).cloned().collect();
            let end = end(&order);
            assert_eq!(end.reports(), Some(3));
            let beyond: Vec<_> = end.beyond().into_values().map(|it| it.launches).collect();
            assert_eq!(beyond, [9]);
        }
        // With the rest of the cut, nothing is missing.
        let end = end(&[third, block(4, 1, 12), whole, second]);
        assert_eq!((end.reports(), end.beyond().len()), (Some(13), 0));
    }

    #[test]
    fn blocks_of_before_reports_were_counted_say_nothing() {
        let mut old = block(1, 3, 0);
        old.reports = None;
        assert_eq!(end(&[old]).reports(), None);
    }
}
