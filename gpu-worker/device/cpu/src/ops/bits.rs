//! Integer operations of three sources, bit fields, and the carry flag.

#![expect(unsafe_code, reason = "lane loops over raw register files")]

use super::integer::{Int, by_extension, by_half, by_sign, by_type, by_width, low24};
use crate::decode::form::{Carry, Inst, Int3, Op, Permute};
use crate::engine::context::Context;
use crate::lane_loop::{Handler, Isa, Kernel, Map3, always, by_kind, ops, pick, source, store};
use crate::lane_value::{Bits, LANES, Lane};
use ptx::Scalar;
use std::marker::PhantomData;

#[inline(always)]
fn bfe_u64(a: u64, from: u32, len: u32) -> u64 {
    let moved = a.shr(from);
    if len >= 64 {
        moved
    } else {
        moved & ((1 << len) - 1)
    }
}

/// The field, extended by its top bit; beyond the word, by the word's sign.
#[inline(always)]
fn bfe_signed(a: i64, bits: u32, from: u32, len: u32) -> i64 {
    if len == 0 {
        return 0;
    }
    let last = (from + len - 1).min(bits - 1);
    let sign = (a >> last) & 1;
    let field = bfe_u64(a as u64, from, len.min(bits.saturating_sub(from))) as i64;
    let have = len.min(bits.saturating_sub(from)).min(63);
    if len.min(bits.saturating_sub(from)) >= 64 {
        field
    } else {
        field | (sign.wrapping_neg() << have)
    }
}

#[inline(always)]
fn sad<T: Int>(a: T, b: T, c: T) -> T {
    c.add(a.distance(b))
}

#[inline(always)]
fn signed_or_not(byte: u32, bits: u32, signed: bool) -> i32 {
    let up = 32 - bits;
    if signed {
        (byte << up) as i32 >> up
    } else {
        (byte << up >> up) as i32
    }
}

ops! { 3;
    Mad<T: Int>(a: T, b: T, c: T) -> T = a.mul(b).add(c);
    MadHi<T: Int>(a: T, b: T, c: T) -> T = a.mul_hi(b).add(c);
    MadHiSat(a: i32, b: i32, c: i32) -> i32 = a.mul_hi(b).saturating_add(c);
    MadWide<T: Int>(a: T, b: T, c: T::Wide) -> T::Wide = T::wide_add(a.mul_wide(b), c);
    Mad24Lo<T: Int>(a: T, b: T, c: u32) -> u32 = ((low24(a) * low24(b)) as u32).wrapping_add(c);
    Mad24Hi<T: Int>(a: T, b: T, c: u32) -> u32 =
        (((low24(a) * low24(b)) >> 16) as u32).wrapping_add(c);
    Mad24HiSat(a: i32, b: i32, c: i32) -> i32 =
        (((low24(a) * low24(b)) >> 16) as i32).saturating_add(c);
    Sad<T: Int>(a: T, b: T, c: T) -> T = sad(a, b, c);
    Fns(a: u32, b: u32, c: i32) -> i32 = find_nth(a, b, c);
    BfeU32(a: u32, b: u32, c: u32) -> u32 = bfe_u64(u64::from(a), b & 255, c & 255) as u32;
    BfeS32(a: i32, b: u32, c: u32) -> i32 =
        bfe_signed(i64::from(a), 32, b & 255, c & 255) as i32;
    BfeU64(a: u64, b: u32, c: u32) -> u64 = bfe_u64(a, b & 255, c & 255);
    BfeS64(a: i64, b: u32, c: u32) -> i64 = bfe_signed(a, 64, b & 255, c & 255);
    ShfLeftClamp(a: u32, b: u32, c: u32) -> u32 =
        ((u64::from(b) << 32 | u64::from(a)) << c.min(32) >> 32) as u32;
    ShfLeftWrap(a: u32, b: u32, c: u32) -> u32 =
        ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32;
    ShfRightClamp(a: u32, b: u32, c: u32) -> u32 =
        ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32;
    ShfRightWrap(a: u32, b: u32, c: u32) -> u32 =
        ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32;
}

