//! The log of submitted ops: one line of JSON for each batch when it is first sent.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bus_schemas::{OpNumber, SessionId, Tenant};

use client_line::ClientError;

/// How long lines may lie here before they are in the file.
const PERIOD: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
struct Row {
    session: SessionId,
    ordinal: u64,
    first: OpNumber,
    last: OpNumber,
}

#[derive(Debug, Default)]
struct Pending {
    rows: Vec<Row>,
    over: bool,
}

type Shared = Arc<(Mutex<Pending>, Condvar)>;

/// Rows are left here by whoever sends a batch; a thread of its own writes them. Dropping it
/// writes what is left.
#[derive(Debug)]
pub(super) struct Evidence {
    shared: Shared,
    writer: Option<JoinHandle<()>>,
}

impl Evidence {
    /// Appends to the file at `path`.
    pub(super) fn open(path: &Path, tenant: Tenant) -> Result<Self, ClientError> {
        let failed = |error: std::io::Error| ClientError::Evidence {
            path: path.to_owned(),
            detail: error.to_string(),
        };
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .map_err(failed)?;
        let shared = Shared::default();
        let theirs = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("warploom-submitted".into())
            .spawn(move || write(&theirs, BufWriter::new(file), &tenant))
            .map_err(failed)?;
        Ok(Self {
            shared,
            writer: Some(writer),
        })
    }

    /// A batch was sent for the first time.
    pub(super) fn submitted(
        &self,
        session: SessionId,
        ordinal: u64,
        first: OpNumber,
        last: OpNumber,
    ) {
        let mut pending = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.rows.push(Row {
            session,
            ordinal,
            first,
            last,
        });
    }
}

impl Drop for Evidence {
    fn drop(&mut self) {
        let (pending, over) = &*self.shared;
        pending.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        over.notify_one();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write(shared: &Shared, mut file: BufWriter<File>, tenant: &Tenant) {
    let (pending, over) = &**shared;
    let mut rows = Vec::new();
    loop {
        let guard = pending.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut guard, _) = over
            .wait_timeout_while(guard, PERIOD, |pending| !pending.over)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut guard.rows, &mut rows);
        let last = guard.over;
        drop(guard);
        for row in rows.drain(..) {
            // Names are of a-z, 0-9 and '-', so nothing needs escaping.
            let line = writeln!(
                file,
                "{{\"session\":\"{}\",\"tenant\":\"{tenant}\",\"ordinal\":{},\"first\":{},\"last\":{}}}",
                row.session, row.ordinal, row.first, row.last
            );
            if let Err(error) = line {
                tracing::error!(%error, "the log of submitted ops cannot be written");
                return;
            }
        }
        if let Err(error) = file.flush() {
            tracing::error!(%error, "the log of submitted ops cannot be written");
            return;
        }
        if last {
            return;
        }
    }
}
