//! Turns: the choice of the sessions that are in memory on a worker that cannot hold all at once.
//! See "Memory" in `README.md` beside this file.

mod decided;
mod exchange;
mod member;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bus_schemas::{Place as Reported, SessionResidency};

use crate::slots::SessionSlot;
pub(crate) use decided::Activity;
use decided::Decided;
use exchange::{Comer, Exchange, Seat};
pub(crate) use member::Work;
use member::{Member, Place};

/// Number of turns without an exchange that may be saved for the exchanges after the next.
const SAVED: u64 = 2;

/// The properties of a session's tenant that decide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank {
    /// Its priority.
    pub(crate) priority: u8,
    /// Ticks of waiting after which its target ends the turns of others, if it has a target.
    pub(crate) patience: Option<u64>,
}

/// Sessions that leave memory, and the session that returns instead.
#[derive(Debug)]
struct Move {
    leaving: Vec<SessionSlot>,
    /// `None` if they make room for a session that is already on its way.
    returning: Option<SessionSlot>,
}

/// The sessions of one worker that together do not fit into memory.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    capacity: u64,
    /// Nanoseconds that a mebibyte takes to move.
    pace: u64,
    members: BTreeMap<SessionSlot, Member>,
    decided: Vec<Decided>,
    /// Number of sessions that wait.
    waiting: u32,
    /// Number of sessions on their way.
    coming: u32,
    /// Number in the line of the last session that began to wait.
    line: u64,
    /// Ticks up to `earned_at` in which nothing moved: the budget of the next exchanges.
    earned: u64,
    earned_at: u64,
    /// True if something changed since [`Self::next`] found nothing to do.
    changed: bool,
}

impl Turns {
    /// Turns without sessions, on a device with this many bytes for sessions.
    pub(crate) fn new(now: u64, capacity: u64) -> Self {
        Self {
            capacity,
            earned_at: now,
            ..Self::default()
        }
    }

