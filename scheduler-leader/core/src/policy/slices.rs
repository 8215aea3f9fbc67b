//! A session's queued ops, run-length coded, and where they are cut.
//!
//! Cut points depend on the ops alone. A slice ends behind a sync op, before the op that would
//! carry its cost over the quantum, or at 1,024 ops. An op larger than the quantum is a slice of
//! its own. Arrival decides only whether a part of a slice is granted early.

use std::collections::VecDeque;

use bus_schemas::{CostClass, CostRun, OpNumber};

use super::cost::Costs;

/// Maximum number of ops in one slice.
const SLICE_OPS: u32 = 1_024;
/// The cost of [`SLICE_OPS`] of the costliest ops.
const HIGHEST_SLICE_NS: u64 = 1 << 53;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ops that may be split anywhere.
    Plain,
    /// Ops that each end a slice.
    Sync,
    /// A grant of an earlier leader: granted again as a whole or not at all.
    Whole,
}

/// Ops of equal cost. For [`Kind::Whole`], cost and declaration are the totals of all its ops.
#[derive(Debug, Clone, Copy)]
struct Run {
    cost: u64,
    declared: u64,
    count: u32,
    kind: Kind,
}

/// Progress of the slice that is being cut, its earlier fragments included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    ops: u32,
    cost: u64,
}

/// The next slice to grant, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slice {
    /// Its last op; its first is the one behind the granted ops.
    pub(crate) last: OpNumber,
    /// Its charge.
    pub(crate) cost: u64,
    /// The sum (wrapping) of [`CostRun::declared`] over its ops.
    pub(crate) declared: u64,
    /// True if it ends at a cut point.
    pub(crate) complete: bool,
    /// The slice in progress behind it.
    cut: Cut,
    /// Its end as a position in the queue.
    run: usize,
    offset: u32,
}

/// A session's ops from the first that is not done.
#[derive(Debug, Default)]
pub(crate) struct SliceQueue {
    runs: VecDeque<Run>,
    /// Number of the first op of the first run.
    start: OpNumber,
    queued: OpNumber,
    granted: OpNumber,
    done: OpNumber,
    /// The slice in progress where `granted` ends.
    cut: Cut,
    next: Slice,
}

impl SliceQueue {
    /// A queue in which ops through `done` are done and none are queued.
    pub(crate) fn new(done: OpNumber) -> Self {
        let mut queue = Self {
            start: done.saturating_add(1),
            queued: done,
            granted: done,
            done,
            ..Self::default()
        };
        queue.next.last = done;
        queue
    }

    /// Ops that are queued without a gap.
    pub(crate) fn queued(&self) -> OpNumber {
        self.queued
    }

    /// Ops granted.
    pub(crate) fn granted(&self) -> OpNumber {
        self.granted
    }

    /// Ops done.
    pub(crate) fn done(&self) -> OpNumber {
        self.done
    }

    /// The slice in progress where `granted` ends; [`Self::rewind`] needs it later.
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// Reads ahead the fields that granting the next slice needs.
    pub(crate) fn fetch(&self) -> u64 {
        let run = self.runs.get(self.next.run);
        run.map_or(0, |run| run.cost) ^ self.next.cost ^ self.cut.cost
    }

    /// The next slice to grant. It has no ops if its `last` is granted already.
    pub(crate) fn next(&self) -> &Slice {
        &self.next
    }

    /// Queues the next ops. Returns the cost of each.
    pub(crate) fn push(&mut self, run: &CostRun, costs: &Costs) -> u64 {
        let (cost, declared) = (costs.of(run), one(run));
        let kind = match run.class {
            CostClass::Sync => Kind::Sync,
            _ => Kind::Plain,
        };
        self.queued = self.queued.saturating_add(u64::from(run.count));
        let same = |last: &&mut Run| {
            let alike = (last.cost, last.declared, last.kind) == (cost, declared, kind);
            alike && last.count.checked_add(run.count).is_some()
        };
        let behind = self.runs.len();
        // A slice that ended with the last run goes on inside that run when the run grows.
        match self.runs.back_mut().filter(same) {
            Some(last) => {
                if (self.next.run, self.next.offset) == (behind, 0) {
                    (self.next.run, self.next.offset) = (behind - 1, last.count);
                }
                last.count += run.count;
            }
            None => self.runs.push_back(Run {
                cost,
                declared,
                count: run.count,
                kind,
            }),
        }
        cost
    }

    /// Queues and grants ops that an earlier leader granted and that are not done.
    pub(crate) fn push_granted(&mut self, last: OpNumber, cost: u64, declared: u64) {
        let count = last.saturating_sub(self.queued);
        let Ok(count) = u32::try_from(count) else {
            return;
        };
        if count > 0 {
            self.runs.push_back(Run {
                cost: cost.clamp(1, HIGHEST_SLICE_NS),
                declared,
                count,
                kind: Kind::Whole,
            });
            self.queued = last;
            self.seek(last, Cut::default());
        }
    }

