//! Sharing on a host that refuses it. That is no error; a copy is then an ordinary one.

use bus_schemas::{Window, limits};

use std::sync::Arc;

use super::super::session::{Session, Sessions};
use super::*;
use crate::memory::PhysicalMemory;
use crate::shared::UNIT;

/// A session with eight mebibytes at its window's start. It may share with all sessions.
fn session(n: u64) -> Session {
    let size = limits::WINDOW_MIN_BYTES;
    let base = limits::ADDRESS_FIRST + n * size;
    let physical = PhysicalMemory::new().expect("a file in memory");
    let opened = Session::open(
        SessionId(n),
        Window { base, size },
        Some(SharingDomain(0)),
        (Arc::new(physical), 1 << 30),
    );
    let mut session = opened.expect("a window");
    let allocated = session.memory.alloc(base, 8 * UNIT);
    allocated.expect("room");
    session
}

/// Copies a unit to a place of session 1 and then of session 2, as the device does. True if the
/// second copy had nothing to write.
fn copy_to_both(sharing: &mut Sharing, sessions: &Sessions, place: u64, of: u8) -> bool {
    let bytes = vec![of; UNIT as usize];
    let mut last = false;
    for n in [1, 2] {
        let session = &mut *sessions[&SessionId(n)].borrow_mut();
        let at = session.window.base + place * UNIT;
        let mut guest = session.guest().expect("a sharing domain");
        let pieces = || bytes.chunks(100_000);
        last = sharing.take_in(&mut guest, sessions, (at, UNIT), pieces);
        if !last {
            session.memory.write(at, &bytes).expect("allocated");
        }
        let there = session.memory.bytes(at, UNIT).expect("allocated");
        assert!(there == bytes, "unit {of} of session {n}");
    }
    last
}

fn two() -> Sessions {
    let pair = [1, 2].map(|n| (SessionId(n), RefCell::new(session(n))));
    pair.into()
}

#[test]
fn without_the_hosts_help_nothing_is_shared() {
    let (mut sharing, sessions) = (Sharing::default(), two());
    assert!(!copy_to_both(&mut sharing, &sessions, 0, 1));
    // A device that is too small for a unit has no store either.
    sharing.begin(Store::of(UNIT - 1).as_ref());
    assert!(!copy_to_both(&mut sharing, &sessions, 1, 2));
    assert_eq!(sharing.saved(), 0);
    sharing.begin(Store::new(64).as_ref());
    assert!(copy_to_both(&mut sharing, &sessions, 2, 3));
    assert_eq!(sharing.saved(), UNIT);
}

#[test]
fn no_more_units_than_there_may_be_mappings() {
    let (mut sharing, sessions) = (Sharing::default(), two());
    sharing.begin(Store::new(64).as_ref());
    sharing.most = 3;
    assert!(copy_to_both(&mut sharing, &sessions, 0, 1));
    assert_eq!(sharing.saved(), UNIT);
    // The new session shows the third unit, and the earlier one keeps its own.
    assert!(copy_to_both(&mut sharing, &sessions, 1, 2));
    assert_eq!((sharing.saved(), sharing.book.len()), (UNIT, 3));
    assert!(!copy_to_both(&mut sharing, &sessions, 2, 3));
    assert!(!copy_to_both(&mut sharing, &sessions, 3, 4));
    assert_eq!((sharing.saved(), sharing.book.len()), (UNIT, 3));
    assert_eq!(sharing.slots.len(), 2, "slots that nobody shows are free");
    let charges = [1, 2].map(|n| sharing.charge(SessionId(n), 8 * UNIT));
    assert_eq!(charges.iter().sum::<u64>(), 15 * UNIT);
    // With room available, sharing resumes.
    sharing.most = 100;
    assert!(copy_to_both(&mut sharing, &sessions, 4, 5));
    assert_eq!(sharing.saved(), 2 * UNIT);
}

#[test]
fn a_full_store_is_no_error() {
    let (mut sharing, sessions) = (Sharing::default(), two());
    sharing.begin(Store::new(2).as_ref());
    assert!(copy_to_both(&mut sharing, &sessions, 0, 1));
    assert!(copy_to_both(&mut sharing, &sessions, 1, 2));
    assert!(!copy_to_both(&mut sharing, &sessions, 2, 3));
    // A shared unit makes room once both sessions have overwritten it.
    assert!(copy_to_both(&mut sharing, &sessions, 0, 4));
    assert!(!copy_to_both(&mut sharing, &sessions, 3, 5));
    assert_eq!(sharing.saved(), 2 * UNIT);
}