/// The n-th set bit of a word from a position, upwards or downwards; -1 if there is none.
#[inline(always)]
fn find_nth(word: u32, from: u32, n: i32) -> i32 {
    // A position above 31 is undefined, but must not do harm.
    let from = from & 31;
    let mut left = n.unsigned_abs();
    let mut rest = match n.signum() {
        0 => word & 1 << from,
        1 => word & u32::MAX << from,
        _ => (word << (31 - from)).reverse_bits(),
    };
    while left > 1 && rest != 0 {
        rest &= rest - 1;
        left -= 1;
    }
    let at = rest.trailing_zeros() as i32;
    match (rest, n.signum()) {
        (0, _) => -1,
        (_, -1) => from as i32 - at,
        _ => at,
    }
}

/// One byte of eight; bit 3 of the selector replicates its sign.
#[inline(always)]
fn permuted(both: u64, selector: u32) -> u32 {
    let byte = (both >> (8 * (selector & 7))) as u8;
    if selector & 8 != 0 {
        u32::from((byte as i8 >> 7) as u8)
    } else {
        u32::from(byte)
    }
}

fn permute(mode: Permute, a: u32, b: u32, c: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let n = c & 3;
    let select: [u32; 4] = match mode {
        Permute::Index => [c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15],
        Permute::F4e => [n, n + 1, n + 2, n + 3],
        Permute::B4e => [
            n,
            n.wrapping_sub(1) & 7,
            n.wrapping_sub(2) & 7,
            n.wrapping_sub(3) & 7,
        ],
        Permute::Rc8 => [n; 4],
        Permute::Ecl => [n, n.max(1), n.max(2), 3],
        Permute::Ecr => [0, n.min(1), n.min(2), n],
        Permute::Rc16 => [n % 2 * 2, n % 2 * 2 + 1, n % 2 * 2, n % 2 * 2 + 1],
    };
    select
        .iter()
        .rev()
        .fold(0, |word, s| word << 8 | permuted(both, *s))
}

fn logic3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut out = 0;
    for index in 0..8 {
        if table >> index & 1 != 0 {
            let pick = |x: u32, on: bool| if on { x } else { !x };
            out |= pick(a, index & 4 != 0) & pick(b, index & 2 != 0) & pick(c, index & 1 != 0);
        }
    }
    out
}

fn dot(parts: u32, a: u32, b: u32, c: u32, a_bits: u32, signs: (bool, bool), shift: u32) -> u32 {
    (0..parts).fold(c, |sum, part| {
        let x = signed_or_not(a >> (a_bits * part), a_bits, signs.0);
        let y = signed_or_not(b >> (shift + 8 * part), 8, signs.1);
        sum.wrapping_add(x.wrapping_mul(y) as u32)
    })
}

/// Operations with parameters in the instruction, lane by lane.
struct Words;

impl Kernel for Words {
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
                    Op::Int3(Int3::Prmt(mode), _) => permute(mode, a, b, c),
                    Op::Int3(Int3::Lop3(table), _) => logic3(table, a, b, c),
                    Op::Int3(Int3::Dp4a(x, y), _) => dot(4, a, b, c, 8, (x, y), 0),
                    Op::Int3(Int3::Dp2a(x, y, high), _) => {
                        dot(2, a, b, c, 16, (x, y), if high { 16 } else { 0 })
                    }
                    _ => 0,
                };
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// `bfi`: d, a (field), b (into), c (from), d (length).
struct Insert<T>(PhantomData<T>);

impl<T: Lane> Kernel for Insert<T> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<T::Bits>(cx, inst.slots[1]);
            let b = source::<T::Bits>(cx, inst.slots[2]);
            let from = source::<u32>(cx, inst.slots[3]);
            let len = source::<u32>(cx, inst.slots[4]);
            let mut out = [T::Bits::default(); LANES];
            for lane in 0..LANES {
                let len = len[lane] & 255;
                let ones = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
                let at = from[lane] & 255;
                let field = ones.shl(at);
                let value = a[lane].low().shl(at) & field | b[lane].low() & !field;
                out[lane] = T::Bits::cut(value);
            }
            store(cx, inst.slots[0], mask, &out);
        }
        true
    }
}

/// Arithmetic with the carry flag, one bit per lane of the warp.
struct Carried<T>(PhantomData<T>);

