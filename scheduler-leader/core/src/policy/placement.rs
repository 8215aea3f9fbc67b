//! The choice of workers for a request's sessions: see "Placement" in `README.md` beside this file.

use std::cmp::Reverse;

use crate::slots::WorkerSlot;
use bus_schemas::{Code, GpuId, Incarnation};

/// Percent of a device's time that weighs as much as one session.
const SESSION_PERCENT: u8 = 25;
/// Differences in free memory below this fraction (1/16) of the device do not count.
const PARTS: u64 = 16;
/// Weights of fewer bytes do not count.
const WEIGHTS: u64 = 1 << 20;

/// A worker as placement sees it, for one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The worker's slot, for the answer.
    pub(crate) worker: WorkerSlot,
    /// True if it is there and takes new sessions.
    pub(crate) takes: bool,
    /// True if the tenant may use its group.
    pub(crate) in_group: bool,
    /// True if no other tenant has it exclusively.
    pub(crate) vacant: bool,
    /// True if the tenant may have addresses for one more session.
    pub(crate) within: bool,
    /// True if addresses for a session are left.
    pub(crate) addresses: bool,
    /// Bytes that sessions may hold together.
    pub(crate) capacity: u64,
    /// Bytes of them that no session holds.
    pub(crate) free: u64,
    /// Bytes of them that the tenant may want; 0 if it has not said.
    pub(crate) wanted: u64,
    /// Number of sessions.
    pub(crate) sessions: u64,
    /// Percent of the device's time that was granted recently, 0 to 100.
    pub(crate) busy: u8,
    /// Approximate bytes on it of weights that the tenant's programs use.
    pub(crate) weights: u64,
    /// True if it has images that the tenant uses.
    pub(crate) shares: bool,
    /// Its device.
    pub(crate) gpu: GpuId,
    /// Its incarnation.
    pub(crate) incarnation: Incarnation,
}

impl Candidate {
    /// The order of workers that could take the session: the lowest is chosen.
    fn cost(&self) -> impl Ord + use<> {
        let short = self.free < self.wanted;
        let load = self.sessions + u64::from(self.busy.min(100) / SESSION_PERCENT);
        let free = self.free / (self.capacity / PARTS).max(1);
        // Only a sample of the weights is known: twice as many bytes count for more, a few more do
        // not.
        let weights = (self.weights / WEIGHTS).checked_ilog2();
        (
            short,
            load,
            Reverse(weights),
            !self.shares,
            Reverse(free),
            self.gpu,
            self.incarnation,
        )
    }
}

/// A condition that a worker must fulfil, and the refusal if no worker does.
type Condition = (fn(&Candidate) -> bool, Code);

/// The conditions for a worker, in the order in which refusals are given.
const CONDITIONS: [Condition; 6] = [
    (|it| it.takes, Code::NoWorker),
    (|it| it.in_group, Code::NoGroup),
    (|it| it.vacant, Code::Occupied),
    (|it| it.within, Code::AddressLimit),
    (|it| it.addresses, Code::NoAddresses),
    (|it| it.free > 0, Code::MemoryFull),
];

/// Number of conditions that do not depend on free room: a worker that fulfils these is a device of
/// the tenant.
const LASTING: usize = 3;

/// Returns the workers that fulfil the first conditions, or the refusal of the condition that no
/// worker was left for.
fn fulfilling(mut workers: Vec<Candidate>, conditions: usize) -> Result<Vec<Candidate>, Code> {
    for (fulfils, refusal) in CONDITIONS.into_iter().take(conditions) {
        workers.retain(fulfils);
        if workers.is_empty() {
            return Err(refusal);
        }
    }
    Ok(workers)
}

/// Returns the workers on which sessions of the tenant may be placed, full or not, by device; or
/// the reason why there are none.
pub(crate) fn allowed(workers: Vec<Candidate>) -> Result<Vec<WorkerSlot>, Code> {
    let mut workers = fulfilling(workers, LASTING)?;
    workers.sort_unstable_by_key(|it| (it.gpu, it.incarnation));
    Ok(workers.iter().map(|it| it.worker).collect())
}

