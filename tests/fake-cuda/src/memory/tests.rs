//! Tests of memory. Each uses addresses of its own, because tests share a process.

use super::*;
use crate::codes::ILLEGAL_ADDRESS;

const BASE: u64 = 0x1f00_0000_0000;

fn at(n: u64) -> u64 {
    BASE + n * (64 << 30)
}

/// Memory with one open granule at an address.
fn with_granule(address: u64) -> (Memory, u64) {
    let mut memory = Memory::new(64 << 20);
    assert_eq!(memory.reserve(1 << 30, address), Ok(address));
    let handle = memory.create(GRANULE).expect("room");
    memory.map(address, GRANULE, handle).expect("reserved");
    assert_eq!(
        memory.read(address, 1),
        Err(ILLEGAL_ADDRESS),
        "no access yet"
    );
    memory.set_access(address, GRANULE).expect("mapped");
    (memory, handle)
}

#[test]
fn addresses_are_reserved_where_they_are_wanted_and_once() {
    let mut memory = Memory::new(64 << 20);
    let base = at(0);
    assert_eq!(memory.reserve(1 << 30, base), Ok(base));
    let other = memory.reserve(1 << 30, base).expect("elsewhere");
    assert_ne!(other, base);
    assert_eq!(memory.free_address(base, 1 << 20), Err(INVALID_VALUE));
    assert_eq!(memory.free_address(base, 1 << 30), Ok(()));
    assert_eq!(memory.reserve(1 << 30, base), Ok(base));
    assert_eq!(memory.reserve(4_097, base), Err(INVALID_VALUE));
}

#[test]
fn one_memory_at_two_addresses_has_the_same_bytes() {
    let base = at(1);
    let (mut memory, _) = with_granule(base);
    let second = base + (8 << 20);
    let handle = memory.retain(base + 5).expect("mapped there");
    memory.map(second, GRANULE, handle).expect("free");
    memory.set_access(second, GRANULE).expect("mapped");
    assert_eq!(memory.read(base, 3), Ok(vec![0xa5; 3]), "never zeros");
    memory.write(base + 7, &[1, 2, 3]).expect("open");
    assert_eq!(memory.read(second + 6, 4), Ok(vec![0xa5, 1, 2, 3]));
    assert_eq!(
        memory.map(second, GRANULE, handle),
        Err(INVALID_VALUE),
        "taken"
    );
}

#[test]
fn released_memory_comes_back_with_its_bytes() {
    let base = at(2);
    let (mut memory, handle) = with_granule(base);
    memory.write(base, &[7; 9]).expect("open");
    assert_eq!(
        memory.free_address(base, 1 << 30),
        Err(INVALID_VALUE),
        "in use"
    );
    assert_eq!(memory.unmap(base, GRANULE / 2), Err(INVALID_VALUE));
    assert_eq!(memory.free(), 62 << 20);
    memory.unmap(base, GRANULE).expect("mapped");
    assert_eq!(memory.free(), 62 << 20, "the handle is there");
    memory.release(handle).expect("a handle");
    assert_eq!(memory.free(), 64 << 20);
    assert_eq!(memory.release(handle), Err(INVALID_VALUE));
    assert_eq!(memory.read(base, 1), Err(ILLEGAL_ADDRESS));
    let handle = memory.create(GRANULE).expect("room");
    memory.map(base, GRANULE, handle).expect("free");
    memory.set_access(base, GRANULE).expect("mapped");
    assert_eq!(memory.read(base, 10), Ok([&[7; 9][..], &[0xa5]].concat()));
}

#[test]
fn there_is_no_more_memory_than_the_device_has() {
    let mut memory = Memory::new(4 << 20);
    assert_eq!(memory.create(6 << 20), Err(OUT_OF_MEMORY));
    assert!(memory.create(2 << 20).is_ok());
    assert_eq!(memory.create(4 << 20), Err(OUT_OF_MEMORY));
    assert_eq!(memory.create(1 << 20), Err(INVALID_VALUE));
}

#[test]
fn pinned_memory_is_known_until_it_is_freed() {
    let mut memory = Memory::new(4 << 20);
    let at = memory.alloc_pinned(100).expect("room");
    memory.write_pinned(at + 90, &[1; 10]).expect("inside");
    assert_eq!(memory.read_pinned(at + 95, 5), Ok(vec![1; 5]));
    assert_eq!(memory.write_pinned(at + 91, &[1; 10]), Err(ILLEGAL_ADDRESS));
    assert_eq!(memory.pinned_bytes(at), 100);
    assert_eq!(memory.free_pinned(at), Ok(()));
    assert_eq!(memory.free_pinned(at), Err(INVALID_VALUE));
    assert_eq!(memory.read_pinned(at, 1), Err(ILLEGAL_ADDRESS));
}
