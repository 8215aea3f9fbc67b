//! The reports of a program about its sessions.

use std::time::Duration;

use anyhow::Result;
use bus_schemas::Code;
use client_agent::{Error, Session};

use super::said::Said;
use crate::lines::say;

/// Time between a refused request for a session and the next request.
const AGAIN: Duration = Duration::from_millis(100);

/// Reports a new session. Returns its id.
pub(super) fn opened(session: &Session, connection: &str) -> Result<String> {
    let opened = session.opened();
    let id = session.id().to_string();
    say(&Said::Opened {
        session: id.clone(),
        ordinal: opened.ordinal,
        worker: opened.incarnation,
        connection: connection.to_owned(),
    })?;
    Ok(id)
}

/// Reports a failed session.
pub(super) fn failed(session: String, code: Code, why: &str) -> Result<()> {
    say(&Said::Failed {
        session,
        code: code.name().to_owned(),
        why: why.to_owned(),
    })
}

/// Reports a refused request, and waits a moment.
pub(super) fn refused(error: &Error) -> Result<()> {
    say(&Said::Refused {
        code: error.code().name().to_owned(),
        why: error.to_string(),
    })?;
    std::thread::sleep(AGAIN);
    Ok(())
}
