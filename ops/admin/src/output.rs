//! The output of commands. Its reader may stop reading, as in `warploom status | head -1`.

use std::fmt::Display;
use std::io::{ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};
use bus_schemas::without_logins;

use crate::errors::Unread;

/// Prints a line to stdout.
///
/// # Errors
/// [`Unread`] if the reader has stopped reading, which ends the command and is no failure;
/// otherwise the error of stdout.
pub fn line(text: impl Display) -> Result<()> {
    print(|out| writeln!(out, "{text}"))
}

/// Prints bytes from elsewhere to stdout, unchanged.
///
/// # Errors
/// As [`fn@line`].
pub fn bytes(text: &[u8]) -> Result<()> {
    print(|out| out.write_all(text))
}

fn print(write: impl FnOnce(&mut StdoutLock<'_>) -> std::io::Result<()>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Unread.into()),
        written => written.context("writing to stdout"),
    }
}

/// Prints a line to stderr, if that is open. Libraries and parsers quote their input, so logins are
/// removed from URLs.
pub fn note(text: impl Display) {
    let text = without_logins(&text.to_string());
    // Without stderr, the failure cannot be reported.
    let _ = writeln!(std::io::stderr(), "{text}");
}