    /// Takes queued ops through `limit` into the next slice, until the slice is cut.
    pub(crate) fn extend(&mut self, quantum: u64, limit: OpNumber) {
        let limit = limit.min(self.queued);
        let next = &mut self.next;
        while !next.complete && next.last < limit {
            let Some(run) = self.runs.get(next.run) else {
                return;
            };
            let there =
                (run.count - next.offset).min(u32::try_from(limit - next.last).unwrap_or(u32::MAX));
            let fits = next.cut.ops == 0 || next.cut.cost.saturating_add(run.cost) <= quantum;
            let take = match run.kind {
                Kind::Whole if next.cut.ops > 0 => 0,
                Kind::Whole if there < run.count => return,
                Kind::Whole => run.count,
                _ if !fits => 0,
                Kind::Sync => 1,
                Kind::Plain => {
                    let room = quantum.saturating_sub(next.cut.cost) / run.cost;
                    let room = u32::try_from(room).unwrap_or(u32::MAX).max(1);
                    there.min(room).min(SLICE_OPS - next.cut.ops)
                }
            };
            if take == 0 {
                // Cut before this op; if all fragments of the slice are granted, begin the next
                // slice.
                next.complete = next.last > self.granted;
                next.cut = Cut::default();
                continue;
            }
            let ops = if run.kind == Kind::Whole { 1 } else { take };
            let cost = run.cost * u64::from(ops);
            next.last += u64::from(take);
            next.cost += cost;
            next.declared = next
                .declared
                .wrapping_add(run.declared.wrapping_mul(u64::from(ops)));
            next.cut.ops += take;
            next.cut.cost += cost;
            next.offset += take;
            if next.offset == run.count {
                (next.run, next.offset) = (next.run + 1, 0);
            }
            let full = next.cut.cost >= quantum || next.cut.ops >= SLICE_OPS;
            if full || run.kind != Kind::Plain {
                next.complete = true;
                next.cut = Cut::default();
            }
        }
    }

    /// Grants the next slice as far as it is known.
    pub(crate) fn grant(&mut self) {
        self.granted = self.next.last;
        self.cut = self.next.cut;
        self.restart(self.next.run, self.next.offset);
    }

    /// Takes the queued ops through `last` as granted: a standing grant holds them. The next slice
    /// begins behind them. Returns their cost and their sum of [`CostRun::declared`].
    pub(crate) fn pass(&mut self, last: OpNumber) -> (u64, u64) {
        let last = last.min(self.queued);
        let (mut cost, mut declared) = (0u64, 0u64);
        if last <= self.granted {
            return (cost, declared);
        }
        let (mut from, mut at) = (self.start, 0);
        while let Some(run) = self.runs.get(at)
            && from <= last
        {
            let end = from + u64::from(run.count) - 1;
            let ops = end.min(last).saturating_sub(from.max(self.granted + 1) - 1);
            cost = cost.saturating_add(run.cost.saturating_mul(ops));
            declared = declared.wrapping_add(run.declared.wrapping_mul(ops));
            (from, at) = (end + 1, at + 1);
        }
        self.seek(last, Cut::default());
        (cost, declared)
    }

    /// Marks ops through `last` as done. Returns true if that changed the next slice.
    pub(crate) fn finish(&mut self, last: OpNumber) -> bool {
        let ahead = last > self.granted;
        if ahead {
            self.seek(last, Cut::default());
        }
        self.done = self.done.max(last.min(self.granted));
        // Mostly the next slice begins in the first run; then the loop reads no run.
        while self.next.run > 0
            && let Some(run) = self.runs.front()
        {
            let end = self.start + u64::from(run.count);
            if end > self.done + 1 {
                break;
            }
            self.start = end;
            self.next.run -= 1;
            self.runs.pop_front();
        }
        ahead
    }

    /// Queues granted ops from `first` on again. `cut` is the result of [`Self::cut`] from before
    /// they were granted. Ops that are done stay done.
    pub(crate) fn rewind(&mut self, first: OpNumber, cut: Cut) {
        if first > self.done {
            self.seek(first - 1, cut);
        } else {
            self.seek(self.done, Cut::default());
        }
    }

    /// Forgets the next slice: the quantum changed, or less is to be granted.
    pub(crate) fn relearn(&mut self) {
        self.seek(self.granted, self.cut);
    }

    /// Makes `granted` the end of what is granted.
    fn seek(&mut self, granted: OpNumber, cut: Cut) {
        let granted = granted.clamp(self.start - 1, self.queued);
        let mut left = granted + 1 - self.start;
        let mut at = 0;
        while let Some(run) = self.runs.get(at)
            && left >= u64::from(run.count)
        {
            left -= u64::from(run.count);
            at += 1;
        }
        self.granted = granted;
        self.cut = cut;
        self.restart(at, left as u32);
    }

    fn restart(&mut self, run: usize, offset: u32) {
        self.next = Slice {
            last: self.granted,
            cut: self.cut,
            run,
            offset,
            ..Slice::default()
        };
    }
}

/// The declaration of one op of a run.
fn one(run: &CostRun) -> u64 {
    CostRun { count: 1, ..*run }.declared()
}
