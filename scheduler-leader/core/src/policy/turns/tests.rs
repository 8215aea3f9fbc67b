use bus_schemas::SessionId;
use proptest::prelude::*;

use super::exchange::{BRIEF, IDLE, LEAST, TURN};
use super::*;
use crate::slots::Slot;

/// One mebibyte; the device has 100 of them.
const MIB: u64 = 1 << 20;
/// The pace at which 100 of them take one tick.
const PACE: u64 = 100_000;

/// Turns, and the inputs that decide beside them.
struct Bench {
    turns: Turns,
    now: u64,
    ranks: Vec<Rank>,
    rows: BTreeMap<SessionSlot, (SessionResidency, bool)>,
}

fn slot(index: usize) -> SessionSlot {
    SessionSlot::at(index)
}

fn row(mib: u64, place: Reported) -> SessionResidency {
    SessionResidency {
        session: SessionId(1),
        bytes: mib * MIB,
        place,
        pinned: false,
    }
}

const BUSY: Work = Work {
    busy: true,
    ready: true,
    granted: false,
    suspended: false,
};
const NONE: Work = Work {
    busy: false,
    ready: false,
    granted: false,
    suspended: false,
};

impl Bench {
    /// Sessions of these priorities and MiB: those that fit are there, the others out. All have
    /// work.
    fn new(sessions: &[(u8, u64)]) -> Self {
        let mut bench = Self {
            turns: Turns::new(0, 100 * MIB),
            now: 0,
            ranks: Vec::new(),
            rows: BTreeMap::new(),
        };
        let mut free = 100;
        for (index, (priority, mib)) in sessions.iter().enumerate() {
            bench.ranks.push(Rank {
                priority: *priority,
                patience: None,
            });
            let place = match free >= *mib {
                true => Reported::Resident,
                false => Reported::Out,
            };
            free -= if free >= *mib { *mib } else { 0 };
            bench.rows.insert(slot(index), (row(*mib, place), false));
        }
        bench.tell();
        (0..sessions.len()).for_each(|index| bench.note(index, BUSY));
        bench
    }

    fn tell(&mut self) {
        self.turns.report(self.now, PACE, &self.rows);
    }

    fn note(&mut self, index: usize, work: Work) {
        self.turns.note(self.now, slot(index), work);
    }

    /// Lets ticks pass until a session returns; gives the sessions that left and the one that
    /// returns.
    fn pass(&mut self, ticks: u64) -> Option<(u64, Vec<usize>, Vec<usize>)> {
        for tick in 0..=ticks {
            self.now += u64::from(tick > 0);
            self.turns.look_again();
            let (left, returned) = self.serve();
            if !left.is_empty() || !returned.is_empty() {
                return Some((tick, left, returned));
            }
        }
        None
    }

    fn serve(&mut self) -> (Vec<usize>, Vec<usize>) {
        let (mut left, mut returned) = (Vec::new(), Vec::new());
        let ranks = self.ranks.clone();
        while let Some(leaving) = self.turns.next(self.now, |slot| ranks[slot.index()]) {
            left.extend(leaving.iter().map(|slot| slot.index()));
        }
        let idle = |_| Activity {
            granted: false,
            ran: 1,
        };
        // The staying session does not run after the leaving one; this is waited for only briefly.
        while let Some(slot) = self.turns.ready(self.now + LEAST, idle) {
            returned.push(slot.index());
        }
        (left, returned)
    }

    fn back(&mut self, index: usize) {
        self.turns.returned(self.now, slot(index), true);
    }
}

#[test]
fn who_fits_returns_at_once_and_nobody_leaves() {
    let mut bench = Bench::new(&[(2, 60), (2, 70), (2, 40)]);
    assert_eq!(bench.pass(0), None, "40 fit beside 60: the third is there");
    let rows = &mut bench.rows;
    rows.insert(slot(2), (row(40, Reported::Out), false));
    bench.tell();
    bench.note(2, BUSY);
    assert_eq!(bench.pass(0), None, "its room is the second's");
    bench.turns.remove(0, slot(1));
    assert_eq!(bench.pass(0), Some((0, vec![], vec![2])));
    assert!(bench.turns.is_away(slot(2)), "until it is there");
    bench.back(2);
    assert!(!bench.turns.is_away(slot(2)));
    assert_eq!(bench.turns.waiting(), 0);
}

