//! Lost workers that are missed: the status names them until their devices are served again.

use bus_schemas::{GpuId, Incarnation, LostWorker};

use super::context::Context;
use super::event::{Missed, Placement};
use super::members::Member;
use super::term::Term;
use crate::time::Nanos;

/// Maximum number of missed workers in the placement.
const MISSED: usize = 256;
/// Maximum number of characters of a device's description in the placement.
const CHARACTERS: usize = 100;

/// The present time, nanoseconds since 1970.
fn since_1970(cx: &Context<'_>) -> Nanos {
    cx.config.clock_zero.saturating_add(cx.now)
}

impl Placement {
    /// Remembers that a worker announced that it leaves, or that it stays. Returns true if that is
    /// news.
    pub(super) fn announced(&mut self, worker: Incarnation, leaves: bool) -> bool {
        if self.leaving.contains(&worker) == leaves {
            return false;
        }
        match leaves {
            true => self.leaving.push(worker),
            false => self.leaving.retain(|other| *other != worker),
        }
        true
    }

    /// Notes that a worker obeys its leader on this device: none is missed there any more. Returns
    /// true if one was.
    pub(super) fn served(&mut self, gpu: Option<GpuId>) -> bool {
        let before = self.missed.len();
        self.missed.retain(|it| gpu.is_none() || it.gpu != gpu);
        self.missed.len() < before
    }

    /// Returns true if a worker beside this one is known on the device. It lives, or is declared
    /// lost itself.
    fn serves_beside(&self, worker: Incarnation, gpu: Option<GpuId>) -> bool {
        let mut others = self.gpus.iter().filter(|(other, _)| *other != worker);
        gpu.is_some_and(|gpu| others.any(|(_, known)| *known == gpu))
    }

    /// Remembers a missed worker, one of a device.
    fn miss(&mut self, missed: Missed) {
        let same = |it: &Missed| {
            let device = missed.gpu.is_some() && it.gpu == missed.gpu;
            device || it.incarnation == missed.incarnation
        };
        self.missed.retain(|it| !same(it));
        self.missed.push(missed);
        let surplus = self.missed.len().saturating_sub(MISSED);
        self.missed.drain(..surplus);
    }

    /// Returns true if this worker is missed.
    fn misses(&self, worker: Incarnation) -> bool {
        self.missed.iter().any(|it| it.incarnation == worker)
    }
}

impl Term {
    /// Notes a worker that is about to be declared lost. It is not missed if it said that it
    /// leaves, if an administrator drains it, or if another one serves its device.
    pub(super) fn miss(&mut self, worker: Incarnation, member: Option<&Member>, cx: &Context<'_>) {
        let view = self.scheduler.worker(worker);
        let said = member.is_some_and(|it| it.draining) || view.is_some_and(|it| it.draining);
        let placement = &mut self.placement;
        let meant = placement.leaving.contains(&worker) || placement.drained.contains(&worker);
        let gpu = placement.gpu(worker).or(member.map(|it| it.gpu));
        let joined = placement.workers.contains(&worker);
        if said || meant || !joined || placement.serves_beside(worker, gpu) {
            return;
        }
        let device: Option<String> = member.map(|it| it.device.chars().take(CHARACTERS).collect());
        placement.miss(Missed {
            incarnation: worker,
            gpu,
            device: device.unwrap_or_default(),
            at: since_1970(cx),
        });
    }

    /// Takes in what the previous leader wrote last, of workers that leave or are missed.
    pub(super) fn missed_read(&mut self, before: &Placement, now: &Placement, cx: &Context<'_>) {
        let placement = &mut self.placement;
        let mut changed = false;
        for worker in &now.leaving {
            changed |= placement.workers.contains(worker) && placement.announced(*worker, true);
        }
        for missed in &now.missed {
            let worker = missed.incarnation;
            let known = before.misses(worker) || placement.misses(worker);
            if !known && !placement.serves_beside(worker, missed.gpu) {
                placement.miss(missed.clone());
                changed = true;
            }
        }
        let found = |worker| before.misses(worker) && !now.misses(worker);
        let many = placement.missed.len();
        placement.missed.retain(|it| !found(it.incarnation));
        self.placement_changed |= changed || placement.missed.len() < many;
        self.date_missed(cx);
    }

    /// Dates the missed workers of earlier leaders. A clock of theirs may be ahead of ours.
    pub(super) fn date_missed(&mut self, cx: &Context<'_>) {
        let now = since_1970(cx);
        for missed in &mut self.placement.missed {
            missed.at = missed.at.min(now);
        }
    }

    /// Forgets the workers that have been missed for long.
    pub(super) fn forget_missed(&mut self, cx: &Context<'_>) {
        let (now, long) = (since_1970(cx), cx.config.missed);
        let missed = &mut self.placement.missed;
        let before = missed.len();
        missed.retain(|it| now < it.at.saturating_add(long));
        self.placement_changed |= missed.len() < before;
    }

    /// The missed workers, for a status.
    pub(super) fn missed(&self, cx: &Context<'_>) -> Vec<LostWorker> {
        let now = since_1970(cx);
        let missed = self.placement.missed.iter();
        let lost = missed.map(|it| LostWorker {
            incarnation: it.incarnation,
            gpu: it.gpu,
            device: it.device.clone(),
            lost_for_ns: now.saturating_sub(it.at),
        });
        lost.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(incarnation: u64, gpu: Option<GpuId>) -> Missed {
        Missed {
            incarnation: Incarnation(incarnation),
            gpu,
            device: String::new(),
            at: 5,
        }
    }

    #[test]
    fn a_device_misses_one_worker_and_none_once_it_is_served() {
        let mut placement = Placement::default();
        for (incarnation, gpu) in [(1, Some(0)), (2, Some(1)), (3, Some(0)), (4, None)] {
            placement.miss(missed(incarnation, gpu));
        }
        placement.miss(missed(4, None));
        let named = |placement: &Placement| -> Vec<u64> {
            let missed = placement.missed.iter();
            missed.map(|it| it.incarnation.0).collect()
        };
        assert_eq!(named(&placement), [2, 3, 4]);
        assert!(!placement.served(None), "no device is named");
        assert!(placement.served(Some(0)) && !placement.served(Some(0)));
        assert_eq!(named(&placement), [2, 4]);
        for incarnation in 100..1_000 {
            placement.miss(missed(incarnation, None));
        }
        assert_eq!(placement.missed.len(), MISSED);
        assert!(placement.misses(Incarnation(999)), "the latest are kept");
    }

    #[test]
    fn a_placement_names_who_leaves_and_who_is_missed_only_if_there_are_any() {
        let mut placement = Placement::default();
        let written = rmp_serde::to_vec_named(&placement).unwrap();
        let text = String::from_utf8_lossy(&written).into_owned();
        assert!(!text.contains("missed") && !text.contains("leaving"));
        let read: Placement = rmp_serde::from_slice(&written).unwrap();
        assert_eq!(read, placement);
        assert!(placement.announced(Incarnation(7), true));
        assert!(!placement.announced(Incarnation(7), true), "no news");
        placement.miss(missed(8, Some(1)));
        let written = rmp_serde::to_vec_named(&placement).unwrap();
        let read: Placement = rmp_serde::from_slice(&written).unwrap();
        assert_eq!(read, placement);
        assert!(placement.announced(Incarnation(7), false));
        assert!(placement.leaving.is_empty());
    }
}
