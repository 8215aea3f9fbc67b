//! Reads a cluster's record for explanations.

use std::collections::BTreeMap;

use anyhow::Result;
use bus_schemas::GpuId;
use scheduler_leader_core::replay::{ReplayedChange, ReplayedPosition};
use storage::{Stored, StoredDay, stored_days};

use super::begin::RecordBegin;
use super::devices::{DeviceDayRow, device_days};
use super::within::Within;
use crate::administrator::{Administrator, Kept};
use crate::errors::ErrorCode;
use crate::record::{Followed, Scanned, scan_within};

/// Reads the current record. `tell` gets each ended position, and each open standing grant so far.
/// Returns the devices' days, including the kept ones of the part that was cut off.
///
/// `within` a stretch of time, it gets the positions and the parts of standing grants that waited or ran then. The
/// days have that time only; of the part that was cut off, they have whole days. The second result is the changes of
/// administrators in that time, the third one the record's beginning if that time begins before it.
///
/// # Errors
/// As [`crate::record::scan_explained`]; an error if the kept days cannot be read.
pub async fn explain(
    administrator: &Administrator,
    within: Option<Within>,
    mut tell: impl FnMut(ReplayedPosition),
) -> Result<(Vec<DeviceDayRow>, Vec<ReplayedChange>, Option<RecordBegin>)> {
    let has = |row: &ReplayedPosition| within.is_none_or(|within| within.has(row));
    let read = scan_within(administrator, within, |told| {
        if let Followed::Ended { position, .. } = told
            && has(&position)
        {
            tell(*position);
        }
        Ok(())
    });
    let Scanned {
        standing,
        days,
        by_epoch,
        changes,
        begin,
    } = read.await?;
    if within.is_none() {
        standing.into_iter().for_each(tell);
    }
    // Read after the record, so that it includes the parts that were cut off in the meantime.
    let mut kept = kept_days(administrator).await?;
    kept.retain(|(day, _), _| within.is_none_or(|within| within.has_day(*day)));
    let days = device_days(by_epoch.beyond(days, &kept), kept);
    Ok((days, changes, begin))
}

/// The kept days of the part that was cut off the record.
async fn kept_days(administrator: &Administrator) -> Result<BTreeMap<(u64, GpuId), StoredDay>> {
    const KEPT: Kept = Kept {
        what: "the devices' days",
        code: ErrorCode::Why,
    };
    match administrator.bucket_of(Stored::Control, KEPT).await? {
        None => Ok(BTreeMap::new()),
        Some(bucket) => {
            let days = stored_days(&bucket).await;
            let days = days.map_err(|error| KEPT.silent(error))?.into_iter();
            Ok(days.map(|(place, (day, _))| (place, day)).collect())
        }
    }
}