    /// Returns true if no session is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Sessions that wait for memory, those on their way included.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting + self.coming
    }

    /// The sessions that are known.
    pub(crate) fn members(&self) -> Vec<SessionSlot> {
        self.members.keys().copied().collect()
    }

    /// Returns true if a session may be granted nothing before it has returned.
    pub(crate) fn is_away(&self, slot: SessionSlot) -> bool {
        let member = self.members.get(&slot);
        member.is_some_and(|member| !matches!(member.place, Place::There { .. }))
    }

    /// Returns true if a session waits for memory.
    pub(crate) fn is_waiting(&self, slot: SessionSlot) -> bool {
        let member = self.members.get(&slot);
        member.is_some_and(|member| matches!(member.place, Place::Waiting { .. }))
    }

    /// Notes that the first session in the line may have changed.
    pub(crate) fn look_again(&mut self) {
        self.changed = true;
    }

    /// Takes in the worker's report of what its sessions hold and where. The flag of each session
    /// is true if a return of it was granted and is not reported.
    pub(crate) fn report(
        &mut self,
        now: u64,
        pace: u64,
        rows: &BTreeMap<SessionSlot, (SessionResidency, bool)>,
    ) {
        self.settle(now);
        self.pace = pace;
        for (slot, (row, asked)) in rows {
            self.take(now, *slot, row, *asked);
        }
        for slot in self.members() {
            if !rows.contains_key(&slot) {
                self.unlist(slot);
            }
        }
        self.changed = true;
    }

    fn take(&mut self, now: u64, slot: SessionSlot, row: &SessionResidency, asked: bool) {
        let out = matches!(row.place, Reported::Out | Reported::Leaving);
        let mut is_new = false;
        self.members.entry(slot).or_insert_with(|| {
            is_new = true;
            Member::new(now, asked)
        });
        if is_new && asked {
            self.put(slot, Place::Coming);
        }
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        (member.bytes, member.pinned, member.out) = (row.bytes, row.pinned, out);
        member.listed = true;
        if out && matches!(member.place, Place::There { .. }) {
            self.put(slot, Place::Away);
        }
    }

    /// Notes that a session's memory fits, or is small, and that its worker reports its place no
    /// more. The session returns once, which takes no time if its memory is there. Then it needs no
    /// more turns.
    fn unlist(&mut self, slot: SessionSlot) {
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        (member.bytes, member.pinned, member.out, member.listed) = (0, false, true, false);
        if matches!(member.place, Place::There { .. }) {
            self.put(slot, Place::Away);
        }
    }

    /// Notes the work of a session. If its worker took it out, work that is granted already waits
    /// too.
    pub(crate) fn note(&mut self, now: u64, slot: SessionSlot, work: Work) {
        let Work {
            busy,
            ready,
            granted,
            suspended,
        } = work;
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        member.idle = match busy {
            true => None,
            false => member.idle.or(Some(now)),
        };
        member.granted = granted;
        let wants = ready || (busy && member.out);
        match member.place {
            Place::Away if wants => {
                self.line += 1;
                let number = self.line;
                self.put(slot, Place::Waiting { number, since: now });
            }
            Place::Waiting { .. } if !wants => self.put(slot, Place::Away),
            Place::Coming if suspended && !wants && !member.asked => self.withdraw(now, slot),
            _ => {}
        }
    }

    /// Withdraws a return that was decided: its room goes to other sessions.
    fn withdraw(&mut self, now: u64, slot: SessionSlot) {
        self.settle(now);
        self.put(slot, Place::Away);
        self.decided.retain(|it| it.returning != slot);
        self.changed = true;
    }

    /// Notes that the return of a session has ended, with its memory there or not.
    pub(crate) fn returned(&mut self, now: u64, slot: SessionSlot, there: bool) {
        self.settle(now);
        self.changed = true;
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        member.asked = false;
        if there {
            member.out = false;
        }
        if there && !member.listed && member.place == Place::Coming {
            return self.remove(now, slot);
        }
        if member.place == Place::Coming {
            let place = match there {
                true => Place::There { since: now },
                false => Place::Away,
            };
            self.put(slot, place);
        }
    }

    /// Removes a session that has ended or that needs no more turns.
    pub(crate) fn remove(&mut self, now: u64, slot: SessionSlot) {
        if self.members.contains_key(&slot) {
            self.settle(now);
            self.put(slot, Place::Away);
            self.members.remove(&slot);
            self.decided.retain(|it| it.returning != slot);
            for it in &mut self.decided {
                it.leaving.retain(|leaving| *leaving != slot);
            }
            self.changed = true;
        }
    }

    /// Decides which session returns next, if any, and gives the sessions that leave memory for it.
    /// These are granted nothing more. The caller asks again until no session is to return.
    pub(crate) fn next(
        &mut self,
        now: u64,
        rank: impl Fn(SessionSlot) -> Rank,
    ) -> Option<Vec<SessionSlot>> {
        if !self.changed || self.waiting + self.coming == 0 {
            return None;
        }
        self.settle(now);
        let seats = self.seats(&rank);
        let held = seats
            .iter()
            .fold(0u64, |sum, seat| sum.saturating_add(seat.bytes));
        let next = match self.make_room(now, &seats, held) {
            None => self.admit(now, &seats, held, &rank),
            made => made,
        };
        self.changed = next.is_some();
        let next = next?;
        for slot in &next.leaving {
            self.put(*slot, Place::Away);
            self.decided.retain(|it| it.returning != *slot);
        }
        if let Some(returning) = next.returning {
            self.put(returning, Place::Coming);
            let leaving = next.leaving.clone();
            self.decided.push(Decided {
                returning,
                leaving,
                since: now,
            });
        }
        Some(next.leaving)
    }

    /// Takes a session with a return that is to be granted now.
    pub(crate) fn ready(
        &mut self,
        now: u64,
        activity: impl Fn(SessionSlot) -> Activity,
    ) -> Option<SessionSlot> {
        let members = &self.members;
        let mut decided = self.decided.iter();
        let at = decided.position(|it| it.is_ready(now, members, &activity))?;
        let slot = self.decided.remove(at).returning;
        if let Some(member) = self.members.get_mut(&slot) {
            member.asked = true;
        }
        Some(slot)
    }

    /// The sessions that leave because a session on its way has no room any more: others have
    /// grown.
    fn make_room(&mut self, now: u64, seats: &[Seat], held: u64) -> Option<Move> {
        let lacks = held.saturating_sub(self.capacity);
        let (coming, there): (Vec<Seat>, Vec<Seat>) =
            seats.iter().partition(|seat| seat.since.is_none());
        let comer = coming.first().filter(|_| lacks > 0)?;
        let comer = Comer {
            priority: comer.priority,
            bytes: comer.bytes,
            lacks,
        };
        let exchange = Exchange::plan(now, &there, comer, self.pace)?;
        self.spend(exchange.turn);
        Some(Move {
            leaving: exchange.leaving(),
            returning: None,
        })
    }

    /// The first in the line that has room, or for which others leave now.
    fn admit(
        &mut self,
        now: u64,
        seats: &[Seat],
        held: u64,
        rank: &impl Fn(SessionSlot) -> Rank,
    ) -> Option<Move> {
        let line = self.line(rank);
        let first_coming = seats.iter().filter(|seat| seat.since.is_none());
        let first_coming = first_coming.map(|seat| seat.priority).min();
        // Bytes that the first in the line will leave free once the turn that it waits for ends.
        let mut spare = None;
        for waiter in &line {
            let lacks = held.saturating_add(waiter.bytes);
            let lacks = lacks.saturating_sub(self.capacity);
            let delays = spare.is_some_and(|spare| waiter.bytes > spare || self.coming > 0);
            if lacks == 0 && !delays {
                return Some(Move {
                    leaving: Vec::new(),
                    returning: Some(waiter.slot),
                });
            }
            if spare.is_some() {
                continue;
            }
            let priority = waiter.rank.priority;
            let comer = Comer {
                priority,
                bytes: waiter.bytes,
                lacks,
            };
            // A session that could not come at any time delays no other session.
            let movable = seats.iter().filter(|seat| seat.may_leave(now, priority));
            let movable = movable.fold(0u64, |sum, seat| sum.saturating_add(seat.bytes));
            if lacks == 0 || movable < lacks {
                continue;
            }
            let Some(exchange) = Exchange::plan(now, seats, comer, self.pace) else {
                continue;
            };
            let alone = first_coming.is_none_or(|coming| coming > priority);
            let in_a_hurry = line.iter().any(|it| it.is_in_a_hurry(now, priority));
            if alone && exchange.is_due(now, self.earned, in_a_hurry) {
                self.spend(exchange.turn);
                return Some(Move {
                    leaving: exchange.leaving(),
                    returning: Some(waiter.slot),
                });
            }
            let left = held.saturating_sub(exchange.freed);
            let left = left.saturating_add(waiter.bytes);
            spare = Some(self.capacity.saturating_sub(left));
        }
        None
    }

    /// The waiting sessions, in the order of the line.
    fn line(&self, rank: &impl Fn(SessionSlot) -> Rank) -> Vec<Waiter> {
        let members = self.members.iter().filter(|(_, member)| !member.asked);
        let waiters = members.filter_map(|(slot, member)| match member.place {
            Place::Waiting { number, since } => Some(Waiter {
                slot: *slot,
                rank: rank(*slot),
                // No session needs more than the device has.
                bytes: member.bytes.min(self.capacity),
                stuck: member.out && member.granted,
                number,
                since,
            }),
            _ => None,
        });
        let mut line: Vec<_> = waiters.collect();
        line.sort_unstable_by_key(|it| (it.rank.priority, !it.stuck, it.number));
        line
    }

    /// The sessions that count as in memory.
    fn seats(&self, rank: &impl Fn(SessionSlot) -> Rank) -> Vec<Seat> {
        let seats = self.members.iter().filter_map(|(slot, member)| {
            let since = match member.place {
                Place::There { since } => Some(since),
                Place::Coming => None,
                Place::Away | Place::Waiting { .. } => return None,
            };
            Some(Seat {
                slot: *slot,
                priority: rank(*slot).priority,
                bytes: member.bytes,
                pinned: member.pinned,
                since,
                idle: member.idle,
            })
        });
        seats.collect()
    }

    /// Takes from the earned ticks those of an exchange that begins.
    fn spend(&mut self, turn: u64) {
        let rest = self.earned.saturating_sub(turn);
        self.earned = rest.min(turn.saturating_mul(SAVED));
    }

    /// Counts the ticks since something changed, unless memory moved.
    fn settle(&mut self, now: u64) {
        let passed = now.saturating_sub(self.earned_at);
        self.earned_at = now;
        if self.coming == 0 {
            self.earned = self.earned.saturating_add(passed);
        }
    }

    fn put(&mut self, slot: SessionSlot, place: Place) {
        let Some(member) = self.members.get_mut(&slot) else {
            return;
        };
        let before = std::mem::replace(&mut member.place, place);
        self.coming -= u32::from(before == Place::Coming);
        self.coming += u32::from(place == Place::Coming);
        self.waiting -= u32::from(matches!(before, Place::Waiting { .. }));
        self.waiting += u32::from(matches!(place, Place::Waiting { .. }));
        self.changed |= matches!(place, Place::Waiting { .. });
    }
}

/// A session that waits for memory.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    slot: SessionSlot,
    rank: Rank,
    bytes: u64,
    /// True if its worker took it out while work of it was granted: other sessions wait for that
    /// work too.
    stuck: bool,
    number: u64,
    since: u64,
}

impl Waiter {
    /// Returns true if it ends turns of its priority: its target does not let it wait longer, or
    /// other sessions wait for it.
    fn is_in_a_hurry(&self, now: u64, priority: u8) -> bool {
        let waited = now.saturating_sub(self.since);
        let late = self.rank.patience.is_some_and(|most| waited >= most);
        self.rank.priority == priority && (late || self.stuck)
    }
}
