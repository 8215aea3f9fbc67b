use proptest::prelude::*;

use super::*;

const WINDOW: Window = Window {
    base: 0x1000_0000_0000,
    size: 64 << 20,
};

#[test]
fn pieces_that_are_mapped_side_by_side_are_one() {
    let mut addresses = Addresses::new(WINDOW, u64::MAX);
    let room = addresses.reserve(8 << 20, 2 << 20).expect("room");
    for at in [0, 2 << 20, 6 << 20] {
        addresses.map(room + at, 2 << 20).expect("reserved");
    }
    assert!(addresses.check(room, 4 << 20).is_ok());
    assert!(addresses.check(room + 100, (4 << 20) - 100).is_ok());
    assert!(addresses.check(room, (4 << 20) + 1).is_err(), "a gap");
    assert!(addresses.check(room + (6 << 20), 2 << 20).is_ok());
    assert!(addresses.check(room + (6 << 20), (2 << 20) + 1).is_err());
    // Allocations that happen to be adjacent stay separate.
    let [one, two] = [(); 2].map(|()| addresses.alloc(4 << 20).expect("room"));
    assert_eq!(two, one + (4 << 20));
    assert!(addresses.check(one, (4 << 20) + 1).is_err());
}

#[test]
fn what_is_imported_is_reached_and_not_held() {
    let mut addresses = Addresses::new(WINDOW, 1 << 20);
    let room = addresses.reserve(4 << 20, 2 << 20).expect("room");
    assert!(
        addresses.import(room + (8 << 20), 300).is_err(),
        "not reserved"
    );
    let at = room + 256;
    addresses.import(at, 3 << 20).expect("reserved");
    assert!(addresses.import(at, 256).is_err() && addresses.map(at + 512, 256).is_err());
    assert!(addresses.check(at, 3 << 20).is_ok() && addresses.check(room, 1).is_err());
    assert_eq!((addresses.held(), addresses.is_mapped(at)), (0, true));
    assert!(addresses.free(at).is_err() && addresses.unreserve(room).is_err());
    assert_eq!(addresses.unmap(at), Ok(3 << 20));
    assert_eq!(addresses.held(), 0);
    addresses.map(at, 512).expect("free again");
    assert_eq!((addresses.held(), addresses.unmap(at)), (512, Ok(512)));
    addresses.unreserve(room).expect("empty");
}

#[test]
fn what_is_moved_and_mapped_is_held_once() {
    const UNIT: u64 = 2 << 20;
    let mut addresses = Addresses::new(WINDOW, 2 * UNIT);
    let room = addresses.reserve(16 * UNIT, UNIT).expect("room");
    let own = addresses.reserve(2 * UNIT, UNIT).expect("room");
    addresses.map(room, 2 * UNIT).expect("reserved");
    let second = room + 4 * UNIT;
    assert!(
        addresses.relocate(room + UNIT, room, true).is_err(),
        "taken"
    );
    assert!(
        addresses.relocate(own, second, true).is_err(),
        "nothing there"
    );
    assert_eq!(addresses.relocate(own, room, true), Ok(2 * UNIT));
    assert_eq!(addresses.map_again(second, own), Ok(2 * UNIT));
    assert!(addresses.map_again(second + UNIT, own).is_err(), "taken");
    for map in [room, second] {
        assert!(addresses.map_again(room + 8 * UNIT, map).is_err());
        assert!(addresses.relocate(room + 8 * UNIT, map, false).is_err());
        assert!(addresses.check(map, 2 * UNIT).is_ok());
    }
    assert_eq!(addresses.held(), 2 * UNIT);
    assert_eq!(addresses.unmap(room), Ok(2 * UNIT));
    assert!(addresses.check(room, 1).is_err() && addresses.check(own, 1).is_ok());
    assert_eq!(addresses.relocate(room, own, false), Ok(2 * UNIT));
    assert!(addresses.check(own, 1).is_err() && addresses.held() == 2 * UNIT);
    addresses.unreserve(own).expect("empty");
    assert_eq!(addresses.unmap(second), Ok(2 * UNIT));
    assert_eq!(addresses.unmap(room), Ok(2 * UNIT));
    assert_eq!(addresses.held(), 0);
    addresses.unreserve(room).expect("empty");
}

#[test]
fn variables_outside_of_the_window_are_the_programs_until_their_module_goes() {
    let mut addresses = Addresses::new(WINDOW, u64::MAX);
    let at = WINDOW.end() + 5_000;
    assert!(addresses.check(at, 1).is_err());
    assert!(addresses.add_variable(3, at, 100));
    assert!(addresses.add_variable(4, at + 100, 8));
    let own = WINDOW.worker_part();
    assert!(!addresses.add_variable(3, own, 8), "the window has it");
    assert!(addresses.check(at, 100).is_ok() && addresses.check(at + 99, 1).is_ok());
    assert!(addresses.check(at, 101).is_err(), "two are not one");
    assert!(addresses.check(at + 99, u64::MAX).is_err());
    assert_eq!(addresses.variable(at + 107), Some((at + 100, 8)));
    addresses.forget_variables(3);
    assert!(addresses.check(at, 1).is_err() && addresses.check(at + 100, 8).is_ok());
}

