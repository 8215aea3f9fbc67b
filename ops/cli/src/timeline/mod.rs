//! A part of the launch order as a picture: one row a GPU, one lane in it a tenant, colours by
//! priority. Bars are as long as their slices took.
//!
//! A record has durations but no clock, so each GPU's bars lie end to end in the order of its
//! positions. The axis is device time, without waiting and idle times.

mod svg;

use std::collections::BTreeMap;

use admin::record::PositionRow;

/// Pixels of the axis.
const SPAN: f64 = 1_000.0;
/// Minimum width of a bar in pixels; narrower bars are drawn together, column by column.
const COLUMN: f64 = 2.0;

/// The contents of the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    devices: Vec<Device>,
    /// Length of the axis in nanoseconds.
    span: u64,
    /// First and last global position that are drawn.
    interval: (u64, u64),
    positions: usize,
    /// Positions without a recorded end.
    unknown: usize,
}

/// One worker's row.
#[derive(Debug, Clone, PartialEq)]
struct Device {
    name: String,
    lanes: Vec<Lane>,
}

/// One tenant's lane.
#[derive(Debug, Clone, PartialEq)]
struct Lane {
    tenant: String,
    bars: Vec<Bar>,
}

/// A slice, or several that are too narrow to be distinguished.
#[derive(Debug, Clone, PartialEq)]
struct Bar {
    start: u64,
    end: u64,
    /// Nanoseconds in which this tenant ran.
    busy: u64,
    priority: u8,
    /// Gpu positions of its first and last slice.
    positions: (u64, u64),
    slices: usize,
    kernels: u64,
    /// True if nothing ran: the ops were queued again.
    void: bool,
}

impl Timeline {
    /// Lays rows out.
    #[must_use]
    pub fn new(rows: &[PositionRow]) -> Self {
        let mut workers: BTreeMap<(u32, &str), Vec<&PositionRow>> = BTreeMap::new();
        for row in rows {
            let key = (row.gpu, row.incarnation.as_str());
            workers.entry(key).or_default().push(row);
        }
        let mut laid: Vec<_> = workers
            .into_iter()
            .map(|((gpu, incarnation), mut rows)| {
                rows.sort_by_key(|row| row.position);
                (gpu, incarnation, end_to_end(&rows))
            })
            .collect();
        let ends = laid.iter().flat_map(|(_, _, bars)| bars);
        let span = ends.map(|(_, bar)| bar.end).max().unwrap_or(0).max(1);
        let alone = |gpu: u32| laid.iter().filter(|(of, ..)| *of == gpu).count() == 1;
        let names: Vec<String> = laid
            .iter()
            .map(|(gpu, incarnation, _)| match alone(*gpu) {
                true => format!("gpu {gpu}"),
                false => format!("gpu {gpu}, worker {incarnation}"),
            })
            .collect();
        let devices = names.into_iter().zip(&mut laid);
        let devices = devices.map(|(name, (_, _, bars))| Device {
            name,
            lanes: lanes(std::mem::take(bars), span as f64 / SPAN),
        });
        let globals = rows.iter().map(|row| row.global);
        let first = globals.clone().min().unwrap_or(0);
        Self {
            devices: devices.collect(),
            span,
            interval: (first, globals.max().unwrap_or(0)),
            positions: rows.len(),
            unknown: rows.iter().filter(|row| row.outcome.is_none()).count(),
        }
    }

    /// Number of positions in the layout.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of bars for them.
    #[must_use]
    pub fn bars(&self) -> usize {
        let lanes = self.devices.iter().flat_map(|device| &device.lanes);
        lanes.map(|lane| lane.bars.len()).sum()
    }
}

/// One worker's slices, each after the one before.
fn end_to_end(rows: &[&PositionRow]) -> Vec<(String, Bar)> {
    let mut now = 0;
    let mut bars = Vec::new();
    let runs = |row: &&&PositionRow| matches!(&*row.kind, "run" | "standing");
    for row in rows.iter().filter(runs) {
        let void = row.outcome.as_deref() == Some("void");
        let took = match row.outcome.as_deref() {
            Some("ran") => row.measured_ns.unwrap_or(0),
            Some("void") => 0,
            // A position that is gone has no duration, and one that has not ended has none yet.
            _ => continue,
        };
        let bar = Bar {
            start: now,
            end: now + took,
            busy: took,
            priority: row.priority.min(4),
            positions: (row.position, row.position),
            slices: 1,
            kernels: row.kernels.unwrap_or(0),
            void,
        };
        now = bar.end;
        bars.push((row.tenant.clone(), bar));
    }
    bars
}

