//! How a command ends: 0 ok (or its reader has had enough), 1 failed, 2 usage, 3 unreachable.

use std::fmt;

/// Exit code of a command that failed.
pub const FAILED: u8 = 1;
/// Exit code of a command that was called wrongly.
pub const USAGE: u8 = 2;
/// Exit code of a command that found no cluster.
pub const UNREACHABLE: u8 = 3;

/// Nobody answers: says so, with what to do about it.
#[derive(Debug)]
pub struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E-CLUSTER-UNREACHABLE: {}", self.0)
    }
}

impl std::error::Error for Unreachable {}

/// The command was called wrongly.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E-USAGE: {}", self.0)
    }
}

impl std::error::Error for Usage {}

/// Nobody reads what the command prints any more: it ends, and has not failed.
#[derive(Debug)]
pub struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads the output any more")
    }
}

impl std::error::Error for Unread {}

/// The exit code an error stands for.
#[must_use]
pub fn code(error: &anyhow::Error) -> u8 {
    // A downcast sees contexts, the chain sees causes.
    if error.is::<Unreachable>() || error.chain().any(|cause| cause.is::<Unreachable>()) {
        UNREACHABLE
    } else if error.is::<Usage>() || error.chain().any(|cause| cause.is::<Usage>()) {
        USAGE
    } else {
        FAILED
    }
}
