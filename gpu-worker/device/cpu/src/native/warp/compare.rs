//! Comparisons of values computed once for the warp.

use crate::decode::form::Compare;
use crate::native::assembler::Cc;
use ptx::Scalar;

/// Condition code of an integer comparison, after a `cmp` of its operands.
pub(super) fn condition(compare: Compare, ty: Scalar) -> Option<Cc> {
    let signed = ty.is_signed();
    let pick = |with, without| if signed { with } else { without };
    Some(match compare {
        Compare::Eq | Compare::Equ => Cc::Equal,
        Compare::Ne | Compare::Neu => Cc::NotEqual,
        Compare::Lt | Compare::Ltu => pick(Cc::Less, Cc::Below),
        Compare::Le | Compare::Leu => pick(Cc::LessEqual, Cc::BelowEqual),
        Compare::Gt | Compare::Gtu => pick(Cc::Greater, Cc::Above),
        Compare::Ge | Compare::Geu => pick(Cc::GreaterEqual, Cc::AboveEqual),
        Compare::Num | Compare::Nan => return None,
    })
}
