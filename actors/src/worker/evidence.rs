//! The evidence log: one line for every position that ended. See `docs/reference/evidence.md`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use bus_schemas::{GpuId, Incarnation, Outcome};
use gpu_worker_core::sequencer::Settled;

/// Appends to the log. Each line is written before the end of its position is reported, so a killed
/// worker leaves out no line that another process relied on. The log costs a system call per
/// position, and exists only if requested.
pub(super) struct Evidence {
    /// `None` once a line could not be written.
    file: RefCell<Option<File>>,
    running: RefCell<Running>,
    gpu: GpuId,
    incarnation: Incarnation,
}

/// Positions that have not ended, up to the highest one that has: sessions take turns, so a later
/// position may end first. A killed worker never writes the lines of these.
#[derive(Default)]
struct Running {
    last: u64,
    positions: BTreeSet<u64>,
}

impl Running {
    /// Ends a position; returns the earlier ones that have not ended.
    fn ended(&mut self, position: u64) -> Vec<u64> {
        if position > self.last {
            self.positions.extend(self.last + 1..position);
            self.last = position;
        }
        self.positions.remove(&position);
        self.positions.range(..position).copied().collect()
    }
}

impl Evidence {
    /// Opens the log for appending.
    pub(super) fn open(path: &Path, gpu: GpuId, incarnation: Incarnation) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: RefCell::new(Some(file)),
            running: RefCell::default(),
            gpu,
            incarnation,
        })
    }

    /// Appends a line.
    pub(super) fn settled(&self, settled: &Settled) {
        if matches!(settled.outcome, Outcome::Part | Outcome::Closed) {
            // These do not end a position.
            return;
        }
        let running = self.running.borrow_mut().ended(settled.position);
        let line = line(settled, &running, self.gpu, self.incarnation);
        let mut file = self.file.borrow_mut();
        if let Some(open) = file.as_mut()
            && let Err(error) = open.write_all(line.as_bytes())
        {
            tracing::error!(%error, "the evidence log cannot be written; it ends here");
            *file = None;
        }
    }
}

fn line(settled: &Settled, running: &[u64], gpu: GpuId, incarnation: Incarnation) -> String {
    let kind = settled.kind.name();
    let outcome = match settled.outcome {
        Outcome::Ran if settled.failed => "failed",
        Outcome::Void => "void",
        Outcome::Gone => "gone",
        Outcome::Ran | Outcome::Part | Outcome::Closed => "ran",
    };
    // Ids and tenant names contain no character that JSON would escape.
    format!(
        "{{\"gpu\":{gpu},\"incarnation\":\"{incarnation}\",\"position\":{},\"session\":\"{}\",\
         \"tenant\":\"{}\",\"ordinal\":{},\"kind\":\"{kind}\",\"first\":{},\"last\":{},\
         \"granted\":{},\"outcome\":\"{outcome}\",\"running\":{running:?}}}\n",
        settled.position,
        settled.session,
        settled.tenant.as_ref().map_or("", |tenant| tenant.as_str()),
        settled.ordinal,
        settled.first,
        settled.last,
        settled.granted,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_ends_before_others_names_them() {
        let mut running = Running::default();
        assert_eq!(running.ended(1), [0_u64; 0]);
        assert_eq!(running.ended(4), [2, 3]);
        assert_eq!(running.ended(3), [2]);
        assert_eq!(running.ended(6), [2, 5]);
        assert_eq!(running.ended(2), [0_u64; 0]);
        assert_eq!(running.ended(7), [5]);
        assert_eq!(running.ended(5), [0_u64; 0]);
        assert_eq!(running.ended(8), [0_u64; 0]);
    }
}
