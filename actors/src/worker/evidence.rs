//! The evidence log: one line for every position that ended. See `docs/evidence.md`.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use bus_schemas::{GpuId, Incarnation, Outcome};
use gpu_worker_core::sequencer::Settled;

/// Appends to the log. Each line is written before anybody is told that its position has ended: a
/// worker that is killed leaves no line out that somebody relied on. It costs a system call a
/// position, and is there only where it is asked for.
pub(super) struct Evidence {
    /// None once a line could not be written.
    file: RefCell<Option<File>>,
    gpu: GpuId,
    incarnation: Incarnation,
}

impl Evidence {
    /// Opens the log, to append.
    pub(super) fn open(path: &Path, gpu: GpuId, incarnation: Incarnation) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: RefCell::new(Some(file)),
            gpu,
            incarnation,
        })
    }

    /// Appends a line.
    pub(super) fn settled(&self, settled: &Settled) {
        let Some(line) = line(settled, self.gpu, self.incarnation) else {
            return;
        };
        let mut file = self.file.borrow_mut();
        if let Some(open) = file.as_mut()
            && let Err(error) = open.write_all(line.as_bytes())
        {
            tracing::error!(%error, "the evidence log cannot be written; it ends here");
            *file = None;
        }
    }
}

fn line(settled: &Settled, gpu: GpuId, incarnation: Incarnation) -> Option<String> {
    let kind = settled.kind.name();
    let outcome = match settled.outcome {
        Outcome::Ran if settled.failed => "failed",
        Outcome::Ran => "ran",
        Outcome::Void => "void",
        Outcome::Gone => "gone",
        // Not ends of positions.
        Outcome::Part | Outcome::Closed => return None,
    };
    // Ids and tenant names have no character that JSON would escape.
    Some(format!(
        "{{\"gpu\":{gpu},\"incarnation\":\"{incarnation}\",\"position\":{},\"session\":\"{}\",\
         \"tenant\":\"{}\",\"ordinal\":{},\"kind\":\"{kind}\",\"first\":{},\"last\":{},\
         \"granted\":{},\"outcome\":\"{outcome}\"}}\n",
        settled.position,
        settled.session,
        settled.tenant.as_ref().map_or("", |tenant| tenant.as_str()),
        settled.ordinal,
        settled.first,
        settled.last,
        settled.granted,
    ))
}
