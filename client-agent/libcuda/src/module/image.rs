//! What an image is, by its first bytes.

#![expect(
    unsafe_code,
    reason = "images come as bare pointers: their length is found in them"
)]

use std::ffi::{CStr, c_void};

use crate::fatbin;
use crate::status::{Result, Status};

/// How machine code begins.
const ELF: u32 = 0x464c_457f;

/// Most fatbins that one image is linked of.
const FATBINS: usize = 65_536;

/// What an image is, by its first bytes.
pub(crate) enum Image<'a> {
    Ptx(&'a [u8]),
    /// A container of PTX and machine code.
    Fatbin(&'a [u8]),
    /// Containers of what is linked when it is loaded; the first is linked already, as machine code.
    Parts(&'a [u8], Vec<&'a [u8]>),
    /// Machine code of a GPU.
    Binary,
}

/// Where an image begins, and how many bytes are there: as many as the image says, where the
/// program gives a pointer.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) first: *const c_void,
    pub(crate) room: usize,
}

impl Place {
    pub(crate) fn at(first: *const c_void) -> Self {
        Self {
            first,
            room: usize::MAX,
        }
    }

    /// A file's bytes, with a zero byte behind.
    pub(crate) fn within(bytes: &[u8]) -> Self {
        Self {
            first: bytes.as_ptr().cast(),
            room: bytes.len(),
        }
    }
}

/// Looks at an image.
///
/// # Safety
/// The place is that of a PTX text that ends with a zero byte, of a cubin or fatbin, or of the
/// structure that points to a fatbin.
pub(crate) unsafe fn image<'a>(place: Place) -> Result<Image<'a>> {
    if place.first.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let first: *const u8 = place.first.cast();
    let mut head = [0; 4];
    for (at, byte) in head.iter_mut().enumerate() {
        // SAFETY: a text is read to its zero byte at most; the others are longer than this.
        *byte = unsafe { first.add(at).read() };
        if *byte == 0 {
            break;
        }
    }
    match u32::from_le_bytes(head) {
        // Only what is in the program's memory can point there.
        // SAFETY: the structure is whole.
        fatbin::WRAPPER if place.room == usize::MAX => unsafe { wrapped(first) },
        // SAFETY: a container begins here.
        fatbin::MAGIC => unsafe { contained(place).map(Image::Fatbin) },
        ELF => Ok(Image::Binary),
        // SAFETY: a text ends with a zero byte.
        _ => Ok(Image::Ptx(
            unsafe { CStr::from_ptr(first.cast()) }.to_bytes(),
        )),
    }
}

/// What the structure that compilers leave in programs points to: a magic number, a version, where the
/// container is, and for version 2 a list of the containers that it was linked of, ended by null.
///
/// # Safety
/// The structure is there, and what it points to.
unsafe fn wrapped<'a>(first: *const u8) -> Result<Image<'a>> {
    // SAFETY: the caller vouches for the structure and the containers.
    unsafe {
        let version = first.add(4).cast::<u32>().read_unaligned();
        let container = first.add(8).cast::<*const c_void>().read_unaligned();
        let whole = contained(Place::at(container))?;
        let list = first
            .add(16)
            .cast::<*const *const c_void>()
            .read_unaligned();
        if version != 2 || list.is_null() {
            return Ok(Image::Fatbin(whole));
        }
        let mut parts = Vec::new();
        for at in 0..FATBINS {
            let part = list.add(at).read_unaligned();
            if part.is_null() {
                break;
            }
            parts.push(contained(Place::at(part))?);
        }
        Ok(Image::Parts(whole, parts))
    }
}

/// A fatbin, as long as it says.
///
/// # Safety
/// As [`image`].
unsafe fn contained<'a>(place: Place) -> Result<&'a [u8]> {
    if place.first.is_null() || place.room < fatbin::HEADER {
        return Err(Status::INVALID_IMAGE);
    }
    // SAFETY: there is a header at least.
    let header = unsafe { place.first.cast::<[u8; fatbin::HEADER]>().read_unaligned() };
    let length = fatbin::length(&header).filter(|length| *length <= place.room);
    let length = length.ok_or(Status::INVALID_IMAGE)?;
    // SAFETY: the caller vouches for as many bytes as the header says.
    Ok(unsafe { std::slice::from_raw_parts(place.first.cast(), length) })
}

/// The file that an image was mapped from: a library's or the program's, `None` for other memory.
pub(crate) fn origin(first: *const c_void) -> Option<String> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address is only compared; the name lives as long as the library, and is copied.
    unsafe {
        if libc::dladdr(first, &raw mut found) == 0 || found.dli_fname.is_null() {
            return None;
        }
        Some(
            CStr::from_ptr(found.dli_fname)
                .to_string_lossy()
                .into_owned(),
        )
    }
}
