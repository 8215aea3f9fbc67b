//! The check that a record replays to the chains of its workers, and that an exported order matches
//! its own.

use std::collections::BTreeMap;

use bus_schemas::{Chain, GpuTail, Incarnation};
use scheduler_leader_core::replay::{Hole, Replay, ReplayError, ReplayedPosition, Tail};
use serde::{Deserialize, Serialize};

use super::beginning::AnchorLine;
use super::model::Record;
use super::row::PositionRow;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OrderCheck {
    /// The recomputed digest of the launch order: over all workers, including those that left or
    /// were lost.
    pub digest: String,
    /// Positions recomputed or adopted.
    pub positions: u64,
    /// Positions that were compared: with a worker's chain, or with an earlier replay.
    pub compared: u64,
    /// Positions taken from workers because their inputs died with a leader.
    pub adopted: u64,
    /// Positions that were accepted but are in neither record nor tail; there must be none.
    pub skipped: u64,
    /// Positions that were not recorded, according to the record itself.
    pub gap_positions: u64,
    /// The anchor, if the record's beginning was cut off; all counts are then of later positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<AnchorLine>,
    /// Each worker's chain.
    pub gpus: Vec<GpuCheck>,
    /// The first position that differs, if any.
    pub first: Option<First>,
}

/// One worker's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuCheck {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// Its last position.
    pub position: u64,
    /// The chain there.
    pub chain: String,
    /// The position at which the worker itself reported its chain.
    pub heard: Option<u64>,
    /// The worker's fate according to the record: `here` (the record does not mention its end),
    /// `left` or `lost`; empty if it comes from rows, which do not have it.
    pub fate: String,
    /// The last position at which the record has its chain: when the worker was sealed, or when its
    /// leader declared it lost.
    pub recorded: Option<u64>,
    /// The source that the recomputed chain was compared with.
    pub with: With,
}

/// The source that a chain was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum With {
    /// The worker's own report, on request or at the export of the record.
    Worker,
    /// The record's entry on the worker, which has gone and reported nothing itself.
    Record,
    /// The chain that each exported row carries.
    Rows,
    /// The worker's own log.
    Evidence,
    /// Nothing: the chain follows from the record, without confirmation.
    #[default]
    Nothing,
}

impl With {
    /// The source in the record alone with which a replayed chain can be compared.
    #[must_use]
    pub fn in_record(tail: &Tail) -> Self {
        match tail.recorded {
            0 => Self::Nothing,
            _ => Self::Record,
        }
    }
}

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct First {
    /// The device.
    pub gpu: u32,
    /// The worker; `None` if only the device is known.
    pub incarnation: Option<String>,
    /// The position that differs, or the first at which a difference shows.
    pub position: u64,
    /// Description of the difference.
    pub why: String,
}

impl GpuCheck {
    /// A recomputed chain, with the sources that it can be compared with.
    fn new(record: &Record, tail: &Tail) -> Self {
        let mut ends = record.ends.iter();
        let heard = ends.find(|(worker, _)| *worker == tail.incarnation);
        let heard = heard.map(|(_, tail)| tail.position);
        let recorded = Some(tail.recorded).filter(|position| *position > 0);
        let with = match heard {
            Some(_) => With::Worker,
            None => With::in_record(tail),
        };
        Self {
            gpu: tail.tail.gpu,
            incarnation: tail.incarnation.to_string(),
            position: tail.tail.position,
            chain: tail.tail.chain.to_string(),
            fate: tail.fate.name().into(),
            heard,
            recorded,
            with,
        }
    }
}

impl From<ReplayError> for First {
    fn from(error: ReplayError) -> Self {
        let why = error.to_string();
        match error {
            ReplayError::Disagrees {
                gpu,
                incarnation,
                position,
                why,
            } => Self {
                gpu,
                incarnation: Some(incarnation.to_string()),
                position,
                why,
            },
            _ => Self {
                gpu: 0,
                incarnation: None,
                position: 0,
                why,
            },
        }
    }
}

/// The first of several differences, in the cluster's order. Marks show the exact position,
/// workers' chains only a later one.
fn earliest(firsts: Vec<First>, positions: &[ReplayedPosition]) -> Option<First> {
    firsts.into_iter().min_by_key(|first| {
        let is = |row: &&ReplayedPosition| {
            row.position == first.position
                && first.incarnation.as_deref() == Some(row.incarnation.to_string().as_str())
        };
        let at = positions.iter().find(is);
        at.map_or((u64::MAX, u64::MAX), |row| (row.epoch, row.global))
    })
}

impl First {
    fn of(hole: &Hole) -> Self {
        Self {
            gpu: hole.gpu,
            incarnation: Some(hole.incarnation.to_string()),
            position: hole.first,
            why: format!(
                "what was accepted here, {} positions, is neither in the record nor in a seal's tail",
                hole.positions()
            ),
        }
    }
}

