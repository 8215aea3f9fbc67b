//! Memory that a program maps at addresses which it has reserved (`cuMemCreate`, `cuMemMap`).
//!
//! A worker's memory has one address, and so does a piece of memory here: it is allocated where it is
//! mapped, when it is. A second address at the same time, or another one later, is refused in words.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use crate::abi::Handle;
use crate::device::Device;
use crate::handle::{Object, table};
use crate::lock::lock;
use crate::status::{Result, Status, note};

/// Pieces of memory, addresses and reserved ranges are multiples of this.
pub(crate) const GRAIN: u64 = 2 << 20;

/// A piece of memory.
#[derive(Debug)]
pub(crate) struct Physical {
    /// The device's number.
    pub(crate) device: usize,
    pub(crate) bytes: u64,
    /// The kinds of handles for other processes that it was made for.
    pub(crate) shared: c_int,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The program's own references.
    references: u32,
    /// Whether it has ever had an address.
    was_mapped: bool,
}

impl Physical {}

table!(Physical, INVALID_VALUE);

/// The pieces that are mapped, by their first addresses, each with its handle.
type Mapped = BTreeMap<u64, (Handle<Physical>, Arc<Physical>)>;

static MAPPED: Mutex<Mapped> = Mutex::new(BTreeMap::new());

/// A new piece of a device's memory.
pub(crate) fn create(device: &Device, bytes: u64, shared: c_int) -> Result<Handle<Physical>> {
    if bytes == 0 || !bytes.is_multiple_of(GRAIN) {
        return Err(Status::INVALID_VALUE);
    }
    let mut waiting = 0;
    // Those without an address have no memory yet, and are to find it when they are mapped.
    Physical::table().which(|piece| {
        if piece.device == device.ordinal && !lock(&piece.state).was_mapped {
            waiting += piece.bytes;
        }
        false
    });
    let (left, _) = device.memory()?;
    if bytes > left.saturating_sub(waiting) {
        return Err(Status::OUT_OF_MEMORY);
    }
    Ok(Physical::table().add(Physical {
        device: device.ordinal,
        bytes,
        shared,
        state: Mutex::new(State {
            references: 1,
            was_mapped: false,
        }),
    }))
}

/// The piece of a handle.
pub(crate) fn piece(handle: Handle<Physical>) -> Result<Arc<Physical>> {
    let found = handle.get().ok();
    let found = found.filter(|it| lock(&it.state).references > 0);
    found.ok_or(Status::INVALID_VALUE)
}

/// Takes a reference of the program's away; what is mapped stays until it is unmapped.
pub(crate) fn release(handle: Handle<Physical>) -> Result {
    let piece = piece(handle)?;
    let mut state = lock(&piece.state);
    state.references -= 1;
    let is_last = state.references == 0;
    drop(state);
    if is_last && !lock(&MAPPED).values().any(|(of, _)| *of == handle) {
        handle.remove()?;
    }
    Ok(())
}

/// The handle of what is mapped at an address, with one reference more.
pub(crate) fn retain(address: u64) -> Result<Handle<Physical>> {
    let mapped = lock(&MAPPED);
    let (start, (handle, piece)) = mapped
        .range(..=address)
        .next_back()
        .ok_or(Status::INVALID_VALUE)?;
    if address - start >= piece.bytes {
        return Err(Status::INVALID_VALUE);
    }
    lock(&piece.state).references += 1;
    Ok(*handle)
}

/// Gives a piece its address.
pub(crate) fn map(device: &Device, address: u64, handle: Handle<Physical>) -> Result {
    let piece = piece(handle)?;
    let mut state = lock(&piece.state);
    if state.was_mapped {
        let why = "memory of cuMemCreate has one address here: it cannot be mapped at a second one";
        note(Status::NOT_SUPPORTED, why.into());
        return Err(Status::NOT_SUPPORTED);
    }
    device.with(|session| session.channel().map(address, piece.bytes))?;
    state.was_mapped = true;
    drop(state);
    lock(&MAPPED).insert(address, (handle, piece));
    Ok(())
}

/// Takes the addresses of a range away from the pieces there, which it holds whole.
pub(crate) fn unmap(device: &Device, address: u64, bytes: u64) -> Result {
    let mut mapped = lock(&MAPPED);
    let whole = covered(&mapped, address, bytes).ok_or(Status::INVALID_VALUE)?;
    for start in whole {
        device.with(|session| session.channel().unmap(start))?;
        if let Some((handle, piece)) = mapped.remove(&start)
            && lock(&piece.state).references == 0
        {
            handle.remove()?;
        }
    }
    Ok(())
}

/// Whether a range is mapped from its beginning to its end.
pub(crate) fn is_mapped(address: u64, bytes: u64) -> bool {
    covered(&lock(&MAPPED), address, bytes).is_some()
}

/// The first addresses of the pieces that make up a range, if they do.
fn covered(mapped: &Mapped, address: u64, bytes: u64) -> Option<Vec<u64>> {
    let end = address.checked_add(bytes)?;
    let mut next = address;
    let mut found = Vec::new();
    for (start, (_, piece)) in mapped.range(address..end) {
        if *start != next {
            return None;
        }
        found.push(*start);
        next += piece.bytes;
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
            (
                Handle::NULL,
                Arc::new(Physical {
                    device: 0,
                    bytes,
                    shared: 0,
                    state,
                }),
            )
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
