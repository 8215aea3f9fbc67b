//! CUDA arrays: memory of a session, stored row by row. Drivers hide the layout of an array. Here
//! it need not be hidden: a kernel reaches an array only through a texture or surface object.

use std::ffi::{c_int, c_uint};

use bus_schemas::Channel;

use crate::abi::Handle;
use crate::current_context::current_device;
use crate::handle::{Object, table};
use crate::process::holder;
use crate::status::{Result, Status};

/// Flags of an array.
pub(crate) const LAYERED: c_uint = 0x01;
pub(crate) const SURFACE: c_uint = 0x02;
pub(crate) const CUBEMAP: c_uint = 0x04;
const GATHER: c_uint = 0x08;
const DEPTH: c_uint = 0x10;
const COLOR: c_uint = 0x20;
pub(crate) const SPARSE: c_uint = 0x40;
pub(crate) const DEFERRED: c_uint = 0x80;

/// Alignment of rows, bytes.
const PITCH: usize = 32;

/// Maximum number of layers of an array.
const LAYERS: usize = 2048;

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flat {
    width: usize,
    height: usize,
    format: c_int,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    format: c_int,
    channels: c_uint,
    flags: c_uint,
}

const _: () = assert!(size_of::<Flat>() == 24 && size_of::<Descriptor>() == 40);

impl From<Flat> for Descriptor {
    fn from(flat: Flat) -> Self {
        Self {
            width: flat.width,
            height: flat.height,
            format: flat.format,
            channels: flat.channels,
            ..Self::default()
        }
    }
}

impl From<Descriptor> for Flat {
    fn from(whole: Descriptor) -> Self {
        Self {
            width: whole.width,
            height: whole.height,
            format: whole.format,
            channels: whole.channels,
        }
    }
}

/// The element of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) channel: Channel,
    /// Bits of a channel.
    pub(crate) bits: u32,
    pub(crate) channels: u32,
}

impl Element {
    /// The element of a `CUarray_format` with a number of channels.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for formats of pictures, of compressed blocks and of packed channels;
    /// `INVALID_VALUE` for an unknown format.
    pub(crate) fn of(format: c_int, channels: c_uint) -> Result<Self> {
        let (channel, bits) = match format {
            1..=3 => (Channel::Unsigned, 4 << format),
            8..=10 => (Channel::Signed, 8 << (format - 8)),
            0x10 => (Channel::Float, 16),
            0x20 => (Channel::Float, 32),
            0x50 | 0x90..=0xcf => return Err(Status::NOT_SUPPORTED),
            _ => return Err(Status::INVALID_VALUE),
        };
        if !matches!(channels, 1 | 2 | 4) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Self {
            channel,
            bits,
            channels,
        })
    }

    pub(crate) fn bytes(self) -> usize {
        (self.channels * self.bits / 8) as usize
    }
}

/// An array.
#[derive(Debug)]
pub(crate) struct Array {
    pub(crate) descriptor: Descriptor,
    pub(crate) element: Element,
    pub(crate) address: u64,
    /// Bytes from row to row.
    pub(crate) pitch: usize,
}

/// A mipmapped array, represented by its only level.
pub(crate) struct Mipmapped(Handle<Array>);

table!(Array, INVALID_HANDLE);
table!(Mipmapped, INVALID_HANDLE);

impl Descriptor {
    fn has(&self, flag: c_uint) -> bool {
        self.flags & flag != 0
    }

    /// True if the depth counts layers.
    pub(crate) fn is_layered(&self) -> bool {
        self.has(LAYERED)
    }

    /// True if surface objects may be made of it.
    pub(crate) fn is_surface(&self) -> bool {
        self.has(SURFACE)
    }

