//! The plan of an exchange: which sessions leave memory for one that is to come, and whether it is
//! time.

use std::cmp::Reverse;

use super::super::budget::TICK_NS;
use crate::slots::SessionSlot;

/// A turn is so many times as long as the exchange that ends it takes.
pub(super) const TURN: u64 = 16;
/// Ticks that a turn lasts at least.
pub(super) const LEAST: u64 = 8;
/// Ticks that a turn lasts at least where a target ends it, and for which a session has no work before
/// one of its own priority takes its room.
pub(super) const BRIEF: u64 = 3;
/// Ticks without work after which a session makes room for one of a lower priority: a second.
pub(super) const IDLE: u64 = 100;
/// Nanoseconds that a mebibyte takes to move, before any was measured.
const PACE: u64 = 100_000;
const MIB: u128 = 1 << 20;

/// A session that is counted in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) slot: SessionSlot,
    pub(super) priority: u8,
    pub(super) bytes: u64,
    pub(super) pinned: bool,
    /// The tick since which it is there; of one that is still on its way there is none.
    pub(super) since: Option<u64>,
    /// The tick since which it has no work; of one that has work there is none.
    pub(super) idle: Option<u64>,
}

/// The session that is to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comer {
    pub(super) priority: u8,
    pub(super) bytes: u64,
    /// Bytes that must be freed for it.
    pub(super) lacks: u64,
}

/// Who leaves for it.
#[derive(Debug)]
pub(super) struct Exchange {
    priority: u8,
    seats: Vec<Seat>,
    /// Bytes that they free.
    pub(super) freed: u64,
    /// Ticks that the exchange takes, as estimated.
    ticks: u64,
    /// Ticks for which nothing is to move first.
    pub(super) turn: u64,
}

impl Seat {
    fn is_idle(&self, now: u64, ticks: u64) -> bool {
        self.idle
            .is_some_and(|since| now.saturating_sub(since) >= ticks)
    }

    /// Whether it may be made to leave for a session of a priority, at this or a later time.
    pub(super) fn may_leave(&self, now: u64, priority: u8) -> bool {
        let lower = self.priority > priority;
        match self.since {
            _ if self.pinned || (self.priority == 0 && priority > 0) => false,
            None => lower,
            Some(_) => self.priority >= priority || self.is_idle(now, IDLE),
        }
    }
}

impl Exchange {
    /// Those who leave for a session, no more than are needed; none where they would free too little.
    /// The first to leave are without work for long; then the lowest priority, in that those without
    /// work, then those that have been there longest.
    pub(super) fn plan(now: u64, seats: &[Seat], comer: Comer, pace: u64) -> Option<Self> {
        let may_leave = |seat: &&Seat| seat.bytes > 0 && seat.may_leave(now, comer.priority);
        let mut candidates: Vec<Seat> = seats.iter().filter(may_leave).copied().collect();
        candidates.sort_unstable_by_key(|seat| {
            let since = seat.idle.or(seat.since);
            let order = (Reverse(seat.priority), seat.idle.is_none(), since);
            (!seat.is_idle(now, IDLE), order, seat.slot)
        });
        let mut freed = 0u64;
        let needed = candidates.iter().position(|seat| {
            freed = freed.saturating_add(seat.bytes);
            freed >= comer.lacks
        })?;
        candidates.truncate(needed + 1);
        let mut leaving = Vec::with_capacity(candidates.len());
        for seat in candidates.into_iter().rev() {
            match freed.checked_sub(seat.bytes) {
                Some(rest) if rest >= comer.lacks => freed = rest,
                _ => leaving.push(seat),
            }
        }
        let ns = cost(freed, comer.bytes, pace);
        Some(Self {
            priority: comer.priority,
            seats: leaving,
            freed,
            ticks: ns.div_ceil(TICK_NS),
            turn: ns.saturating_mul(TURN).div_ceil(TICK_NS).max(LEAST),
        })
    }

    /// Whether it is time, `earned` ticks after which nothing moved. In a hurry a target ends turns.
    pub(super) fn is_due(&self, now: u64, earned: u64, in_a_hurry: bool) -> bool {
        self.seats.iter().all(|seat| {
            let been = seat.since.map_or(0, |since| now.saturating_sub(since));
            let rested = earned >= self.turn;
            match seat.priority.cmp(&self.priority) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal if in_a_hurry => been >= self.ticks.max(BRIEF),
                std::cmp::Ordering::Equal => {
                    let idle = seat.is_idle(now, self.ticks.max(BRIEF));
                    rested && (idle || been >= self.turn)
                }
                std::cmp::Ordering::Less => rested && seat.is_idle(now, self.ticks.max(IDLE)),
            }
        })
    }

    /// Who leaves.
    pub(super) fn leaving(&self) -> Vec<SessionSlot> {
        self.seats.iter().map(|seat| seat.slot).collect()
    }
}

/// Estimated nanoseconds of an exchange at a pace. What leaves comes back some time: where that is more
/// than what comes now, it counts in its place. So all exchanges together are counted in full.
fn cost(leaves: u64, comes: u64, pace: u64) -> u64 {
    let pace = if pace == 0 { PACE } else { pace };
    let bytes = u128::from(leaves) + u128::from(leaves.max(comes));
    // Above 64 bits it is for ever, as it is near that.
    let ns = bytes.saturating_mul(u128::from(pace)) / MIB;
    u64::try_from(ns).unwrap_or(u64::MAX)
}
