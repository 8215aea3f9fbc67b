//! Errors of a client.

use std::path::PathBuf;

use bus_schemas::{Code, Failure};

use bus::BusError;

/// The reason why a call of the client failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// There is no connection to the broker.
    #[error("{0}")]
    Connect(String),
    /// This call was refused; the session goes on.
    #[error(transparent)]
    Refused(Failure),
    /// The session has failed or ended: every call fails with this.
    #[error(transparent)]
    Session(Failure),
    /// The log of submitted ops cannot be written.
    #[error("{path}: {detail}", path = path.display())]
    Evidence {
        /// The log.
        path: PathBuf,
        /// The reason why it cannot be written.
        detail: String,
    },
}

impl ClientError {
    /// The stable code, as listed in `docs/reference/errors.md`.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Connect(_) => Code::NoLeader,
            Self::Refused(failure) | Self::Session(failure) => failure.code,
            Self::Evidence { .. } => Code::BadSettings,
        }
    }

    /// The error after the client's own thread has ended, or the session was closed here.
    #[must_use]
    pub fn closed() -> Self {
        Self::Session(closed())
    }
}

/// The result of every fallible call.
pub type Result<T> = std::result::Result<T, ClientError>;

/// The error of a refused call; the session goes on.
pub fn refused(code: Code, detail: impl Into<String>) -> ClientError {
    ClientError::Refused(Failure::new(code, detail))
}

pub(crate) fn closed() -> Failure {
    Failure::new(Code::SessionGone, "the session was closed by its client")
}

impl From<BusError> for ClientError {
    fn from(error: BusError) -> Self {
        Self::Connect(error.to_string())
    }
}