impl OrderCheck {
    /// Judges a replayed record, as far as the replay got.
    pub(super) fn new(record: &Record, replay: Replay, failed: Option<ReplayError>) -> Self {
        let unreadable =
            matches!(&failed, Some(error) if !matches!(error, ReplayError::Disagrees { .. }));
        let failed = failed.map(First::from);
        let replayed = replay.recomputed();
        let (positions, tails) = (replayed.positions, replayed.tails);
        let mut check = Self {
            digest: replayed.digest.to_string(),
            positions: positions.len() as u64,
            adopted: replayed.adopted,
            skipped: replayed.skipped,
            gap_positions: replayed.gap_positions,
            anchor: replayed.anchor.as_ref().map(AnchorLine::of),
            ..Self::default()
        };
        let mut by_worker: BTreeMap<Incarnation, Vec<&ReplayedPosition>> = BTreeMap::new();
        for position in &positions {
            by_worker
                .entry(position.incarnation)
                .or_default()
                .push(position);
        }
        let none = Vec::new();
        let rows = |of: Incarnation| by_worker.get(&of).unwrap_or(&none);
        let marks = record.marks.iter();
        let mut firsts: Vec<First> = marks
            .filter_map(|(worker, marks)| check.compare_marks(*worker, marks, rows(*worker)))
            .collect();
        // If the replay stopped early, no chain has reached its worker's end.
        let ends = record.ends.iter().filter(|_| failed.is_none());
        for (worker, tail) in ends {
            firsts.extend(check.compare_end(*worker, tail, rows(*worker)));
        }
        for tail in &tails {
            let gpu = GpuCheck::new(record, tail);
            check.compared += u64::from(gpu.with == With::Record);
            check.gpus.push(gpu);
        }
        let first = earliest(firsts, &positions);
        check.first = match unreadable {
            true => failed,
            false => first
                .or(failed)
                .or_else(|| replayed.holes.first().map(First::of)),
        };
        check
    }

    /// Compares the recomputed chain with the marks from the time when the record was written.
    fn compare_marks(
        &mut self,
        worker: Incarnation,
        marks: &[u64],
        rows: &[&ReplayedPosition],
    ) -> Option<First> {
        let mut known: BTreeMap<u64, &ReplayedPosition> = BTreeMap::new();
        known.extend(rows.iter().map(|row| (row.position, *row)));
        for (position, expected) in (1..).zip(marks) {
            let row = known.get(&position);
            let why = match row.and_then(|row| row.chain) {
                Some(chain) if mark(&chain) == *expected => {
                    self.compared += 1;
                    continue;
                }
                // Positions in a recorded gap have no record.
                None if *expected == 0 => continue,
                Some(_) => "another grant is recomputed here than when the record was written",
                None => "the record does not lead here any more",
            };
            let gpu = rows.first().map_or(0, |row| row.gpu);
            return Some(First {
                gpu,
                incarnation: Some(worker.to_string()),
                position,
                why: why.into(),
            });
        }
        None
    }

    /// Compares with the chain that the worker reported.
    fn compare_end(
        &mut self,
        worker: Incarnation,
        tail: &GpuTail,
        rows: &[&ReplayedPosition],
    ) -> Option<First> {
        let row = rows.iter().find(|row| row.position == tail.position);
        let why = match row.and_then(|row| row.chain) {
            Some(chain) if chain == tail.chain => {
                self.compared += 1;
                return None;
            }
            Some(_) => "the recomputed chain is not the worker's",
            None => "the worker accepted this position, the record does not lead there",
        };
        let last = rows.last().map_or(0, |row| row.position);
        Some(First {
            gpu: tail.gpu,
            incarnation: Some(worker.to_string()),
            position: tail.position.min(last + 1),
            why: why.into(),
        })
    }

    /// Judges exported rows by their own chains.
    #[must_use]
    pub fn of_rows(rows: &[PositionRow]) -> Self {
        let mut workers: BTreeMap<(u32, &str), Vec<&PositionRow>> = BTreeMap::new();
        for row in rows {
            workers
                .entry((row.gpu, &row.incarnation))
                .or_default()
                .push(row);
        }
        let mut check = Self {
            positions: rows.len() as u64,
            ..Self::default()
        };
        let mut tails = Vec::new();
        let mut firsts = Vec::new();
        for ((gpu, incarnation), mut rows) in workers {
            rows.sort_by_key(|row| row.position);
            let mut at = (0, Chain::default());
            for row in rows {
                let next = row.chain_from(at.1);
                let why = match (next, &row.chain) {
                    _ if row.position != at.0 + 1 => Some("the position before it is missing"),
                    (None, _) => Some("this is nothing that could be granted"),
                    (Some(_), None) => Some("no chain was exported"),
                    (Some(next), Some(chain)) => {
                        let same = next.to_string() == *chain;
                        (!same).then_some("the chain does not follow from the rows")
                    }
                };
                if let Some(why) = why {
                    firsts.push(((row.epoch, row.global), first(row, why)));
                    break;
                }
                check.compared += 1;
                at = (row.position, next.unwrap_or_default());
            }
            let (position, chain) = at;
            tails.push(GpuTail {
                gpu,
                position,
                chain,
            });
            check.gpus.push(GpuCheck {
                gpu,
                incarnation: incarnation.into(),
                position,
                chain: chain.to_string(),
                fate: String::new(),
                heard: None,
                recorded: None,
                with: With::Rows,
            });
        }
        let earliest = firsts.into_iter().min_by_key(|(at, _)| *at);
        check.first = earliest.map(|(_, first)| first);
        check.digest = bus_schemas::digest(&tails).to_string();
        check
    }
}