/// Returns the best workers, as many as devices are asked for, all different; or the refusal.
pub(crate) fn choose(workers: Vec<Candidate>, devices: usize) -> Result<Vec<WorkerSlot>, Code> {
    let mut workers = fulfilling(workers, CONDITIONS.len())?;
    if workers.len() < devices {
        return Err(Code::TooFewWorkers);
    }
    workers.sort_unstable_by_key(Candidate::cost);
    let chosen = workers.iter().take(devices);
    Ok(chosen.map(|it| it.worker).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slots::Slot;

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let likely = || proptest::bool::weighted(0.8);
        let conditions = proptest::array::uniform5(likely());
        let memory = (1..=64_u64, 0..=64_u64, 0..=64_u64);
        let load = (0..4_u64, 0..=100_u8, 0..3_u32);
        let shared = (0..6_u64, any::<bool>());
        let one = (conditions, memory, load, shared);
        proptest::collection::vec(one, 0..8).prop_map(|rows| {
            let rows = rows.into_iter().enumerate();
            let candidate =
                |(index, (conditions, memory, load, shared)): (usize, ([bool; 5], _, _, _))| {
                    let (capacity, free, wanted): (u64, u64, u64) = memory;
                    let (sessions, busy, gpu) = load;
                    let (weights, shares): (u64, bool) = shared;
                    Candidate {
                        worker: WorkerSlot::at(index),
                        takes: conditions[0],
                        in_group: conditions[1],
                        vacant: conditions[2],
                        within: conditions[3],
                        addresses: conditions[4],
                        capacity: capacity << 30,
                        free: free.min(capacity) << 30,
                        wanted: wanted << 30,
                        sessions,
                        busy,
                        weights: weights << 19,
                        shares,
                        gpu,
                        incarnation: Incarnation(index as u64 + 1),
                    }
                };
            rows.map(candidate).collect()
        })
    }

    fn could(it: &Candidate) -> bool {
        it.takes && it.in_group && it.vacant && it.within && it.addresses && it.free > 0
    }

    proptest! {
        #[test]
        fn all_or_nothing_on_different_workers_that_could(all in candidates(), devices in 1..4_usize) {
            let able = all.iter().filter(|it| could(it)).count();
            match choose(all.clone(), devices) {
                Ok(chosen) => {
                    prop_assert_eq!(chosen.len(), devices);
                    for (index, worker) in chosen.iter().enumerate() {
                        prop_assert!(could(&all[worker.index()]));
                        prop_assert!(!chosen[..index].contains(worker), "one device twice");
                    }
                }
                Err(code) => {
                    prop_assert!(able < devices, "refused although there are enough");
                    prop_assert_eq!(code == Code::TooFewWorkers, able > 0);
                }
            }
        }

        #[test]
        fn whatever_is_chosen_was_allowed_before(all in candidates(), devices in 1..4_usize) {
            match (allowed(all.clone()), choose(all.clone(), devices)) {
                (Ok(allowed), chosen) => {
                    let number = |slot: &WorkerSlot| (all[slot.index()].gpu, all[slot.index()].incarnation);
                    prop_assert!(allowed.is_sorted_by_key(number));
                    let may = |it: &&Candidate| it.takes && it.in_group && it.vacant;
                    prop_assert_eq!(allowed.len(), all.iter().filter(may).count());
                    let chosen = chosen.unwrap_or_default();
                    prop_assert!(chosen.iter().all(|it| allowed.contains(it)));
                }
                (Err(code), chosen) => prop_assert_eq!(chosen, Err(code)),
            }
        }

        #[test]
        fn a_refusal_names_what_the_last_worker_lacked(all in candidates()) {
            if let Err(code) = choose(all.clone(), 1) {
                let there = all.iter().filter(|it| it.takes);
                let grouped = there.clone().filter(|it| it.in_group);
                let vacant = grouped.clone().filter(|it| it.vacant);
                let within = vacant.clone().filter(|it| it.within);
                let addressed = within.clone().filter(|it| it.addresses);
                let counts = [there.count(), grouped.count(), vacant.count(), within.count(), addressed.count()];
                let codes = [
                    Code::NoWorker,
                    Code::NoGroup,
                    Code::Occupied,
                    Code::AddressLimit,
                    Code::NoAddresses,
                ];
                let first = counts.iter().position(|count| *count == 0);
                prop_assert_eq!(code, first.map_or(Code::MemoryFull, |at| codes[at]));
            }
        }

        #[test]
        fn nobody_better_is_passed_over(all in candidates(), devices in 1..4_usize) {
            let Ok(chosen) = choose(all.clone(), devices) else {
                return Ok(());
            };
            let others = all.iter().filter(|it| could(it) && !chosen.contains(&it.worker));
            for other in others {
                for worker in &chosen {
                    let one = &all[worker.index()];
                    let short = |it: &Candidate| it.free < it.wanted;
                    let load = |it: &Candidate| it.sessions + u64::from(it.busy / 25);
                    let sixteenths = |it: &Candidate| it.free / (it.capacity / 16);
                    // Half a MiB of weights counts as none, 1 MiB as some, 2 as more, and 2.5 as no
                    // more than 2.
                    let weights = |it: &Candidate| match it.weights >> 19 {
                        0 | 1 => 0,
                        2 | 3 => 1,
                        _ => 2,
                    };
                    // Room for the wanted bytes is first, then load, then shared images and
                    // weights, then memory.
                    prop_assert!(!short(one) || short(other));
                    if short(one) == short(other) {
                        prop_assert!(load(one) <= load(other));
                        if load(one) == load(other) {
                            let shared = |it| (weights(it), it.shares);
                            prop_assert!(shared(one) >= shared(other));
                            if shared(one) == shared(other) {
                                prop_assert!(sixteenths(one) >= sixteenths(other));
                            }
                        }
                    }
                }
            }
        }

        #[test]
        fn it_matters_not_in_which_order_workers_are_known(
            all in candidates(),
            devices in 1..4_usize,
            turn in 0..8_usize,
        ) {
            let mut turned = all.clone();
            turned.rotate_left(turn.min(all.len()));
            prop_assert_eq!(choose(turned, devices), choose(all, devices));
        }
    }
}
