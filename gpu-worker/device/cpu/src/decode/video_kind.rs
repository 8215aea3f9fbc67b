//! The kinds of video instructions.

use super::kind::Compare;

/// What a video instruction does with two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VideoOp {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    /// The mean, halves rounded away from zero (`vavrg2`, `vavrg4`).
    Average,
    /// By at most 32, or by the low five bits if `wrap`.
    ShiftLeft {
        wrap: bool,
    },
    /// As `ShiftLeft`.
    ShiftRight {
        wrap: bool,
    },
    /// One where it holds, zero elsewhere.
    Set(Compare),
}

/// A field of a register: a byte, a half or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    pub(crate) bits: u8,
    pub(crate) shift: u8,
    pub(crate) signed: bool,
}

/// What becomes of the result of a scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Secondary {
    None,
    Add,
    Min,
    Max,
    /// It replaces a field of the third source; whether its type is signed.
    Merge(Field),
}

/// A scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Video {
    pub(crate) op: VideoOp,
    pub(crate) a: Field,
    pub(crate) b: Field,
    /// Whether the result's type is signed.
    pub(crate) signed: bool,
    pub(crate) sat: bool,
    pub(crate) then: Secondary,
}

/// What `vmad` subtracts or adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Negated {
    Nothing,
    Product,
    Summand,
    /// Nothing, and one is added (`.po`).
    PlusOne,
}

/// `vmad`: a product, a summand, a shift to the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VideoMad {
    pub(crate) a: Field,
    pub(crate) b: Field,
    pub(crate) negated: Negated,
    pub(crate) scale: u8,
    pub(crate) sat: bool,
}

/// A video instruction on halves or bytes side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VideoParts {
    pub(crate) op: VideoOp,
    /// Bits of a part.
    pub(crate) bits: u8,
    /// Which part of both sources each one of A and B is, of three bits each, the lowest first.
    pub(crate) a: u16,
    pub(crate) b: u16,
    /// Signedness of the two sources and of the result.
    pub(crate) signs: [bool; 3],
    /// Clamped to the result's type, instead of cut.
    pub(crate) sat: bool,
    /// The parts of the mask are added to the third source, instead of replacing its parts.
    pub(crate) add: bool,
    /// One bit for each part that counts.
    pub(crate) mask: u8,
}