#[test]
fn an_equal_leaves_after_a_turn_as_long_as_exchanges_are_worth() {
    let mut bench = Bench::new(&[(2, 70), (2, 60)]);
    // 70 leave, and come back later.
    let turn = (TURN * 140).div_ceil(100);
    assert_eq!(bench.pass(1_000), Some((turn, vec![0], vec![1])));
    assert_eq!(
        bench.pass(1_000),
        None,
        "while memory moves, nothing else does"
    );
    bench.back(1);
    bench.note(0, BUSY);
    let turn = (TURN * 130).div_ceil(100);
    assert_eq!(bench.pass(1_000), Some((turn, vec![1], vec![0])));
}

#[test]
fn a_short_exchange_has_a_turn_of_eight_ticks() {
    let mut bench = Bench::new(&[(2, 70), (2, 60)]);
    bench.turns.report(0, 1, &bench.rows);
    assert_eq!(bench.pass(1_000), Some((LEAST, vec![0], vec![1])));
}

#[test]
fn an_equal_without_work_leaves_sooner_once_a_turn_is_earned() {
    let mut bench = Bench::new(&[(2, 70), (2, 60)]);
    bench.note(1, NONE);
    assert_eq!(bench.pass(100), None);
    // The time in which no session waited is worth two more turns.
    bench.note(1, BUSY);
    assert_eq!(bench.pass(0), Some((0, vec![0], vec![1])));
    bench.back(1);
    bench.note(0, BUSY);
    assert_eq!(bench.pass(10), None, "it has work");
    // That is used up then, and a turn is earned before the next exchange.
    for (ticks, leaves, comes) in [(BRIEF, 1, 0), (BRIEF, 0, 1), (BRIEF, 1, 0), (23, 0, 1)] {
        bench.note(leaves, NONE);
        let left = bench.pass(1_000);
        assert_eq!(left, Some((ticks, vec![leaves], vec![comes])));
        bench.back(comes);
        bench.note(leaves, BUSY);
    }
}

#[test]
fn lower_priorities_leave_at_once_and_higher_ones_after_a_second_without_work() {
    let mut bench = Bench::new(&[(3, 70), (2, 60)]);
    assert_eq!(bench.pass(0), Some((0, vec![0], vec![1])));
    bench.back(1);
    bench.note(0, BUSY);
    assert_eq!(bench.pass(10_000), None, "a higher priority has work");
    bench.note(1, NONE);
    assert_eq!(bench.pass(10_000), Some((IDLE, vec![1], vec![0])));
}

#[test]
fn priority_0_leaves_for_none_below_and_what_is_pinned_for_nobody() {
    let mut bench = Bench::new(&[(0, 70), (1, 60)]);
    bench.note(0, NONE);
    assert_eq!(bench.pass(10_000), None);
    bench.ranks[1].priority = 0;
    assert!(bench.pass(0).is_some(), "for its own");
    let mut bench = Bench::new(&[(4, 70), (0, 60)]);
    bench.rows.get_mut(&slot(0)).unwrap().0.pinned = true;
    bench.tell();
    bench.note(0, NONE);
    assert_eq!(bench.pass(10_000), None);
}

#[test]
fn the_line_is_by_priority_and_then_by_who_waited_longest() {
    let mut bench = Bench::new(&[(2, 100), (3, 90), (2, 90), (2, 90)]);
    bench.note(2, NONE);
    bench.note(2, BUSY);
    let (_, left, returned) = bench.pass(1_000).unwrap();
    assert_eq!(
        (left, returned),
        (vec![0], vec![3]),
        "the third is behind it"
    );
}

#[test]
fn who_leaves_the_room_of_the_first_passes_it() {
    // The second 80 lacks 60, which only the first 80 can free. Then 20 are left, of which 15 are
    // asked for.
    let mut bench = Bench::new(&[(2, 80), (2, 80), (2, 30)]);
    assert_eq!(bench.pass(0), None, "no room");
    bench.rows.insert(slot(3), (row(15, Reported::Out), false));
    bench.ranks.push(bench.ranks[0]);
    bench.tell();
    bench.note(3, BUSY);
    assert_eq!(bench.pass(0), Some((0, vec![], vec![3])));
}

