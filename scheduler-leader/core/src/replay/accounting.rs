//! The work that workers reported beyond their accounts, by a replay of the record.

use std::collections::BTreeMap;

use bus_schemas::{Epoch, Incarnation};

use super::error::ReplayError;
use super::recompute::Replay;
use super::reports::{Reports, Unaccounted};

/// What workers reported behind these of their done reports, as far as it is recorded: parts of
/// standing grants that were never closed count as everything else.
///
/// # Errors
/// [`ReplayError`] when the record does not replay.
pub fn unaccounted(
    blocks: &[(Epoch, u64, Vec<u8>)],
    accounted: &BTreeMap<Incarnation, u64>,
) -> Result<BTreeMap<Incarnation, Unaccounted>, ReplayError> {
    let mut replay = Replay {
        reports: Reports::new(accounted),
        ..Replay::default()
    };
    for (epoch, number, bytes) in blocks {
        replay.add(*epoch, *number, bytes)?;
    }
    replay.advance(|_| {})?;
    let (reports, names) = (&replay.reports, &replay.chains);
    Ok(reports.summed(&replay.launches, |session| names.tenant(session)))
}
