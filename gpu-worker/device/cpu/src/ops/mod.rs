//! Lane loops by family, and their selection for an operation.

mod addresses;
pub(crate) mod atomic;
pub(crate) mod bits;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod copies;
pub(crate) mod directed;
pub(crate) mod double;
pub(crate) mod float;
pub(crate) mod integer;
pub(crate) mod math;
pub(crate) mod matrix;
pub(crate) mod memory;
pub(crate) mod narrow;
pub(crate) mod pack;
pub(crate) mod pairs;
pub(crate) mod registers;
mod rules;
pub(crate) mod soft;
mod texture;
mod video;
pub(crate) mod warp;

use crate::decode::form::Op;
use crate::lane_loop::{Handler, Isa};

/// The lane loop for an operation; `None` for control flow and for combinations without one.
pub(crate) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Int2(..) if pairs::covers(op) => pairs::handler(op, isa),
        Op::Int1(..) | Op::Int2(..) => integer::handler(op, isa),
        Op::Int3(..) | Op::Carry(..) => bits::handler(op, isa),
        Op::Float1(_, ty, _) | Op::Float2(_, ty, _) | Op::Fma(ty, ..) if narrow::covers(ty) => {
            narrow::handler(op, isa)
        }
        Op::Float1(..) | Op::Float2(..) | Op::Fma(..) => float::handler(op, isa),
        Op::Convert(..) | Op::Integral(..) => convert::handler(op, isa),
        Op::Narrow(_) | Op::WidenPair(..) | Op::PackSat { .. } => pack::handler(op, isa),
        Op::Video(_) | Op::VideoMad(_) | Op::VideoParts(_) => Some(video::handler(isa)),
        Op::Setp(..) | Op::Set(..) | Op::Slct(..) | Op::Testp(..) => compare::handler(op, isa),
        Op::Load { .. } | Op::Store { .. } => memory::handler(op, isa),
        Op::CopyAsync { .. } | Op::MemoryBarrier { .. } | Op::PendingCount => {
            copies::handler(op, isa)
        }
        Op::Atomic { .. } | Op::AtomicVector { .. } | Op::AtomicWide { .. } | Op::Fence => {
            atomic::handler(op, isa)
        }
        Op::Shuffle(..) | Op::Vote(..) | Op::Match(..) | Op::Redux(..) | Op::Elect => {
            warp::handler(op, isa)
        }
        Op::Mma(_)
        | Op::MmaSparse(_)
        | Op::MmaQuads(_)
        | Op::MatrixRows { .. }
        | Op::MatrixTurn
        | Op::MatrixLines { .. } => matrix::handler(op, isa),
        Op::Sample(_) | Op::Surface(_) | Op::Ask(..) | Op::IsObject(_) => texture::handler(op, isa),
        _ => registers::handler(op, isa),
    }
}

/// The loop that does nothing.
pub(crate) fn nothing(isa: Isa) -> Handler {
    registers::nothing(isa)
}
