//! One GPU's flows by priority: the next flow, and the room in the window.

use super::heap::{Entry, TagHeap};
use crate::by_priority::ByPriority;
use crate::slots::{Arena, FlowSlot};

/// Maximum number of flows that are read ahead of their turns.
pub(crate) const FETCHED: usize = 8;
/// The whole, in percent.
const WHOLE: u64 = 100;

/// Flows that are eligible on one GPU, and work that was granted there and is not done.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    flows: ByPriority<TagHeap<FlowSlot>>,
    /// The start tag of the last flow granted, by priority.
    now: ByPriority<u128>,
    outstanding: ByPriority<u64>,
    /// Work that each floor is behind, in hundredths of a nanosecond.
    owed: ByPriority<u64>,
    /// Flows that have work and are set aside for a target.
    aside: ByPriority<u32>,
}

/// The flow that is next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    /// The flow's priority.
    pub(crate) priority: u8,
    /// The priority at which it is granted: the highest with work, even for a flow that goes by its
    /// floor.
    pub(crate) urgency: u8,
    /// True if the floor of its priority has earned its slice.
    pub(crate) owed: bool,
    /// The flow.
    pub(crate) first: Entry<FlowSlot>,
}

impl Lanes {
    /// The virtual time of a priority: the start of flows that join it.
    pub(crate) fn now(&self, priority: u8) -> u128 {
        self.now[priority]
    }

    /// Charged work granted and not done, by priority.
    pub(crate) fn outstanding(&self) -> [u64; 5] {
        *self.outstanding.values()
    }

    /// Reads ahead the fields that a grant needs.
    pub(crate) fn fetch(&self) -> u64 {
        let entries = self.entries().map(|entry| u64::from(entry.id));
        let own = self.outstanding[0] ^ self.owed[0] ^ self.now[0] as u64;
        entries.take(FETCHED).fold(own, |seen, id| seen ^ id)
    }

    /// Work that each floor is behind, nanoseconds.
    pub(crate) fn owed(&self) -> [u64; 5] {
        self.owed.values().map(|hundredths| hundredths / WHOLE)
    }

    /// The heap of a priority.
    pub(crate) fn flows(&mut self, priority: u8) -> &mut TagHeap<FlowSlot> {
        &mut self.flows[priority]
    }

    /// The flows, the highest priority first; within a priority, approximately in their order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<FlowSlot>> {
        self.flows.values().iter().flat_map(TagHeap::entries)
    }

    /// The next flow: the first of the highest priority that is owed its floor, else of the highest
    /// priority with work. `cost` returns the cost of a flow's next slice.
    pub(crate) fn first(&self, floors: &[u8; 5], cost: impl Fn(FlowSlot) -> u64) -> Option<Next> {
        let firsts = || {
            let lanes = self.flows.iter();
            lanes.filter_map(|(lane, heap)| Some((lane, *heap.first()?)))
        };
        let is_owed =
            |(lane, first): &(u8, Entry<FlowSlot>)| self.is_owed(floors, *lane, cost(first.id));
        let strict = firsts().next()?;
        let owed = match floors {
            [0, 0, 0, 0, 0] => None,
            _ => firsts().find(is_owed),
        };
        let (lane, first) = owed.unwrap_or(strict);
        Some(Next {
            priority: lane,
            urgency: strict.0,
            owed: owed.is_some(),
            first,
        })
    }

    /// Returns true if the floor of a priority has earned a slice of this cost.
    pub(crate) fn is_owed(&self, floors: &[u8; 5], priority: u8, cost: u64) -> bool {
        let floor = floors.get(usize::from(priority));
        floor.is_some_and(|floor| *floor > 0) && self.owed[priority] >= cost.saturating_mul(WHOLE)
    }

    /// Notes that a flow of a priority left its heap for a target, though it has work.
    pub(crate) fn set_aside(&mut self, priority: u8) {
        self.aside[priority] += 1;
    }

    /// Notes that such a flow is set aside no more.
    pub(crate) fn put_back(&mut self, priority: u8) {
        let aside = &mut self.aside[priority];
        *aside = aside.saturating_sub(1);
    }

    /// Returns true if the window has room for a slice of this cost and priority.
    pub(crate) fn has_room(&self, window: u64, priority: u8, cost: u64) -> bool {
        let above = self.outstanding.through(priority);
        let sum = above.fold(0u64, |sum, ns| sum.saturating_add(*ns));
        sum == 0 || sum.saturating_add(cost) <= window
    }

    /// Returns true if the last grant, of a slice of this cost, kept to the window.
    pub(crate) fn is_within(&self, window: u64, priority: u8, cost: u64) -> bool {
        let above = self.outstanding.through(priority);
        let sum = above.fold(0u64, |sum, ns| sum.saturating_add(*ns));
        sum <= window || sum == cost
    }

    /// Notes a grant of the first flow of its priority, before the tag of the flow is raised.
    pub(crate) fn granted(&mut self, floors: &[u8; 5], priority: u8, tag: u128, cost: u64) {
        self.now[priority] = tag;
        self.charge(priority, cost);
        if *floors == [0; 5] {
            return;
        }
        for (lane, floor) in (0..).zip(floors) {
            if self.flows[lane].is_empty() && self.aside[lane] == 0 {
                self.owed[lane] = 0;
                continue;
            }
            let earned = cost.saturating_mul(u64::from((*floor).min(100)));
            self.owed[lane] = self.owed[lane].saturating_add(earned);
        }
        self.owed[priority] = self.owed[priority].saturating_sub(cost.saturating_mul(WHOLE));
    }

    /// Counts work as granted and not done.
    pub(crate) fn charge(&mut self, priority: u8, cost: u64) {
        let outstanding = &mut self.outstanding[priority];
        *outstanding = outstanding.saturating_add(cost);
    }

    /// Counts work as done.
    pub(crate) fn discharge(&mut self, priority: u8, cost: u64) {
        let outstanding = &mut self.outstanding[priority];
        *outstanding = outstanding.saturating_sub(cost);
    }

    /// Takes all flows out.
    pub(crate) fn clear(&mut self, places: &mut Arena<FlowSlot, u32>) {
        let heaps = self.flows.values_mut();
        heaps.iter_mut().for_each(|heap| heap.clear(places));
    }
}
