//! Arithmetic with the carry flag: carry in, carry out, and the unchanged flag.

use crate::integers::{value, width};
use crate::vector::{Expect, Inputs, Test};

/// An instruction between one that sets the flag to `%h` and one that reads it into `%e`.
fn chain(form: &str, operands: &str, ty: &'static str, want: fn(&str, Inputs) -> i128) -> Test {
    let gives = form.contains(".cc");
    let n = width(ty);
    let expect = move |inputs: Inputs| {
        let sum = want(ty, inputs);
        let out = if gives { sum >> n & 1 != 0 } else { inputs[3] != 0 };
        [sum as u64, u64::from(out), 0, 0]
    };
    let body = format!(
        ".reg .b32 %x; selp.u32 %x, 1, 0, %h; add.cc.u32 %x, %x, -1;
         {form} %d, {operands}; addc.u32 %e, 0, 0;"
    );
    let signature = format!("{ty} u32 = {ty} {ty} {ty} pred");
    Test::with(form, &signature, Expect::Each(Box::new(expect)))
        .body(body)
        .also(["add.cc.u32", "addc.u32"])
}

fn low(ty: &str, bits: u64) -> i128 {
    value(if width(ty) == 32 { "u32" } else { "u64" }, bits)
}

/// The sum of part of a product and a third number, as unsigned numbers.
fn product(ty: &str, [a, b, c, _]: Inputs, high: bool) -> i128 {
    let n = width(ty);
    let whole = value(ty, a).wrapping_mul(value(ty, b));
    let part = if high { whole >> n } else { whole };
    (part & ((1 << n) - 1)) + low(ty, c)
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for ty in ["u32", "s32", "u64", "s64"] {
        let two = "%a, %b";
        let three = "%a, %b, %c";
        let carry = |form: &str, operands, want| chain(&format!("{form}.{ty}"), operands, ty, want);
        tests.push(carry("add.cc", two, |ty, [a, b, ..]| low(ty, a) + low(ty, b)));
        // A subtraction adds the complement: the flag is set if nothing was borrowed. This is
        // visible only to a chain that mixes both, such as NVRTC's 128-bit division.
        tests.push(carry("sub.cc", two, |ty, [a, b, ..]| low(ty, a) + low(ty, !b) + 1));
        tests.push(carry("mad.lo.cc", three, |ty, inputs| product(ty, inputs, false)));
        tests.push(carry("mad.hi.cc", three, |ty, inputs| product(ty, inputs, true)));
        for cc in ["", ".cc"] {
            tests.push(carry(&format!("addc{cc}"), two, |ty, [a, b, _, h]| {
                low(ty, a) + low(ty, b) + i128::from(h)
            }));
            tests.push(carry(&format!("subc{cc}"), two, |ty, [a, b, _, h]| {
                low(ty, a) + low(ty, !b) + i128::from(h)
            }));
            tests.push(carry(&format!("madc.lo{cc}"), three, |ty, inputs| {
                product(ty, inputs, false) + i128::from(inputs[3])
            }));
            tests.push(carry(&format!("madc.hi{cc}"), three, |ty, inputs| {
                product(ty, inputs, true) + i128::from(inputs[3])
            }));
        }
    }
    tests
}