#[test]
fn a_variable_within_the_window_is_none_once_its_module_is_unloaded() {
    let mut addresses = Addresses::new(WINDOW, u64::MAX);
    let at = WINDOW.worker_part();
    assert!(addresses.may_be_variable(at), "a kernel may have told it");
    assert_eq!(addresses.variable(at), None);
    assert!(!addresses.add_variable(3, at, 100));
    assert_eq!(addresses.variable(at + 99), Some((at, 100)));
    addresses.forget_variables(3);
    assert_eq!(addresses.variable(at), None);
    assert!(!addresses.may_be_variable(at + 99) && addresses.may_be_variable(at + 100));
    assert!(addresses.check(at, 1).is_err());
    // A variable of another module is there now.
    addresses.add_variable(4, at + 50, 8);
    assert!(addresses.may_be_variable(at) && addresses.check(at + 50, 8).is_ok());
}

#[test]
fn memory_is_mapped_where_addresses_are_reserved() {
    let mut addresses = Addresses::new(WINDOW, 8 << 20);
    let range = addresses.reserve(16 << 20, 2 << 20).unwrap();
    assert!(range.is_multiple_of(2 << 20));
    assert_eq!(addresses.held(), 0);
    assert_eq!(
        addresses.check(range, 1).unwrap_err().code,
        Code::BadAddress
    );
    let middle = range + (4 << 20);
    addresses.map(middle, 4 << 20).unwrap();
    assert_eq!(addresses.held(), 4 << 20);
    assert_eq!(addresses.range(middle + 1), Some((middle, 4 << 20)));
    let outside = range + (14 << 20);
    for (start, bytes, code) in [
        (middle, 2 << 20, Code::BadAddress),
        (range, 5 << 20, Code::BadAddress),
        (middle + (2 << 20), 4 << 20, Code::BadAddress),
        (outside, 4 << 20, Code::BadAddress),
        (range - 256, 256, Code::BadAddress),
        (range, 0, Code::BadAddress),
        (middle + (4 << 20), 6 << 20, Code::Quota),
    ] {
        assert_eq!(addresses.map(start, bytes).unwrap_err().code, code);
    }
    // It is not an allocation that could be freed, and its range is not reused.
    assert!(addresses.free(middle).is_err());
    assert!(addresses.unreserve(range).is_err());
    let other = addresses.alloc(4 << 20).unwrap();
    assert!(other + (4 << 20) <= range || other >= range + (16 << 20));
    assert_eq!(addresses.unmap(middle), Ok(4 << 20));
    assert!(addresses.unmap(middle).is_err());
    assert!(addresses.unmap(other).is_err());
    addresses.unreserve(range).unwrap();
    addresses.free(other).unwrap();
    assert_eq!((addresses.free.len(), addresses.held()), (1, 0));
}

#[test]
fn refusals_name_their_reason() {
    let mut addresses = Addresses::new(WINDOW, 8 << 20);
    assert_eq!(addresses.alloc(0).unwrap_err().code, Code::BadAddress);
    let address = addresses.alloc(8 << 20).unwrap();
    assert_eq!(addresses.alloc(1).unwrap_err().code, Code::Quota);
    assert_eq!(
        addresses.free(address + 256).unwrap_err().code,
        Code::BadAddress
    );
    assert_eq!(addresses.check(address + 1, (8 << 20) - 1), Ok(()));
    assert_eq!(addresses.check(WINDOW.end() - 8, 8), Ok(()));
    assert_eq!(addresses.range(address + 5), Some((address, 8 << 20)));
    assert_eq!(addresses.range(address + (8 << 20)), None);
    for (start, bytes) in [
        (address - 1, 2),
        (address + 1, 8 << 20),
        (WINDOW.end() - 8, 9),
    ] {
        assert!(addresses.check(start, bytes).is_err(), "{start:x} {bytes}");
    }
    assert_eq!(addresses.free(address), Ok(8 << 20));
    assert!(addresses.check(address, 1).is_err());
    assert_eq!(addresses.free(address).unwrap_err().code, Code::BadAddress);
    let mut addresses = Addresses::new(WINDOW, u64::MAX);
    assert_eq!(
        addresses.alloc(u64::MAX).unwrap_err().code,
        Code::OutOfMemory
    );
    assert_eq!(
        addresses.alloc(61 << 20).unwrap_err().code,
        Code::OutOfMemory
    );
    assert!(addresses.alloc(60 << 20).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn allocations_are_aligned_inside_and_apart(
        steps in prop::collection::vec((any::<bool>(), 1_u64..6 << 20, any::<prop::sample::Index>()), 1..200),
    ) {
        let mut addresses = Addresses::new(WINDOW, 48 << 20);
        let mut live: Vec<(u64, u64)> = Vec::new();
        for (free, bytes, pick) in steps {
            if free && !live.is_empty() {
                let (address, bytes) = live.swap_remove(pick.index(live.len()));
                prop_assert_eq!(addresses.free(address), Ok(bytes));
            } else if let Ok(address) = addresses.alloc(bytes) {
                let align = if bytes >= LARGE { LARGE } else { GRAIN };
                prop_assert!(address.is_multiple_of(align));
                prop_assert!(address >= WINDOW.base);
                prop_assert!(address + bytes <= WINDOW.base + WINDOW.size / 16 * 15);
                for &(other, length) in &live {
                    prop_assert!(address + bytes <= other || other + length <= address);
                }
                live.push((address, bytes));
            }
            prop_assert_eq!(addresses.held(), live.iter().map(|(_, bytes)| charged(*bytes)).sum::<u64>());
        }
        for (address, _) in live {
            addresses.free(address).unwrap();
        }
        // All free ranges are joined again.
        prop_assert!(addresses.alloc(48 << 20).is_ok());
    }
}
