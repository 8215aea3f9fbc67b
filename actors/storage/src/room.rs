//! The number of bytes to request if the broker has no room for the wanted number.

use std::error::Error;

use super::refusals::{lacks_room, text};
use super::table::Stored;

/// The error of a stream or bucket that could not be created.
pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// Returns the bytes to request next after the broker had no room for `bytes`. The record takes
/// what it can get. The others fall back to their least bytes, which leaves room for the record.
pub(super) fn fewer(stored: Stored, bytes: u64, least: u64, error: Failed) -> Result<u64, String> {
    if bytes <= least || !lacks_room(&*error) {
        return Err(text(&*error));
    }
    let next = match stored {
        Stored::Record => (bytes / 2).max(least),
        _ => least,
    };
    tracing::debug!(?stored, bytes, next, "the broker has no room for as much");
    Ok(next)
}

/// Converts bytes to the broker's type.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
