//! Kinds of images, by their first bytes.

#![expect(
    unsafe_code,
    reason = "images come as bare pointers: their length is found in them"
)]

use crate::abi::{InAny, List, Text, present};
use crate::fatbin;
use crate::status::{Result, Status};

/// Magic number of machine code.
const ELF: u32 = 0x464c_457f;

/// Maximum bytes of machine code that is given by a pointer only.
const LARGEST: u64 = 1 << 30;

/// Maximum number of fatbins that an image is linked from.
const FATBINS: usize = 65_536;

/// An image, classified by its first bytes.
pub(crate) enum Image<'a> {
    Ptx(&'a [u8]),
    /// A container of PTX and machine code.
    Fatbin(&'a [u8]),
    /// Containers that are linked when loaded; the first one is already linked, as machine code.
    Parts(&'a [u8], Vec<&'a [u8]>),
    /// Machine code of a GPU; see [`machine_code`].
    Binary,
}

/// An image that a program names. If the program gives a bare pointer, the length is found in the
/// image. The program promises that a whole image begins there, and that a text ends with a zero
/// byte.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    first: *const u8,
    /// The bytes, if their number is known.
    bytes: Option<&'a [u8]>,
}

impl<'a> Place<'a> {
    pub(crate) fn at(image: InAny<'a>) -> Self {
        Self {
            first: image.address().cast(),
            bytes: None,
        }
    }

    /// An image that stays valid beyond the call.
    ///
    /// # Safety
    /// The program keeps it in place for as long as anything loaded from it.
    pub(crate) unsafe fn kept(image: InAny<'_>) -> Place<'static> {
        Place {
            first: image.address().cast(),
            bytes: None,
        }
    }

    /// An image in the bytes of a file.
    pub(crate) fn within(bytes: &'a [u8]) -> Self {
        Self {
            first: bytes.as_ptr(),
            bytes: Some(bytes),
        }
    }

    /// Maximum number of bytes there.
    fn room(self) -> usize {
        self.bytes.map_or(usize::MAX, <[u8]>::len)
    }

    /// The first bytes, with zeros behind a text's end.
    fn head(self) -> [u8; 4] {
        let mut head = [0; 4];
        for (at, byte) in head.iter_mut().enumerate().take(self.room()) {
            // SAFETY: a text is read to its zero byte at most; every other image has more than four
            // bytes.
            *byte = unsafe { self.first.add(at).read() };
            if *byte == 0 {
                break;
            }
        }
        head
    }

    /// The bytes of a text, without those behind its end.
    fn text(self) -> &'a [u8] {
        match self.bytes {
            // SAFETY: a text that a program gives by a bare pointer ends with a zero byte.
            None => unsafe { Text::at(self.first.cast()) }
                .bytes()
                .unwrap_or(&[]),
            Some(bytes) => bytes.split(|byte| *byte == 0).next().unwrap_or(bytes),
        }
    }
}

/// Classifies an image: a PTX text, a cubin or fatbin, or the structure that points to a fatbin.
pub(crate) fn image(place: Place<'_>) -> Result<Image<'_>> {
    present(place.first)?;
    match u32::from_le_bytes(place.head()) {
        // Only an image in the program's memory can contain pointers.
        fatbin::WRAPPER if place.bytes.is_none() => wrapped(place),
        fatbin::MAGIC => contained(place).map(Image::Fatbin),
        ELF => Ok(Image::Binary),
        _ => text(place.text()).map(Image::Ptx),
    }
}

/// Checks that a text names an existing version of PTX.
fn text(text: &[u8]) -> Result<&[u8]> {
    const VERSION: &[u8] = b".version";
    let mut places = text.windows(VERSION.len());
    let at = places.position(|it| it == VERSION);
    let behind = &text[at.ok_or(Status::INVALID_IMAGE)? + VERSION.len()..];
    let number = behind.trim_ascii_start();
    let digits = number.iter().take_while(|it| it.is_ascii_digit()).count();
    let major = std::str::from_utf8(&number[..digits]).ok();
    match major.and_then(|it| it.parse::<u32>().ok()) {
        Some(10..) => Err(Status::UNSUPPORTED_PTX_VERSION),
        _ => Ok(text),
    }
}

/// The bytes of a machine code image; its own headers give the length.
pub(crate) fn machine_code(place: Place<'_>) -> Result<&[u8]> {
    present(place.first)?;
    if let Some(bytes) = place.bytes {
        return Ok(bytes);
    }
    let mut known = 0;
    // Each round reads the part that the one before found: the header, the tables, the rest.
    for _ in 0..8 {
        // SAFETY: the program promises that a whole image begins there, and this one has at least
        // `known` bytes.
        let first = unsafe { std::slice::from_raw_parts(place.first, known) };
        let bytes = match known {
            0 => Some(4),
            _ => ptx::cubin_extent(first),
        };
        let bytes = bytes.filter(|bytes| *bytes <= LARGEST);
        let bytes = bytes.ok_or(Status::INVALID_IMAGE)? as usize;
        if bytes <= known {
            return Ok(first);
        }
        known = bytes;
    }
    Err(Status::INVALID_IMAGE)
}

/// The structure that compilers embed in programs.
#[repr(C)]
#[derive(Clone, Copy)]
struct Wrapper<'a> {
    magic: u32,
    version: u32,
    container: InAny<'a>,
    /// In version 2, the containers that it was linked from, with a terminating null.
    parts: List<'a, InAny<'a>>,
}

