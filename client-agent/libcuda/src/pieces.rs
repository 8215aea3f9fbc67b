//! Operations of programs on memory that they create and map themselves.

use std::ffi::c_int;

use crate::abi::Handle;
use crate::device::Device;
use crate::exchange;
use crate::handle::Object;
use crate::ipc::Name;
use crate::lock::lock;
use crate::mapped::{self, MAPPED, Mapped, Mapping, Way};
use crate::physical::{GRAIN, Home, Physical, SHARED, State, piece};
use crate::process::process;
use crate::status::{Result, Status};

/// Creates a piece of a device's memory.
pub(crate) fn create(device: &Device, bytes: u64, shared: c_int) -> Result<Handle<Physical>> {
    if bytes == 0 || !bytes.is_multiple_of(GRAIN) {
        return Err(Status::INVALID_VALUE);
    }
    // It has no address yet, and so no memory; this makes sure that there will be memory when it is
    // mapped.
    device.with(|session| session.channel().promise(bytes))?;
    let piece = Physical::of(device, bytes, shared, Home::None);
    Ok(Physical::table().add(piece))
}

/// Imports a piece that another process has exported by this name.
pub(crate) fn import(device: &Device, name: Name) -> Result<Handle<Physical>> {
    if device.with(|session| name.is_of(session)) {
        // This process has it already, under the handle that it was exported from.
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

/// The name of a piece for other processes. A piece without an address of its own now gets one,
/// with memory.
pub(crate) fn export(device: &Device, handle: Handle<Physical>) -> Result<Name> {
    let piece = piece(handle)?;
    let mut mapped = lock(&MAPPED);
    let mut state = lock(&piece.state);
    if let Some(name) = state.home.name() {
        return Ok(name);
    }
    mapped::find_room(device, piece.bytes, &mut state);
    let address = exportable(device, &piece, &mut mapped, &mut state)?;
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

/// The address of an exported piece's memory; the piece gets one if needed.
fn exportable(
    device: &Device,
    piece: &Physical,
    mapped: &mut Mapped,
    state: &mut State,
) -> Result<u64> {
    match state.home {
        Home::None => {
            let room = device.with(|session| session.channel().reserve(piece.bytes, GRAIN))?;
            let made = device.with(|session| session.channel().map_promised(room, piece.bytes));
            if let Err(error) = made {
                device.with(|session| session.channel().unreserve(room))?;
                return Err(error.into());
            }
            // Its memory is there from now on, even if the export fails.
            state.home = Home::Own(room, None);
            Ok(room)
        }
        Home::Mapped(at, None) if mapped::moves(device) => {
            mapped::keep_apart(device, (at, piece.bytes), mapped, state)
        }
        Home::Mapped(address, _) | Home::Own(address, _) => Ok(address),
        Home::Leaving(_) | Home::Gone | Home::Other(..) => mapped::is_gone(),
    }
}

/// Removes a reference of the program; mappings stay until they are unmapped.
pub(crate) fn release(handle: Handle<Physical>) -> Result {
    let piece = piece(handle)?;
    let mut state = lock(&piece.state);
    state.references -= 1;
    let is_last = state.references == 0;
    drop(state);
    if is_last && !mapped::holds(&lock(&MAPPED), handle) {
        end(handle, &piece)?;
    }
    Ok(())
}

/// Frees the memory of a piece without handles and mappings.
pub(crate) fn end(handle: Handle<Physical>, piece: &Physical) -> Result {
    handle.remove()?;
    let mut state = lock(&piece.state);
    let device = &process()?.devices[piece.device];
    match std::mem::replace(&mut state.home, Home::Gone) {
        Home::None => device.with(|session| session.channel().break_promise(piece.bytes)),
        Home::Own(room, _) => {
            device.with(|session| session.channel().unmap(room))?;
            device.with(|session| session.channel().unreserve(room))?;
        }
        Home::Leaving(at) => device.with(|session| session.channel().unmap(at))?,
        Home::Mapped(..) | Home::Other(..) | Home::Gone => {}
    }
    Ok(())
}

/// Maps a piece at an address.
pub(crate) fn map(device: &Device, address: u64, handle: Handle<Physical>) -> Result {
    let mut mapped = lock(&MAPPED);
    let piece = piece(handle)?;
    let mut state = lock(&piece.state);
    mapped::find_room(device, piece.bytes, &mut state);
    if let Home::Mapped(at, None) = state.home
        && mapped::moves(device)
    {
        mapped::keep_apart(device, (at, piece.bytes), &mut mapped, &mut state)?;
    }
    let imported = |name: Name, place| {
        exchange::patiently(device, |session| {
            session.channel().import(name.key, address, place)
        })
    };
    let way = match state.home {
        Home::None => {
            device.with(|session| session.channel().map_promised(address, piece.bytes))?;
            state.home = Home::Mapped(address, None);
            Way::Home
        }
        Home::Own(room, _) if mapped::moves(device) => {
            mapped::has_room(device, &mapped)?;
            device.with(|session| session.channel().map_again(address, room))?;
            Way::Again
        }
        Home::Own(_, Some(name)) => {
            imported(name, piece.whole())?;
            Way::Imported
        }
        Home::Other(name, place) => {
            imported(name, place)?;
            Way::Imported
        }
        Home::Own(_, None) => {
            return mapped::unsupported(
                "memory of cuMemCreate, refused for export before, is exported again before it is mapped",
            );
        }
        Home::Mapped(..) => {
            return mapped::unsupported(
                "memory of cuMemCreate that was not exported has one address on this worker: its device or build \
                 moves no memory, so it cannot be mapped at a second one",
            );
        }
        Home::Leaving(_) | Home::Gone => return mapped::is_gone(),
    };
    drop(state);
    let mapping = Mapping { handle, piece, way };
    mapped.insert(address, mapping);
    Ok(())
}

/// Unmaps the pieces in a range, which must contain each of them whole.
pub(crate) fn unmap(device: &Device, address: u64, bytes: u64) -> Result {
    let mut mapped = lock(&MAPPED);
    let whole = mapped::covered(&mapped, address, bytes).ok_or(Status::INVALID_VALUE)?;
    for start in whole {
        let Some(Mapping { handle, piece, way }) = mapped.get(&start).cloned() else {
            continue;
        };
        let mut state = lock(&piece.state);
        match way {
            Way::Imported => {
                exchange::patiently(device, |session| session.channel().drop_import(start))?;
            }
            Way::Again => device.with(|session| session.channel().unmap(start))?,
            Way::Home => mapped::leave(device, start, (&piece, &mut state))?,
        }
        mapped.remove(&start);
        let is_referred_to = state.references > 0;
        drop(state);
        if !is_referred_to && !mapped::holds(&mapped, handle) {
            end(handle, &piece)?;
        }
    }
    Ok(())
}