impl<T: Int> Kernel for Carried<T> {
    #[inline(always)]
    unsafe fn run<const SIMD: bool>(cx: &mut Context<'_>, inst: &Inst, mask: u32) -> bool {
        let Op::Carry(op, ty, takes, gives) = inst.op else {
            return true;
        };
        let bits = if T::Bits::DOUBLE { 64 } else { 32 };
        let signed = ty.is_signed();
        let product = |a: u64, b: u64| -> u128 {
            let extend = |x: u64| -> i128 {
                match (signed, bits) {
                    (true, 32) => i128::from(x as u32 as i32),
                    (true, _) => i128::from(x as i64),
                    _ => i128::from(x),
                }
            };
            extend(a).wrapping_mul(extend(b)) as u128
        };
        let word = (1_u128 << bits) - 1;
        let mut flags = 0;
        // SAFETY: the caller vouches for the slots.
        unsafe {
            let a = source::<T::Bits>(cx, inst.slots[1]);
            let b = source::<T::Bits>(cx, inst.slots[2]);
            let three = matches!(op, Carry::MadLo | Carry::MadHi);
            let c = source::<T::Bits>(cx, inst.slots[if three { 3 } else { 2 }]);
            let mut out = [T::Bits::default(); LANES];
            for lane in 0..LANES {
                let carry = u128::from(takes && cx.carry >> lane & 1 != 0);
                let (x, y) = (a[lane].low(), b[lane].low());
                let (value, flag) = match op {
                    // As the hardware subtracts: x + !y + 1. The flag is set if nothing was
                    // borrowed. A following addc can see it, and compilers rely on it.
                    Carry::Sub => {
                        let carry = if takes { carry } else { 1 };
                        let sum = u128::from(x) + (!u128::from(y) & word) + carry;
                        (sum, sum > word)
                    }
                    _ => {
                        let (left, right) = match op {
                            Carry::MadLo => (product(x, y) & word, u128::from(c[lane].low())),
                            Carry::MadHi => {
                                (product(x, y) >> bits & word, u128::from(c[lane].low()))
                            }
                            _ => (u128::from(x), u128::from(y)),
                        };
                        let sum = left + right + carry;
                        (sum, sum > word)
                    }
                };
                out[lane] = T::Bits::cut((value & word) as u64);
                flags |= u32::from(flag) << lane;
            }
            store(cx, inst.slots[0], mask, &out);
        }
        if gives {
            cx.carry = cx.carry & !mask | flags & mask;
        }
        true
    }
}

fn three(op: Int3, ty: Scalar, isa: Isa) -> Option<Handler> {
    Some(by_kind! { op, Int3;
        @by_extension (ty, isa, Map3): Mad;
        @by_type (ty, isa, Map3): MadHi Sad;
        @by_half (ty, isa, Map3): MadWide;
        @by_sign (ty, isa, Map3): Mad24Lo Mad24Hi;
        @always (isa, Map3): MadHiSat Fns;
        Int3::Mad24HiSat if ty.is_signed() => pick::<Map3<Mad24HiSat>>(isa),
        Int3::Mad24HiSat => return None,
        Int3::Bfe => match ty {
            Scalar::U32 => pick::<Map3<BfeU32>>(isa),
            Scalar::S32 => pick::<Map3<BfeS32>>(isa),
            Scalar::U64 => pick::<Map3<BfeU64>>(isa),
            Scalar::S64 => pick::<Map3<BfeS64>>(isa),
            _ => return None,
        },
        Int3::Bfi if ty.size() == 8 => pick::<Insert<u64>>(isa),
        Int3::Bfi => pick::<Insert<u32>>(isa),
        Int3::Shf(true, false) => pick::<Map3<ShfLeftClamp>>(isa),
        Int3::Shf(true, true) => pick::<Map3<ShfLeftWrap>>(isa),
        Int3::Shf(false, false) => pick::<Map3<ShfRightClamp>>(isa),
        Int3::Shf(false, true) => pick::<Map3<ShfRightWrap>>(isa),
        Int3::Prmt(_) | Int3::Lop3(_) | Int3::Dp4a(..) | Int3::Dp2a(..) => pick::<Words>(isa),
    })
}

pub(super) fn handler(op: Op, isa: Isa) -> Option<Handler> {
    match op {
        Op::Int3(op, ty) => three(op, ty, isa),
        Op::Carry(_, ty, ..) if ty.size() == 8 => Some(pick::<Carried<u64>>(isa)),
        Op::Carry(..) => Some(pick::<Carried<u32>>(isa)),
        _ => None,
    }
}
