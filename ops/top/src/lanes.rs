//! The weave in a terminal: one lane of cells per device. Each cell is a short time, with the
//! tenant that ran longest in it.

use std::collections::{BTreeMap, VecDeque};

/// Milliseconds of a cell.
pub(crate) const CELL_MS: u64 = 250;
/// Maximum number of cells kept per lane.
const KEPT: usize = 1_024;
/// Maximum number of devices with lanes.
const DEVICES: usize = 256;

/// A cell: nanoseconds run, by tenant.
type Cell = BTreeMap<String, u64>;

/// Lanes by device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<u32, VecDeque<(u64, Cell)>>,
}

/// Content of a displayed cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    /// The tenant that ran longest.
    pub(crate) tenant: String,
    /// The part of the cell in which work ran, 0 to 1.
    pub(crate) busy: f64,
}

impl Lanes {
    /// Adds the device time of a position that ended at `ended_ms` to the preceding cells.
    pub(crate) fn add(&mut self, gpu: u32, tenant: &str, ended_ms: u64, ran_ns: u64) {
        if self.lanes.len() >= DEVICES && !self.lanes.contains_key(&gpu) {
            return;
        }
        let lane = self.lanes.entry(gpu).or_default();
        let (mut cell, mut left) = (ended_ms / CELL_MS, ran_ns);
        // First the part of the last cell before the end, then whole cells, as far as they are
        // kept.
        let mut room = (ended_ms % CELL_MS + 1) * 1_000_000;
        for _ in 0..KEPT {
            let part = left.min(room);
            put(lane, cell, tenant, part);
            left -= part;
            if left == 0 || cell == 0 {
                break;
            }
            (cell, room) = (cell - 1, CELL_MS * 1_000_000);
        }
        while lane.len() > KEPT {
            lane.pop_front();
        }
    }

    /// The newest cells of a device up to `now_ms`, the oldest first; `None` for a cell in which
    /// nothing ran.
    pub(crate) fn shown(&self, gpu: u32, now_ms: u64, width: usize) -> Vec<Option<Shown>> {
        let last = now_ms / CELL_MS;
        let first = last.saturating_sub(width as u64 - u64::from(width > 0));
        let lane = self.lanes.get(&gpu);
        let cells: BTreeMap<u64, &Cell> = lane
            .into_iter()
            .flatten()
            .map(|(at, cell)| (*at, cell))
            .collect();
        (first..=last)
            .take(width)
            .map(|at| cells.get(&at).and_then(|cell| show(cell)))
            .collect()
    }
}

fn put(lane: &mut VecDeque<(u64, Cell)>, at: u64, tenant: &str, ns: u64) {
    let place = lane.binary_search_by_key(&at, |(at, _)| *at);
    let place = match place {
        Ok(place) => place,
        Err(place) => {
            lane.insert(place, (at, Cell::new()));
            place
        }
    };
    if let Some((_, cell)) = lane.get_mut(place) {
        *cell.entry(tenant.to_owned()).or_default() += ns;
    }
}

fn show(cell: &Cell) -> Option<Shown> {
    let (tenant, _) = cell.iter().max_by_key(|(_, ns)| **ns)?;
    let all: u64 = cell.values().sum();
    (all > 0).then(|| Shown {
        tenant: tenant.clone(),
        busy: (all as f64 / (CELL_MS * 1_000_000) as f64).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(lanes: &Lanes, now_ms: u64, width: usize) -> String {
        let shown = lanes.shown(0, now_ms, width);
        shown
            .iter()
            .map(|cell| cell.as_ref().map_or(".", |cell| &cell.tenant))
            .collect()
    }

    #[test]
    fn time_lies_in_the_cells_before_its_end() {
        let mut lanes = Lanes::default();
        lanes.add(0, "a", 1_099, 100_000_000);
        lanes.add(0, "b", 2_000, 600_000_000);
        // The work of b ended at the start of a cell, and ran through the two and a half cells
        // before it.
        assert_eq!(tenants(&lanes, 2_000, 6), ".abbbb");
        let busy = lanes.shown(0, 2_000, 2);
        assert!(busy[0].as_ref().is_some_and(|cell| cell.busy > 0.99));
        assert_eq!(tenants(&Lanes::default(), 2_000, 3), "...");
        assert_eq!(lanes.shown(0, 2_000, 0), []);
    }

    #[test]
    fn lanes_stay_small_whatever_comes() {
        let mut lanes = Lanes::default();
        for at in 0..5_000 {
            lanes.add(0, "a", at * CELL_MS, 1);
            lanes.add(at as u32, "a", at, u64::MAX);
        }
        assert!(lanes.lanes.len() <= DEVICES);
        assert!(lanes.lanes.values().all(|lane| lane.len() <= KEPT));
    }
}
