//! The result of an atomic operation in a cell, computed without the engine, and values for it.

use crate::fragments::{brain, half, random, value};
use crate::warp::Random;

/// Bits of one element.
pub(crate) fn width(ty: &str) -> usize {
    let digits = ty.trim_end_matches("x2");
    let bits: usize = digits
        .trim_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap_or(0);
    let pair = if ty.ends_with("x2") { 2 } else { 1 };
    bits * pair
}

/// One half of a float pair, or a float of 16 bits.
fn narrow(op: &str, ty: &str, old: u64, b: u64) -> u64 {
    let bf16 = ty.starts_with("bf16");
    let name = if bf16 { "bf16" } else { "f16" };
    let (x, y) = (value(name, old & 0xffff), value(name, b & 0xffff));
    let least = op == "min";
    let exact = match op {
        "add" => x + y,
        _ if x.is_nan() => y,
        _ if y.is_nan() => x,
        _ if x == y && (x.is_sign_negative() == least) => x,
        _ if x == y => y,
        _ if least == (x < y) => x,
        _ => y,
    };
    if bf16 { brain(exact) } else { half(exact) }
}

/// A sum of f32; in global memory, subnormal numbers count as zeros.
fn sum(global: bool, a: u64, b: u64) -> u64 {
    let flushed = |x: f32| match global && x.is_subnormal() {
        true => 0.0_f32.copysign(x),
        false => x,
    };
    let [a, b] = [a, b].map(|bits| flushed(f32::from_bits(bits as u32)));
    let sum = flushed(a + b);
    u64::from(if sum.is_nan() {
        0x7fff_ffff
    } else {
        sum.to_bits()
    })
}

/// The new value, from the old one.
pub(crate) fn next(op: &str, ty: &str, global: bool, old: u128, b: u128, c: u128) -> u128 {
    let (low, low_b) = (old as u64, b as u64);
    let signed = |bits: u64| match ty {
        "s32" => i128::from(bits as u32 as i32),
        "s64" => i128::from(bits as i64),
        _ => i128::from(bits),
    };
    let whole = match (op, ty) {
        ("add", "f32") => sum(global, low, low_b),
        ("add", "f64") => (f64::from_bits(low) + f64::from_bits(low_b)).to_bits(),
        (_, "f16" | "bf16") => narrow(op, ty, low, low_b),
        (_, "f16x2" | "bf16x2") => {
            narrow(op, ty, low >> 16, low_b >> 16) << 16 | narrow(op, ty, low, low_b)
        }
        ("add", _) => low.wrapping_add(low_b),
        ("min", _) if signed(low_b) < signed(low) => low_b,
        ("max", _) if signed(low_b) > signed(low) => low_b,
        ("min" | "max", _) => low,
        ("inc", _) if low >= low_b => 0,
        ("inc", _) => low + 1,
        ("dec", _) if low == 0 || low > low_b => low_b,
        ("dec", _) => low - 1,
        ("and", _) => low & low_b,
        ("or", _) => low | low_b,
        ("xor", _) => low ^ low_b,
        ("exch", _) => return b,
        _ if old == b => return c,
        _ => return old,
    };
    cut(u128::from(whole), width(ty))
}

/// The lowest bits of a value.
fn cut(value: u128, bits: usize) -> u128 {
    value & (u128::MAX >> (128 - bits))
}

/// An operand or a cell. Its numbers are small if equality or order matters.
pub(crate) fn element(op: &str, ty: &str, numbers: &mut Random) -> u128 {
    let narrow = ty.trim_end_matches("x2");
    let one = |numbers: &mut Random| match (op, narrow) {
        ("inc" | "dec", _) => numbers.below(6),
        ("cas", _) => numbers.below(3) * 0x11,
        (_, "f16" | "bf16") => random(narrow, numbers, true),
        ("add", "f32") if numbers.below(4) == 0 => numbers.below(1 << 23) | numbers.below(2) << 31,
        (_, "f32" | "f64") => random(narrow, numbers, false),
        _ => numbers.next(),
    };
    let low = u128::from(one(numbers));
    let value = match ty {
        "f16x2" | "bf16x2" => low | u128::from(one(numbers)) << 16,
        "b128" if op == "cas" => low << 64 | 5,
        "b128" => low << 64 | u128::from(one(numbers)),
        _ => low,
    };
    cut(value, width(ty))
}
