//! The kinds of video instructions.

use super::kind::Compare;

/// The operation of a video instruction on two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VideoOp {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    /// The mean, halves rounded away from zero (`vavrg2`, `vavrg4`).
    Average,
    /// Shift by at most 32, or by the low five bits if `wrap`.
    ShiftLeft {
        wrap: bool,
    },
    /// As `ShiftLeft`.
    ShiftRight {
        wrap: bool,
    },
    /// One if the comparison holds, else zero.
    Set(Compare),
}

/// A field of a register: a byte, a half or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    pub(crate) bits: u8,
    pub(crate) shift: u8,
    pub(crate) signed: bool,
}

/// Secondary operation of a scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Secondary {
    None,
    Add,
    Min,
    Max,
    /// Replaces a field of the third source; the flag of the field is its signedness.
    Merge(Field),
}

/// A scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Video {
    pub(crate) op: VideoOp,
    pub(crate) a: Field,
    pub(crate) b: Field,
    /// True if the result's type is signed.
    pub(crate) signed: bool,
    pub(crate) sat: bool,
    pub(crate) then: Secondary,
}

/// Negated part of a `vmad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Negated {
    Nothing,
    Product,
    Summand,
    /// None, and one is added (`.po`).
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
    /// For each part of A and B, its index among the parts of both sources: three bits each, the
    /// lowest first.
    pub(crate) a: u16,
    pub(crate) b: u16,
    /// Signedness of the two sources and of the result.
    pub(crate) signs: [bool; 3],
    /// True to clamp to the result's type instead of truncating.
    pub(crate) sat: bool,
    /// True to add the selected parts to the third source instead of replacing its parts.
    pub(crate) add: bool,
    /// One bit for each selected part.
    pub(crate) mask: u8,
}
