//! Sessions that share memory, leave the device and return.

use crate::floor::{ALL, Floor, MIB, bytes};

/// Three programs with equal weights of 8 MiB.
fn shared() -> (Floor, Vec<u8>) {
    let mut floor = Floor::new(&[ALL; 3]);
    let weights = bytes(1, 8 * MIB);
    for n in 1..=3 {
        floor.alloc(n, 0, 8 * MIB);
        floor.copy_in(n, 0, &weights);
    }
    assert_eq!(floor.saved(), 16 * MIB);
    (floor, weights)
}

fn charges(floor: &Floor) -> [u64; 3] {
    [1, 2, 3].map(|n| floor.charge(n))
}

#[test]
fn who_leaves_takes_a_copy_and_the_others_pay_for_the_rest() {
    let (mut floor, weights) = shared();
    floor.leave(1);
    floor.settle(1);
    assert_eq!(charges(&floor), [0, 4 * MIB, 4 * MIB]);
    assert_eq!(floor.saved(), 8 * MIB);
    floor.leave(2);
    floor.leave(3);
    for n in [2, 3] {
        floor.settle(n);
    }
    assert_eq!((charges(&floor), floor.saved()), ([0; 3], 0));
    // All of them are private at first, and shared again when the device is idle.
    for n in 1..=3 {
        floor.bring(n);
    }
    assert_eq!((charges(&floor), floor.saved()), ([8 * MIB; 3], 0));
    floor.rest();
    assert_eq!(floor.saved(), 16 * MIB);
    assert_eq!(charges(&floor).iter().sum::<u64>(), 8 * MIB);
    for n in 1..=3 {
        assert!(floor.read(n, 0, 8 * MIB) == weights);
    }
}

#[test]
fn who_comes_back_shares_with_those_who_stayed_and_with_new_copies() {
    let (mut floor, weights) = shared();
    floor.leave(1);
    floor.settle(1);
    floor.bring(1);
    floor.close(3);
    floor.rest();
    assert_eq!((floor.charge(1), floor.charge(2)), (4 * MIB, 4 * MIB));
    // The last sharer leaves, and a copy comes meanwhile.
    floor.close(2);
    floor.leave(1);
    floor.settle(1);
    floor.open(2, ALL);
    floor.alloc(2, MIB, 8 * MIB);
    floor.copy_in(2, MIB, &weights);
    assert_eq!(floor.saved(), 0);
    floor.bring(1);
    floor.rest();
    assert_eq!(floor.saved(), 8 * MIB);
    assert!(floor.read(1, 0, 8 * MIB) == weights && floor.read(2, MIB, 8 * MIB) == weights);
}

#[test]
fn what_was_written_goes_along_and_is_not_shared_again() {
    let (mut floor, mut weights) = shared();
    floor.set(1, 2 * MIB + 5, 10, 7);
    floor.launch(1, 4 * MIB, 50);
    floor.leave(1);
    floor.settle(1);
    floor.bring(1);
    floor.rest();
    weights[2 * MIB as usize + 5..][..10].fill(7);
    for word in weights[4 * MIB as usize..][..50 * 128]
        .as_chunks_mut::<4>()
        .0
    {
        *word = u32::from_le_bytes(*word).wrapping_add(1).to_le_bytes();
    }
    assert!(floor.read(1, 0, 8 * MIB) == weights);
    assert_eq!(floor.saved(), 14 * MIB, "two units are others now");
    assert!(floor.read(2, 0, 8 * MIB) == bytes(1, 8 * MIB));
}

#[test]
fn who_is_closed_while_it_leaves_is_no_sharer() {
    let (mut floor, weights) = shared();
    for n in [1, 2] {
        floor.leave(n);
    }
    floor.close(1);
    floor.open(1, ALL);
    // Slots that the closed session has shown may go to others now.
    let others = bytes(2, 8 * MIB);
    floor.alloc(1, 0, 8 * MIB);
    floor.copy_in(1, 0, &others);
    floor.settle(2);
    floor.close(3);
    floor.open(3, ALL);
    floor.alloc(3, 0, 8 * MIB);
    floor.copy_in(3, 0, &others);
    assert_eq!(charges(&floor), [4 * MIB, 0, 4 * MIB]);
    floor.bring(2);
    assert!(floor.read(2, 0, 8 * MIB) == weights);
    assert!(floor.read(1, 0, 8 * MIB) == others && floor.read(3, 0, 8 * MIB) == others);
}

#[test]
fn memory_that_is_given_to_somebody_else_meanwhile_is_not_taken_for_a_unit() {
    let (mut floor, weights) = shared();
    floor.leave(1);
    floor.settle(1);
    floor.bring(1);
    // Other bytes replace units that are to be shared again: a whole unit, and less than one.
    floor.free(1, 0);
    floor.alloc(1, 0, 2 * MIB);
    floor.alloc(1, 3 * MIB, MIB / 2);
    floor.copy_in(1, 4_096, &weights[4_096..MIB as usize + 4_096]);
    floor.set(1, 3 * MIB, MIB / 2, 3);
    floor.rest();
    let there = floor.read(1, 0, 2 * MIB);
    assert!(there[..4_096].iter().all(|byte| *byte == 0));
    assert!(there[4_096..][..MIB as usize] == weights[4_096..MIB as usize + 4_096]);
    assert!(
        floor
            .read(1, 3 * MIB, MIB / 2)
            .iter()
            .all(|byte| *byte == 3)
    );
}

#[test]
fn a_part_that_is_shared_with_others_meanwhile_is_not_written_over() {
    let (mut floor, mut weights) = shared();
    let others = bytes(2, MIB + MIB / 8);
    floor.alloc(2, 16 * MIB, 2 * MIB);
    floor.copy_in(2, 16 * MIB, &others);
    floor.leave(1);
    floor.settle(1);
    floor.bring(1);
    // The last unit of this copy is in one that is to be shared again.
    floor.copy_in(1, 3 * MIB, &others);
    assert!(floor.saved() > 8 * MIB, "it is shared");
    floor.rest();
    weights[3 * MIB as usize..][..others.len()].copy_from_slice(&others);
    assert!(floor.read(1, 0, 8 * MIB) == weights);
}