/// The lanes of a worker, highest priority first; narrow bars of the same column are merged.
fn lanes(bars: Vec<(String, Bar)>, ns_per_pixel: f64) -> Vec<Lane> {
    let mut lanes: BTreeMap<String, Vec<Bar>> = BTreeMap::new();
    let column = |at: u64| (at as f64 / (ns_per_pixel * COLUMN)) as u64;
    let narrow = |bar: &Bar| ((bar.end - bar.start) as f64) < ns_per_pixel * COLUMN;
    for (tenant, bar) in bars {
        let lane = lanes.entry(tenant).or_default();
        match lane.last_mut() {
            Some(last)
                if narrow(&bar)
                    && narrow(last)
                    && column(last.start) == column(bar.start)
                    && (last.priority, last.void) == (bar.priority, bar.void) =>
            {
                last.end = bar.end;
                last.busy += bar.busy;
                last.positions.1 = bar.positions.1;
                last.slices += 1;
                last.kernels += bar.kernels;
            }
            _ => lane.push(bar),
        }
    }
    let mut lanes: Vec<Lane> = lanes
        .into_iter()
        .map(|(tenant, bars)| Lane { tenant, bars })
        .collect();
    lanes.sort_by_key(|lane| lane.bars.iter().map(|bar| bar.priority).min());
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(gpu: u32, position: u64, tenant: &str, priority: u8, us: u64) -> PositionRow {
        PositionRow {
            gpu,
            incarnation: format!("{gpu:016x}"),
            position,
            global: position * 2 + u64::from(gpu),
            epoch: 1,
            tenant: tenant.into(),
            ordinal: 1,
            kind: "run".into(),
            first: position,
            last: position,
            priority,
            kernels: Some(3),
            outcome: Some("ran".into()),
            measured_ns: Some(us * 1_000),
            ..PositionRow::default()
        }
    }

    #[test]
    fn slices_of_a_device_lie_end_to_end_in_lanes_of_their_tenants() {
        let mut open = row(0, 1, "chat", 0, 1);
        open.kind = "open".into();
        let mut pending = row(0, 5, "chat", 0, 70);
        (pending.outcome, pending.measured_ns) = (None, None);
        let rows = [
            open,
            row(0, 2, "train", 4, 300),
            row(0, 3, "chat", 0, 100),
            row(0, 4, "train", 4, 200),
            pending,
            row(1, 1, "chat", 0, 50),
        ];
        let timeline = Timeline::new(&rows);
        assert_eq!((timeline.span, timeline.positions), (600_000, 6));
        assert_eq!((timeline.interval, timeline.unknown), ((2, 10), 1));
        let names: Vec<_> = timeline.devices.iter().map(|device| &device.name).collect();
        assert_eq!(names, ["gpu 0", "gpu 1"]);
        let lanes = &timeline.devices[0].lanes;
        let tenants: Vec<_> = lanes.iter().map(|lane| &lane.tenant).collect();
        assert_eq!(tenants, ["chat", "train"], "the highest priority first");
        let spans =
            |lane: &Lane| -> Vec<_> { lane.bars.iter().map(|bar| (bar.start, bar.end)).collect() };
        assert_eq!(spans(&lanes[0]), [(300_000, 400_000)]);
        assert_eq!(spans(&lanes[1]), [(0, 300_000), (400_000, 600_000)]);
    }

    #[test]
    fn many_narrow_slices_become_few_bars_and_none_is_lost() {
        let tenants = ["a", "b"];
        let rows: Vec<PositionRow> = (1..=20_000)
            .map(|at| row(0, at, tenants[(at % 2) as usize], 2, 10 + at % 7))
            .collect();
        let timeline = Timeline::new(&rows);
        let most = 2 * (SPAN / COLUMN) as usize + 4;
        assert!(timeline.bars() <= most, "{} bars", timeline.bars());
        let mut slices = 0;
        for lane in &timeline.devices[0].lanes {
            slices += lane.bars.iter().map(|bar| bar.slices).sum::<usize>();
            assert!(lane.bars.is_sorted_by_key(|bar| bar.start));
            for bar in &lane.bars {
                assert!(bar.busy <= bar.end - bar.start && bar.end <= timeline.span);
                assert_eq!(bar.kernels, 3 * bar.slices as u64);
            }
        }
        assert_eq!(slices, 20_000);
    }

    #[test]
    fn a_long_slice_is_never_drawn_into_others() {
        let mut rows: Vec<PositionRow> = (1..=500).map(|at| row(0, at, "a", 2, 1)).collect();
        rows.push(row(0, 501, "a", 2, 10_000));
        let timeline = Timeline::new(&rows);
        let bars = &timeline.devices[0].lanes[0].bars;
        let last = bars.last().unwrap();
        assert_eq!((last.slices, last.busy), (1, 10_000_000));
    }

    #[test]
    fn two_workers_of_one_device_are_two_rows() {
        let mut other = row(0, 1, "chat", 0, 50);
        other.incarnation = "f".repeat(16);
        let timeline = Timeline::new(&[row(0, 1, "chat", 0, 50), other]);
        assert_eq!(timeline.devices.len(), 2);
        assert!(timeline.devices[1].name.contains("ffff"));
    }
}
