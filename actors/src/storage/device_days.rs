//! What devices did on each day, of the part of the record that is no more: kept by whoever cuts it, before it
//! does.

use std::collections::BTreeMap;

use async_nats::jetstream::kv::Store;
use bus_schemas::{Epoch, GpuId, Tenant};
use futures_util::TryStreamExt;
use scheduler_leader_core::why::{Cause, DeviceDay, Wait};
use serde::{Deserialize, Serialize};

/// Before a day's number and the device's, in a key.
const PREFIX: &str = "idle.";
/// Days that are kept.
const KEPT: u64 = 400;
/// Epochs whose beginnings are remembered while nothing can be kept.
const UNKEPT: usize = 64;

/// A device's day, as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDay {
    /// The first epoch that is not in it.
    pub through: Epoch,
    /// Nanoseconds for which something ran.
    pub busy_ns: u64,
    /// What kept it idle: cause, whose doing that was, nanoseconds.
    pub idle: Vec<(Cause, Option<Tenant>, u64)>,
}

impl StoredDay {
    /// Adds what a part of the record tells of the same day.
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

    /// Its idle time, the longest first.
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

/// What devices did by the beginnings of epochs, since a replay began.
#[derive(Debug, Default)]
pub struct EpochDays {
    by_epoch: BTreeMap<Epoch, Vec<DeviceDay>>,
    /// The epoch that was cut off before last, by whoever has these.
    cut: Epoch,
}

impl EpochDays {
    /// An epoch begins, and this is what was before it.
    pub fn begins(&mut self, epoch: Epoch, days: impl FnOnce() -> Vec<DeviceDay>) {
        self.by_epoch.entry(epoch).or_insert_with(days);
    }

    /// Of what a record tells, that which is not in what is kept: it may have been kept while the record was read,
    /// which was cut off then or is about to be.
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
            // None: the first epoch that is not in it began behind all that was read.
            let (_, known) = self.by_epoch.range(through..).next()?;
            let known = known.iter().find(|it| (it.day, it.gpu) == place);
            Some(since(day, known))
        });
        beyond.collect()
    }

    /// What is to be added to what is kept, so that all before an epoch is in it. Each epoch is added once to
    /// each day, however often this is begun, and by whom.
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
            // A day that the last cut did not change had nothing to be added then.
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

    /// Keeps what lies before an epoch. Where that fails it is added with the next that succeeds, if that comes
    /// soon enough.
    pub(crate) async fn keep(&mut self, bucket: &Store, before: Epoch) -> Result<(), String> {
        let kept = self.try_keep(bucket, before).await;
        match kept {
            Ok(()) => self.begin_at(before),
            // Of more than these the oldest are given up, rather than counted twice.
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

    /// What lies before an epoch is kept, or given up.
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
            // A leader of before may still be cutting: of two who add to the same value one begins anew.
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

/// A day without what was known of it.
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

/// All days that are kept, each with the revision of its value.
///
/// # Errors
/// Where the broker does not hand them out.
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

    /// Days as a replay from the record's beginning has them, by epoch.
    fn replayed(from: usize) -> EpochDays {
        // What each epoch adds: day, busy, idle.
        let epochs = [(10, 5, 1), (10, 7, 2), (11, 4, 3), (11, 1, 1), (12, 9, 9)];
        let mut days = EpochDays::default();
        for epoch in from..=epochs.len() {
            let mut sums = BTreeMap::<u64, (u64, u64)>::new();
            for (of, busy, idle) in epochs.iter().take(epoch).skip(from) {
                let sum = sums.entry(*of).or_default();
                *sum = (sum.0 + busy, sum.1 + idle);
            }
            let rows = sums
                .into_iter()
                .map(|(of, (busy, idle))| day(of, busy, idle));
            days.begins(epoch as Epoch + 1, || rows.collect());
        }
        days
    }

    #[test]
    fn what_was_kept_while_the_record_was_read_counts_once() {
        let all = [(10, 12, 3), (11, 5, 4), (12, 9, 9)];
        for from in 0..=5 {
            let record = replayed(from);
            let whole = record.by_epoch.values().last().cloned().unwrap_or_default();
            // What was kept by then, and what was before the reading was over.
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
        // In one go, by one who goes on.
        let (mut kept, mut days) = (Kept::new(), replayed(0));
        for before in [3, 4, 6] {
            kept.append(&mut days.added(&kept, before));
            days.begin_at(before);
        }
        assert_eq!(told(&kept), all);
        // By one who dies between two days, and others, who find the record cut or not.
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
