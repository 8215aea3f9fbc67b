//! Folding of old usage blocks: one block per day of a worker, with the sums of those it replaces.

use std::collections::BTreeMap;

use super::{TenantMoves, UsageBlock};
use crate::codec::column::Row;
use crate::id::Incarnation;
use crate::limits;

const DAY_MS: u64 = 86_400_000;
/// Maximum bytes of a block beside its rows and names.
const HEAD_BYTES: usize = 1 << 10;
/// Maximum bytes of a row, or of a name without its function.
const ROW_BYTES: usize = 80;

/// Returns the day in which a block was cut: days since 1970.
#[must_use]
pub fn usage_day(at_ms: u64) -> u64 {
    at_ms / DAY_MS
}

impl UsageBlock {
    /// Returns the number of the first block that it replaces: its own, unless blocks were folded
    /// into it.
    #[must_use]
    pub fn begins(&self) -> u64 {
        self.first.unwrap_or(self.number).min(self.number)
    }

    /// True if the other block covers all that this one does.
    fn is_within(&self, other: &Self) -> bool {
        self.incarnation == other.incarnation
            && other.begins() <= self.begins()
            && self.number <= other.number
    }

    /// Returns its size in bytes, or slightly more.
    fn size(&self) -> usize {
        let names = self.names.iter();
        let names: usize = names.map(|name| name.function.len() + ROW_BYTES).sum();
        let moves = TenantMoves::SIZE * self.moves.len();
        HEAD_BYTES + names + moves + ROW_BYTES * (self.kernels.len() + self.memory.len())
    }

    /// Folds the next block into this one. True if it did.
    fn absorb(&mut self, next: &Self) -> bool {
        let adjoins = self.incarnation == next.incarnation
            && self.number.checked_add(1) == Some(next.begins())
            && usage_day(self.at_ms) == usage_day(next.at_ms);
        // Otherwise reports could seem to end earlier, or a cut that continues in a lost block
        // could seem smaller.
        let reports = self.reports.is_none() || next.reports.is_some();
        if !adjoins || !reports {
            return false;
        }
        if self.size() + next.size() > limits::RECORD_BLOCK_BYTES {
            // Only if most of their rows have the same keys.
            let mut both = self.clone();
            both.add_rows(next);
            if both.size() > limits::RECORD_BLOCK_BYTES {
                return false;
            }
        }
        self.add_rows(next);
        *self = Self {
            first: Some(self.begins()),
            kernels: std::mem::take(&mut self.kernels),
            memory: std::mem::take(&mut self.memory),
            moves: std::mem::take(&mut self.moves),
            names: std::mem::take(&mut self.names),
            ..next.clone()
        };
        true
    }

    fn add_rows(&mut self, next: &Self) {
        for row in &next.kernels {
            let same = self.kernels.iter_mut();
            let same = same.filter(|has| (has.key, &has.tenant) == (row.key, &row.tenant));
            let Some(has) = same.last() else {
                self.kernels.push(row.clone());
                continue;
            };
            if row.launches > 0 {
                has.least_ns = match has.launches {
                    0 => row.least_ns,
                    _ => has.least_ns.min(row.least_ns),
                };
                has.most_ns = has.most_ns.max(row.most_ns);
            }
            has.launches = has.launches.saturating_add(row.launches);
            has.device_ns = has.device_ns.saturating_add(row.device_ns);
            has.sm_ns = has.sm_ns.saturating_add(row.sm_ns);
        }
        for row in &next.memory {
            match self.memory.iter_mut().find(|has| has.tenant == row.tenant) {
                Some(has) => has.byte_ms = has.byte_ms.saturating_add(row.byte_ms),
                None => self.memory.push(row.clone()),
            }
        }
        for row in &next.moves {
            match self.moves.iter_mut().find(|has| has.tenant == row.tenant) {
                Some(has) => has.moves.add(&row.moves),
                None => self.moves.push(row.clone()),
            }
        }
        for name in &next.names {
            if self.names.iter().all(|has| has.kernel != name.kernel) {
                self.names.push(name.clone());
            }
        }
    }
}

/// Folded blocks: readers of them skip the blocks that they replace.
#[derive(Debug, Default)]
pub struct Folded {
    blocks: BTreeMap<Incarnation, Vec<UsageBlock>>,
}

impl Folded {
    /// Takes in a folded block. A block that another one covers changes nothing; a block that
    /// covers others replaces them.
    pub fn take(&mut self, block: UsageBlock) {
        if self.covers(&block) {
            return;
        }
        let of_worker = self.blocks.entry(block.incarnation).or_default();
        of_worker.retain(|has| !has.is_within(&block));
        of_worker.push(block);
    }

    /// True if a block is covered by one that was taken in.
    #[must_use]
    pub fn covers(&self, block: &UsageBlock) -> bool {
        let of_worker = self.blocks.get(&block.incarnation);
        of_worker.is_some_and(|has| has.iter().any(|has| block.is_within(has)))
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &UsageBlock> {
        self.blocks.values().flatten()
    }
}

/// Folds blocks as they come. The results cover the same numbers and have the same sums, by tenant,
/// kernel key, day and worker. Folding them again changes nothing.
#[derive(Debug, Default)]
pub struct Fold {
    blocks: Vec<UsageBlock>,
}

impl Fold {
    /// Adds the next block; an earlier block again changes nothing.
    pub fn add(&mut self, block: UsageBlock) {
        if self.blocks.iter().any(|has| block.is_within(has)) {
            return;
        }
        self.blocks.push(block);
        // No two neighbours that could be one remain, so the result folds to itself.
        while let Some(next) = self.blocks.pop() {
            if !self.blocks.last_mut().is_some_and(|it| it.absorb(&next)) {
                self.blocks.push(next);
                break;
            }
        }
    }

    /// Returns the added blocks, folded. A block that was not joined replaces only itself.
    #[must_use]
    pub fn finish(mut self) -> Vec<UsageBlock> {
        for block in &mut self.blocks {
            block.first = Some(block.begins());
        }
        self.blocks
    }
}
