//! Texture and surface objects: each is a descriptor in the session's memory, and where that lies is the
//! object's handle.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bus_schemas::{AddressMode, Channel, Shape, TEXTURE_BYTES, Texture};

use crate::array::{Array, Element, array};
use crate::attribute::LINEAR;
use crate::current::current_device;
use crate::device::Device;
use crate::process::holder;
use crate::status::{Result, Status, note};
use crate::work;

/// `CUresourcetype`.
const ARRAY: c_int = 0;
const MIPMAPPED: c_int = 1;
const LINEAR_MEMORY: c_int = 2;
const PITCHED_MEMORY: c_int = 3;

/// Flags of a texture.
const READ_AS_INTEGER: c_uint = 0x01;
const NORMALIZED_COORDINATES: c_uint = 0x02;
const SRGB: c_uint = 0x10;

/// Most columns, rows and bytes of a row of pitched memory, and of what its rows are a multiple.
const PITCHED: (u64, u64, u64) = (131_072, 65_000, 2_097_120);
const PITCH: u64 = 32;

/// `CUDA_RESOURCE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resource {
    kind: c_int,
    /// What it is, by its kind: the handle of an array; or an address, format and channels, and sizes.
    words: [u64; 16],
    flags: c_uint,
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sampling {
    modes: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    mipmap_bias: f32,
    mipmap_levels: [f32; 2],
    border: [f32; 4],
    reserved: [c_int; 12],
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

const _: () = assert!(size_of::<Resource>() == 144);
const _: () = assert!(size_of::<Sampling>() == 104);
const _: () = assert!(size_of::<View>() == 112);

/// What an object was made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub(crate) resource: Resource,
    /// A surface has none.
    pub(crate) sampling: Option<Sampling>,
    pub(crate) view: Option<View>,
}

/// By handle.
static OBJECTS: LazyLock<Mutex<HashMap<u64, Object>>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, HashMap<u64, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What lies somewhere as such elements; the rest is still to be said.
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
    fn check(&self) -> Result {
        if self.flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        Ok(())
    }

    /// The array that it is.
    fn array(&self) -> Result<std::sync::Arc<Array>> {
        match self.kind {
            ARRAY => array(self.words[0] as usize),
            _ => Err(Status::INVALID_VALUE),
        }
    }

    /// The elements of memory: format and channels lie side by side.
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
            shape: Shape::Linear,
            width: width as u32,
            pitch: bytes,
            slice: bytes,
            ..data
        })
    }

    /// Rows of elements in memory. That they begin where an element may is enough: allocations are not
    /// as aligned as the attribute asks of programs.
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
            shape: Shape::Pitched,
            width: width as u32,
            height: height as u32,
            pitch,
            slice: pitch * height,
            ..data
        })
    }
}

