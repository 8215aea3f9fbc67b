//! Exit codes: 0 ok (or its reader has had enough), 1 failed, 2 usage, 3 unreachable.

use thiserror::Error;

/// Exit code of a command that failed.
pub const FAILED: u8 = 1;
/// Exit code of a command that was called wrongly.
pub const USAGE: u8 = 2;
/// Exit code of a command that found no cluster.
pub const UNREACHABLE: u8 = 3;

/// Nobody answers: says so, with what to do about it.
#[derive(Debug, Error)]
#[error("E-CLUSTER-UNREACHABLE: {0}")]
pub struct Unreachable(pub String);

/// The command was called wrongly.
#[derive(Debug, Error)]
#[error("E-USAGE: {0}")]
pub struct UsageError(pub String);

/// A setting is wrong: the text begins with its own code.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Misset(pub String);

/// Nobody reads what the command prints any more: it ends, and has not failed.
#[derive(Debug, Error)]
#[error("nobody reads the output any more")]
pub struct Unread;

/// The exit code an error stands for.
#[must_use]
pub fn code(error: &anyhow::Error) -> u8 {
    // A downcast sees contexts, the chain sees causes.
    let unreachable = error.is::<Unreachable>() || error.chain().any(|it| it.is::<Unreachable>());
    let usage = error.is::<UsageError>() || error.chain().any(|it| it.is::<UsageError>());
    let misset = error.is::<Misset>() || error.chain().any(|it| it.is::<Misset>());
    match (unreachable, usage || misset) {
        (true, _) => UNREACHABLE,
        (false, true) => USAGE,
        (false, false) => FAILED,
    }
}
