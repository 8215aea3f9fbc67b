//! Video instructions, lane by lane. Everything is computed exactly and truncated or clamped at the
//! end.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use crate::decode::form::{
    Compare, Field, Inst, Negated, Op, Secondary, Video, VideoMad, VideoOp, VideoParts,
};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, LANES, pick, source, store};

/// A field of a word, extended by its sign or with zeros.
fn value(word: u32, field: Field) -> i128 {
    let unused = 32 - u32::from(field.bits);
    let high = word << (unused - u32::from(field.shift));
    if field.signed {
        i128::from(high as i32 >> unused)
    } else {
        i128::from(high >> unused)
    }
}

/// The nearest number of that many bits.
fn clamped(value: i128, bits: u32, signed: bool) -> i128 {
    let count = 1_i128 << bits;
    if signed {
        value.clamp(-count / 2, count / 2 - 1)
    } else {
        value.clamp(0, count - 1)
    }
}

fn holds(how: Compare, a: i128, b: i128) -> bool {
    match how {
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        _ => a >= b,
    }
}

fn operation(op: VideoOp, a: i128, b: i128) -> i128 {
    let by = |wrap: bool| if wrap { b & 31 } else { b.min(32) } as u32;
    match op {
        VideoOp::Add => a + b,
        VideoOp::Sub => a - b,
        VideoOp::AbsDiff => (a - b).abs(),
        VideoOp::Min => a.min(b),
        VideoOp::Max => a.max(b),
        VideoOp::Average => (a + b + i128::from(a + b >= 0)) >> 1,
        VideoOp::ShiftLeft { wrap } => a << by(wrap),
        VideoOp::ShiftRight { wrap } => a >> by(wrap),
        VideoOp::Set(how) => i128::from(holds(how, a, b)),
    }
}

fn scalar(video: Video, a: u32, b: u32, c: u32) -> u32 {
    let Video { signed, then, .. } = video;
    let exact = operation(video.op, value(a, video.a), value(b, video.b));
    let bits = match then {
        Secondary::Merge(field) => u32::from(field.bits),
        _ => 32,
    };
    let kept = if video.sat {
        clamped(exact, bits, signed) as u32
    } else {
        exact as u32
    };
    let order = |word: u32| {
        if signed {
            i64::from(word as i32)
        } else {
            i64::from(word)
        }
    };
    match then {
        Secondary::None => kept,
        Secondary::Add => kept.wrapping_add(c),
        Secondary::Min => order(kept).min(order(c)) as u32,
        Secondary::Max => order(kept).max(order(c)) as u32,
        Secondary::Merge(field) => {
            let ones = (u32::MAX >> (32 - bits)) << field.shift;
            kept << field.shift & ones | c & !ones
        }
    }
}

fn mad(mad: VideoMad, a: u32, b: u32, c: u32) -> u32 {
    let signed =
        mad.a.signed || mad.b.signed || matches!(mad.negated, Negated::Product | Negated::Summand);
    let product = value(a, mad.a) * value(b, mad.b);
    // The summand is negated in its register, so a 32-bit value is subtracted.
    let (product, c, one) = match mad.negated {
        Negated::Nothing => (product, c, 0),
        Negated::Product => (!product, c, 1),
        Negated::Summand => (product, !c, 1),
        Negated::PlusOne => (product, c, 1),
    };
    let c = if signed {
        i128::from(c as i32)
    } else {
        i128::from(c)
    };
    let result = (product + c + one) >> mad.scale;
    if mad.sat {
        clamped(result, 32, signed) as u32
    } else {
        result as u32
    }
}

fn parts(parts: VideoParts, a: u32, b: u32, c: u32) -> u32 {
    let bits = u32::from(parts.bits);
    let both = u64::from(b) << 32 | u64::from(a);
    let [a_signed, b_signed, signed] = parts.signs;
    let part = |places: u16, at: u32, signed: bool| {
        let place = u32::from(places >> (3 * at) & 7);
        let field = Field {
            bits: parts.bits,
            shift: 0,
            signed,
        };
        value((both >> (bits * place)) as u32, field)
    };
    let ones = u32::MAX >> (32 - bits);
    (0..32 / bits)
        .filter(|at| parts.mask >> at & 1 != 0)
        .fold(c, |word, at| {
            let (x, y) = (part(parts.a, at, a_signed), part(parts.b, at, b_signed));
            let exact = operation(parts.op, x, y);
            let kept = if parts.sat {
                clamped(exact, bits, signed) as u32
            } else {
                exact as u32
            };
            if parts.add {
                word.wrapping_add(kept)
            } else {
                word & !(ones << (bits * at)) | (kept & ones) << (bits * at)
            }
        })
}

struct Videos;

impl Kernel for Videos {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<u32>(cx, inst.slots[1]);
            let b = source::<u32>(cx, inst.slots[2]);
            let c = source::<u32>(cx, inst.slots[3]);
            let mut out = [0; LANES];
            for lane in 0..LANES {
                let (a, b, c) = (a[lane], b[lane], c[lane]);
                out[lane] = match inst.op {
                    Op::Video(video) => scalar(video, a, b, c),
                    Op::VideoMad(it) => mad(it, a, b, c),
                    Op::VideoParts(it) => parts(it, a, b, c),
                    _ => 0,
                };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

pub(super) fn handler(isa: Isa) -> Handler {
    pick::<Videos>(isa)
}
