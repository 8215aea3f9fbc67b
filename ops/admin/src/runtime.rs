//! The runtime of a command.

use std::future::Future;

use anyhow::Result;

/// Runs a command on a runtime of this thread.
///
/// # Errors
/// The command's own error, or that of a runtime that cannot be created.
pub fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(command);
    // A stopped command does not wait for threads that still compute or read.
    runtime.shutdown_background();
    done
}
