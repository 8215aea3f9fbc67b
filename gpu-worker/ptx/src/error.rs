//! Positions in the text, and errors at them.

use thiserror::Error;

/// A place in the source text; both numbers start at 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// A module that is not PTX as this crate knows it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}")]
pub struct PtxError {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// What was found and what was expected.
    pub message: String,
}

impl PtxError {
    /// An error at `position`.
    pub fn new(position: Position, message: impl Into<String>) -> Self {
        Self {
            line: position.line,
            column: position.column,
            message: message.into(),
        }
    }
}
