//! The log of submitted ops: one line of JSON for each batch, written before the batch is first
//! sent.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bus_schemas::{OpNumber, SessionId, Tenant};

use client_session::ClientError;

/// Writes each line before its batch is sent, so that the log covers all that a worker ran, even if
/// this process dies. The log costs a system call per batch, and exists only if requested.
#[derive(Debug)]
pub(super) struct Evidence {
    /// `None` once a line could not be written.
    file: Mutex<Option<File>>,
    tenant: Tenant,
}

impl Evidence {
    /// Appends to the file at `path`.
    pub(super) fn open(path: &Path, tenant: Tenant) -> Result<Self, ClientError> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| ClientError::Evidence {
            path: path.to_owned(),
            detail: error.to_string(),
        })?;
        Ok(Self {
            file: Mutex::new(Some(file)),
            tenant,
        })
    }

    /// Notes a batch that is about to be sent for the first time.
    pub(super) fn submitted(
        &self,
        session: SessionId,
        ordinal: u64,
        first: OpNumber,
        last: OpNumber,
    ) {
        // Names contain only a-z, 0-9 and '-', so they need no escaping.
        let line = format!(
            "{{\"session\":\"{session}\",\"tenant\":\"{}\",\"ordinal\":{ordinal},\
             \"first\":{first},\"last\":{last}}}\n",
            self.tenant
        );
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = file.as_mut()
            && let Err(error) = open.write_all(line.as_bytes())
        {
            tracing::error!(%error, "the log of submitted ops cannot be written; it ends here");
            *file = None;
        }
    }
}
