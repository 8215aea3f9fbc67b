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

/// A setting is wrong: the text begins with its own code.
#[derive(Debug)]
pub struct Misset(pub String);

impl fmt::Display for Misset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misset {}

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
    let unreachable = error.is::<Unreachable>() || error.chain().any(|it| it.is::<Unreachable>());
    let usage = error.is::<Usage>() || error.chain().any(|it| it.is::<Usage>());
    let misset = error.is::<Misset>() || error.chain().any(|it| it.is::<Misset>());
    match (unreachable, usage || misset) {
        (true, _) => UNREACHABLE,
        (false, true) => USAGE,
        (false, false) => FAILED,
    }
}
