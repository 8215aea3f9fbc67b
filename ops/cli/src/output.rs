//! The output of commands; its reader may stop reading: `warploom status | head -1`.

use std::fmt::Display;
use std::io::{ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};
use bus_schemas::without_logins;

use crate::exit::Unread;

/// Prints a line to stdout.
///
/// # Errors
/// [`Unread`] where nobody reads it any more, which ends the command and is no failure; else what
/// is wrong with stdout.
pub fn line(text: impl Display) -> Result<()> {
    print(|out| writeln!(out, "{text}"))
}

/// Prints what is no line of ours to stdout, as it is.
///
/// # Errors
/// As [`line`].
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

/// Prints a line to stderr, if that is open. Libraries and parsers quote what they were
/// given: no login of a URL is printed.
pub fn note(text: impl Display) {
    let text = without_logins(&text.to_string());
    // Without stderr there is no place to say that there is none.
    let _ = writeln!(std::io::stderr(), "{text}");
}
