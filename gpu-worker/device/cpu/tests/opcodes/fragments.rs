//! Numbers and fragment layouts of matrices, as in the ISA manual.

use crate::warp::Random;

/// The exact value of an element's bits.
pub(crate) fn value(ty: &str, bits: u64) -> f64 {
    let small = |exponent: u32, mantissa: u32| {
        let sign = if bits >> (exponent + mantissa) & 1 != 0 {
            -1.0
        } else {
            1.0
        };
        let field = (bits >> mantissa & ((1 << exponent) - 1)) as i32;
        let fraction = (bits & ((1 << mantissa) - 1)) as f64 / f64::from(1 << mantissa);
        let bias = (1 << (exponent - 1)) - 1;
        let special = ty != "e4m3";
        if field == (1 << exponent) - 1 && special {
            return if fraction == 0.0 {
                sign * f64::INFINITY
            } else {
                f64::NAN
            };
        }
        if !special && bits & 0x7f == 0x7f {
            return f64::NAN;
        }
        let (lead, power) = if field == 0 {
            (0.0, 1 - bias)
        } else {
            (1.0, field - bias)
        };
        sign * (lead + fraction) * f64::from(power).exp2()
    };
    match ty {
        "f16" => small(5, 10),
        "bf16" => small(8, 7),
        "e4m3" => small(4, 3),
        "e5m2" => small(5, 2),
        // Only ten bits of mantissa are read.
        "tf32" => f64::from(f32::from_bits(bits as u32 & !0x1fff)),
        "f32" => f64::from(f32::from_bits(bits as u32)),
        "f64" => f64::from_bits(bits),
        "s8" => f64::from(bits as u8 as i8),
        "u8" => f64::from(bits as u8),
        "s4" => f64::from((bits as u8) << 4) / 16.0 - if bits & 8 != 0 { 16.0 } else { 0.0 },
        "u4" => f64::from(bits as u8 & 15),
        "s32" => f64::from(bits as u32 as i32),
        "b1" => (bits & 1) as f64,
        _ => panic!("{ty}"),
    }
}

/// The f16 nearest to a value, ties to even; 0x7fff for NaN.
pub(crate) fn half(x: f64) -> u64 {
    nearest(x, 15, 10)
}

/// The bf16 nearest to a value.
pub(crate) fn brain(x: f64) -> u64 {
    nearest(x, 127, 7)
}

/// The nearest number of 16 bits with this bias and mantissa.
fn nearest(x: f64, bias: i32, mantissa: i32) -> u64 {
    if x.is_nan() {
        return 0x7fff;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let size = x.abs();
    let infinity = 0x7fff >> mantissa << mantissa;
    let mut power = 1 - bias;
    while power < bias && f64::from(power + 1).exp2() <= size {
        power += 1;
    }
    let steps = (size / f64::from(power - mantissa).exp2()).round_ties_even();
    // A full mantissa carries into the next power; below the least power the field stays 0.
    let field = f64::from((power - 1 + bias) << mantissa);
    sign | (field + steps).min(f64::from(infinity)) as u64
}

/// Bits of one element.
pub(crate) fn bits(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "tf32" | "f32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "s4" | "u4" => 4,
        "b1" => 1,
        _ => 8,
    }
}

/// Random bits of an element: mostly of moderate size, sometimes arbitrary.
pub(crate) fn random(ty: &str, random: &mut Random, wild: bool) -> u64 {
    let any = random.next() >> 3;
    let x = ((any >> 20 & 0xffff) as f64 - 32768.0) / 4096.0;
    let wild = wild && random.below(24) == 0;
    match ty {
        "f16" if wild => any & 0xffff,
        "f16" => half(x),
        "bf16" if wild => any & 0xffff,
        "bf16" => u64::from((x as f32).to_bits() >> 16),
        "tf32" | "f32" if wild => any & 0xffff_ffff,
        "tf32" | "f32" => u64::from((x as f32 * 1.000_123).to_bits()),
        "f64" if wild => any << 3 | 5,
        "f64" => (x * 1.000_000_123).to_bits(),
        "s32" if wild => (any & 0xff).wrapping_add(0x7fff_ff80) & 0xffff_ffff,
        "s32" => any >> 12 & 0xffff,
        _ => any & ((1 << bits(ty)) - 1),
    }
}

