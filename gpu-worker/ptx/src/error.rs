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

/// A module that is not PTX as this crate knows it, or is no machine code.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{message}", place(*line, *column))]
pub struct PtxError {
    /// Line, from 1; 0 in machine code, which has none.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
    /// The text found and the text expected.
    pub message: String,
}

/// Returns the text in front of an error's message that gives its place.
fn place(line: u32, column: u32) -> String {
    match line {
        0 => String::new(),
        _ => format!("line {line}, column {column}: "),
    }
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
