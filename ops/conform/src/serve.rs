//! The process that runs an area's checks, one after another. It reports the start and the result
//! of each on its standard output. The driver may print there too, so the lines of the protocol
//! begin with a mark.

use std::ffi::OsStr;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::areas;
use crate::bench::Bench;
use crate::check::{Check, Place};
use crate::driver::Driver;
use crate::finding::Finding;

/// First character of each line of the protocol.
pub(crate) const MARK: char = '\u{1}';

/// Message of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// The check of this number begins.
    Begun(usize),
    /// The check of this number has ended; `None` means success.
    Ended(usize, Option<String>),
}

fn say(said: &Said) -> Result<()> {
    let line = serde_json::to_string(said)?;
    let mut out = std::io::stdout().lock();
    // Begins a new line, as the driver may have printed an unfinished one.
    writeln!(out, "\n{MARK}{line}")?;
    out.flush().context("the process that asked is gone")
}

/// Runs checks of an area: the one of this number, and later ones that share its process.
///
/// # Errors
/// If the area does not exist, the driver cannot be loaded, or the parent process is gone.
pub fn serve(library: &OsStr, area: &str, from: usize) -> Result<()> {
    let checks = areas::checks(area).with_context(|| format!("there is no area {area}"))?;
    // Leaked: checks may use threads that outlive them.
    let driver: &'static Driver = Box::leak(Box::new(Driver::load(library)?));
    let bench = Bench::new(driver);
    let place = checks.get(from).map(|it| it.place);
    if place == Some(Place::Shared)
        && let Err(finding) = bench.begin()
    {
        anyhow::bail!("the driver does not begin: {}", finding.0);
    }
    for (number, check) in checks.iter().enumerate().skip(from) {
        if Some(check.place) != place || (place == Some(Place::Alone) && number > from) {
            continue;
        }
        say(&Said::Begun(number))?;
        let seen = judge(&bench, check);
        say(&Said::Ended(number, seen.err().map(|it| it.0)))?;
    }
    Ok(())
}

fn judge(bench: &Bench, check: &Check) -> Result<(), Finding> {
    let seen = check.run(bench);
    bench.clean();
    seen
}
