//! Minimum and maximum of floats, signs, properties.

use crate::exact::Format;
use crate::vector::Test;
use std::cmp::Ordering;

/// Computes `min` or `max` of one number.
fn extreme(format: Format, most: bool, flags: &str, sources: [u64; 2]) -> u64 {
    let enter = |bits| if flags.contains(".ftz") { format.flush(bits) } else { bits };
    let sign = 1_u64 << (format.shape().0 - 1);
    let [a, b] = sources.map(enter);
    let crossed = flags.contains(".xorsign");
    let [x, y] = [a, b].map(|bits| if crossed { bits & !sign } else { bits });
    let nans = [x, y].map(|bits| format.is_nan(bits));
    let lost = nans[0] && nans[1] || flags.contains(".NaN") && (nans[0] || nans[1]);
    if lost {
        return format.nan(&[x, y]);
    }
    let number = match (nans, order(format, x, y)) {
        ([true, _], _) => y,
        ([_, true], _) => x,
        (_, order) => if order.is_lt() != most { x } else { y },
    };
    if crossed { number | (a ^ b) & sign } else { number }
}

/// Order of numbers; the negative zero is below the positive one.
fn order(format: Format, a: u64, b: u64) -> Ordering {
    let numbers = format.wide(a).partial_cmp(&format.wide(b));
    let zeros = format.is_negative(b).cmp(&format.is_negative(a));
    numbers.unwrap_or(Ordering::Equal).then(zeros)
}

/// Applies a function of one or two sources to each number of a type.
fn each(ty: &str, [a, b, ..]: [u64; 4], f: impl Fn([u64; 2]) -> u64) -> u64 {
    if ty.ends_with("x2") {
        return f([a & 0xffff, b & 0xffff]) | f([a >> 16, b >> 16]) << 16;
    }
    f([a, b])
}

fn extremes(tests: &mut Vec<Test>) {
    for ty in ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"] {
        let format = Format::of(ty);
        let signature = format!("{ty} = {ty} {ty}");
        for ftz in ["", ".ftz"] {
            for nan in ["", ".NaN"] {
                for xorsign in ["", ".xorsign.abs"] {
                    let flags = format!("{ftz}{nan}{xorsign}");
                    let none = ty == "f64" || ty.starts_with('b') && !ftz.is_empty();
                    if none && !flags.is_empty() {
                        continue;
                    }
                    for (op, most) in [("min", false), ("max", true)] {
                        let form = format!("{op}{flags}.{ty}");
                        let flags = flags.clone();
                        tests.push(Test::new(form, &signature, move |inputs| {
                            each(ty, inputs, |pair| extreme(format, most, &flags, pair))
                        }));
                    }
                }
            }
        }
    }
}

fn signs(tests: &mut Vec<Test>) {
    for (ty, flags) in [
        ("f16", ""),
        ("f16", ".ftz"),
        ("f16x2", ""),
        ("f16x2", ".ftz"),
        ("bf16", ""),
        ("bf16x2", ""),
        ("f32", ""),
        ("f32", ".ftz"),
        ("f64", ""),
    ] {
        let format = Format::of(ty);
        let sign = 1_u64 << (format.shape().0 - 1);
        let enter = move |bits| if flags.is_empty() { bits } else { format.flush(bits) };
        let signature = format!("{ty} = {ty}");
        tests.push(Test::new(format!("abs{flags}.{ty}"), &signature, move |inputs| {
            each(ty, inputs, |[a, _]| enter(a) & !sign)
        }));
        tests.push(Test::new(format!("neg{flags}.{ty}"), &signature, move |inputs| {
            each(ty, inputs, |[a, _]| enter(a) ^ sign)
        }));
    }
    for (ty, sign) in [("f32", 1_u64 << 31), ("f64", 1 << 63)] {
        let signature = format!("{ty} = {ty} {ty}");
        tests.push(Test::new(format!("copysign.{ty}"), &signature, move |[a, b, ..]| {
            a & sign | b & !sign
        }));
    }
}

fn properties(tests: &mut Vec<Test>) {
    for ty in ["f32", "f64"] {
        let format = Format::of(ty);
        for property in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
            let form = format!("testp.{property}.{ty}");
            tests.push(Test::new(form, &format!("pred = {ty}"), move |[a, ..]| {
                let (nan, subnormal) = (format.is_nan(a), format.is_subnormal(a));
                let infinite = format.wide(a).abs() == f64::INFINITY;
                u64::from(match property {
                    "finite" => !nan && !infinite,
                    "infinite" => infinite,
                    "number" => !nan,
                    "notanumber" => nan,
                    "normal" => !nan && !infinite && !subnormal,
                    _ => subnormal,
                })
            }));
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    extremes(&mut tests);
    signs(&mut tests);
    properties(&mut tests);
    tests
}