fn first(row: &PositionRow, why: &str) -> First {
    First {
        gpu: row.gpu,
        incarnation: Some(row.incarnation.clone()),
        position: row.position,
        why: why.into(),
    }
}

/// The mark of a chain after a position.
fn mark(chain: &Chain) -> u64 {
    let first = chain.0.first_chunk().copied().unwrap_or_default();
    // 0 stands for an unknown position.
    u64::from_le_bytes(first).max(1)
}

impl Record {
    /// Replays the record and reports differences.
    #[must_use]
    pub fn verify(&self) -> OrderCheck {
        let mut replay = Replay::default();
        let blocks = self.blocks.iter();
        let mut added = blocks.map(|(epoch, number, bytes)| replay.add(*epoch, *number, bytes));
        let failed = added.find_map(Result::err);
        drop(added);
        let failed = failed.or_else(|| replay.advance(|_| {}).err());
        OrderCheck::new(self, replay, failed)
    }

    /// Stores marks of the current replay, so that the first position that replays differently can
    /// be found later.
    pub fn set_marks(&mut self, positions: &[ReplayedPosition]) {
        let mut marks: BTreeMap<Incarnation, Vec<u64>> = BTreeMap::new();
        for row in positions {
            let marks = marks.entry(row.incarnation).or_default();
            let at = usize::try_from(row.position).unwrap_or(usize::MAX);
            if at > marks.len() {
                marks.resize(at, 0);
            }
            marks[at - 1] = row.chain.as_ref().map_or(0, mark);
        }
        self.marks = marks.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(record: &Record) -> First {
        record.verify().first.expect("it does not hold")
    }

    #[test]
    fn what_cannot_be_read_is_said_rather_than_what_follows_from_it() {
        let record = Record {
            blocks: vec![(1, 1, vec![0xc1])],
            marks: vec![(Incarnation(5), vec![7, 8])],
            ..Record::default()
        };
        let first = first(&record);
        assert!(first.why.starts_with("block 1 of epoch 1"), "{first:?}");
    }

    #[test]
    fn a_record_that_does_not_lead_where_its_workers_are_is_noticed_at_the_first_position() {
        let worker = Incarnation(5);
        let marked = Record {
            marks: vec![(worker, vec![0, 8])],
            ..Record::default()
        };
        assert_eq!(first(&marked).position, 2, "nobody knew the first before");
        let tail = GpuTail {
            gpu: 3,
            position: 9,
            chain: Chain::default(),
        };
        let ended = Record {
            ends: vec![(worker, tail)],
            ..Record::default()
        };
        let first = first(&ended);
        assert_eq!((first.gpu, first.position), (3, 1));
        assert_eq!(first.incarnation, Some(worker.to_string()));
        assert!(Record::default().verify().first.is_none());
    }

    #[test]
    fn rows_that_do_not_follow_from_each_other_are_named() {
        let mut chain = Chain::default();
        let mut rows: Vec<PositionRow> = (1..=4)
            .map(|position| PositionRow {
                incarnation: "e1".into(),
                position,
                global: position,
                tenant: "chat".into(),
                ordinal: 1,
                kind: "run".into(),
                first: position,
                last: position,
                ..PositionRow::default()
            })
            .collect();
        for row in &mut rows {
            chain = row.chain_from(chain).expect("a grant");
            row.chain = Some(chain.to_string());
        }
        let whole = OrderCheck::of_rows(&rows);
        assert_eq!((whole.first, whole.compared), (None, 4));
        assert_eq!(whole.digest.len(), 64);
        for at in 0..4 {
            let mut changed = rows.clone();
            changed[at].last += 1;
            let first = OrderCheck::of_rows(&changed).first.expect("noticed");
            assert_eq!(first.position, at as u64 + 1);
        }
        rows[2].tenant = "No Tenant".into();
        assert_eq!(
            OrderCheck::of_rows(&rows).first.expect("noticed").position,
            3
        );
    }
}
