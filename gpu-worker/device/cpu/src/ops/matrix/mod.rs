//! Matrix instructions of a warp: `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.
//!
//! The scheduler has gathered all lanes of the warp before one of these runs.

mod double;
mod format;
mod fragment;
mod multiply;
mod sparse;
mod sums;
mod wmma;

use crate::decode::form::{Element, Op};
use crate::lane_loop::{Handler, Isa, pick};
use format::{Bit, Brain, Byte, Half, Nibble, Quarter, Tensor};
use multiply::{Bits, Floats, Integers, Multiply};

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    Some(match op {
        Op::Mma(mma) => match mma.a {
            Element::F16 => pick::<Multiply<Half, Floats>>(isa),
            Element::Bf16 => pick::<Multiply<Brain, Floats>>(isa),
            Element::Tf32 => pick::<Multiply<Tensor, Floats>>(isa),
            Element::E4m3 | Element::E5m2 => pick::<Multiply<Quarter, Floats>>(isa),
            Element::S8 | Element::U8 => pick::<Multiply<Byte, Integers>>(isa),
            Element::S4 | Element::U4 => pick::<Multiply<Nibble, Integers>>(isa),
            Element::B1 => pick::<Multiply<Bit, Bits>>(isa),
            Element::F64 => pick::<double::Doubles>(isa),
        },
        Op::MmaSparse(it) => match it.mma.a {
            Element::F16 => pick::<sparse::Multiply<Half, sparse::Floats>>(isa),
            Element::Bf16 => pick::<sparse::Multiply<Brain, sparse::Floats>>(isa),
            Element::Tf32 => pick::<sparse::Multiply<Tensor, sparse::Floats>>(isa),
            Element::E4m3 | Element::E5m2 => pick::<sparse::Multiply<Quarter, sparse::Floats>>(isa),
            Element::S8 | Element::U8 => pick::<sparse::Multiply<Byte, sparse::Integers>>(isa),
            Element::S4 | Element::U4 => pick::<sparse::Multiply<Nibble, sparse::Integers>>(isa),
            Element::B1 | Element::F64 => return None,
        },
        Op::MmaQuads(_) => pick::<double::Quartets>(isa),
        Op::MatrixRows { .. } => pick::<fragment::Rows>(isa),
        Op::MatrixTurn => pick::<fragment::Turn>(isa),
        Op::MatrixLines { fragment, .. } if fragment.bits == 64 => pick::<wmma::Lines<u64>>(isa),
        Op::MatrixLines { .. } => pick::<wmma::Lines<u32>>(isa),
        _ => return None,
    })
}
