//! Memory mapped at reserved addresses.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::fs::File;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;

use super::advice::{DEVICE, Location};
use super::device::device;
use super::memory::range;
use crate::abi::{Count, Handle, In, List, Out};
use crate::current_context::current_device;
use crate::device::Device;
use crate::exchange;
use crate::guard::api;
use crate::ipc::{NAME, Name};
use crate::mapped;
use crate::physical::{self, GRAIN, Physical, SHARED};
use crate::pieces;
use crate::process::{holder, process};
use crate::status::{Result, Status, note};

/// Memory that does not migrate.
const PINNED: c_int = 1;
/// Prefix of a file that names a piece of memory.
const PIECE: [u8; 8] = *b"WLIPCVMM";
/// Read and write access.
const BOTH: c_int = 3;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    kind: c_int,
    /// Kinds of handles for export to other processes.
    shared: c_int,
    location: Location,
    windows: *const c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

fn unsupported<T>(why: &str) -> Result<T> {
    note(Status::NOT_SUPPORTED, why.into());
    Err(Status::NOT_SUPPORTED)
}

/// The device of a location.
fn located(location: Location) -> Result<&'static Device> {
    if location.kind != DEVICE {
        return unsupported("memory that is mapped lies on a device here, not on the host");
    }
    device(location.id)
}

/// The device that the properties of a program name.
fn wanted(properties: &In<'_, Properties>) -> Result<&'static Device> {
    let properties = properties.take()?;
    if properties.kind != PINNED {
        return Err(Status::INVALID_VALUE);
    }
    let device = located(properties.location)?;
    if properties.shared & !SHARED != 0 {
        return unsupported("memory of cuMemCreate has no such handles for other processes");
    }
    Ok(device)
}

/// The device with the window that contains an address.
fn device_of(address: u64) -> Result<&'static Device> {
    holder(address)?.ok_or(Status::INVALID_VALUE)
}

/// A sealed file that carries a name to other processes.
fn named(name: &[u8; NAME]) -> std::io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the file's name is a C string.
    let made = unsafe { libc::memfd_create(c"warploom-memory".as_ptr(), flags) };
    if made < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and has no other owner.
    let file = unsafe { File::from_raw_fd(made) };
    file.write_all_at(name, 0)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: the descriptor is ours.
    match unsafe { libc::fcntl(made, libc::F_ADD_SEALS, seals) } {
        0 => Ok(file),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Reads the name from a file of the program, if the file is long enough.
fn read(file: c_int) -> Option<[u8; NAME]> {
    let mut name = [0; NAME];
    // SAFETY: the buffer is as long as said; a number that is not a descriptor is refused.
    let got = unsafe { libc::pread(file, name.as_mut_ptr().cast(), NAME, 0) };
    (got == NAME as isize).then_some(name)
}

api! {
    fn cuMemAddressReserve(
        address: Out<'_, u64>, bytes: usize, alignment: usize, _hint: u64, flags: c_ulonglong,
    ) {
        let device = current_device()?;
        let bytes = bytes as u64;
        let aligned = alignment == 0 || alignment.is_power_of_two();
        let align = GRAIN.max(alignment as u64);
        address.put_made(|| {
            if bytes == 0 || !bytes.is_multiple_of(GRAIN) || !aligned || flags != 0 {
                return Err(Status::INVALID_VALUE);
            }
            Ok(device.with(|session| session.channel().reserve(bytes, align))?)
        })
    }

    fn cuMemAddressFree(address: u64, _bytes: usize)
        => device_of(address)?.with(|session| Ok(session.channel().unreserve(address)?));

    fn cuMemCreate(
        piece: Out<'_, Handle<Physical>>, bytes: usize, properties: In<'_, Properties>, flags: c_ulonglong,
    ) {
        let device = wanted(&properties)?;
        piece.put_made(|| match flags {
            0 => pieces::create(device, bytes as u64, properties.take()?.shared),
            _ => Err(Status::INVALID_VALUE),
        })
    }

    fn cuMemRelease(piece: Handle<Physical>) => pieces::release(piece);
    fn cuMemRetainAllocationHandle(piece: Out<'_, Handle<Physical>>, address: u64)
        => piece.put_made(|| mapped::retain(address));

    fn cuMemMap(address: u64, bytes: usize, offset: usize, handle: Handle<Physical>, flags: c_ulonglong) {
        let device = device_of(address)?;
        let piece = physical::piece(handle)?;
        let whole = offset == 0 && piece.bytes == bytes as u64;
        if !whole || flags != 0 || !address.is_multiple_of(GRAIN) || piece.device != device.ordinal {
            return Err(Status::INVALID_VALUE);
        }
        pieces::map(device, address, handle)
    }

    fn cuMemUnmap(address: u64, bytes: usize) => pieces::unmap(device_of(address)?, address, bytes as u64);

    fn cuMemSetAccess<'c>(address: u64, bytes: usize, access: List<'c, Access>, count: Count<'c>) {
        let device = device_of(address)?;
        access.check()?;
        if !mapped::is_mapped(address, bytes as u64) {
            return Err(Status::INVALID_VALUE);
        }
        for access in access.items(count)? {
            if located(access.location)?.ordinal != device.ordinal {
                return unsupported("memory is reached from its own device only");
            }
            if access.flags != BOTH {
                return unsupported("memory that is mapped can be read and written");
            }
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: Out<'_, c_ulonglong>, location: In<'_, Location>, address: u64) {
        let device = device_of(address)?;
        let location = location.take()?;
        let (base, bytes) = range(address)?;
        if !mapped::is_mapped(base, bytes) {
            return Err(Status::INVALID_VALUE);
        }
        let of = located(location)?.ordinal;
        flags.put(if of == device.ordinal { BOTH as c_ulonglong } else { 0 })
    }

    fn cuMemGetAllocationGranularity(bytes: Out<'_, usize>, properties: In<'_, Properties>, option: c_int) {
        wanted(&properties)?;
        if !matches!(option, 0 | 1) {
            return Err(Status::INVALID_VALUE);
        }
        bytes.put(GRAIN as usize)
    }

    fn cuMemExportToShareableHandle(
        shared: Out<'_, c_int>, piece: Handle<Physical>, kind: c_int, flags: c_ulonglong,
    ) {
        shared.check()?;
        let of = physical::piece(piece)?;
        if kind != SHARED || flags != 0 || of.shared & SHARED == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let device = process()?.devices.get(of.device).ok_or(Status::INVALID_DEVICE)?;
        let name = pieces::export(device, piece)?;
        let file = named(&name.bytes(PIECE)).map_err(|_| Status::OPERATING_SYSTEM)?;
        shared.put(file.into_raw_fd())
    }

    fn cuMemImportFromShareableHandle(piece: Out<'_, Handle<Physical>>, shared: usize, kind: c_int) {
        piece.put_made(|| {
            if kind != SHARED {
                return Err(Status::INVALID_VALUE);
            }
            let file = c_int::try_from(shared).map_err(|_| Status::INVALID_VALUE)?;
            let name = Name::read(&read(file).ok_or(Status::INVALID_VALUE)?, PIECE);
            let name = name.ok_or(Status::INVALID_VALUE)?;
            pieces::import(exchange::device_of(name)?, name)
        })
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<'_, Properties>, piece: Handle<Physical>) {
        let piece = physical::piece(piece)?;
        let (id, shared) = (piece.device as c_int, piece.shared);
        let (location, windows) = (Location { kind: DEVICE, id }, std::ptr::null());
        properties.put(Properties { kind: PINNED, shared, location, windows, flags: [0; 8] })
    }
}
