//! Modelled devices: the kernels that run, their speeds and their ends.

use crate::workload::Kernel;
use sim_cluster::Nanos;

/// Sharing of the device by kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// One kernel at a time, to its end.
    Serial,
    /// Kernels of different tenants run at the same time; see [`INTERFERENCE`].
    Overlapping,
}

/// The rule by which kernels slow one another on [`DeviceKind::Overlapping`], for the tables.
pub const INTERFERENCE: &str = "\
each kernel asks for a part of the arithmetic and of the memory's bandwidth; where the running \
kernels together ask for more than there is of one, every kernel that uses it is slowed by that \
factor, and by the greater of the two. A tenant's own kernels never overlap, and the launch gap is \
of its stream, not of the device. Sources: the compute and memory profiles by which Strati et al., \
Orion, EuroSys 2024, decide what may overlap; Elvinger et al., Understanding GPU Resource \
Interference One Level Deeper, SoCC 2025, on contention for compute units and bandwidth";

/// Maximum number of kernels that run at a time on an overlapping device: its hardware queues.
const QUEUES: usize = 32;

/// A kernel's launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Index of the tenant.
    pub tenant: u32,
    /// Its request.
    pub request: u64,
    /// Index of the kernel in the request.
    pub index: u32,
    /// The kernel.
    pub kernel: Kernel,
    /// Time at which it was called.
    pub ready: Nanos,
}

#[derive(Debug)]
struct Running {
    launch: Launch,
    gap: f64,
    work: f64,
    began: Nanos,
}

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    kind: DeviceKind,
    gap: Nanos,
    running: Vec<Running>,
    at: Nanos,
    counted: (Nanos, Nanos),
    active: Nanos,
}

impl Device {
    /// Makes an idle device that counts its time in `from ..= to`.
    pub(crate) fn new(kind: DeviceKind, gap: Nanos, from: Nanos, to: Nanos) -> Self {
        Self {
            kind,
            gap,
            running: Vec::new(),
            at: 0,
            counted: (from, to),
            active: 0,
        }
    }

    /// True if another kernel can begin.
    pub(crate) fn has_room(&self) -> bool {
        match self.kind {
            DeviceKind::Serial => self.running.is_empty(),
            DeviceKind::Overlapping => self.running.len() < QUEUES,
        }
    }

    /// True if a kernel of this tenant runs, so that its next one must wait.
    pub(crate) fn runs(&self, tenant: u32) -> bool {
        self.running.iter().any(|run| run.launch.tenant == tenant)
    }

    /// The running launches.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Launch> {
        self.running.iter().map(|run| &run.launch)
    }

    /// Begins a kernel.
    pub(crate) fn start(&mut self, now: Nanos, launch: Launch) {
        self.advance(now);
        debug_assert!(self.has_room() && !self.runs(launch.tenant), "no room");
        self.running.push(Running {
            launch,
            gap: self.gap as f64,
            work: launch.kernel.ns as f64,
            began: now,
        });
    }

    /// Nanoseconds of work that a kernel does in one, given the kernels beside it.
    fn rates(&self) -> impl Fn(&Kernel) -> f64 + use<> {
        let sum = |part: fn(&Kernel) -> u8| -> f64 {
            let working = self.running.iter().filter(|run| run.gap <= 0.0);
            let parts = working.map(|run| f64::from(part(&run.launch.kernel)));
            (parts.sum::<f64>() / 100.0).max(1.0)
        };
        let (compute, memory) = (sum(|kernel| kernel.compute), sum(|kernel| kernel.memory));
        move |kernel| {
            let slow = |uses: u8, by: f64| if uses > 0 { by } else { 1.0 };
            let slowest = slow(kernel.compute, compute).max(slow(kernel.memory, memory));
            1.0 / slowest
        }
    }

    /// Time of the next change: a kernel ends, or begins to work.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        let in_ns = |run: &Running, rate: f64| (run.gap + run.work / rate).ceil() as Nanos;
        match &self.running[..] {
            [] => None,
            // A kernel alone is not slowed down.
            [alone] => Some(self.at + in_ns(alone, 1.0)),
            several => {
                let rates = self.rates();
                let left = several.iter().map(|run| match run.gap > 0.0 {
                    true => run.gap.ceil() as Nanos,
                    false => in_ns(run, rates(&run.launch.kernel)),
                });
                left.min().map(|left| self.at + left)
            }
        }
    }

    /// Advances the time, at most to [`Device::next_at`].
    pub(crate) fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.at);
        if passed == 0 {
            return;
        }
        if !self.running.is_empty() {
            let (from, to) = self.counted;
            let counted = now.clamp(from, to) - self.at.clamp(from, to);
            self.active += counted;
            let alone = self.running.len() == 1;
            let rates = self.rates();
            for run in &mut self.running {
                let gap = run.gap.min(passed as f64);
                run.gap -= gap;
                let rate = if alone {
                    1.0
                } else {
                    rates(&run.launch.kernel)
                };
                run.work -= (passed as f64 - gap) * rate;
            }
        }
        self.at = now;
    }

    /// Takes a kernel that has ended by now. Returns it with the time at which it began.
    pub(crate) fn finished(&mut self) -> Option<(Launch, Nanos)> {
        let done = |run: &Running| run.gap <= 0.0 && run.work <= 1e-6;
        let index = self.running.iter().position(done)?;
        let run = self.running.remove(index);
        Some((run.launch, run.began))
    }

    /// Counted time in which a kernel ran.
    pub(crate) fn active(&self) -> Nanos {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(tenant: u32, ns: u64, compute: u8, memory: u8) -> Launch {
        Launch {
            tenant,
            request: 1,
            index: 0,
            kernel: Kernel {
                ns,
                compute,
                memory,
            },
            ready: 0,
        }
    }

    fn ends(kind: DeviceKind, launches: &[Launch]) -> Vec<(u32, Nanos)> {
        let mut device = Device::new(kind, 10, 0, 1_000_000);
        launches.iter().for_each(|launch| device.start(0, *launch));
        let mut ends = Vec::new();
        while let Some(at) = device.next_at() {
            device.advance(at);
            while let Some((launch, _)) = device.finished() {
                ends.push((launch.tenant, at));
            }
        }
        assert_eq!(device.active(), ends.last().map_or(0, |(_, at)| *at));
        ends
    }

    #[test]
    fn a_kernel_takes_its_gap_and_its_time() {
        let one = [launch(0, 100, 100, 100)];
        assert_eq!(ends(DeviceKind::Serial, &one), [(0, 110)]);
        assert_eq!(ends(DeviceKind::Overlapping, &one), [(0, 110)]);
    }

    #[test]
    fn what_fits_beside_one_another_is_not_slowed() {
        let two = [launch(0, 100, 70, 20), launch(1, 200, 30, 60)];
        assert_eq!(ends(DeviceKind::Overlapping, &two), [(0, 110), (1, 210)]);
    }

    #[test]
    fn what_does_not_fit_is_slowed_until_one_has_ended() {
        // Both ask for 150 % of the arithmetic: 2/3 of the speed until the first has ended.
        let two = [launch(0, 100, 75, 0), launch(1, 200, 75, 0)];
        assert_eq!(ends(DeviceKind::Overlapping, &two), [(0, 160), (1, 260)]);
        // A kernel that does not use the scarce resource is not slowed down.
        let three = [two[0], two[1], launch(2, 100, 0, 90)];
        assert_eq!(ends(DeviceKind::Overlapping, &three)[0], (2, 110));
    }
}