/// An array as it is, or as a view shows it.
fn of_array(array: &Array, view: Option<&View>) -> Result<Texture> {
    let shape = array.descriptor;
    let whole = Texture {
        shape: match shape.is_layered() {
            true => Shape::Layered,
            false => Shape::Array,
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
    /// Its elements, as `CUresourceViewFormat` has them; none where they stay as they are.
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

    /// What it shows of an array: other elements of the same size, some of its layers.
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
        let layered = whole.shape == Shape::Layered;
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

/// An address mode; one that needs normalized coordinates is the nearest element without them.
fn mode(number: c_int, normalized: bool) -> Result<AddressMode> {
    Ok(match (number, normalized) {
        (0, true) => AddressMode::Wrap,
        (2, true) => AddressMode::Mirror,
        (0..=2, _) => AddressMode::Clamp,
        (3, _) => AddressMode::Border,
        _ => return Err(Status::INVALID_VALUE),
    })
}

impl Sampling {
    /// How the data are sampled.
    fn of(&self, data: Texture) -> Result<Texture> {
        let has = |flag| self.flags & flag != 0;
        let normalized = has(NORMALIZED_COORDINATES);
        let normalized_read =
            !has(READ_AS_INTEGER) && data.channel != Channel::Float && data.bits <= 16;
        let bytes = data.channel == Channel::Unsigned && data.bits == 8;
        let sampled = Texture {
            normalized_read,
            normalized,
            border: self.border,
            srgb: has(SRGB) && normalized_read && bytes,
            ..data
        };
        if data.shape == Shape::Linear {
            // Fetched by index: modes and filters are of no use, whatever they are.
            return Ok(sampled);
        }
        let linear = match self.filter {
            0 => false,
            1 if normalized_read || data.channel == Channel::Float => true,
            _ => return Err(Status::INVALID_VALUE),
        };
        let [x, y, z] = self.modes;
        let modes = [
            mode(x, normalized)?,
            mode(y, normalized)?,
            mode(z, normalized)?,
        ];
        Ok(Texture {
            linear,
            modes,
            ..sampled
        })
    }
}

/// Where textures can be: on workers with our own compiler.
fn device() -> Result<&'static Device> {
    let device = current_device()?;
    if device.properties.is_cpu() {
        return Ok(device);
    }
    let why = "textures and surfaces run on CPU workers only, and this device is a GPU";
    note(Status::NOT_SUPPORTED, why.into());
    Err(Status::NOT_SUPPORTED)
}

/// Writes a descriptor; the object's handle.
fn keep(device: &Device, texture: &Texture, object: Object) -> Result<u64> {
    if !device.holds(texture.address) {
        return Err(Status::INVALID_VALUE);
    }
    let handle = device.alloc(TEXTURE_BYTES)?;
    let bytes = texture.to_bytes();
    let written = work::submit(device, |session| session.copy_in(handle, &bytes));
    if let Err(status) = written {
        device.free(handle)?;
        return Err(status);
    }
    objects().insert(handle, object);
    Ok(handle)
}

/// Makes a texture object; its handle.
pub(crate) fn create(resource: Resource, sampling: Sampling, view: Option<View>) -> Result<u64> {
    let device = device()?;
    resource.check()?;
    let data = match resource.kind {
        ARRAY => of_array(&*resource.array()?, view.as_ref())?,
        MIPMAPPED => return Err(Status::NOT_SUPPORTED),
        // A view is of arrays.
        LINEAR_MEMORY | PITCHED_MEMORY if view.is_some() => return Err(Status::INVALID_VALUE),
        LINEAR_MEMORY => resource.linear()?,
        PITCHED_MEMORY => resource.pitched()?,
        _ => return Err(Status::INVALID_VALUE),
    };
    if data.shape == Shape::Linear || data.shape == Shape::Pitched {
        // Behind the last row there need be nothing.
        let rows = u64::from(data.height.max(1));
        let bytes = (rows - 1) * data.pitch + u64::from(data.width) * data.element();
        let checked = device.with(|session| session.line().check(data.address, bytes));
        checked.map_err(|_| Status::INVALID_VALUE)?;
    }
    let object = Object {
        resource,
        sampling: Some(sampling),
        view,
    };
    keep(device, &sampling.of(data)?, object)
}

/// Makes a surface object; its handle.
pub(crate) fn create_surface(resource: Resource) -> Result<u64> {
    let device = device()?;
    resource.check()?;
    let array = resource.array()?;
    if !array.descriptor.is_surface() {
        return Err(Status::INVALID_VALUE);
    }
    let surface = Texture {
        surface: true,
        ..of_array(&array, None)?
    };
    let object = Object {
        resource,
        sampling: None,
        view: None,
    };
    keep(device, &surface, object)
}

/// What an object was made of: of a texture's handle or of a surface's.
pub(crate) fn object(handle: u64, surface: bool) -> Result<Object> {
    let found = objects().get(&handle).copied();
    found
        .filter(|object| object.sampling.is_none() == surface)
        .ok_or(Status::INVALID_VALUE)
}

/// Ends an object.
pub(crate) fn destroy(handle: u64, surface: bool) -> Result {
    let device = holder(handle)?.ok_or(Status::INVALID_VALUE)?;
    object(handle, surface)?;
    objects().remove(&handle).ok_or(Status::INVALID_VALUE)?;
    device.free(handle)
}

/// Forgets the objects whose memory is freed already.
pub(crate) fn forget(is_freed: impl Fn(u64) -> bool) {
    objects().retain(|handle, _| !is_freed(*handle));
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
    fn sampling_is_as_cuda_says() {
        let floats = data(Element::of(0x20, 1).expect("known"), 0);
        let floats = Texture {
            shape: Shape::Array,
            ..floats
        };
        let bytes = Texture {
            channel: Channel::Unsigned,
            bits: 8,
            ..floats
        };
        let plain = Sampling {
            modes: [0, 2, 3],
            filter: 1,
            flags: SRGB,
            ..Sampling::default()
        };
        let read = plain.of(bytes).expect("it is read as floats");
        assert!(read.normalized_read && read.linear && read.srgb && !read.normalized);
        let near = [AddressMode::Clamp, AddressMode::Clamp, AddressMode::Border];
        assert_eq!(read.modes, near);
        let normalized = Sampling {
            flags: NORMALIZED_COORDINATES,
            ..plain
        };
        let read = normalized.of(floats).expect("it is");
        assert!(!read.normalized_read && read.normalized && !read.srgb);
        let far = [AddressMode::Wrap, AddressMode::Mirror, AddressMode::Border];
        assert_eq!(read.modes, far);
        let integers = Sampling {
            flags: READ_AS_INTEGER,
            ..plain
        };
        assert_eq!(integers.of(bytes), Err(Status::INVALID_VALUE));
        let wide = Texture { bits: 32, ..bytes };
        assert_eq!(plain.of(wide), Err(Status::INVALID_VALUE));
        let unknown = Sampling {
            modes: [0, 4, 0],
            ..plain
        };
        assert_eq!(unknown.of(floats), Err(Status::INVALID_VALUE));
        let row = Texture {
            shape: Shape::Linear,
            ..bytes
        };
        let fetched = integers.of(row).expect("filters are of no use there");
        assert!(!fetched.normalized_read && !fetched.linear);
    }

    #[test]
    fn a_view_shows_layers_and_other_elements() {
        let whole = Texture {
            shape: Shape::Layered,
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
