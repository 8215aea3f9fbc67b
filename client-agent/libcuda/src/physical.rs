//! Memory that a program maps at addresses which it has reserved (`cuMemCreate`, `cuMemMap`).
//!
//! A worker's memory has one address, and so does a piece of memory here: it is allocated where it is
//! mapped, when it is. A second address at the same time, or another one later, is refused in words.
//!
//! A piece that is exported before it is mapped, and one that comes from another process, has its memory
//! somewhere else: at an address of its own, which nobody else sees, or in the other process. It is mapped by
//! an import, at as many addresses as the program likes.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use bus_schemas::ExportPlace;

use crate::abi::Handle;
use crate::device::Device;
use crate::exchange;
use crate::handle::{Object, table};
use crate::ipc::Name;
use crate::lock::lock;
use crate::process::process;
use crate::status::{Result, Status, note};

/// Pieces of memory, addresses and reserved ranges are multiples of this.
pub(crate) const GRAIN: u64 = 2 << 20;

/// The kind of handles for other processes that there is: a file descriptor.
pub(crate) const SHARED: c_int = 1;

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
    /// Where its memory is.
    home: Home,
}

/// Where a piece's memory is.
#[derive(Debug, Clone, Copy, Default)]
enum Home {
    /// It has none yet.
    #[default]
    None,
    /// Where it is mapped; or was, and the memory is gone.
    Mapped(u64, Option<Name>),
    /// At an address of its own, exported by this name; without one it is to be exported before it is mapped.
    Own(u64, Option<Name>),
    /// In another process.
    Other(Name, ExportPlace),
}

impl Physical {
    /// The whole of it, as whoever imports it needs to know.
    fn whole(&self) -> ExportPlace {
        ExportPlace {
            bytes: self.bytes,
            before: 0,
            span: self.bytes,
        }
    }

    fn of(device: &Device, bytes: u64, shared: c_int, home: Home) -> Self {
        let references = 1;
        Self {
            device: device.ordinal,
            bytes,
            shared,
            state: Mutex::new(State { references, home }),
        }
    }
}

table!(Physical, INVALID_VALUE);

/// The pieces that are mapped, by their first addresses, each with its handle.
type Mapped = BTreeMap<u64, (Handle<Physical>, Arc<Physical>)>;

static MAPPED: Mutex<Mapped> = Mutex::new(BTreeMap::new());

/// A new piece of a device's memory.
pub(crate) fn create(device: &Device, bytes: u64, shared: c_int) -> Result<Handle<Physical>> {
    if bytes == 0 || !bytes.is_multiple_of(GRAIN) {
        return Err(Status::INVALID_VALUE);
    }
    // It has no address yet, and so no memory; that it will find some when it is mapped is certain.
    device.with(|session| session.channel().promise(bytes))?;
    let piece = Physical::of(device, bytes, shared, Home::None);
    Ok(Physical::table().add(piece))
}

/// A piece that another process has exported by this name.
pub(crate) fn import(device: &Device, name: Name) -> Result<Handle<Physical>> {
    if device.with(|session| name.is_of(session)) {
        // This process has it already: under the handle that it was exported from.
        return Physical::table()
            .which(|piece| lock(&piece.state).home.name() == Some(name))
            .into_iter()
            .find(|handle| retained(*handle).is_ok())
            .ok_or(Status::INVALID_HANDLE);
    }
    let place = exchange::find(device, name)?;
    if place.before != 0 || !place.bytes.is_multiple_of(GRAIN) {
        return Err(Status::INVALID_HANDLE);
    }
    let piece = Physical::of(device, place.bytes, SHARED, Home::Other(name, place));
    Ok(Physical::table().add(piece))
}

fn retained(handle: Handle<Physical>) -> Result {
    let piece = piece(handle)?;
    lock(&piece.state).references += 1;
    Ok(())
}

impl Home {
    /// By what other processes know it.
    fn name(&self) -> Option<Name> {
        match self {
            Self::None => None,
            Self::Mapped(_, name) | Self::Own(_, name) => *name,
            Self::Other(name, _) => Some(*name),
        }
    }
}

