//! The kinds of instructions on textures and surfaces.

use ptx::Scalar;

/// What coordinates are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Coordinates beside the layer: 1, 2 or 3.
    pub(crate) dimensions: u8,
    /// Whether a layer comes before them.
    pub(crate) layered: bool,
}

impl Geometry {
    /// Registers that say where: the layer, then coordinates.
    pub(crate) fn registers(self) -> usize {
        usize::from(self.dimensions) + usize::from(self.layered)
    }
}

/// What a lookup gives.
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
    /// Registers it takes.
    pub(crate) fn registers(self) -> usize {
        if self == Self::Pairs { 2 } else { 4 }
    }
}

/// A lookup of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) geometry: Geometry,
    pub(crate) given: Given,
    /// Whether coordinates are integers: texels are then neither scaled nor filtered.
    pub(crate) integers: bool,
    /// The channel of which four texels are wanted (`tld4`).
    pub(crate) gather: Option<u8>,
    /// Whether numbers of texels are added to the coordinates.
    pub(crate) offsets: bool,
}

/// What becomes of an access outside a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// A fault.
    Trap,
    /// The nearest place inside.
    Clamp,
    /// Zero is read, nothing written.
    Zero,
}

/// A load from or a store to a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) geometry: Geometry,
    /// The type of each value.
    pub(crate) ty: Scalar,
    /// How many there are.
    pub(crate) lanes: u8,
    pub(crate) bounds: Bounds,
    /// A store, not a load.
    pub(crate) write: bool,
    /// Whether values are channels of an element, and are converted (`.p`).
    pub(crate) formatted: bool,
}

/// What is asked of a texture or a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Width,
    Height,
    Depth,
    Layers,
    ChannelType,
    ChannelOrder,
    Normalized,
    /// One, everywhere: mipmap levels, samples.
    One,
    /// Zero, everywhere: what only other devices force.
    Never,
    Filter,
    Mode(u8),
    /// Whether it lies in rows of device memory.
    Linear,
}