#[test]
fn who_is_on_its_way_lets_nobody_pass_the_next() {
    let mut bench = Bench::new(&[(2, 60), (2, 100), (2, 10), (2, 10)]);
    bench.note(1, NONE);
    for index in [2, 3] {
        bench
            .rows
            .insert(slot(index), (row(10, Reported::Out), false));
    }
    bench.tell();
    for index in [2, 1, 3] {
        bench.note(index, BUSY);
    }
    assert_eq!(bench.pass(10), Some((0, vec![], vec![2])));
    assert_eq!(bench.pass(10), None, "the room of both is the next one's");
}

#[test]
fn who_passes_the_first_does_so_one_at_a_time() {
    let mut bench = Bench::new(&[(2, 60), (2, 60), (2, 20), (2, 20)]);
    for index in [2, 3] {
        bench
            .rows
            .insert(slot(index), (row(20, Reported::Out), false));
    }
    bench.tell();
    (2..4).for_each(|index| bench.note(index, BUSY));
    assert_eq!(bench.pass(10), Some((0, vec![], vec![2])));
    assert_eq!(bench.pass(10), None);
    bench.back(2);
    assert_eq!(bench.pass(0), Some((0, vec![], vec![3])));
}

#[test]
fn who_cannot_come_keeps_nobody_waiting() {
    let mut bench = Bench::new(&[(1, 50), (2, 80), (2, 55), (3, 40)]);
    bench.note(3, NONE);
    bench.rows.insert(slot(3), (row(40, Reported::Out), false));
    bench.tell();
    bench.note(3, BUSY);
    assert_eq!(bench.pass(0), Some((0, vec![], vec![3])));
}

#[test]
fn a_target_ends_a_turn_once_half_of_it_is_over() {
    let mut bench = Bench::new(&[(2, 70), (2, 60)]);
    bench.ranks[1].patience = Some(5);
    assert_eq!(bench.pass(1_000), Some((5, vec![0], vec![1])));
    // But a turn is never shorter than three ticks, nor than the exchange.
    bench.back(1);
    bench.note(0, BUSY);
    bench.ranks[0].patience = Some(0);
    assert_eq!(bench.pass(1_000), Some((BRIEF, vec![1], vec![0])));
    bench.back(0);
    bench.note(1, BUSY);
    bench.turns.report(bench.now, 10 * PACE, &bench.rows);
    assert_eq!(bench.pass(1_000), Some((14, vec![0], vec![1])));
}

#[test]
fn reports_correct_where_memory_is() {
    let mut bench = Bench::new(&[(2, 70), (2, 60)]);
    bench.pass(1_000);
    assert!(bench.turns.is_away(slot(0)));
    bench.tell();
    assert!(
        bench.turns.is_away(slot(0)),
        "it is there, but was told to leave"
    );
    bench.back(1);
    bench
        .rows
        .insert(slot(1), (row(60, Reported::Leaving), false));
    bench.tell();
    assert!(bench.turns.is_away(slot(1)), "its worker took it out");
    // The work granted to it waits for it, and others wait for that work: it comes first.
    bench.note(0, BUSY);
    bench.note(
        1,
        Work {
            ready: false,
            granted: true,
            ..BUSY
        },
    );
    assert_eq!(bench.pass(0), Some((0, vec![], vec![1])));
    // If all fits, each returns once, and is then like all others.
    bench.back(1);
    bench.rows.clear();
    bench.tell();
    bench.note(0, BUSY);
    bench.note(1, BUSY);
    assert_eq!(bench.pass(0), Some((0, vec![], vec![0, 1])));
    bench.back(0);
    bench.back(1);
    assert!(bench.turns.is_empty());
}

