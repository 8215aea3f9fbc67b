//! The runtime that a command runs on.

use std::future::Future;

use anyhow::Result;

/// Runs a command on a runtime of this thread.
///
/// # Errors
/// As the command's own, and where no runtime can be made.
pub fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(command);
    // A command that was told to stop does not wait for threads that still compute or read.
    runtime.shutdown_background();
    done
}
