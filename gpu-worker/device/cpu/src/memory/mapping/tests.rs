//! Moves and maps of allocations.

use super::*;

const BASE: u64 = 1 << 32;
const SIZE: u64 = 1 << 28;
const UNIT: u64 = 2 << 20;

fn memory() -> Memory {
    let mut memory = Memory::new(BASE, SIZE, 2 * UNIT).expect("a window");
    memory.alloc(BASE, 2 * UNIT).expect("room");
    memory.fill(BASE, 7, 1, UNIT).expect("allocated");
    memory
}

fn moved(memory: &mut Memory, to: u64, from: u64) {
    memory.begin_move((to, from), 2 * UNIT).expect("free");
    for at in (0..2 * UNIT).step_by(1 << 20) {
        let piece = (to + at, from + at);
        memory.move_bytes(piece, 1 << 20).expect("memory");
    }
    memory.end_move(from, 2 * UNIT).expect("it was there");
}

fn at(memory: &mut Memory, addr: u64) -> u8 {
    memory.bytes(addr, 1).expect("live")[0]
}

#[test]
fn what_is_mapped_is_the_same_bytes_and_no_more_memory() {
    let mut memory = memory();
    let places = [4, 8, 12].map(|at| BASE + at * UNIT);
    for to in places {
        memory.map((to, BASE), 2 * UNIT).expect("free");
    }
    assert_eq!((memory.used(), memory.resident()), (2 * UNIT, UNIT));
    let last = places[2] + 2 * UNIT - 1;
    // Writes through each address, also to untouched pages. A large copy goes to the file
    // elsewhere, too.
    memory.write(last, &[9]).expect("live");
    let large = vec![3; 1 << 17];
    memory.write(places[0], &large).expect("live");
    for to in places.into_iter().chain([BASE]) {
        assert_eq!(at(&mut memory, to), 3);
        assert_eq!(at(&mut memory, to + UNIT - 1), 7);
        assert_eq!(at(&mut memory, to + 2 * UNIT - 1), 9);
        assert!(!memory.contains(to + 2 * UNIT, 1));
    }
    assert_eq!(memory.resident(), UNIT + PAGE);
    assert!(memory.alloc(places[1] + UNIT, PAGE).is_err(), "it is taken");
    assert!(memory.free(places[1]).is_err(), "it is no allocation");
    assert!(memory.drop_map(places[1]) && !memory.drop_map(places[1]));
    assert!(!memory.drop_map(BASE));
    assert!(!memory.contains(places[1], 1));
    assert_eq!((at(&mut memory, places[0]), memory.maps()), (3, 2));
    memory.free(BASE).expect("an allocation");
    assert!(!memory.contains(places[0], 1) && !memory.contains(places[2], 1));
    assert_eq!((memory.used(), memory.resident(), memory.maps()), (0, 0, 0));
    for to in places {
        memory.alloc(to, UNIT).expect("free again");
        assert_eq!(at(&mut memory, to), 0, "its own pages are zeros");
        memory.free(to).expect("allocated");
    }
}

#[test]
fn what_moves_is_somewhere_else_and_never_twice_in_memory() {
    let mut memory = memory();
    let to = BASE + 6 * UNIT;
    moved(&mut memory, to, BASE);
    assert_eq!((memory.used(), memory.resident()), (2 * UNIT, UNIT));
    assert!(!memory.contains(BASE, 1));
    assert_eq!((at(&mut memory, to), at(&mut memory, to + UNIT)), (7, 0));
    // The map at its old place stays while the pages behind it leave memory and return.
    memory.map((BASE, to), 2 * UNIT).expect("free");
    let mut out = Vec::new();
    let taken = memory.take_out(BASE, SIZE, |addr, bytes| {
        out.push((addr, bytes.to_vec()));
        Ok::<_, MemoryError>(())
    });
    assert_eq!((taken, memory.resident()), (Ok(()), 0));
    assert!(
        out.iter()
            .all(|(addr, _)| (to..to + 2 * UNIT).contains(addr))
    );
    for (addr, bytes) in &out {
        memory.bring_in(*addr, bytes).expect("where it was");
    }
    assert!([BASE, to].map(|addr| at(&mut memory, addr)) == [7, 7]);
}

#[test]
fn what_is_not_free_or_whole_or_alone_stays() {
    let mut memory = memory();
    let free = BASE + 4 * UNIT;
    let cases = [
        ((free, BASE + UNIT), UNIT),
        ((free, BASE), UNIT),
        ((free + 256, BASE), 2 * UNIT),
        ((BASE + UNIT, BASE), 2 * UNIT),
        ((BASE + SIZE - UNIT, BASE), 2 * UNIT),
        ((BASE - UNIT, BASE), 2 * UNIT),
        ((u64::MAX - UNIT + 1, BASE), 2 * UNIT),
    ];
    for (places, len) in cases {
        assert!(memory.map(places, len).is_err(), "{places:x?}");
        assert!(memory.begin_move(places, len).is_err(), "{places:x?}");
    }
    memory.map((free, BASE), 2 * UNIT).expect("free");
    let other = BASE + 8 * UNIT;
    for from in [BASE, free] {
        let moves = memory.begin_move((other, from), 2 * UNIT);
        assert!(moves.is_err(), "what is mapped does not move");
    }
    assert!(
        memory.map((other, free), 2 * UNIT).is_err(),
        "a map of a map"
    );
    assert!(memory.export(free).is_err(), "it is no allocation");
    memory.export(BASE).expect("an allocation");
    memory.map((other, BASE), 2 * UNIT).expect("free");
    assert_eq!((memory.maps(), memory.used()), (2, 2 * UNIT));
}
