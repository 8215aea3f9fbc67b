//! Devices by day: busy time, and the causes of idle time.

use std::collections::BTreeMap;

use bus_schemas::GpuId;
use scheduler_leader_core::why::DeviceDay;
use serde::Serialize;
use storage::StoredDay;

use super::row::{WaitRow, wait_rows};
use crate::calendar::{DAY_MS, date};

/// A device on one day (UTC).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceDayRow {
    /// The day, `2026-11-26`.
    pub day: String,
    /// The device.
    pub gpu: GpuId,
    /// Nanoseconds in which something ran.
    pub busy_ns: u64,
    /// Nanoseconds in which nothing ran although there was a worker.
    pub idle_ns: u64,
    /// Causes of the idle time, the longest first; their sum is `idle_ns`.
    pub idle: Vec<WaitRow>,
}

/// Merges the days of the record with the kept days of the part that was cut off, by day and
/// device.
#[must_use]
pub fn device_days(
    record: Vec<DeviceDay>,
    kept: BTreeMap<(u64, GpuId), StoredDay>,
) -> Vec<DeviceDayRow> {
    let mut days = kept;
    for day in record {
        days.entry((day.day, day.gpu)).or_default().add(&day);
    }
    let rows = days.into_iter().map(|((day, gpu), it)| {
        let idle = wait_rows(&it.waits());
        DeviceDayRow {
            day: date(day.saturating_mul(DAY_MS)),
            gpu,
            busy_ns: it.busy_ns,
            idle_ns: idle.iter().fold(0, |sum, wait| sum.saturating_add(wait.ns)),
            idle,
        }
    });
    rows.collect()
}
