//! The plan of an exchange: the sessions that leave memory for one that returns, and the time for
//! it.

use std::cmp::{Ordering, Reverse};

use super::super::budget::TICK_NS;
use crate::slots::SessionSlot;

/// A turn lasts this many times as long as the exchange that ends it.
pub(super) const TURN: u64 = 16;
/// Minimum ticks of a turn.
pub(super) const LEAST: u64 = 8;
/// Minimum ticks of a turn that a target ends. Also the ticks that a session has no work before one
/// of its own priority takes its room.
pub(super) const BRIEF: u64 = 3;
/// Ticks without work after which a session makes room for one of a lower priority: one second.
pub(super) const IDLE: u64 = 100;
/// Nanoseconds that a mebibyte takes to move, before the first measurement.
const PACE: u64 = 100_000;
const MIB: u128 = 1 << 20;

/// A session that counts as in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) slot: SessionSlot,
    pub(super) priority: u8,
    pub(super) bytes: u64,
    pub(super) pinned: bool,
    /// The tick at which it arrived; `None` while it is on its way.
    pub(super) since: Option<u64>,
    /// The tick at which its work ended; `None` while it has work.
    pub(super) idle: Option<u64>,
}

/// The session that returns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comer {
    pub(super) priority: u8,
    pub(super) bytes: u64,
    /// Bytes that must be freed for it.
    pub(super) lacks: u64,
}

/// The sessions that leave for it.
#[derive(Debug)]
pub(super) struct Exchange {
    priority: u8,
    seats: Vec<Seat>,
    /// Bytes that they free.
    pub(super) freed: u64,
    /// Estimated ticks that the exchange takes.
    ticks: u64,
    /// Ticks in which no memory may move before the exchange.
    pub(super) turn: u64,
}

impl Seat {
    fn is_idle(&self, now: u64, ticks: u64) -> bool {
        self.idle
            .is_some_and(|since| now.saturating_sub(since) >= ticks)
    }

    /// Returns true if it may be made to leave for a session of this priority, now or later.
    pub(super) fn may_leave(&self, now: u64, priority: u8) -> bool {
        match self.since {
            _ if self.pinned || (self.priority == 0 && priority > 0) => false,
            None => self.priority >= priority,
            Some(_) => self.priority >= priority || self.is_idle(now, IDLE),
        }
    }
}

impl Exchange {
    /// Plans the sessions that leave for another; `None` if they would free too little. They are
    /// those that its worker swaps out once all their granted work has run. Among sessions with
    /// nothing to run, the lowest priority comes first, and within it the longest idle.
    pub(super) fn plan(now: u64, seats: &[Seat], comer: Comer, pace: u64) -> Option<Self> {
        let may_leave = |seat: &&Seat| seat.bytes > 0 && seat.may_leave(now, comer.priority);
        let candidates = seats.iter().filter(may_leave).copied();
        let (mut leaving, mut busy): (Vec<Seat>, Vec<Seat>) =
            candidates.partition(|seat| seat.idle.is_some());
        busy.sort_unstable_by_key(|seat| (Reverse(seat.priority), seat.since, seat.slot));
        let idle = sum(&leaving);
        leaving.extend(needed(busy, comer.lacks.saturating_sub(idle))?);
        leaving.sort_unstable_by_key(|seat| {
            let since = seat.idle.or(seat.since);
            (
                Reverse(seat.priority),
                seat.idle.is_none(),
                since,
                seat.slot,
            )
        });
        let leaving = first(leaving, comer.lacks)?;
        let freed = sum(&leaving);
        let ns = cost(freed, comer.bytes, pace);
        Some(Self {
            priority: comer.priority,
            seats: leaving,
            freed,
            ticks: ns.div_ceil(TICK_NS),
            turn: ns.saturating_mul(TURN).div_ceil(TICK_NS).max(LEAST),
        })
    }

    /// Returns true if the exchange is due, after `earned` ticks without a move. With `in_a_hurry`,
    /// a target ends turns.
    pub(super) fn is_due(&self, now: u64, earned: u64, in_a_hurry: bool) -> bool {
        self.seats.iter().all(|seat| {
            let rested = earned >= self.turn;
            let order = seat.priority.cmp(&self.priority);
            let Some(since) = seat.since else {
                // The session has not arrived yet.
                return order.is_gt();
            };
            let been = now.saturating_sub(since);
            match order {
                Ordering::Greater => true,
                Ordering::Equal if in_a_hurry => been >= self.ticks.max(BRIEF),
                Ordering::Equal => {
                    let idle = seat.is_idle(now, self.ticks.max(BRIEF));
                    rested && (idle || been >= self.turn)
                }
                Ordering::Less => rested && seat.is_idle(now, self.ticks.max(IDLE)),
            }
        })
    }

    /// The sessions that leave.
    pub(super) fn leaving(&self) -> Vec<SessionSlot> {
        self.seats.iter().map(|seat| seat.slot).collect()
    }
}

fn sum(seats: &[Seat]) -> u64 {
    let bytes = seats.iter().map(|seat| seat.bytes);
    bytes.fold(0, u64::saturating_add)
}

/// The first of these sessions that together free enough bytes; `None` if even all free too few.
fn first(mut seats: Vec<Seat>, lacks: u64) -> Option<Vec<Seat>> {
    let mut freed = 0u64;
    let enough = seats.iter().take_while(|seat| {
        let more = freed < lacks;
        freed = freed.saturating_add(if more { seat.bytes } else { 0 });
        more
    });
    let enough = enough.count();
    seats.truncate(enough);
    (freed >= lacks).then_some(seats)
}

/// The first of these sessions that together free enough bytes, without those that are not needed.
fn needed(seats: Vec<Seat>, lacks: u64) -> Option<Vec<Seat>> {
    let mut seats = first(seats, lacks)?;
    let mut freed = sum(&seats);
    for at in (0..seats.len()).rev() {
        let rest = seats
            .get(at)
            .map_or(0, |seat| freed.saturating_sub(seat.bytes));
        if rest >= lacks {
            seats.remove(at);
            freed = rest;
        }
    }
    Some(seats)
}

/// Estimated nanoseconds of an exchange at a pace. The leaving memory comes back later: if it is
/// more than the returning memory, it counts instead. So all exchanges together are counted in
/// full.
fn cost(leaves: u64, comes: u64, pace: u64) -> u64 {
    let pace = if pace == 0 { PACE } else { pace };
    let bytes = u128::from(leaves) + u128::from(leaves.max(comes));
    // A time above 64 bits counts as the maximum.
    let ns = bytes.saturating_mul(u128::from(pace)) / MIB;
    u64::try_from(ns).unwrap_or(u64::MAX)
}
