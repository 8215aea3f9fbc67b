//! The mappings of memory that the program creates (`cuMemMap`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bus_schemas::limits;

use crate::abi::Handle;
use crate::device::Device;
use crate::lock::lock;
use crate::physical::{GRAIN, Home, Physical, State};
use crate::process::process;
use crate::status::{Result, Status, note};

/// The way in which a piece is mapped at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Its memory is at that address.
    Home,
    /// Its memory is at its own address, and mapped there as well.
    Again,
    /// It is exported, by another process or by this one, and imported there.
    Imported,
}

/// The mapping of a piece.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) handle: Handle<Physical>,
    pub(crate) piece: Arc<Physical>,
    pub(crate) way: Way,
}

/// The mapped pieces, by their first addresses.
pub(crate) type Mapped = BTreeMap<u64, Mapping>;

pub(crate) static MAPPED: Mutex<Mapped> = Mutex::new(BTreeMap::new());

/// True if the device's worker moves memory, and maps it at several addresses.
pub(crate) fn moves(device: &Device) -> bool {
    device.with(|session| session.channel().maps_memory())
}

/// True if the piece of a handle is mapped anywhere.
pub(crate) fn holds(mapped: &Mapped, handle: Handle<Physical>) -> bool {
    mapped.values().any(|mapping| mapping.handle == handle)
}

pub(crate) fn unsupported<T>(why: &str) -> Result<T> {
    note(Status::NOT_SUPPORTED, why.into());
    Err(Status::NOT_SUPPORTED)
}

/// The error for a piece that was unmapped and had to be freed.
pub(crate) fn is_gone<T>() -> Result<T> {
    unsupported(
        "memory of cuMemCreate that was mapped and unmapped is gone here: its worker moves no memory, or the \
         session's window had no room for it",
    )
}

/// The handle of the piece mapped at an address, with one more reference.
pub(crate) fn retain(address: u64) -> Result<Handle<Physical>> {
    let mapped = lock(&MAPPED);
    let (start, found) = mapped
        .range(..=address)
        .next_back()
        .ok_or(Status::INVALID_VALUE)?;
    if address - start >= found.piece.bytes {
        return Err(Status::INVALID_VALUE);
    }
    lock(&found.piece.state).references += 1;
    Ok(found.handle)
}

/// Gives a piece that is mapped at an address an address of its own.
fn part(device: &Device, (at, bytes): (u64, u64), keep: bool) -> Result<u64> {
    let room = device.with(|session| session.channel().reserve(bytes, GRAIN))?;
    let moved = device.with(|session| session.channel().relocate(room, at, keep));
    if let Err(error) = moved {
        device.with(|session| session.channel().unreserve(room))?;
        return Err(error.into());
    }
    Ok(room)
}

/// Gives a piece that is mapped at one address its own address; it stays mapped at the former.
pub(crate) fn keep_apart(
    device: &Device,
    (at, bytes): (u64, u64),
    mapped: &mut Mapped,
    state: &mut State,
) -> Result<u64> {
    has_room(device, mapped)?;
    let room = part(device, (at, bytes), true)?;
    state.home = Home::Own(room, None);
    if let Some(mapping) = mapped.get_mut(&at) {
        mapping.way = Way::Again;
    }
    Ok(room)
}

/// Fails unless the worker accepts one more map of this session.
pub(crate) fn has_room(device: &Device, mapped: &Mapped) -> Result {
    let own = mapped
        .values()
        .filter(|it| it.piece.device == device.ordinal);
    if own.filter(|it| it.way == Way::Again).count() < limits::MAPS {
        return Ok(());
    }
    let why = "pieces of cuMemCreate have as many addresses beside their own as a session has here (1,024)";
    note(Status::OUT_OF_MEMORY, why.into());
    Err(Status::OUT_OF_MEMORY)
}

