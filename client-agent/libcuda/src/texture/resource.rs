//! Resources of texture and surface objects: an array, a view of one, or memory.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use bus_schemas::{Channel, Texture, TextureShape};

use crate::abi::Handle;
use crate::array::{Array, Element};
use crate::attribute::LINEAR;
use crate::status::{Result, Status};

/// `CUresourcetype`.
const ARRAY: c_int = 0;
const MIPMAPPED: c_int = 1;
const LINEAR_MEMORY: c_int = 2;
const PITCHED_MEMORY: c_int = 3;

/// Maximum columns, rows and bytes of a row of pitched memory, then the unit of its pitch.
const PITCHED: (u64, u64, u64) = (131_072, 65_000, 2_097_120);
const PITCH: u64 = 32;

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    kind: c_int,
    /// The resource, by its kind: the handle of an array; or an address, format and channels, and
    /// sizes.
    words: [u64; 16],
    flags: c_uint,
}

/// `CUDA_RESOURCE_VIEW_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    format: c_int,
    sizes: [usize; 3],
    levels: [c_uint; 2],
    layers: [c_uint; 2],
    reserved: [c_uint; 16],
}

const _: () = assert!(size_of::<Resource>() == 144 && size_of::<View>() == 112);

/// A texture of elements at an address; the caller sets the other fields.
fn data(element: Element, address: u64) -> Texture {
    Texture {
        address,
        channels: element.channels,
        bits: element.bits,
        channel: element.channel,
        ..Texture::default()
    }
}

