//! A cluster's record, read to what it explains.

use std::collections::BTreeMap;

use actors::storage::{Stored, StoredDay, stored_days};
use anyhow::Result;
use bus_schemas::GpuId;
use scheduler_leader_core::replay::ReplayedPosition;

use super::devices::{DeviceDayRow, device_days};
use crate::admin::{Administrator, Kept};
use crate::record::{Followed, Scanned, scan_explained};

/// Reads the record that there is now: tells of each position that has ended, and of each standing grant so far;
/// gives the devices' days, with those that were kept of what was cut off.
///
/// # Errors
/// As [`scan_explained`]; where the kept days cannot be read.
pub async fn explain(
    administrator: &Administrator,
    mut tell: impl FnMut(ReplayedPosition),
) -> Result<Vec<DeviceDayRow>> {
    let read = scan_explained(administrator, |told| {
        if let Followed::Ended { position, .. } = told {
            tell(*position);
        }
        Ok(())
    });
    let Scanned {
        standing,
        days,
        by_epoch,
    } = read.await?;
    standing.into_iter().for_each(tell);
    // Read behind the record: what was cut off meanwhile is in it.
    let kept = kept_days(administrator).await?;
    Ok(device_days(by_epoch.beyond(days, &kept), kept))
}

/// What was kept of what was cut off the record.
async fn kept_days(administrator: &Administrator) -> Result<BTreeMap<(u64, GpuId), StoredDay>> {
    const KEPT: Kept = Kept {
        what: "the devices' days",
        code: "E-WHY",
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