/// Row and column of element `i` of a lane's fragment of A.
pub(crate) fn a_place(shape: &str, ty: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let low = |is: bool| if is { group } else { group + 8 };
    match (shape, ty) {
        ("m8n8k4", "f64") => (group, thread),
        ("m16n8k4", _) => (low(i == 0), thread),
        ("m16n8k8", "f16" | "bf16") => (low(i < 2), thread * 2 + (i & 1)),
        ("m16n8k8", _) => (
            low(i == 0 || i == 2),
            if i < 2 { thread } else { thread + 4 },
        ),
        ("m16n8k16", "f16" | "bf16") => {
            let column = thread * 2 + (i & 1);
            (
                low(i < 2 || (4..6).contains(&i)),
                if i < 4 { column } else { column + 8 },
            )
        }
        ("m16n8k16", "f64") if i.is_multiple_of(2) => (group, i * 2 + thread),
        ("m16n8k16", "f64") => (group + 8, i * 2 - 2 + thread),
        ("m16n8k16", _) => (low(i < 4), thread * 4 + (i & 3)),
        ("m16n8k32", "s4" | "u4") => (low(i < 8), thread * 8 + (i & 7)),
        ("m16n8k32", _) => {
            let column = thread * 4 + (i & 3);
            (
                low(i < 4 || (8..12).contains(&i)),
                if i < 8 { column } else { column + 16 },
            )
        }
        ("m16n8k64", _) => {
            let column = thread * 8 + (i & 7);
            (
                low(i < 8 || (16..24).contains(&i)),
                if i < 16 { column } else { column + 32 },
            )
        }
        ("m8n8k16", _) => (group, thread * 4 + i),
        ("m8n8k32", _) => (group, thread * 8 + i),
        ("m8n8k128", _) => (group, thread * 32 + i),
        ("m16n8k128", _) => (low(i < 32), thread * 32 + (i & 31)),
        ("m16n8k256", _) => {
            let column = thread * 32 + (i & 31);
            (
                low(i < 32 || (64..96).contains(&i)),
                if i < 64 { column } else { column + 128 },
            )
        }
        _ => panic!("{shape} {ty}"),
    }
}

/// As [`a_place`], for B.
pub(crate) fn b_place(shape: &str, ty: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let row = match (shape, ty) {
        ("m8n8k4" | "m16n8k4", _) => thread,
        ("m16n8k8", "f16" | "bf16") => thread * 2 + i,
        ("m16n8k8", _) | ("m16n8k16", "f64") => thread + 4 * i,
        ("m16n8k16", "f16" | "bf16") if i < 2 => thread * 2 + (i & 1),
        ("m16n8k16", "f16" | "bf16") => thread * 2 + (i & 1) + 8,
        ("m16n8k16" | "m8n8k16", _) => thread * 4 + i,
        ("m16n8k32" | "m8n8k32", "s4" | "u4") => thread * 8 + i,
        ("m16n8k32", _) if i < 4 => thread * 4 + (i & 3),
        ("m16n8k32", _) => thread * 4 + (i & 3) + 16,
        ("m16n8k64", _) if i < 8 => thread * 8 + (i & 7),
        ("m16n8k64", _) => thread * 8 + (i & 7) + 32,
        ("m8n8k128" | "m16n8k128", _) => thread * 32 + i,
        ("m16n8k256", _) if i < 32 => thread * 32 + (i & 31),
        ("m16n8k256", _) => thread * 32 + (i & 31) + 128,
        _ => panic!("{shape} {ty}"),
    };
    (row, group)
}

/// As [`a_place`], for C and D.
pub(crate) fn c_place(shape: &str, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    if shape.starts_with("m8") {
        return (group, thread * 2 + i);
    }
    let row = if i < 2 { group } else { group + 8 };
    (row, thread * 2 + (i & 1))
}

/// The sizes in a shape's name.
pub(crate) fn sizes(shape: &str) -> [usize; 3] {
    let numbers: Vec<usize> = shape
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect();
    [numbers[0], numbers[1], numbers[2]]
}

/// The result of `.satfinite` for an f16.
fn finite(bits: u64) -> u64 {
    match bits & 0x7fff {
        0x7c00 => bits - 1,
        0x7c01.. => 0,
        _ => bits,
    }
}

/// One element of D: `a` and `b` are the k pairs of factors, `c` the bits of C.
pub(crate) fn dot(
    (a_ty, b_ty, c_ty, d_ty): (&str, &str, &str, &str),
    modifier: &str,
    c: u64,
    factors: impl Iterator<Item = (u64, u64)>,
) -> u64 {
    match d_ty {
        "f64" => {
            let sum = factors.fold(f64::from_bits(c), |sum, (a, b)| {
                f64::from_bits(a).mul_add(f64::from_bits(b), sum)
            });
            if sum.is_nan() {
                0x7ff8_0000_0000_0000
            } else {
                sum.to_bits()
            }
        }
        "s32" if a_ty == "b1" => {
            let ones = factors.filter(|(a, b)| match modifier {
                "xor" => a != b,
                _ => a & b & 1 != 0,
            });
            (c as u32).wrapping_add(ones.count() as u32).into()
        }
        "s32" => {
            let product =
                |(a, b): (u64, u64)| (value(a_ty, a) as i64).wrapping_mul(value(b_ty, b) as i64);
            let sum = i64::from(c as u32 as i32) + factors.map(product).sum::<i64>();
            let sum = if modifier == "satfinite" {
                sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
            } else {
                sum
            };
            u64::from(sum as u32)
        }
        _ => {
            let sum = factors.fold(value(c_ty, c) as f32, |sum, (a, b)| {
                (value(a_ty, a) as f32).mul_add(value(b_ty, b) as f32, sum)
            });
            if d_ty == "f16" {
                let bits = half(f64::from(sum));
                return if modifier == "satfinite" {
                    finite(bits)
                } else {
                    bits
                };
            }
            match sum {
                _ if modifier == "satfinite" && sum.is_nan() => 0,
                _ if modifier == "satfinite" => sum.clamp(f32::MIN, f32::MAX).to_bits().into(),
                _ if sum.is_nan() => 0x7fff_ffff,
                _ => sum.to_bits().into(),
            }
        }
    }
}
