//! Integer arithmetic: sums, products, quotients, order, and the pairs of 16 bits.

use crate::vector::Test;

/// Bits of a type by name.
pub(crate) fn width(ty: &str) -> u32 {
    ty[1..].parse().expect("a type with a width")
}

/// The low bits of a register as an integer of a type.
pub(crate) fn value(ty: &str, bits: u64) -> i128 {
    let unused = 64 - width(ty);
    if ty.starts_with('s') {
        i128::from((bits << unused) as i64 >> unused)
    } else {
        i128::from(bits << unused >> unused)
    }
}

/// Least and greatest value of a type.
pub(crate) fn range(ty: &str) -> (i128, i128) {
    let n = width(ty);
    if ty.starts_with('s') {
        (-(1 << (n - 1)), (1 << (n - 1)) - 1)
    } else {
        (0, (1 << n) - 1)
    }
}

pub(crate) const ALL: [&str; 6] = ["u16", "u32", "u64", "s16", "s32", "s64"];

fn same(ty: &str, sources: usize) -> String {
    format!("{ty} = {}", [ty; 3][..sources].join(" "))
}

fn two(form: String, ty: &'static str, f: fn(i128, i128) -> i128) -> Test {
    Test::new(form, &same(ty, 2), move |[a, b, ..]| {
        f(value(ty, a), value(ty, b)) as u64
    })
}

/// Forms of products: the part of the whole, and the width of the result.
fn products(tests: &mut Vec<Test>, ty: &'static str) {
    let n = width(ty);
    let part = move |whole: i128, part: &str| if part == "hi" { whole >> n } else { whole };
    for mode in ["lo", "hi", "wide"] {
        if mode == "wide" && n == 64 {
            continue;
        }
        let to = match mode {
            "wide" => format!("{}{}", &ty[..1], 2 * n),
            _ => ty.to_owned(),
        };
        tests.push(Test::new(format!("mul.{mode}.{ty}"), &format!("{to} = {ty} {ty}"), {
            move |[a, b, ..]| part(value(ty, a).wrapping_mul(value(ty, b)), mode) as u64
        }));
        let signature = format!("{to} = {ty} {ty} {to}");
        tests.push(Test::new(format!("mad.{mode}.{ty}"), &signature, move |[a, b, c, _]| {
            (part(value(ty, a).wrapping_mul(value(ty, b)), mode) as u64).wrapping_add(c)
        }));
    }
}

/// `mul24` and `mad24`: products of 24 bits, cut to 32.
fn short_products(tests: &mut Vec<Test>, ty: &'static str) {
    let low = move |bits: u64| {
        let bits = (bits & 0xff_ffff) as i64;
        if ty == "s32" && bits >> 23 != 0 { bits - (1 << 24) } else { bits }
    };
    for (mode, shift) in [("lo", 0), ("hi", 16)] {
        let product = move |a, b| (low(a) * low(b)) >> shift;
        tests.push(Test::new(format!("mul24.{mode}.{ty}"), &same(ty, 2), {
            move |[a, b, ..]| product(a, b) as u64
        }));
        tests.push(Test::new(format!("mad24.{mode}.{ty}"), &same(ty, 3), {
            move |[a, b, c, _]| (product(a, b) as u64).wrapping_add(c)
        }));
    }
    if ty == "s32" {
        tests.push(Test::new("mad24.hi.sat.s32", "s32 = s32 s32 s32", move |[a, b, c, _]| {
            let high = (low(a) * low(b)) >> 16;
            let sum = i128::from(high as i32) + value(ty, c);
            sum.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as u64
        }));
    }
}


/// Applies a function to each half of registers of 32 bits.
pub(crate) fn halves(a: u64, b: u64, f: impl Fn(u64, u64) -> u64) -> u64 {
    f(a & 0xffff, b & 0xffff) & 0xffff | (f(a >> 16, b >> 16) & 0xffff) << 16
}

fn pairs(tests: &mut Vec<Test>) {
    for (ty, half) in [("u16x2", "u16"), ("s16x2", "s16")] {
        tests.push(Test::new(format!("add.{ty}"), &same(ty, 2), |[a, b, ..]| {
            halves(a, b, u64::wrapping_add)
        }));
        for (op, least) in [("min", true), ("max", false)] {
            for relu in ["", ".relu"] {
                if ty == "u16x2" && !relu.is_empty() {
                    continue;
                }
                for form in [format!("{op}{relu}.{ty}"), format!("{op}.{ty}{relu}")] {
                    tests.push(Test::new(form, &same(ty, 2), move |[a, b, ..]| {
                        halves(a, b, |x, y| {
                            let (x, y) = (value(half, x), value(half, y));
                            let found = if least { x.min(y) } else { x.max(y) };
                            (if relu.is_empty() { found } else { found.max(0) }) as u64
                        })
                    }));
                }
            }
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for ty in ALL {
        tests.push(two(format!("add.{ty}"), ty, |a, b| a + b));
        tests.push(two(format!("sub.{ty}"), ty, |a, b| a - b));
        products(&mut tests, ty);
        // Division by zero gives all ones, and its remainder is the dividend.
        tests.push(two(format!("div.{ty}"), ty, |a, b| a.checked_div(b).unwrap_or(-1)));
        tests.push(two(format!("rem.{ty}"), ty, |a, b| a.checked_rem(b).unwrap_or(a)));
        tests.push(two(format!("min.{ty}"), ty, i128::min));
        tests.push(two(format!("max.{ty}"), ty, i128::max));
        tests.push(Test::new(format!("sad.{ty}"), &same(ty, 3), move |[a, b, c, _]| {
            (value(ty, a).abs_diff(value(ty, b)) as u64).wrapping_add(c)
        }));
        if ty.starts_with('s') {
            tests.push(Test::new(format!("abs.{ty}"), &same(ty, 1), move |[a, ..]| {
                value(ty, a).unsigned_abs() as u64
            }));
            tests.push(Test::new(format!("neg.{ty}"), &same(ty, 1), move |[a, ..]| {
                a.wrapping_neg()
            }));
        }
    }
    let saturated = |sum: i128| sum.clamp(range("s32").0, range("s32").1) as u64;
    let s = |bits| value("s32", bits);
    tests.push(Test::new("add.sat.s32", &same("s32", 2), move |[a, b, ..]| saturated(s(a) + s(b))));
    tests.push(Test::new("sub.sat.s32", &same("s32", 2), move |[a, b, ..]| saturated(s(a) - s(b))));
    tests.push(Test::new("mad.hi.sat.s32", &same("s32", 3), move |[a, b, c, _]| {
        saturated(((s(a) * s(b)) >> 32) + s(c))
    }));
    for (op, least) in [("min", true), ("max", false)] {
        for form in [format!("{op}.relu.s32"), format!("{op}.s32.relu")] {
            tests.push(Test::new(form, &same("s32", 2), move |[a, b, ..]| {
                let found = if least { s(a).min(s(b)) } else { s(a).max(s(b)) };
                found.max(0) as u64
            }));
        }
    }
    short_products(&mut tests, "u32");
    short_products(&mut tests, "s32");
    pairs(&mut tests);
    tests
}