/// The image that such a structure points to.
fn wrapped<'a>(place: Place<'a>) -> Result<Image<'a>> {
    // SAFETY: its magic number begins a whole structure, which the program's compiler wrote.
    let wrapper = unsafe { place.first.cast::<Wrapper<'a>>().read_unaligned() };
    let whole = contained(Place::at(wrapper.container))?;
    if wrapper.version != 2 || wrapper.parts.is_null() {
        return Ok(Image::Fatbin(whole));
    }
    let mut parts = Vec::new();
    for at in 0..FATBINS {
        // SAFETY: the list of version 2 ends with null, which was not reached yet.
        let part = unsafe { wrapper.parts.item(at) };
        if part.address().is_null() {
            break;
        }
        parts.push(contained(Place::at(part))?);
    }
    Ok(Image::Parts(whole, parts))
}

/// A fatbin, with the length that its header states.
fn contained(place: Place<'_>) -> Result<&[u8]> {
    let room = place.room();
    if present(place.first).is_err() || room < fatbin::HEADER {
        return Err(Status::INVALID_IMAGE);
    }
    // SAFETY: a container begins with a header, and there is room for one.
    let header = unsafe { place.first.cast::<[u8; fatbin::HEADER]>().read_unaligned() };
    let length = fatbin::length(&header).filter(|length| *length <= room);
    let length = length.ok_or(Status::INVALID_IMAGE)?;
    // SAFETY: a container is as long as its header says, and no longer than the known bytes.
    Ok(unsafe { std::slice::from_raw_parts(place.first, length) })
}

/// The file that an image was mapped from: a library or the program; `None` for other memory.
pub(crate) fn origin(place: Place<'_>) -> Option<String> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address is only compared; the name lives as long as the library, and is copied.
    let name = unsafe {
        match libc::dladdr(place.first.cast(), &raw mut found) {
            0 => return None,
            _ => Text::at(found.dli_fname),
        }
    };
    let name = name.bytes().ok()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPU code followed by other data, as in a program's memory.
    fn lying() -> (usize, Vec<u8>) {
        let image = include_bytes!("../../../../gpu-worker/ptx/tests/cubins/wide-sm_90.cubin");
        let mut bytes = image.to_vec();
        bytes.extend_from_slice(&[0x7f; 64]);
        (image.len(), bytes)
    }

    #[test]
    fn machine_code_of_which_there_is_a_pointer_is_as_long_as_it_says() {
        let (length, bytes) = lying();
        let bare = Place {
            first: bytes.as_ptr(),
            bytes: None,
        };
        assert!(matches!(image(bare), Ok(Image::Binary)));
        assert_eq!(machine_code(bare), Ok(&bytes[..length]));
        assert_eq!(machine_code(Place::within(&bytes)), Ok(&bytes[..]));
    }

    #[test]
    fn other_code_and_such_that_says_too_much_is_no_image() {
        let (_, mut bytes) = lying();
        let found = |bytes: &[u8]| {
            let place = Place {
                first: bytes.as_ptr(),
                bytes: None,
            };
            machine_code(place).err()
        };
        // The offset of the sections.
        bytes[46] = 0xff;
        assert_eq!(found(&bytes), Some(Status::INVALID_IMAGE));
        // The machine type becomes x86-64.
        let (_, mut bytes) = lying();
        bytes[18] = 62;
        assert_eq!(found(&bytes), Some(Status::INVALID_IMAGE));
    }
}
