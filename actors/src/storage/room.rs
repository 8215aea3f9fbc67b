//! The bytes to ask the broker for where it has no room for as many as were wanted.

use std::error::Error;

use super::refusals::{lacks_room, text};
use super::table::Stored;

/// Why something is not there.
pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// How many bytes to ask for next, where the broker has no room for as many as were asked for. The
/// record takes what it can get, the others what will do: so there is some left for it.
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

/// Bytes as the broker counts them.
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
