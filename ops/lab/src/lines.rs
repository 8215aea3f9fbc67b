//! The lines that a run and its programs exchange, on the program's standard input and output.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use serde::Serialize;

/// Prints a line of JSON by one write, so that the line of a killed program is either whole or absent.
///
/// # Errors
/// If the output has no reader.
pub(crate) fn say(said: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    stdout.flush()?;
    Ok(())
}

/// Returns a flag that becomes true when the run sends another line, or is gone.
pub(crate) fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    std::thread::spawn(move || {
        drop(std::io::stdin().read_line(&mut String::new()));
        flag.store(true, Ordering::Relaxed);
    });
    stop
}
