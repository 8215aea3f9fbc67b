//! Bits: logic, shifts, counts, fields, permutations, dot products.

use crate::integers::{value, width};
use crate::vector::{Expect, Test};

fn ones(n: u32) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (64 - n) }
}

fn logic(tests: &mut Vec<Test>) {
    for ty in ["b16", "b32", "b64", "pred"] {
        let two = format!("{ty} = {ty} {ty}");
        tests.push(Test::new(format!("and.{ty}"), &two, |[a, b, ..]| a & b));
        tests.push(Test::new(format!("or.{ty}"), &two, |[a, b, ..]| a | b));
        tests.push(Test::new(format!("xor.{ty}"), &two, |[a, b, ..]| a ^ b));
        let one = format!("{ty} = {ty}");
        tests.push(Test::new(format!("not.{ty}"), &one, |[a, ..]| !a));
        if ty != "pred" {
            tests.push(Test::new(format!("cnot.{ty}"), &one, |[a, ..]| {
                u64::from(a == 0)
            }));
        }
    }
    for table in [0x00_u32, 0x01, 0x1b, 0x80, 0x96, 0xca, 0xe8, 0xf0, 0xff] {
        let want = move |[a, b, c, _]: [u64; 4]| {
            (0..32).fold(0, |word, bit| {
                let at = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1;
                word | u64::from(table >> at & 1) << bit
            })
        };
        tests.push(
            Test::new("lop3.b32", "b32 = b32 b32 b32", want)
                .body(format!("lop3.b32 %d, %a, %b, %c, {table:#x};")),
        );
    }
}

fn shifts(tests: &mut Vec<Test>) {
    for ty in ["b16", "b32", "b64"] {
        tests.push(Test::new(
            format!("shl.{ty}"),
            &format!("{ty} = {ty} amount"),
            |[a, n, ..]| if n > 63 { 0 } else { a << n },
        ));
    }
    for ty in [
        "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64",
    ] {
        let signature = format!("{ty} = {ty} amount");
        tests.push(Test::new(
            format!("shr.{ty}"),
            &signature,
            move |[a, n, ..]| (value(ty, a) >> n.min(u64::from(width(ty)))) as u64,
        ));
    }
    for (side, left) in [("l", true), ("r", false)] {
        for (mode, wrap) in [("wrap", true), ("clamp", false)] {
            let form = format!("shf.{side}.{mode}.b32");
            tests.push(Test::new(form, "b32 = b32 b32 amount", move |[a, b, n, _]| {
                let n = if wrap { n & 31 } else { n.min(32) };
                let both = b << 32 | a;
                if left { both << n >> 32 } else { both >> n }
            }));
        }
    }
}

fn counts(tests: &mut Vec<Test>) {
    for n in [32, 64] {
        let word = format!("u32 = b{n}");
        tests.push(Test::new(format!("popc.b{n}"), &word, |[a, ..]| {
            (0..64).map(|bit| a >> bit & 1).sum()
        }));
        tests.push(Test::new(format!("clz.b{n}"), &word, move |[a, ..]| {
            (0..n).take_while(|bit| a >> (n - 1 - bit) & 1 == 0).count() as u64
        }));
        let mirror = move |[a, ..]: [u64; 4]| {
            (0..n).fold(0, |word, bit| word | (a >> bit & 1) << (n - 1 - bit))
        };
        tests.push(Test::new(
            format!("brev.b{n}"),
            &format!("b{n} = b{n}"),
            mirror,
        ));
    }
    for ty in ["u32", "u64", "s32", "s64"] {
        for shift in [false, true] {
            let modifier = if shift { ".shiftamt" } else { "" };
            let last = width(ty) - 1;
            let want = move |[a, ..]: [u64; 4]| {
                let negative = value(ty, a) < 0;
                let found = (0..=last)
                    .rev()
                    .find(|bit| (a >> bit & 1 != 0) != negative);
                found.map_or(u64::MAX, |bit| {
                    u64::from(if shift { last - bit } else { bit })
                })
            };
            let form = format!("bfind{modifier}.{ty}");
            tests.push(Test::new(form, &format!("u32 = {ty}"), want));
        }
    }
}

