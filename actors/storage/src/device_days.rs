//! The activity of devices on each day in the part of the record that was cut off. It is kept
//! before each cut.

use std::collections::BTreeMap;

use async_nats::jetstream::kv::Store;
use bus_schemas::{Epoch, GpuId, Tenant};
use futures_util::TryStreamExt;
use scheduler_leader_core::why::{Cause, DeviceDay, Wait};
use serde::{Deserialize, Serialize};

/// Prefix of a key, before the day's number and the device's.
const PREFIX: &str = "idle.";
/// Number of days that are kept.
const KEPT: u64 = 400;
/// Maximum number of epochs remembered while keeping fails.
const UNKEPT: usize = 64;

/// A device's stored day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDay {
    /// The first epoch that is not included.
    pub through: Epoch,
    /// Busy time in nanoseconds.
    pub busy_ns: u64,
    /// Idle time in nanoseconds, by cause and the responsible tenant.
    pub idle: Vec<(Cause, Option<Tenant>, u64)>,
}

impl StoredDay {
    /// Adds a part of the record to the same day.
    pub fn add(&mut self, day: &DeviceDay) {
        self.busy_ns = self.busy_ns.saturating_add(day.busy_ns);
        for wait in &day.idle {
            let mut known = self.idle.iter_mut();
            let found = known.find(|known| (known.0, &known.1) == (wait.cause, &wait.of));
            match found {
                Some((_, _, ns)) => *ns = ns.saturating_add(wait.ns),
                None => self.idle.push((wait.cause, wait.of.clone(), wait.ns)),
            }
        }
    }

    /// Returns the idle times, longest first.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        let wait = |(cause, of, ns): &(Cause, Option<Tenant>, u64)| Wait {
            cause: *cause,
            of: of.clone(),
            ns: *ns,
        };
        let mut waits: Vec<_> = self.idle.iter().map(wait).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        waits
    }
}

/// Activity of devices before each epoch, since a replay began.
#[derive(Debug, Default)]
pub struct EpochDays {
    by_epoch: BTreeMap<Epoch, Vec<DeviceDay>>,
    /// The epoch of the last cut by the owner of this value.
    cut: Epoch,
}

impl EpochDays {
    /// Takes the activity before each epoch, as it is known now. It stays as it was for the last
    /// epoch that was cut off: the next cut adds what became known since.
    pub fn update(&mut self, before: BTreeMap<Epoch, Vec<DeviceDay>>) {
        let new = before.into_iter().filter(|(epoch, _)| *epoch > self.cut);
        self.by_epoch.extend(new);
    }

    /// Returns the part of the record's days that is not stored yet. Some of it may have been
    /// stored while the record was read, and cut off then or soon after.
    #[must_use]
    pub fn beyond(
        &self,
        record: Vec<DeviceDay>,
        kept: &BTreeMap<(u64, GpuId), StoredDay>,
    ) -> Vec<DeviceDay> {
        let beyond = record.into_iter().filter_map(|day| {
            let place = (day.day, day.gpu);
            let Some(StoredDay { through, .. }) = kept.get(&place) else {
                return Some(day);
            };
            // `None` if the first epoch that is not included began after all that was read.
            let (_, known) = self.by_epoch.range(through..).next()?;
            let known = known.iter().find(|it| (it.day, it.gpu) == place);
            Some(since(day, known))
        });
        beyond.collect()
    }

    /// Returns the additions that make the stored days include all before an epoch. Each epoch is
    /// added once to each day, however often the operation is restarted and by any process.
    fn added(
        &self,
        kept: &BTreeMap<(u64, GpuId), StoredDay>,
        before: Epoch,
    ) -> BTreeMap<(u64, GpuId), StoredDay> {
        let mut changed = BTreeMap::new();
        for day in self.by_epoch.get(&before).into_iter().flatten() {
            let place = (day.day, day.gpu);
            let mut value = kept.get(&place).cloned().unwrap_or_default();
            if value.through >= before {
                continue;
            }
            // If the last cut did not change a day, it had nothing to add then.
            let from = value.through.max(self.cut);
            let known = self.by_epoch.get(&from).into_iter().flatten();
            let mut known = known.filter(|it| (it.day, it.gpu) == place);
            let grown = since(day.clone(), known.next());
            if grown.busy_ns > 0 || !grown.idle.is_empty() {
                value.add(&grown);
                value.through = before;
                changed.insert(place, value);
            }
        }
        changed
    }

    /// Stores the activity before an epoch. If that fails, the next success adds it, if it comes
    /// soon enough.
    ///
    /// # Errors
    /// The broker does not store it, or has no room for it.
    pub async fn keep(&mut self, bucket: &Store, before: Epoch) -> Result<(), String> {
        let kept = self.try_keep(bucket, before).await;
        match kept {
            Ok(()) => self.begin_at(before),
            // Beyond this number the oldest are dropped, rather than counted twice.
            Err(_) => {
                let surplus = self.by_epoch.len().saturating_sub(UNKEPT);
                let first = self.by_epoch.keys().nth(surplus).copied();
                if let Some(first) = first.filter(|_| surplus > 0) {
                    self.begin_at(first.max(self.cut));
                }
            }
        }
        kept
    }

    /// Notes that the activity before an epoch is stored or dropped.
    fn begin_at(&mut self, epoch: Epoch) {
        self.cut = epoch;
        self.by_epoch.retain(|of, _| *of >= epoch);
    }

