//! The kinds of instructions on textures and surfaces.

use ptx::Scalar;

/// Shape of the coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Coordinates besides the layer: 1, 2 or 3.
    pub(crate) dimensions: u8,
    /// True if a layer comes before them.
    pub(crate) layered: bool,
}

impl Geometry {
    /// Number of registers for the position: the layer, then coordinates.
    pub(crate) fn registers(self) -> usize {
        usize::from(self.dimensions) + usize::from(self.layered)
    }
}

/// Result registers of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Four registers of 32 bits.
    Words,
    /// Four of 16 bits: floats of half precision.
    Halves,
    /// Two of 32 bits: pairs of such floats.
    Pairs,
}

impl Given {
    /// Number of registers.
    pub(crate) fn registers(self) -> usize {
        if self == Self::Pairs { 2 } else { 4 }
    }
}

/// A lookup of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) geometry: Geometry,
    pub(crate) given: Given,
    /// True if coordinates are integers: texels are then neither scaled nor filtered.
    pub(crate) integers: bool,
    /// The channel of the four texels to return (`tld4`).
    pub(crate) gather: Option<u8>,
    /// True if offsets in texels are added to the coordinates.
    pub(crate) offsets: bool,
}

/// Handling of an access outside a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// A fault.
    Trap,
    /// The nearest place inside.
    Clamp,
    /// Reads return zero, writes are dropped.
    Zero,
}

/// A load from or a store to a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) geometry: Geometry,
    /// The type of each value.
    pub(crate) ty: Scalar,
    /// Number of values.
    pub(crate) lanes: u8,
    pub(crate) bounds: Bounds,
    /// True for a store, false for a load.
    pub(crate) write: bool,
    /// True if values are channels of an element, and are converted (`.p`).
    pub(crate) formatted: bool,
}

/// Queries of a texture or a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Width,
    Height,
    Depth,
    Layers,
    ChannelType,
    ChannelOrder,
    Normalized,
    /// Always one: mipmap levels, samples.
    One,
    /// Always zero: properties that only other devices have.
    Never,
    Filter,
    Mode(u8),
    /// True if its memory is rows of device memory.
    Linear,
}