fn fields(tests: &mut Vec<Test>) {
    for ty in ["u32", "u64", "s32", "s64"] {
        let signature = format!("{ty} = {ty} amount amount");
        let last = u64::from(width(ty)) - 1;
        tests.push(Test::new(format!("bfe.{ty}"), &signature, move |[a, b, c, _]| {
            let (from, len) = (b & 255, c & 255);
            let signed = ty.starts_with('s') && len != 0;
            let sign = if signed { a >> (from + len).saturating_sub(1).min(last) & 1 } else { 0 };
            (0..=last).fold(0, |word, bit| {
                let inside = bit < len && from + bit <= last;
                word | (if inside { a >> (from + bit) & 1 } else { sign }) << bit
            })
        }));
    }
    for n in [32_u64, 64] {
        let signature = format!("b{n} = b{n} b{n} amount amount");
        tests.push(Test::new(format!("bfi.b{n}"), &signature, move |[a, b, c, d]| {
            let (from, len) = (c & 255, d & 255);
            (0..n).fold(0, |word, bit| {
                let inside = bit >= from && bit - from < len;
                word | (if inside { a >> (bit - from) } else { b >> bit } & 1) << bit
            })
        }));
    }
    for (mode, wrap) in [("wrap", true), ("clamp", false)] {
        tests.push(Test::new(
            format!("bmsk.{mode}.b32"),
            "b32 = amount amount",
            move |[a, b, ..]| {
                if !wrap && a > 31 {
                    return 0;
                }
                let len = if wrap { b & 31 } else { b.min(32) };
                ones(len as u32) << (a & 31)
            },
        ));
        for ty in ["u32", "s32"] {
            let form = format!("szext.{mode}.{ty}");
            tests.push(Test::new(form, &format!("{ty} = {ty} amount"), move |[a, n, ..]| {
                let n = if wrap { n & 31 } else { n.min(32) } as u32;
                let low = a & ones(n);
                let negative = ty == "s32" && n > 0 && low >> (n - 1) != 0;
                if negative { low | !ones(n) } else { low }
            }));
        }
    }
    let find = |[mask, base, offset, _]: [u64; 4]| {
        let (mut left, step) = match i32::from(offset as i8) {
            0 => (1, 0),
            n => (n.unsigned_abs(), n.signum()),
        };
        let mut at = base as i32;
        while (0..32).contains(&at) {
            left -= (mask >> at & 1) as u32;
            if left == 0 {
                return at as u64;
            }
            if step == 0 {
                break;
            }
            at += step;
        }
        u64::MAX
    };
    tests.push(
        Test::new("fns.b32", "b32 = b32 position s8", find)
            .body(".reg .b32 %n; cvt.s32.s8 %n, %c; fns.b32 %d, %a, %b, %n;"),
    );
}

fn permutations(tests: &mut Vec<Test>) {
    let byte = |[a, b, ..]: [u64; 4], at: u64| (b << 32 | a) >> (8 * at) & 255;
    tests.push(Test::new("prmt.b32", "b32 = b32 b32 b32", move |inputs| {
        (0..4).fold(0, |word, at| {
            let selector = inputs[2] >> (4 * at) & 15;
            let byte = byte(inputs, selector & 7);
            let spread = if byte >> 7 != 0 { 255 } else { 0 };
            word | (if selector & 8 != 0 { spread } else { byte }) << (8 * at)
        })
    }));
    // Selection of each mode for selectors 0 to 3, the highest byte first.
    let modes: [(&str, [[u64; 4]; 4]); 6] = [
        ("f4e", [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]),
        ("b4e", [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]]),
        ("rc8", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
        ("ecl", [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]]),
        ("ecr", [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]]),
        ("rc16", [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]]),
    ];
    for (mode, table) in modes {
        let form = format!("prmt.b32.{mode}");
        tests.push(Test::new(form, "b32 = b32 b32 b32", move |inputs| {
            let places = table[(inputs[2] & 3) as usize];
            places.iter().fold(0, |word, at| word << 8 | byte(inputs, *at))
        }));
    }
}

fn dot_products(tests: &mut Vec<Test>) {
    let part = |ty: &str, bits: u64, n: u64, at: u64| {
        let low = (bits >> (n * at)) & ((1 << n) - 1);
        let negative = ty == "s32" && low >> (n - 1) != 0;
        if negative { low as i64 - (1 << n) } else { low as i64 }
    };
    for x in ["u32", "s32"] {
        for y in ["u32", "s32"] {
            let signature = format!("b32 = {x} {y} b32");
            tests.push(Test::new(format!("dp4a.{x}.{y}"), &signature, move |[a, b, c, _]| {
                let terms = (0..4).map(|at| part(x, a, 8, at) * part(y, b, 8, at));
                (c as i64 + terms.sum::<i64>()) as u64
            }));
            for (mode, first) in [("lo", 0), ("hi", 2)] {
                let form = format!("dp2a.{mode}.{x}.{y}");
                tests.push(Test::new(form, &signature, move |[a, b, c, _]| {
                    let terms = (0..2).map(|at| part(x, a, 16, at) * part(y, b, 8, first + at));
                    (c as i64 + terms.sum::<i64>()) as u64
                }));
            }
        }
    }
}

fn logic_with_predicates(tests: &mut Vec<Test>) {
    for (join, both) in [("and", true), ("or", false)] {
        for not in ["", "!"] {
            let form = format!("lop3.{join}.b32");
            let body = format!(
                ".reg .pred %q; setp.lt.s32 %q, %c, 0; {form} %d|%e, %a, %b, %c, 0x80, {not}%q;"
            );
            let expect = Expect::Each(Box::new(move |[a, b, c, _]| {
                let held = (c >> 31 & 1 != 0) != (not == "!");
                let some = a & b & c != 0;
                let joined = if both { some && held } else { some || held };
                [a & b & c, u64::from(joined), 0, 0]
            }));
            let test = Test::with(form.clone(), "b32 pred = b32 b32 b32", expect);
            tests.push(test.body(body));
        }
        let form = format!("lop3.{join}.b32");
        let body = format!(
            ".reg .pred %q; setp.lt.s32 %q, %c, 0; {form} _|%d, %a, %b, %c, 0xfe, %q;"
        );
        tests.push(
            Test::new(form, "pred = b32 b32 b32", move |[a, b, c, _]| {
                let (some, held) = (a | b | c != 0, c >> 31 & 1 != 0);
                u64::from(if both { some && held } else { some || held })
            })
            .body(body),
        );
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    logic_with_predicates(&mut tests);
    logic(&mut tests);
    shifts(&mut tests);
    counts(&mut tests);
    fields(&mut tests);
    permutations(&mut tests);
    dot_products(&mut tests);
    tests
}