    async fn try_keep(&self, bucket: &Store, before: Epoch) -> Result<(), String> {
        let stored = stored_days(bucket).await?;
        let kept = stored.iter().map(|(place, it)| (*place, it.0.clone()));
        for ((day, gpu), value) in self.added(&kept.collect(), before) {
            let key = format!("{PREFIX}{day}.{gpu}");
            let bytes = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
            // A previous leader may still be cutting. If both add to the same value, one of them
            // restarts.
            let put = match stored.get(&(day, gpu)) {
                Some((_, revision)) => bucket
                    .update(&key, bytes.into(), *revision)
                    .await
                    .map_err(|error| error.to_string()),
                None => bucket
                    .create(&key, bytes.into())
                    .await
                    .map_err(|error| error.to_string()),
            };
            put?;
        }
        let newest = stored.keys().map(|(day, _)| *day).max().unwrap_or(0);
        for (day, gpu) in stored.keys().filter(|(day, _)| day + KEPT < newest) {
            let gone = bucket.purge(format!("{PREFIX}{day}.{gpu}")).await;
            gone.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Subtracts the known part from a day.
fn since(mut day: DeviceDay, known: Option<&DeviceDay>) -> DeviceDay {
    if let Some(known) = known {
        day.busy_ns = day.busy_ns.saturating_sub(known.busy_ns);
        for wait in &mut day.idle {
            let mut waits = known.idle.iter();
            let same = waits.find(|it| (it.cause, &it.of) == (wait.cause, &wait.of));
            wait.ns = wait.ns.saturating_sub(same.map_or(0, |it| it.ns));
        }
    }
    day.idle.retain(|wait| wait.ns > 0);
    day
}

/// Returns all stored days, each with the revision of its value.
///
/// # Errors
/// The broker does not deliver them.
pub async fn stored_days(
    bucket: &Store,
) -> Result<BTreeMap<(u64, GpuId), (StoredDay, u64)>, String> {
    let keys = bucket.keys().await.map_err(|error| error.to_string())?;
    let keys: Vec<String> = keys
        .try_collect()
        .await
        .map_err(|error| error.to_string())?;
    let mut days = BTreeMap::new();
    for key in keys {
        let place = key
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('.'));
        let Some((day, gpu)) = place else {
            continue;
        };
        let (Ok(day), Ok(gpu)) = (day.parse(), gpu.parse()) else {
            continue;
        };
        let entry = bucket.entry(&key).await;
        let Some(entry) = entry.map_err(|error| error.to_string())? else {
            continue;
        };
        if let Ok(value) = serde_json::from_slice(&entry.value) {
            days.insert((day, gpu), (value, entry.revision));
        }
    }
    Ok(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(day: u64, busy_ns: u64, program: u64) -> DeviceDay {
        let wait = Wait {
            cause: Cause::Program,
            of: None,
            ns: program,
        };
        DeviceDay {
            day,
            gpu: 0,
            busy_ns,
            idle: vec![wait],
        }
    }

    type Kept = BTreeMap<(u64, GpuId), StoredDay>;

    fn told(kept: &Kept) -> Vec<(u64, u64, u64)> {
        let row = |(place, it): (&(u64, GpuId), &StoredDay)| {
            (place.0, it.busy_ns, it.waits().iter().map(|it| it.ns).sum())
        };
        kept.iter().map(row).collect()
    }

    /// The days as a replay from the record's beginning has them, by epoch.
    fn replayed(from: usize) -> EpochDays {
        // Added by each epoch: day, busy, idle.
        let epochs = [(10, 5, 1), (10, 7, 2), (11, 4, 3), (11, 1, 1), (12, 9, 9)];
        let mut before = BTreeMap::new();
        for epoch in from..=epochs.len() {
            let mut sums = BTreeMap::<u64, (u64, u64)>::new();
            for (of, busy, idle) in epochs.iter().take(epoch).skip(from) {
                let sum = sums.entry(*of).or_default();
                *sum = (sum.0 + busy, sum.1 + idle);
            }
            let rows = sums
                .into_iter()
                .map(|(of, (busy, idle))| day(of, busy, idle));
            before.insert(epoch as Epoch + 1, rows.collect());
        }
        let mut days = EpochDays::default();
        days.update(before);
        days
    }

    #[test]
    fn what_was_kept_while_the_record_was_read_counts_once() {
        let all = [(10, 12, 3), (11, 5, 4), (12, 9, 9)];
        for from in 0..=5 {
            let record = replayed(from);
            let whole = record.by_epoch.values().last().cloned().unwrap_or_default();
            // What was stored by then, and the activity before the end of the reading.
            for cut in from..=5 {
                let mut kept = replayed(0).added(&Kept::new(), cut as Epoch + 1);
                let beyond = record.beyond(whole.clone(), &kept);
                for day in beyond {
                    kept.entry((day.day, day.gpu)).or_default().add(&day);
                }
                assert_eq!(told(&kept), all, "from {from}, cut at {cut}");
            }
        }
    }

    #[test]
    fn each_epoch_is_added_once_whoever_cuts_and_wherever_they_died() {
        let all = [(10, 12, 3), (11, 5, 4), (12, 9, 9)];
        // All at once, by a process that continues.
        let (mut kept, mut days) = (Kept::new(), replayed(0));
        for before in [3, 4, 6] {
            kept.append(&mut days.added(&kept, before));
            days.begin_at(before);
        }
        assert_eq!(told(&kept), all);
        // By a process that dies between two days, and by others that find the record cut or not.
        for cut_off in [true, false] {
            let mut kept = Kept::new();
            kept.append(&mut replayed(0).added(&kept, 2));
            let mut half = replayed(0).added(&kept, 5);
            half.retain(|place, _| place.0 == 10);
            kept.append(&mut half);
            let from = if cut_off { 1 } else { 0 };
            kept.append(&mut replayed(from).added(&kept, 6));
            kept.append(&mut replayed(from).added(&kept, 6));
            assert_eq!(told(&kept), all, "{cut_off}");
        }
    }
}
