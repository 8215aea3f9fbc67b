//! The instructions that the generator has code for.

use super::access;
use crate::decode::form::{Float1, Float2, Inst, Int1, Int2, Int3, Op, Round};
use ptx::Scalar;

/// True if code for an instruction can be generated.
pub(super) fn supported(inst: &Inst) -> bool {
    let word = |ty: Scalar| matches!(ty, Scalar::U32 | Scalar::S32 | Scalar::B32);
    let double = |ty: Scalar| matches!(ty, Scalar::U64 | Scalar::S64 | Scalar::B64);
    let single = |ty: Scalar| ty == Scalar::F32;
    match inst.op {
        Op::Move32 | Op::Move64 | Op::Select32 | Op::Select64 => true,
        Op::Logic(..) => true,
        Op::Int1(Int1::Neg | Int1::Not, ty) => word(ty),
        Op::Int2(op, ty) => match op {
            Int2::Add | Int2::Sub | Int2::And | Int2::Or | Int2::Xor | Int2::Shl => {
                word(ty) || double(ty)
            }
            Int2::Shr => word(ty) || double(ty) && !ty.is_signed(),
            Int2::Mul | Int2::Min | Int2::Max | Int2::MulWide => word(ty),
            _ => false,
        },
        Op::Int3(Int3::Mad | Int3::MadWide, ty) => word(ty),
        Op::Float2(op, ty, mode) => {
            let nearest = mode.round == Round::Nearest;
            single(ty)
                && mode.round != Round::Away
                && match op {
                    Float2::Add | Float2::Sub | Float2::Mul | Float2::Div => true,
                    Float2::Min | Float2::Max => nearest,
                    _ => false,
                }
        }
        Op::Float1(op, ty, mode) => {
            single(ty)
                && mode.round == Round::Nearest
                && match op {
                    Float1::Abs | Float1::Neg => !mode.ftz,
                    Float1::Rcp | Float1::Sqrt | Float1::Rsqrt | Float1::Ex2 => true,
                    _ => false,
                }
        }
        Op::Fma(ty, mode, relu) => single(ty) && !relu && mode.round != Round::Away,
        Op::Convert(to, from, mode) => {
            let plain = !mode.sat && !mode.ftz && inst.imm == 0;
            match (to, from) {
                _ if double(to) && matches!(from, Scalar::S32 | Scalar::U32) => plain,
                _ if word(to) && double(from) => plain,
                (Scalar::F32, Scalar::S32 | Scalar::U32) => plain && mode.round == Round::Nearest,
                (Scalar::F32, Scalar::F32) => {
                    inst.imm == 0 && (mode.sat || mode.ftz) && mode.round == Round::Nearest
                }
                _ => false,
            }
        }
        Op::Setp(_, ty, ..) => inst.imm == 0 && (word(ty) || double(ty) || single(ty)),
        Op::Load { .. } | Op::Store { .. } => access::supported(inst),
        _ => false,
    }
}