impl Resource {
    /// The texture data of the resource, seen through the view if there is one.
    pub(super) fn data(&self, view: Option<&View>) -> Result<Texture> {
        if self.flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        match self.kind {
            ARRAY => of_array(&*self.array()?, view),
            MIPMAPPED => Err(Status::NOT_SUPPORTED),
            // Only arrays have views.
            LINEAR_MEMORY | PITCHED_MEMORY if view.is_some() => Err(Status::INVALID_VALUE),
            LINEAR_MEMORY => self.linear(),
            PITCHED_MEMORY => self.pitched(),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// The array of the resource, as a surface.
    pub(super) fn surface(&self) -> Result<Texture> {
        if self.flags != 0 || !self.array()?.descriptor.is_surface() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Texture {
            surface: true,
            ..self.data(None)?
        })
    }

    /// The array of the resource.
    fn array(&self) -> Result<Arc<Array>> {
        match self.kind {
            ARRAY => Handle::new(self.words[0] as usize).get(),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// The elements of memory: format and channels are adjacent.
    fn element(&self) -> Result<Element> {
        Element::of(self.words[1] as c_int, (self.words[1] >> 32) as c_uint)
    }

    /// A row of elements in memory.
    fn linear(&self) -> Result<Texture> {
        let [address, _, bytes, ..] = self.words;
        let data = data(self.element()?, address);
        let width = bytes / data.element();
        if width == 0 || width > LINEAR as u64 || !address.is_multiple_of(data.element()) {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Texture {
            shape: TextureShape::Linear,
            width: width as u32,
            pitch: bytes,
            slice: bytes,
            ..data
        })
    }

    /// Rows of elements in memory. The address only needs the alignment of an element: allocations
    /// are less aligned than the attribute requires of programs.
    fn pitched(&self) -> Result<Texture> {
        let [address, _, width, height, pitch, ..] = self.words;
        let data = data(self.element()?, address);
        let fits = (1..=PITCHED.0).contains(&width)
            && (1..=PITCHED.1).contains(&height)
            && pitch <= PITCHED.2
            && pitch.is_multiple_of(PITCH)
            && width * data.element() <= pitch
            && address.is_multiple_of(data.element());
        if !fits {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Texture {
            shape: TextureShape::Pitched,
            width: width as u32,
            height: height as u32,
            pitch,
            slice: pitch * height,
            ..data
        })
    }
}

/// An array, seen through the view if there is one.
fn of_array(array: &Array, view: Option<&View>) -> Result<Texture> {
    let shape = array.descriptor;
    let whole = Texture {
        shape: match shape.is_layered() {
            true => TextureShape::Layered,
            false => TextureShape::Array,
        },
        width: shape.width as u32,
        height: shape.height as u32,
        depth: shape.depth as u32,
        pitch: array.pitch as u64,
        slice: array.slice() as u64,
        ..data(array.element, array.address)
    };
    match view {
        Some(view) => view.of(whole),
        None => Ok(whole),
    }
}

impl View {
    /// The elements of the view, from `CUresourceViewFormat`; `None` if they stay unchanged.
    fn element(&self) -> Result<Option<Element>> {
        let (channel, bits) = match (self.format - 1) / 3 {
            _ if self.format == 0 => return Ok(None),
            0 => (Channel::Unsigned, 8),
            1 => (Channel::Signed, 8),
            2 => (Channel::Unsigned, 16),
            3 => (Channel::Signed, 16),
            4 => (Channel::Unsigned, 32),
            5 => (Channel::Signed, 32),
            6 => (Channel::Float, 16),
            7 => (Channel::Float, 32),
            // Compressed blocks.
            _ => return Err(Status::NOT_SUPPORTED),
        };
        let channels = 1 << ((self.format - 1) % 3);
        Ok(Some(Element {
            channel,
            bits,
            channels,
        }))
    }

    /// The part of an array that the view shows: other elements of the same size, some of its
    /// layers.
    fn of(&self, whole: Texture) -> Result<Texture> {
        let mut shown = whole;
        if let Some(element) = self.element()? {
            if element.bytes() as u64 != whole.element() {
                return Err(Status::INVALID_VALUE);
            }
            (shown.channel, shown.bits, shown.channels) =
                (element.channel, element.bits, element.channels);
        }
        let sizes = [whole.width, whole.height, whole.depth].map(|size| size as usize);
        let [first, last] = self.layers;
        let layered = whole.shape == TextureShape::Layered;
        if self.sizes != sizes
            || self.levels != [0; 2]
            || first > last
            || last > 0 && (!layered || last >= whole.depth)
        {
            return Err(Status::INVALID_VALUE);
        }
        if layered {
            shown.address += u64::from(first) * whole.slice;
            shown.depth = last - first + 1;
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHARS: u64 = 1 | 4 << 32;
    const FLOATS: u64 = 0x20 | 1 << 32;

    fn memory(kind: c_int, words: &[u64]) -> Resource {
        let mut resource = Resource {
            kind,
            ..Resource::default()
        };
        resource.words[..words.len()].copy_from_slice(words);
        resource
    }

    #[test]
    fn memory_is_as_its_sizes_say() {
        let linear = |words: &[u64]| memory(LINEAR_MEMORY, words).linear();
        let row = linear(&[4096, CHARS, 403]).expect("a row");
        assert_eq!((row.width, row.channels, row.bits), (100, 4, 8));
        assert_eq!(linear(&[4096, CHARS, 3]), Err(Status::INVALID_VALUE));
        assert_eq!(linear(&[4097, CHARS, 400]), Err(Status::INVALID_VALUE));
        assert_eq!(linear(&[0, FLOATS, 1 << 31]), Err(Status::INVALID_VALUE));
        let pitched = |words: &[u64]| memory(PITCHED_MEMORY, words).pitched();
        let rows = pitched(&[4096, FLOATS, 10, 3, 64]).expect("rows");
        assert_eq!((rows.width, rows.height, rows.pitch), (10, 3, 64));
        for words in [
            [4096, FLOATS, 10, 3, 36],
            [4096, FLOATS, 10, 3, 32],
            [4096, FLOATS, 10, 0, 64],
            [4098, FLOATS, 10, 3, 64],
            [4096, FLOATS, 10, 65_001, 64],
        ] {
            assert_eq!(pitched(&words), Err(Status::INVALID_VALUE), "{words:?}");
        }
    }

    #[test]
    fn a_view_shows_layers_and_other_elements() {
        let whole = Texture {
            shape: TextureShape::Layered,
            width: 8,
            height: 4,
            depth: 5,
            slice: 128,
            ..data(Element::of(0x20, 1).expect("known"), 4096)
        };
        let view = View {
            format: 0x03,
            sizes: [8, 4, 5],
            layers: [1, 3],
            ..View::default()
        };
        let shown = view.of(whole).expect("a view");
        assert_eq!((shown.address, shown.depth), (4096 + 128, 3));
        assert_eq!((shown.channel, shown.bits), (Channel::Unsigned, 8));
        assert_eq!(shown.channels, 4);
        let wrong = [
            View { format: 1, ..view },
            View {
                sizes: [8, 4, 3],
                ..view
            },
            View {
                layers: [3, 1],
                ..view
            },
            View {
                layers: [1, 5],
                ..view
            },
            View {
                levels: [0, 1],
                ..view
            },
        ];
        for view in wrong {
            assert_eq!(view.of(whole), Err(Status::INVALID_VALUE), "{view:?}");
        }
        let blocks = View {
            format: 0x19,
            ..view
        };
        assert_eq!(blocks.of(whole), Err(Status::NOT_SUPPORTED));
    }
}
