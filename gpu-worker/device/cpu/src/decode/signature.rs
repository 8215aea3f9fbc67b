//! The types of the operands of arithmetic: of one target, and of the sources behind it.

use super::form::{Carry, Int1, Int2, Int3, Op};
use ptx::Scalar;

/// The types of an operation's target and sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) target: Scalar,
    types: [Scalar; 4],
    count: usize,
}

impl Signature {
    fn new<const N: usize>(target: Scalar, sources: [Scalar; N]) -> Self {
        let mut types = [target; 4];
        types[..N].copy_from_slice(&sources);
        let count = N;
        Self {
            target,
            types,
            count,
        }
    }

    pub(crate) fn sources(&self) -> &[Scalar] {
        &self.types[..self.count]
    }
}

/// The type of a product twice as wide as its factors.
fn twice(ty: Scalar) -> Scalar {
    match ty {
        Scalar::U16 => Scalar::U32,
        Scalar::S16 => Scalar::S32,
        Scalar::U32 => Scalar::U64,
        _ => Scalar::S64,
    }
}

impl Int1 {
    fn signature(self, ty: Scalar) -> Signature {
        match self {
            Self::Popc | Self::Clz | Self::Bfind | Self::BfindShift => {
                Signature::new(Scalar::U32, [ty])
            }
            _ => Signature::new(ty, [ty]),
        }
    }
}

impl Int2 {
    fn signature(self, ty: Scalar) -> Signature {
        let word = Scalar::U32;
        match self {
            Self::MulWide => Signature::new(twice(ty), [ty; 2]),
            Self::BmskClamp | Self::BmskWrap => Signature::new(ty, [word; 2]),
            Self::Shl | Self::Shr | Self::SzextClamp | Self::SzextWrap => {
                Signature::new(ty, [ty, word])
            }
            _ => Signature::new(ty, [ty; 2]),
        }
    }
}

impl Int3 {
    fn signature(self, ty: Scalar) -> Signature {
        let word = Scalar::U32;
        match self {
            Self::MadWide => Signature::new(twice(ty), [ty, ty, twice(ty)]),
            Self::Bfe => Signature::new(ty, [ty, word, word]),
            Self::Fns => Signature::new(ty, [ty, word, Scalar::S32]),
            Self::Bfi => Signature::new(ty, [ty, ty, word, word]),
            Self::Shf(..) | Self::Prmt(_) | Self::Lop3(_) => Signature::new(ty, [word; 3]),
            Self::Dp4a(..) | Self::Dp2a(..) => Signature::new(word, [word; 3]),
            _ => Signature::new(ty, [ty; 3]),
        }
    }
}

impl Op {
    /// The types of the operands of arithmetic; `None` for everything else.
    pub(crate) fn signature(self) -> Option<Signature> {
        let word = Scalar::B32;
        Some(match self {
            Self::Move32 => Signature::new(word, [word]),
            Self::Move64 => Signature::new(Scalar::B64, [Scalar::B64]),
            Self::Pack64 => Signature::new(Scalar::B64, [word; 2]),
            Self::Int1(op, ty) => op.signature(ty),
            Self::Int2(op, ty) => op.signature(ty),
            Self::Int3(op, ty) => op.signature(ty),
            Self::Carry(Carry::Add | Carry::Sub, ty, ..) => Signature::new(ty, [ty; 2]),
            Self::Carry(_, ty, ..) => Signature::new(ty, [ty; 3]),
            Self::Float1(_, ty, _) | Self::Integral(ty, _) => Signature::new(ty, [ty]),
            Self::Float2(_, ty, _) => Signature::new(ty, [ty; 2]),
            Self::Fma(ty, ..) => Signature::new(ty, [ty; 3]),
            Self::Testp(_, ty) => Signature::new(Scalar::Pred, [ty]),
            Self::Convert(to, from, _) => Signature::new(to, [from]),
            Self::WidenPair(..) => Signature::new(word, [Scalar::B16]),
            Self::PendingCount => Signature::new(Scalar::U32, [Scalar::B64]),
            Self::Select32 => Signature::new(word, [word, word, Scalar::Pred]),
            Self::Select64 => Signature::new(Scalar::B64, [Scalar::B64, Scalar::B64, Scalar::Pred]),
            Self::Logic(..) => Signature::new(Scalar::Pred, [Scalar::Pred; 2]),
            _ => return None,
        })
    }
}
