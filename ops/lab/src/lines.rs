//! The lines that a program of a run and the run say to one another, on the program's standard input and
//! output.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde::Serialize;

/// Prints a line of JSON, by one write: what a program said before it was killed is read.
///
/// # Errors
/// When nobody reads it.
pub(crate) fn say(said: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()?;
    Ok(())
}

/// Becomes true when the run says anything more, or is gone.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        drop(std::io::stdin().read_line(&mut String::new()));
        flag.store(true, Ordering::Relaxed);
    });
    stop
}
