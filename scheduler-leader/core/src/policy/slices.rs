//! A session's queued ops, run-length coded, and where they are cut.
//!
//! Cut points depend on the ops alone: a slice ends behind a sync op, before the op that would
//! carry its cost over the quantum (an op larger than the quantum is a slice of its own), or at
//! 1,024 ops. What has arrived decides only whether a part of a slice is granted early.

use std::collections::VecDeque;

use bus_schemas::{CostClass, CostRun, OpNumber};

use super::cost::Costs;

/// Ops in one slice at most.
const SLICE_OPS: u32 = 1_024;
/// What so many of the costliest ops cost.
const HIGHEST_SLICE_NS: u64 = 1 << 53;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ops that may be parted anywhere.
    Plain,
    /// Ops behind each of which a slice ends.
    Sync,
    /// A grant of an earlier leader: granted again whole or not at all.
    Whole,
}

/// Ops of equal cost. For a whole, cost and declaration are of all its ops together.
#[derive(Debug, Clone, Copy)]
struct Run {
    cost: u64,
    declared: u64,
    count: u32,
    kind: Kind,
}

/// How far the slice in progress has come, earlier fragments of it included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    ops: u32,
    cost: u64,
}

/// What is granted next, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slice {
    /// Its ops end here; they begin behind what is granted.
    pub(crate) last: OpNumber,
    /// Its charge.
    pub(crate) cost: u64,
    /// What its client declared of it.
    pub(crate) declared: u64,
    /// It ends at a cut point.
    pub(crate) complete: bool,
    /// The slice in progress behind it.
    cut: Cut,
    /// Its end as a place in the queue.
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

    /// Ops queued, without a gap.
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

    /// The slice in progress where `granted` ends: what [`Self::rewind`] needs later.
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// Reads what granting the next slice needs.
    pub(crate) fn fetch(&self) -> u64 {
        let run = self.runs.get(self.next.run);
        run.map_or(0, |run| run.cost) ^ self.next.cost ^ self.cut.cost
    }

    /// What is granted next; its ops are none if `last` is what is granted.
    pub(crate) fn next(&self) -> &Slice {
        &self.next
    }

    /// Queues the next ops. Gives what each of them costs.
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
        // A slice known through the end of the last run goes on inside it when it grows.
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

    /// Learns of queued ops through `limit`: the slice grows until it is cut.
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
                // Cut before this op; if fragments of the slice are all granted, begin the next.
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

    /// Takes the queued ops through `last` as granted: a standing grant holds them, whose end is
    /// where the next slice begins. Gives their cost and what their client declared of them.
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

    /// Ops through `last` are done. Gives whether that changed what is granted next.
    pub(crate) fn finish(&mut self, last: OpNumber) -> bool {
        let ahead = last > self.granted;
        if ahead {
            self.seek(last, Cut::default());
        }
        self.done = self.done.max(last.min(self.granted));
        // Most of the time the next slice begins in the first run, which is not looked at then.
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

    /// Grants ops from `first` on once more; `cut` is what [`Self::cut`] was before they were
    /// granted. Ops that are done stay so.
    pub(crate) fn rewind(&mut self, first: OpNumber, cut: Cut) {
        if first > self.done {
            self.seek(first - 1, cut);
        } else {
            self.seek(self.done, Cut::default());
        }
    }

    /// Forgets what was learned of the next slice: the quantum changed, or less is to be granted.
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
