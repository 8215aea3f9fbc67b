//! The evidence log: one line for every position that ended. See `docs/evidence.md`.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use bus_schemas::{GpuId, Incarnation, Outcome};
use gpu_worker_core::sequencer::Settled;

/// Lines are gathered this long: they are in the file soon after the fact.
const GATHER: Duration = Duration::from_millis(5);

/// Appends to the log from a thread of its own.
pub(super) struct Evidence {
    lines: Option<mpsc::Sender<Settled>>,
    writer: Option<JoinHandle<()>>,
}

impl Evidence {
    /// Opens the log, to append.
    pub(super) fn open(path: &Path, gpu: GpuId, incarnation: Incarnation) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let (lines, received) = mpsc::channel();
        let writer = std::thread::Builder::new()
            .name("evidence".into())
            .spawn(move || write(&received, BufWriter::new(file), gpu, incarnation))?;
        Ok(Self {
            lines: Some(lines),
            writer: Some(writer),
        })
    }

    /// Appends a line, soon.
    pub(super) fn settled(&self, settled: Settled) {
        if let Some(lines) = &self.lines {
            // The writer ends only when this end is dropped, or the file could not be written.
            let _ = lines.send(settled);
        }
    }
}

impl Drop for Evidence {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was reported where it happened.
            let _ = writer.join();
        }
    }
}

fn write(
    lines: &mpsc::Receiver<Settled>,
    mut out: impl Write,
    gpu: GpuId,
    incarnation: Incarnation,
) {
    while let Ok(first) = lines.recv() {
        let written = std::iter::once(first)
            .chain(lines.try_iter())
            .try_for_each(|settled| write_line(&mut out, &settled, gpu, incarnation))
            .and_then(|()| out.flush());
        if let Err(error) = written {
            tracing::error!(%error, "the evidence log cannot be written; it ends here");
            return;
        }
        // What comes meanwhile is written together.
        std::thread::sleep(GATHER);
    }
}

fn write_line(
    out: &mut impl Write,
    settled: &Settled,
    gpu: GpuId,
    incarnation: Incarnation,
) -> std::io::Result<()> {
    let kind = settled.kind.name();
    let outcome = match settled.outcome {
        Outcome::Ran if settled.failed => "failed",
        Outcome::Ran => "ran",
        Outcome::Void => "void",
        Outcome::Gone => "gone",
        // Not ends of positions.
        Outcome::Part | Outcome::Closed => return Ok(()),
    };
    // Ids and tenant names have no character that JSON would escape.
    writeln!(
        out,
        "{{\"gpu\":{gpu},\"incarnation\":\"{incarnation}\",\"position\":{},\"session\":\"{}\",\
         \"tenant\":\"{}\",\"ordinal\":{},\"kind\":\"{kind}\",\"first\":{},\"last\":{},\
         \"outcome\":\"{outcome}\"}}",
        settled.position,
        settled.session,
        settled.tenant.as_ref().map_or("", |tenant| tenant.as_str()),
        settled.ordinal,
        settled.first,
        settled.last,
    )
}
