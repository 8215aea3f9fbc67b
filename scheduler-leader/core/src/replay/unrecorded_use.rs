//! The work that workers reported beyond their usage blocks, from a replay of the record.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, Incarnation};

use super::error::ReplayError;
use super::recompute::Replay;
use super::reports::{Reports, UnrecordedUse};

/// The use that workers reported after these of their done reports, as far as it is recorded. Parts
/// of standing grants that were never closed count too.
///
/// # Errors
/// [`ReplayError`] if the record does not replay.
pub fn unrecorded_use(
    blocks: &[(Epoch, u64, Vec<u8>)],
    recorded: &BTreeMap<Incarnation, u64>,
) -> Result<BTreeMap<Incarnation, UnrecordedUse>, ReplayError> {
    let mut replay = Replay {
        reports: Reports::new(recorded),
        ..Replay::default()
    };
    for (epoch, number, bytes) in blocks {
        replay.add(*epoch, *number, bytes)?;
    }
    replay.advance(|_| {})?;
    let (reports, names) = (&replay.reports, &replay.chains);
    Ok(reports.summed(&replay.launches, |session| names.tenant(session)))
}