#[test]
fn more_leave_where_those_who_stay_have_grown() {
    let mut bench = Bench::new(&[(2, 50), (2, 20), (2, 60)]);
    assert_eq!(bench.pass(1_000).unwrap().1, [0]);
    bench
        .rows
        .insert(slot(1), (row(45, Reported::Resident), false));
    bench.tell();
    assert_eq!(bench.pass(0), Some((0, vec![1], vec![])));
}

#[test]
fn who_leaves_is_the_longest_idle_before_the_return_is_granted() {
    let mut bench = Bench::new(&[(2, 60), (2, 20), (2, 70)]);
    let turns = &mut bench.turns;
    let ranks = bench.ranks.clone();
    turns.look_again();
    assert_eq!(
        turns.next(500, |slot| ranks[slot.index()]),
        Some(vec![slot(0)])
    );
    let activity = |first: (bool, u64), second: (bool, u64)| {
        move |of: SessionSlot| {
            let (granted, ran) = if of == slot(0) { first } else { second };
            Activity { granted, ran }
        }
    };
    assert_eq!(turns.ready(500, activity((true, 7), (true, 8))), None);
    assert_eq!(turns.ready(500, activity((false, 9), (false, 8))), None);
    assert_eq!(
        turns.ready(500 + LEAST - 1, activity((false, 9), (false, 8))),
        None
    );
    let ready = turns.ready(500, activity((false, 9), (false, 10)));
    assert_eq!(ready, Some(slot(2)));
    for (now, second) in [(500, (true, 8)), (500 + LEAST, (false, 8))] {
        let mut bench = Bench::new(&[(2, 60), (2, 20), (2, 70)]);
        bench.turns.next(500, |slot| ranks[slot.index()]);
        let ready = bench.turns.ready(now, activity((false, 9), second));
        assert_eq!(ready, Some(slot(2)));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Report(u64, Vec<(usize, u64, usize, bool)>),
    Note(usize, bool, bool, bool),
    Back(usize, bool),
    Remove(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![0..200 * MIB, any::<u64>()];
    let rows = prop::collection::vec((0..6usize, bytes, 0..4usize, any::<bool>()), 0..6);
    let pace = prop_oneof![0..10 * PACE, any::<u64>()];
    prop_oneof![
        (pace, rows).prop_map(|(pace, rows)| Step::Report(pace, rows)),
        (0..6usize, any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(index, busy, ready, granted)| Step::Note(index, busy, ready, granted)),
        (0..6usize, any::<bool>()).prop_map(|(index, there)| Step::Back(index, there)),
        (0..6usize).prop_map(Step::Remove),
        (0..40u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any reports the loop ends, and the waiting and the coming sessions are counted.
    #[test]
    fn whatever_is_reported_it_counts_who_waits(
        steps in prop::collection::vec(steps(), 0..80),
        priorities in prop::collection::vec((0..5u8, prop::option::of(0..20u64)), 6),
    ) {
        let mut bench = Bench::new(&[]);
        let ranks = priorities.into_iter();
        bench.ranks = ranks.map(|(priority, patience)| Rank { priority, patience }).collect();
        let places = [Reported::Resident, Reported::Leaving, Reported::Out, Reported::Coming];
        for step in steps {
            match step {
                Step::Report(pace, rows) => {
                    let rows = rows.into_iter().map(|(index, bytes, place, pinned)| {
                        let row = SessionResidency { bytes, pinned, ..row(0, places[place]) };
                        (slot(index), (row, false))
                    });
                    bench.turns.report(bench.now, pace, &rows.collect());
                }
                Step::Note(index, busy, ready, granted) => {
                    // A suspended session has no more work than what is granted.
                    let suspended = busy && !ready && granted;
                    bench.note(index, Work { busy, ready, granted, suspended });
                }
                Step::Back(index, there) => {
                    bench.turns.returned(bench.now, slot(index), there);
                }
                Step::Remove(index) => bench.turns.remove(bench.now, slot(index)),
                Step::Pass(ticks) => drop(bench.pass(ticks)),
            }
            bench.serve();
            let places = bench.turns.members.values().map(|member| member.place);
            let counted = places.filter(|place| {
                matches!(place, Place::Waiting { .. } | Place::Coming)
            });
            prop_assert_eq!(bench.turns.waiting() as usize, counted.count());
        }
    }
}
