//! The idle time of devices in total, as a counter tells it.

use std::collections::BTreeMap;

use bus_schemas::GpuId;

use super::cause::Cause;
use super::device::Days;
use crate::time::Nanos;

/// The idle time of a device since the beginning of the record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceIdle {
    /// Nanoseconds by cause, as far as they are accounted. Work that is reported late may take some back.
    pub accounted: BTreeMap<Cause, u64>,
    /// The cause of the idle time that goes on, with the time from which on it is not accounted. `None` if work runs or
    /// is handed over.
    pub open: Option<(Nanos, Cause)>,
}

impl DeviceIdle {
    /// Nanoseconds by cause up to `now`. The idle time that goes on is taken to have lasted until then.
    #[must_use]
    pub fn until(&self, now: Nanos) -> BTreeMap<Cause, u64> {
        let mut idle = self.accounted.clone();
        if let Some((since, cause)) = self.open {
            let sum = idle.entry(cause).or_default();
            *sum = sum.saturating_add(now.saturating_sub(since));
        }
        idle
    }
}

/// The idle time of all devices that worked, and of those that are open now.
pub(super) fn idle(
    days: &Days,
    open: impl Iterator<Item = (GpuId, (Nanos, Cause))>,
) -> BTreeMap<GpuId, DeviceIdle> {
    let mut devices = BTreeMap::<GpuId, DeviceIdle>::new();
    for ((_, _, gpu), day) in days {
        let device = devices.entry(*gpu).or_default();
        for wait in day.idle.waits() {
            let sum = device.accounted.entry(wait.cause).or_default();
            *sum = sum.saturating_add(wait.ns);
        }
    }
    for (gpu, open) in open {
        devices.entry(gpu).or_default().open = Some(open);
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::device::Day;

    #[test]
    fn idle_time_is_summed_over_days_and_goes_on_until_now() {
        let mut days = Days::new();
        for (epoch, day, ns) in [(1, 0, 5), (1, 1, 7), (2, 1, 11)] {
            let day: &mut Day = days.entry((epoch, day, 3)).or_default();
            let of = (epoch == 1).then(|| "chat".parse().unwrap());
            day.idle.add(&(Cause::Cap, of), ns);
            day.idle.add(&(Cause::Program, None), 1);
        }
        let open = [(3, (100, Cause::Hold)), (4, (90, Cause::Empty))];
        let devices = idle(&days, open.into_iter());
        let until = |gpu, now| devices[&gpu].until(now).into_iter().collect::<Vec<_>>();
        let accounted = [(Cause::Cap, 23), (Cause::Hold, 20), (Cause::Program, 3)];
        assert_eq!(until(3, 120), accounted);
        assert_eq!(until(4, 80), [(Cause::Empty, 0)]);
    }
}