/// Removes the only mapping of a piece that has its memory there. While a handle refers to the
/// piece, its bytes stay, and [`settle`] moves them.
pub(crate) fn leave(
    device: &Device,
    at: u64,
    (piece, state): (&Arc<Physical>, &mut State),
) -> Result {
    if state.references > 0 && moves(device) {
        state.home = Home::Leaving(at);
        let mut leaving = lock(&LEAVING);
        leaving.push(Arc::clone(piece));
        LEAVES.store(true, Ordering::Release);
        return Ok(());
    }
    device.with(|session| session.channel().unmap(at))?;
    state.home = Home::Gone;
    Ok(())
}

/// Unmapped pieces that may have to be moved. Programs mostly release them at once, and then they
/// are freed in place.
static LEAVING: Mutex<Vec<Arc<Physical>>> = Mutex::new(Vec::new());

/// True if there are any. It is changed under their lock, and is false only once all are moved. So
/// a thread that maps memory where another has just unmapped waits for a third thread that moves
/// it.
static LEAVES: AtomicBool = AtomicBool::new(false);

/// Moves unmapped pieces before any call, except for the calls by which programs release them.
#[inline]
pub(crate) fn settle(called: &str) {
    if LEAVES.load(Ordering::Acquire) {
        settle_now(called);
    }
}

#[cold]
fn settle_now(called: &str) {
    if matches!(called, "cuMemUnmap" | "cuMemRelease") {
        return;
    }
    let Ok(process) = process() else {
        return;
    };
    let mut leaving = lock(&LEAVING);
    for piece in leaving.drain(..) {
        if let Some(device) = process.devices.get(piece.device) {
            find_room(device, piece.bytes, &mut lock(&piece.state));
        }
    }
    LEAVES.store(false, Ordering::Release);
}

/// Gives an unmapped piece an address of its own. If the window has no room, the piece is freed.
pub(crate) fn find_room(device: &Device, bytes: u64, state: &mut State) {
    let Home::Leaving(at) = state.home else {
        return;
    };
    state.home = match part(device, (at, bytes), false) {
        Ok(room) => Home::Own(room, None),
        Err(_) => {
            // A failed session has nothing left to unmap.
            let _ = device.with(|session| session.channel().unmap(at));
            Home::Gone
        }
    };
}

/// The kinds of export handles of the piece that is mapped at an address.
pub(crate) fn shared_at(address: u64) -> u64 {
    let mapped = lock(&MAPPED);
    mapped
        .get(&address)
        .map_or(0, |mapping| mapping.piece.shared as u64)
}

/// True if a range is mapped from its begin to its end.
pub(crate) fn is_mapped(address: u64, bytes: u64) -> bool {
    covered(&lock(&MAPPED), address, bytes).is_some()
}

/// The first addresses of the pieces that make up a range, if it is fully mapped.
pub(crate) fn covered(mapped: &Mapped, address: u64, bytes: u64) -> Option<Vec<u64>> {
    let end = address.checked_add(bytes)?;
    let mut next = address;
    let mut found = Vec::new();
    for (start, mapping) in mapped.range(address..end) {
        if *start != next {
            return None;
        }
        found.push(*start);
        next += mapping.piece.bytes;
    }
    (next == end && !found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_made_up_of_whole_pieces() {
        let piece = |bytes| {
            let state = Mutex::default();
            Mapping {
                handle: Handle::NULL,
                piece: Arc::new(Physical {
                    device: 0,
                    bytes,
                    shared: 0,
                    state,
                }),
                way: Way::Home,
            }
        };
        let table = BTreeMap::from([(GRAIN, piece(GRAIN)), (2 * GRAIN, piece(2 * GRAIN))]);
        assert_eq!(covered(&table, GRAIN, GRAIN), Some(vec![GRAIN]));
        assert_eq!(
            covered(&table, GRAIN, 3 * GRAIN),
            Some(vec![GRAIN, 2 * GRAIN])
        );
        for (address, bytes) in [
            (0, GRAIN),
            (0, 2 * GRAIN),
            (GRAIN, 2 * GRAIN),
            (GRAIN, 4 * GRAIN),
            (3 * GRAIN, GRAIN),
            (GRAIN, 0),
            (u64::MAX, GRAIN),
        ] {
            assert_eq!(covered(&table, address, bytes), None, "{address} {bytes}");
        }
    }
}