/// The name of a piece for other processes. One without memory gets it now, at an address of its own.
pub(crate) fn export(device: &Device, handle: Handle<Physical>) -> Result<Name> {
    let piece = piece(handle)?;
    // Ahead of the piece's state: whoever has the table of what is mapped takes that too.
    let mapped = mapped_at(handle);
    let mut state = lock(&piece.state);
    if let Some(name) = state.home.name() {
        return Ok(name);
    }
    let address = match (state.home, mapped) {
        (Home::Mapped(address, _), Some(at)) if address == at => address,
        (Home::None, _) => {
            let room = device.with(|session| session.channel().reserve(piece.bytes, GRAIN))?;
            let made = device.with(|session| session.channel().map_promised(room, piece.bytes));
            if let Err(error) = made {
                device.with(|session| session.channel().unreserve(room))?;
                return Err(error.into());
            }
            // Its memory is there from here on, whatever comes of the export.
            state.home = Home::Own(room, None);
            room
        }
        (Home::Own(room, None), _) => room,
        _ => {
            let why = "memory of cuMemCreate that was mapped and unmapped is gone here";
            note(Status::NOT_SUPPORTED, why.into());
            return Err(Status::NOT_SUPPORTED);
        }
    };
    let name = Name::new(&device.session());
    exchange::patiently(device, |session| {
        session.channel().export(name.key, address)
    })?;
    state.home = match state.home {
        Home::Own(..) => Home::Own(address, Some(name)),
        _ => Home::Mapped(address, Some(name)),
    };
    Ok(name)
}

/// Where a piece is mapped, if it is.
fn mapped_at(handle: Handle<Physical>) -> Option<u64> {
    let mapped = lock(&MAPPED);
    let mut found = mapped.iter().filter(|(_, (of, _))| *of == handle);
    found.next().map(|(at, _)| *at)
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
        end(handle, &piece)?;
    }
    Ok(())
}

/// Nobody refers to a piece any more, nor is it mapped: its own memory is freed.
fn end(handle: Handle<Physical>, piece: &Physical) -> Result {
    handle.remove()?;
    let home = lock(&piece.state).home;
    let device = &process()?.devices[piece.device];
    match home {
        Home::None => device.with(|session| session.channel().break_promise(piece.bytes)),
        Home::Own(room, _) => {
            device.with(|session| session.channel().unmap(room))?;
            device.with(|session| session.channel().unreserve(room))?;
        }
        _ => {}
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
    let imported = |name: Name, place| {
        exchange::patiently(device, |session| {
            session.channel().import(name.key, address, place)
        })
    };
    match state.home {
        Home::None => {
            device.with(|session| session.channel().map_promised(address, piece.bytes))?;
            state.home = Home::Mapped(address, None);
        }
        Home::Mapped(..) => {
            let why = "memory of cuMemCreate that was not exported has one address here: it cannot be mapped \
                       at a second one";
            note(Status::NOT_SUPPORTED, why.into());
            return Err(Status::NOT_SUPPORTED);
        }
        Home::Own(_, Some(name)) => imported(name, piece.whole())?,
        Home::Own(_, None) => {
            let why = "memory of cuMemCreate whose export was refused is exported again before it is mapped";
            note(Status::NOT_SUPPORTED, why.into());
            return Err(Status::NOT_SUPPORTED);
        }
        Home::Other(name, place) => imported(name, place)?,
    }
    drop(state);
    lock(&MAPPED).insert(address, (handle, piece));
    Ok(())
}

/// Takes the addresses of a range away from the pieces there, which it holds whole.
pub(crate) fn unmap(device: &Device, address: u64, bytes: u64) -> Result {
    let mut mapped = lock(&MAPPED);
    let whole = covered(&mapped, address, bytes).ok_or(Status::INVALID_VALUE)?;
    for start in whole {
        let Some((handle, piece)) = mapped.get(&start).cloned() else {
            continue;
        };
        let (home, references) = {
            let state = lock(&piece.state);
            (state.home, state.references)
        };
        match home {
            Home::Own(..) | Home::Other(..) => {
                exchange::patiently(device, |session| session.channel().drop_import(start))?;
            }
            _ => device.with(|session| session.channel().unmap(start))?,
        }
        mapped.remove(&start);
        let elsewhere = mapped.values().any(|(of, _)| *of == handle);
        if references == 0 && !elsewhere {
            end(handle, &piece)?;
        }
    }
    Ok(())
}

/// The kinds of handles for other processes that the piece has which is mapped at an address.
pub(crate) fn shared_at(address: u64) -> u64 {
    let mapped = lock(&MAPPED);
    mapped
        .get(&address)
        .map_or(0, |(_, piece)| piece.shared as u64)
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
