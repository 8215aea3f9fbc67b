//! The difference of two launch orders.

use std::collections::BTreeMap;

use serde::Serialize;

use super::PositionRow;

/// A comparison of two orders by the contents of their chains, which include neither ids nor times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Every worker's part, by device and by the order in which its workers came.
    pub gpus: Vec<GpuDifference>,
    /// The first difference, in the order of the first record.
    pub first: Option<Apart>,
}

/// One worker's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuDifference {
    /// The device.
    pub gpu: u32,
    /// The worker's number among the device's, from 1.
    pub worker: usize,
    /// Positions in the first order.
    pub left: usize,
    /// Positions in the second.
    pub right: usize,
    /// Positions that are the same, from the first on.
    pub same: usize,
    /// The first difference, if any.
    pub apart: Option<Apart>,
}

/// A position that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Apart {
    /// The device.
    pub gpu: u32,
    /// The position.
    pub position: u64,
    /// The row of the first order.
    pub left: Option<Box<PositionRow>>,
    /// The row of the second order.
    pub right: Option<Box<PositionRow>>,
}

impl Difference {
    /// True if the two orders are the same.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.first.is_none()
    }
}

/// Compares two orders.
#[must_use]
pub fn difference(left: &[PositionRow], right: &[PositionRow]) -> Difference {
    let (left, right) = (by_worker(left), by_worker(right));
    let mut keys: Vec<_> = left.keys().chain(right.keys()).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let rows = |of: &BTreeMap<_, Vec<PositionRow>>, key| of.get(&key).cloned().unwrap_or_default();
    let gpus: Vec<GpuDifference> = keys
        .into_iter()
        .map(|key| compare(key, &rows(&left, key), &rows(&right, key)))
        .collect();
    let apart = gpus.iter().filter_map(|gpu| gpu.apart.clone());
    let first = apart.min_by_key(|apart| {
        let row = apart.left.as_deref().or(apart.right.as_deref());
        row.map(|row| (row.epoch, row.global))
    });
    Difference { gpus, first }
}

/// Rows by device and worker number, in order of position.
fn by_worker(rows: &[PositionRow]) -> BTreeMap<(u32, usize), Vec<PositionRow>> {
    let mut numbers: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let mut parts: BTreeMap<(u32, usize), Vec<PositionRow>> = BTreeMap::new();
    for row in rows {
        let number = *numbers
            .entry((row.gpu, &row.incarnation))
            .or_insert_with(|| {
                let count = counts.entry(row.gpu).or_default();
                *count += 1;
                *count
            });
        parts
            .entry((row.gpu, number))
            .or_default()
            .push(row.clone());
    }
    for part in parts.values_mut() {
        part.sort_by_key(|row| row.position);
    }
    parts
}

fn compare(
    (gpu, worker): (u32, usize),
    left: &[PositionRow],
    right: &[PositionRow],
) -> GpuDifference {
    let pairs = left.iter().zip(right);
    let same = pairs
        .take_while(|(a, b)| (a.position, a.essence()) == (b.position, b.essence()))
        .count();
    let (next, other) = (left.get(same), right.get(same));
    let position = next.into_iter().chain(other).map(|row| row.position).min();
    let apart = position.map(|position| {
        let there = |row: Option<&PositionRow>| {
            let row = row.filter(|row| row.position == position);
            row.cloned().map(Box::new)
        };
        Apart {
            gpu,
            position,
            left: there(next),
            right: there(other),
        }
    });
    GpuDifference {
        gpu,
        worker,
        left: left.len(),
        right: right.len(),
        same,
        apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(incarnation: &str, session: &str) -> Vec<PositionRow> {
        let row = |gpu: u32, position: u64, global: u64| PositionRow {
            gpu,
            incarnation: format!("{incarnation}{gpu}"),
            position,
            global,
            epoch: 1,
            tenant: "chat".into(),
            ordinal: 1,
            session: session.into(),
            kind: "run".into(),
            first: position * 10,
            last: position * 10 + 9,
            ..PositionRow::default()
        };
        vec![row(0, 1, 1), row(1, 1, 2), row(0, 2, 3), row(1, 2, 4)]
    }

    #[test]
    fn ids_and_times_are_no_difference() {
        let mut other = rows("f", "t");
        other[0].measured_ns = Some(5);
        let found = difference(&rows("e", "s"), &other);
        assert!(found.is_none(), "{found:?}");
        assert_eq!(found.gpus.iter().map(|gpu| gpu.same).sum::<usize>(), 4);
    }

    #[test]
    fn the_first_difference_is_named_with_both_sides() {
        let mut other = rows("f", "t");
        other[3].last += 1;
        other[2].tenant = "train".into();
        let found = difference(&rows("e", "s"), &other);
        let first = found.first.as_ref().unwrap();
        assert_eq!((first.gpu, first.position), (0, 2));
        assert_eq!(first.left.as_ref().unwrap().tenant, "chat");
        assert_eq!(first.right.as_ref().unwrap().tenant, "train");
        let same: Vec<_> = found.gpus.iter().map(|gpu| (gpu.gpu, gpu.same)).collect();
        assert_eq!(same, [(0, 1), (1, 1)]);
    }

    #[test]
    fn an_order_that_is_longer_or_has_another_worker_differs_there() {
        let longer = rows("e", "s");
        let found = difference(&longer[..3], &longer);
        let first = found.first.unwrap();
        assert_eq!((first.gpu, first.position), (1, 2));
        assert!(first.left.is_none() && first.right.is_some());
        let mut other = longer.clone();
        other[2].incarnation = "new".into();
        other[2].position = 1;
        let found = difference(&longer, &other);
        assert_eq!(found.gpus.len(), 3);
        assert_eq!(found.first.unwrap().position, 2);
    }
}