    fn check(&self) -> Result {
        let known = LAYERED | SURFACE | CUBEMAP | GATHER | DEPTH | COLOR | SPARSE | DEFERRED;
        let most = self.most();
        let sizes = [self.width, self.height, self.depth];
        let too_large = sizes.iter().zip(most).any(|(size, most)| *size > most);
        let gap = self.height == 0 && self.depth > 0 && !self.is_layered();
        let flat = self.height > 0 && self.depth == 0 && !self.is_layered();
        if self.flags & !known != 0
            || self.width == 0
            || too_large
            || gap
            || self.is_layered() && self.depth == 0
            || self.has(GATHER) && !flat
        {
            return Err(Status::INVALID_VALUE);
        }
        match self.flags & (CUBEMAP | DEPTH | SPARSE | DEFERRED) {
            0 => Ok(()),
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    /// Maximum of each side, equal to the device attributes.
    fn most(&self) -> [usize; 3] {
        match (self.is_layered(), self.height, self.depth) {
            (true, _, _) => [32_768, 32_768, LAYERS],
            (false, _, 0) if self.has(GATHER) => [32_768, 32_768, 0],
            (false, _, 0) => [131_072, 65_536, 0],
            _ => [16_384; 3],
        }
    }

    /// The element, the bytes from row to row, and the total bytes.
    fn layout(&self) -> Result<(Element, usize, usize)> {
        let element = Element::of(self.format, self.channels)?;
        self.check()?;
        // The sides were checked, so no product of them overflows.
        let pitch = (self.width * element.bytes()).next_multiple_of(PITCH);
        Ok((
            element,
            pitch,
            pitch * self.height.max(1) * self.depth.max(1),
        ))
    }
}

impl Array {
    /// Bytes of a row without padding.
    pub(crate) fn row(&self) -> usize {
        self.descriptor.width * self.element.bytes()
    }

    /// Rows of a slice.
    pub(crate) fn rows(&self) -> usize {
        self.descriptor.height.max(1)
    }

    /// Bytes from slice to slice.
    pub(crate) fn slice(&self) -> usize {
        self.pitch * self.rows()
    }

    /// Checks that a box lies within the array; in bytes, rows, slices.
    pub(crate) fn check(&self, at: [usize; 3], size: [usize; 3]) -> Result {
        let whole = [self.row(), self.rows(), self.descriptor.depth.max(1)];
        let ends = at.iter().zip(size).zip(whole).all(|((at, size), whole)| {
            let end = at.checked_add(size);
            end.is_some_and(|end| end <= whole)
        });
        match ends && at[0].is_multiple_of(self.element.bytes()) {
            true => Ok(()),
            false => Err(Status::INVALID_VALUE),
        }
    }
}

/// Creates an array on the current device.
pub(crate) fn create(descriptor: Descriptor) -> Result<Handle<Array>> {
    let device = current_device()?;
    let (element, pitch, bytes) = descriptor.layout()?;
    let address = device.alloc(bytes)?;
    Ok(Array::table().add(Array {
        descriptor,
        element,
        address,
        pitch,
    }))
}

/// Destroys an array. Earlier calls still find it, because a session's ops run in order.
pub(crate) fn destroy(array: Handle<Array>) -> Result {
    let array = array.remove()?;
    let device = holder(array.address)?.ok_or(Status::INVALID_HANDLE)?;
    device.free(array.address)
}

/// Creates a mipmapped array of one level. A number of levels above the possible one is reduced to
/// it.
pub(crate) fn create_mipmapped(
    descriptor: Descriptor,
    levels: c_uint,
) -> Result<Handle<Mipmapped>> {
    let largest = descriptor
        .width
        .max(descriptor.height)
        .max(descriptor.depth);
    // The last level has one element.
    let most = 1 + largest.checked_ilog2().unwrap_or(0);
    if levels.min(most) > 1 {
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(Mipmapped::table().add(Mipmapped(create(descriptor)?)))
}

/// The array that is a level of a mipmapped one.
pub(crate) fn level(mipmapped: Handle<Mipmapped>, level: c_uint) -> Result<Handle<Array>> {
    let array = mipmapped.with(|mipmapped| mipmapped.0)?;
    match level {
        0 => Ok(array),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// An array with flags, as the tests of attributes ask for it: eight elements wide and high, six
/// deep.
#[cfg(test)]
fn flagged(flags: c_uint) -> Descriptor {
    Descriptor {
        width: 8,
        height: 8,
        depth: 6,
        format: 0x20,
        channels: 1,
        flags,
    }
}

/// True if arrays with these flags are not supported, although those without are.
#[cfg(test)]
pub(crate) fn refuses(flags: c_uint) -> bool {
    flagged(0).layout().is_ok() && flagged(flags).layout().err() == Some(Status::NOT_SUPPORTED)
}

/// True if arrays of several levels are not supported.
#[cfg(test)]
pub(crate) fn refuses_mipmaps() -> bool {
    create_mipmapped(flagged(0), 2).err() == Some(Status::NOT_SUPPORTED)
}

/// Destroys a mipmapped array and its level.
pub(crate) fn destroy_mipmapped(mipmapped: Handle<Mipmapped>) -> Result {
    destroy(mipmapped.remove()?.0)
}

/// Forgets arrays with memory that is already freed.
pub(crate) fn forget(is_freed: impl Fn(u64) -> bool) {
    Array::table().take(|array| is_freed(array.address));
    Mipmapped::table().take(|mipmapped| mipmapped.0.check().is_err());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(sizes: [usize; 3], format: c_int, channels: c_uint, flags: c_uint) -> Descriptor {
        Descriptor {
            width: sizes[0],
            height: sizes[1],
            depth: sizes[2],
            format,
            channels,
            flags,
        }
    }

    #[test]
    fn elements_are_as_their_formats_say() {
        let bits = |format| Element::of(format, 1).map(|element| (element.channel, element.bits));
        assert_eq!(bits(1), Ok((Channel::Unsigned, 8)));
        assert_eq!(bits(3), Ok((Channel::Unsigned, 32)));
        assert_eq!(bits(8), Ok((Channel::Signed, 8)));
        assert_eq!(bits(10), Ok((Channel::Signed, 32)));
        assert_eq!(bits(0x10), Ok((Channel::Float, 16)));
        assert_eq!(bits(0x20), Ok((Channel::Float, 32)));
        assert_eq!(bits(0xb0), Err(Status::NOT_SUPPORTED));
        assert_eq!(bits(0x77), Err(Status::INVALID_VALUE));
        assert_eq!(Element::of(1, 3), Err(Status::INVALID_VALUE));
        assert_eq!(Element::of(0x20, 4).expect("known").bytes(), 16);
    }

    #[test]
    fn sizes_make_a_layout_or_none() {
        let bytes = |sizes, flags| {
            descriptor(sizes, 0x20, 1, flags)
                .layout()
                .map(|it| (it.1, it.2))
        };
        assert_eq!(bytes([5, 0, 0], 0), Ok((32, 32)));
        assert_eq!(bytes([9, 3, 0], 0), Ok((64, 192)));
        assert_eq!(bytes([8, 3, 2], 0), Ok((32, 192)));
        assert_eq!(bytes([8, 0, 5], LAYERED), Ok((32, 160)));
        for (sizes, flags) in [
            ([0, 0, 0], 0),
            ([8, 0, 2], 0),
            ([8, 2, 0], LAYERED),
            ([8, 2, LAYERS + 1], LAYERED),
            ([131_073, 0, 0], 0),
            ([8, 0, 0], GATHER),
            ([8, 8, 0], 0x100),
        ] {
            assert_eq!(
                bytes(sizes, flags),
                Err(Status::INVALID_VALUE),
                "{sizes:?} {flags}"
            );
        }
        assert_eq!(bytes([8, 8, 6], CUBEMAP), Err(Status::NOT_SUPPORTED));
    }

    #[test]
    fn boxes_lie_within_or_not() {
        let descriptor = descriptor([9, 3, 2], 2, 2, 0);
        let (element, pitch, _) = descriptor.layout().expect("a layout");
        let array = Array {
            descriptor,
            element,
            address: 0,
            pitch,
        };
        assert_eq!((array.pitch, array.rows(), array.slice()), (64, 3, 192));
        assert_eq!(array.check([0, 0, 0], [36, 3, 2]), Ok(()));
        assert_eq!(array.check([32, 2, 1], [4, 1, 1]), Ok(()));
        for (at, size) in [
            ([0, 0, 0], [37, 1, 1]),
            ([32, 0, 0], [8, 1, 1]),
            ([0, 1, 0], [4, 3, 1]),
            ([0, 0, 1], [4, 1, 2]),
            ([2, 0, 0], [4, 1, 1]),
            ([usize::MAX - 3, 0, 0], [8, 1, 1]),
        ] {
            assert_eq!(
                array.check(at, size),
                Err(Status::INVALID_VALUE),
                "{at:?} {size:?}"
            );
        }
    }
}
