//! Equal bytes of several sessions are in memory once. No session can tell from the values that it
//! reads, even if sessions leave the device and return.

mod floor;
mod random;
mod swapping;

use device::SharingDomain;
use floor::{ALL, Floor, MIB, bytes};

#[test]
fn equal_weights_are_stored_once_and_paid_in_equal_parts() {
    let mut floor = Floor::new(&[ALL; 3]);
    let weights = bytes(1, 8 * MIB);
    for n in 1..=3 {
        floor.alloc(n, 0, 8 * MIB + 500);
        floor.copy_in(n, 0, &weights);
    }
    // Three parts of each unit; the first sharer takes the odd byte.
    let part = 8 * (MIB / 3) + 500;
    let charges = [1, 2, 3].map(|n| floor.charge(n));
    assert_eq!(charges, [part + 8, part, part]);
    assert_eq!(floor.saved(), 16 * MIB);
    for n in 1..=3 {
        assert!(floor.read(n, 0, 8 * MIB) == weights);
    }
    floor.rest();
    assert_eq!(
        [1, 2, 3].map(|n| floor.charge(n)),
        charges,
        "reading is free"
    );
    floor.close(1);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [4 * MIB + 500; 2]);
    floor.free(3, 0);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [8 * MIB + 500, 0]);
    assert_eq!(floor.saved(), 0);
    assert!(floor.read(2, 0, 8 * MIB) == weights);
    // A later session shares with the remaining one.
    floor.alloc(3, 4 * MIB, 8 * MIB);
    floor.copy_in(3, 4 * MIB, &weights);
    assert_eq!([2, 3].map(|n| floor.charge(n)), [4 * MIB + 500, 4 * MIB]);
}

#[test]
fn one_realm_shares_and_two_do_not() {
    let tenants = [
        Some(SharingDomain(1)),
        Some(SharingDomain(2)),
        None,
        None,
        Some(SharingDomain(2)),
    ];
    let mut floor = Floor::new(&tenants);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=5 {
        floor.alloc(n, 0, 2 * MIB);
        floor.copy_in(n, 0, &weights);
    }
    let charges = [1, 2, 3, 4, 5].map(|n| floor.charge(n) / MIB);
    assert_eq!(charges, [2, 1, 2, 2, 1]);
}

#[test]
fn a_session_shares_with_itself() {
    let mut floor = Floor::new(&[ALL]);
    let weights = bytes(1, MIB);
    floor.alloc(1, 0, 4 * MIB);
    for place in 0..3 {
        floor.copy_in(1, place * MIB, &weights);
    }
    assert_eq!(floor.charge(1), 2 * MIB);
    // The same copy again changes nothing; other bytes end the sharing.
    floor.copy_in(1, MIB, &weights);
    assert_eq!(floor.charge(1), 2 * MIB);
    let other = bytes(2, MIB);
    floor.copy_in(1, MIB, &other);
    assert_eq!(floor.charge(1), 3 * MIB);
    assert!(floor.read(1, 0, 3 * MIB) == [&weights[..], &other, &weights].concat());
}

#[test]
fn what_is_small_or_between_pages_is_not_looked_at() {
    let mut floor = Floor::new(&[ALL; 2]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=2 {
        floor.alloc(n, 0, 8 * MIB);
        floor.copy_in(n, 256, &weights);
        floor.copy_in(n, 4 * MIB, &weights[..MIB as usize - 4_096]);
    }
    assert_eq!([1, 2].map(|n| floor.charge(n)), [8 * MIB; 2]);
    // The last unit is the rest of the whole pages.
    for n in 1..=2 {
        floor.copy_in(n, 4 * MIB, &weights[..MIB as usize + 70_001 / 4 * 4]);
    }
    let shared = MIB + 17 * 4_096;
    assert_eq!([1, 2].map(|n| floor.charge(n)), [8 * MIB - shared / 2; 2]);
}

#[test]
fn written_pages_are_their_writers_and_most_of_them_end_it() {
    let mut floor = Floor::new(&[ALL; 3]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=3 {
        floor.alloc(n, 0, 2 * MIB);
        floor.copy_in(n, 0, &weights);
    }
    floor.set(1, 4_096 * 10 + 1, 4_096, 7);
    floor.rest();
    let part = |sharers: u64| MIB.div_ceil(sharers);
    assert_eq!(floor.charge(1), 2 * part(3) + 2 * 4_096);
    assert_eq!(floor.charge(2), 2 * (MIB / 3));
    // More than half of a unit: now it owns all of the unit.
    floor.set(1, MIB, MIB / 2 + 1, 7);
    floor.rest();
    assert_eq!(floor.charge(1), part(3) + 2 * 4_096 + MIB);
    assert_eq!(floor.charge(2), MIB / 3 + MIB / 2);
    // It stays so, because the unit is not a weight.
    floor.copy_in(1, 0, &weights);
    floor.rest();
    assert_eq!(floor.charge(1), part(3) + MIB);
    // A session that is left alone with a unit that it has written gets its own copy.
    floor.set(2, 0, 1, 7);
    floor.close(1);
    floor.close(3);
    floor.rest();
    assert_eq!(floor.charge(2), 2 * MIB);
    assert_eq!(floor.saved(), 0);
    let mut changed = weights.clone();
    changed[0] = 7;
    assert!(floor.read(2, 0, 2 * MIB) == changed);
}

#[test]
fn what_changed_since_is_not_shared() {
    let mut floor = Floor::new(&[ALL; 4]);
    let weights = bytes(1, 2 * MIB);
    for n in 1..=4 {
        floor.alloc(n, 0, 2 * MIB);
    }
    floor.copy_in(1, 0, &weights);
    // Not at an offset that the fingerprint samples.
    floor.set(1, 4_095, 1, 0xee);
    floor.set(1, MIB + 100, 1, 0xee);
    floor.copy_in(2, 0, &weights);
    assert_eq!(floor.saved(), 0);
    floor.free(2, 0);
    floor.copy_in(3, 0, &weights);
    assert_eq!(floor.saved(), 0);
    floor.close(3);
    floor.copy_in(4, 0, &weights);
    assert_eq!(floor.saved(), 0);
    assert!(floor.read(4, 0, 2 * MIB) == weights);
}

#[test]
fn slots_are_used_again_and_show_nothing_of_before() {
    let mut floor = Floor::new(&[ALL; 2]);
    for round in 0..20 {
        let weights = bytes(round, 10 * MIB);
        for n in 1..=2 {
            floor.alloc(n, 0, 12 * MIB);
            floor.copy_in(n, 0, &weights);
        }
        assert_eq!(floor.saved(), 10 * MIB, "round {round}");
        // One page written: discarding it must not bring the others' bytes back.
        floor.set(1, 5 * MIB, 1, 1);
        let (first, second) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        floor.free(first, 0);
        floor.alloc(first, 0, 12 * MIB);
        assert!(floor.read(first, 0, 12 * MIB).iter().all(|byte| *byte == 0));
        floor.free(first, 0);
        floor.free(second, 0);
        assert_eq!([1, 2].map(|n| floor.charge(n)), [0; 2]);
    }
}
