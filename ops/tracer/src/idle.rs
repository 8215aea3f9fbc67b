//! The idle time of devices as counters since the tracer's start. They never fall, though the record may take some idle
//! time back: work that it tells late.

use std::collections::BTreeMap;

use bus_schemas::GpuId;
use scheduler_leader_core::why::{Cause, DeviceIdle};

/// A counter, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counter {
    /// The value of the record that is counted.
    known: u64,
    total: u64,
}

/// The counters of all devices.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    devices: BTreeMap<GpuId, DeviceIdle>,
    counters: BTreeMap<(GpuId, Cause), Counter>,
    /// True once the record has told idle time.
    has_begun: bool,
    /// True from the record's reading from its beginning until it tells idle time.
    is_anew: bool,
}

impl Idle {
    /// Notes that the record is read from its beginning.
    pub(crate) fn begins(&mut self) {
        self.devices.clear();
        self.is_anew = true;
    }

    /// Takes in the idle time of all devices.
    pub(crate) fn tell(&mut self, devices: BTreeMap<GpuId, DeviceIdle>, now: u64) {
        self.devices = devices;
        if !self.has_begun {
            self.count(now);
            self.counters.values_mut().for_each(|it| it.total = 0);
            self.has_begun = true;
        }
        if std::mem::replace(&mut self.is_anew, false) {
            // The beginning of the record may have been cut off meanwhile.
            for ((gpu, cause), counter) in &mut self.counters {
                let device = self.devices.get(gpu).map(|it| it.until(now));
                let value = device.and_then(|it| it.get(cause).copied());
                counter.known = counter.known.min(value.unwrap_or(0));
            }
        }
    }

    /// Returns the counters at a time.
    pub(crate) fn look(&mut self, now: u64) -> impl Iterator<Item = (GpuId, Cause, u64)> + '_ {
        self.count(now);
        let counters = self.counters.iter();
        counters.map(|((gpu, cause), counter)| (*gpu, *cause, counter.total))
    }

    fn count(&mut self, now: u64) {
        for (gpu, device) in &self.devices {
            for (cause, value) in device.until(now) {
                let counter = self.counters.entry((*gpu, cause)).or_default();
                let news = value.saturating_sub(counter.known);
                counter.known += news;
                counter.total = counter.total.saturating_add(news);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(
        accounted: &[(Cause, u64)],
        open: Option<(u64, Cause)>,
    ) -> BTreeMap<GpuId, DeviceIdle> {
        let accounted = accounted.iter().copied().collect();
        BTreeMap::from([(0, DeviceIdle { accounted, open })])
    }

    fn read(idle: &mut Idle, now: u64) -> Vec<(Cause, u64)> {
        idle.look(now).map(|(_, cause, ns)| (cause, ns)).collect()
    }

    #[test]
    fn idle_time_counts_from_the_start_goes_on_and_never_falls() {
        let mut idle = Idle::default();
        idle.begins();
        assert_eq!(read(&mut idle, 5), []);
        let cap = (Cause::Cap, 1_000);
        idle.tell(device(&[cap], Some((100, Cause::Program))), 100);
        assert_eq!(read(&mut idle, 100), [(Cause::Cap, 0), (Cause::Program, 0)]);
        assert_eq!(
            read(&mut idle, 130),
            [(Cause::Cap, 0), (Cause::Program, 30)]
        );
        // Of these 30, 10 turn out to have been busy.
        idle.tell(
            device(&[(Cause::Cap, 1_007), (Cause::Program, 20)], None),
            130,
        );
        assert_eq!(
            read(&mut idle, 140),
            [(Cause::Cap, 7), (Cause::Program, 30)]
        );
        idle.tell(
            device(&[(Cause::Cap, 1_007), (Cause::Program, 36)], None),
            160,
        );
        assert_eq!(
            read(&mut idle, 160),
            [(Cause::Cap, 7), (Cause::Program, 36)]
        );
    }

    #[test]
    fn a_record_that_is_read_again_counts_nothing_twice() {
        let mut idle = Idle::default();
        idle.begins();
        idle.tell(device(&[(Cause::Hold, 50)], None), 0);
        idle.tell(device(&[(Cause::Hold, 60)], None), 0);
        assert_eq!(read(&mut idle, 0), [(Cause::Hold, 10)]);
        idle.begins();
        assert_eq!(read(&mut idle, 0), [(Cause::Hold, 10)]);
        idle.tell(device(&[(Cause::Hold, 65)], None), 0);
        assert_eq!(read(&mut idle, 0), [(Cause::Hold, 15)]);
        // 40 of its nanoseconds were cut off.
        idle.begins();
        idle.tell(device(&[(Cause::Hold, 25)], None), 0);
        idle.tell(device(&[(Cause::Hold, 28)], None), 0);
        assert_eq!(read(&mut idle, 0), [(Cause::Hold, 18)]);
    }
}
