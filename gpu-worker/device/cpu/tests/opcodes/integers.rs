//! Integer arithmetic, shifts and bit fields.

use crate::lanes::{Expected, check};

#[test]
fn integers() {
    let w: &[&str] = &["u32", "u32", "u32"];
    let q: &[&str] = &["u64", "u64", "u64"];
    let cases: &[(&str, &[&str], Expected)] = &[
        ("add.s32 %d, %a, %b;", w, |a, b, _| a.wrapping_add(b)),
        ("add.sat.s32 %d, %a, %b;", w, |a, b, _| {
            (a as i32).saturating_add(b as i32) as u64
        }),
        ("sub.u64 %d, %a, %b;", q, |a, b, _| a.wrapping_sub(b)),
        ("add.u16 %d, %a, %b;", &["u16", "u16", "u16"], |a, b, _| {
            a + b
        }),
        ("mul.lo.s32 %d, %a, %b;", w, |a, b, _| a.wrapping_mul(b)),
        ("mul.hi.s32 %d, %a, %b;", w, |a, b, _| {
            ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u64
        }),
        ("mul.hi.u64 %d, %a, %b;", q, |a, b, _| {
            ((u128::from(a) * u128::from(b)) >> 64) as u64
        }),
        (
            "mul.wide.s32 %d, %a, %b;",
            &["s64", "s32", "s32"],
            |a, b, _| (i64::from(a as i32) * i64::from(b as i32)) as u64,
        ),
        (
            "mul.wide.u16 %d, %a, %b;",
            &["u32", "u16", "u16"],
            |a, b, _| a * b,
        ),
        ("mad.lo.u32 %d, %a, %b, %c;", &["u32"; 4], |a, b, c| {
            a.wrapping_mul(b).wrapping_add(c)
        }),
        (
            "mad.wide.u32 %d, %a, %b, %c;",
            &["u64", "u32", "u32", "u64"],
            |a, b, c| (a * b).wrapping_add(c),
        ),
        ("mul24.lo.s32 %d, %a, %b;", w, |a, b, _| {
            let low = |x: u64| i64::from((x as i32) << 8 >> 8);
            (low(a) * low(b)) as u64
        }),
        ("sad.u32 %d, %a, %b, %c;", &["u32"; 4], |a, b, c| {
            a.abs_diff(b) + c
        }),
        ("div.u32 %d, %a, %b;", w, |a, b, _| {
            a.checked_div(b).unwrap_or(u64::MAX)
        }),
        ("div.s64 %d, %a, %b;", q, |a, b, _| match b {
            0 => u64::MAX,
            _ => (a as i64).wrapping_div(b as i64) as u64,
        }),
        ("rem.s32 %d, %a, %b;", w, |a, b, _| match b {
            0 => a,
            _ => (a as i32).wrapping_rem(b as i32) as u64,
        }),
        ("min.s32 %d, %a, %b;", w, |a, b, _| {
            (a as i32).min(b as i32) as u64
        }),
        ("max.u64 %d, %a, %b;", q, |a, b, _| a.max(b)),
        ("abs.s32 %d, %a;", &["s32", "s32"], |a, _, _| {
            (a as i32).wrapping_abs() as u64
        }),
        ("neg.s64 %d, %a;", &["s64", "s64"], |a, _, _| {
            (a as i64).wrapping_neg() as u64
        }),
        ("not.b32 %d, %a;", &["b32", "b32"], |a, _, _| !a),
        ("cnot.b32 %d, %a;", &["b32", "b32"], |a, _, _| {
            u64::from(a == 0)
        }),
        ("xor.b64 %d, %a, %b;", q, |a, b, _| a ^ b),
        ("popc.b64 %d, %a;", &["u32", "b64"], |a, _, _| {
            u64::from(a.count_ones())
        }),
        ("clz.b32 %d, %a;", &["u32", "b32"], |a, _, _| {
            u64::from((a as u32).leading_zeros())
        }),
        ("brev.b64 %d, %a;", &["b64", "b64"], |a, _, _| {
            a.reverse_bits()
        }),
        ("bfind.s32 %d, %a;", &["u32", "s32"], |a, _, _| {
            let x = a as i32;
            let y = if x < 0 { !x } else { x };
            if y == 0 {
                0xffff_ffff
            } else {
                u64::from(31 - y.leading_zeros())
            }
        }),
        (
            "shl.b32 %d, %a, %b;",
            w,
            |a, b, _| if b > 31 { 0 } else { a << b },
        ),
        ("shr.s32 %d, %a, %b;", w, |a, b, _| {
            (i64::from(a as i32) >> b.min(31)) as u64
        }),
        ("shr.u64 %d, %a, %b;", &["u64", "u64", "u32"], |a, b, _| {
            if b > 63 { 0 } else { a >> b }
        }),
        ("shf.l.wrap.b32 %d, %a, %b, %c;", &["b32"; 4], |a, b, c| {
            ((b << 32 | a) << (c & 31)) >> 32
        }),
        ("shf.r.clamp.b32 %d, %a, %b, %c;", &["b32"; 4], |a, b, c| {
            (b << 32 | a) >> c.min(32)
        }),
        ("bfe.u32 %d, %a, %b, %c;", &["u32"; 4], |a, b, c| {
            let (from, len) = (b & 255, c & 255);
            (0..len.min(32)).fold(0, |r, i| {
                r | if from + i < 32 {
                    (a >> (from + i) & 1) << i
                } else {
                    0
                }
            })
        }),
        (
            "bfe.s32 %d, %a, %b, %c;",
            &["s32", "s32", "u32", "u32"],
            |a, b, c| {
                let (from, len) = (b & 255, c & 255);
                if len == 0 {
                    return 0;
                }
                let sign = a >> (from + len - 1).min(31) & 1;
                (0..32).fold(0, |r, i| {
                    let bit = if i < len && from + i < 32 {
                        a >> (from + i) & 1
                    } else {
                        sign
                    };
                    r | bit << i
                })
            },
        ),
        ("bfi.b32 %d, %a, %b, 5, 9;", w, |a, b, _| {
            b & !(0x1ff << 5) | (a & 0x1ff) << 5
        }),
        ("prmt.b32 %d, %a, %b, %c;", &["b32"; 4], |a, b, c| {
            let all = b << 32 | a;
            (0..4).fold(0, |r, i| {
                let s = c >> (4 * i) & 15;
                let byte = all >> (8 * (s & 7)) & 255;
                let byte = if s & 8 != 0 { (byte >> 7) * 255 } else { byte };
                r | byte << (8 * i)
            })
        }),
        ("lop3.b32 %d, %a, %b, %c, 0x96;", &["b32"; 4], |a, b, c| {
            a ^ b ^ c
        }),
        ("lop3.b32 %d, %a, %b, %c, 0xe8;", &["b32"; 4], |a, b, c| {
            a & b | a & c | b & c
        }),
        ("dp4a.s32.u32 %d, %a, %b, %c;", &["b32"; 4], |a, b, c| {
            (0..4).fold(c as i64, |s, i| {
                s + i64::from((a >> (8 * i)) as u8 as i8) * (b >> (8 * i) & 255) as i64
            }) as u64
        }),
        (
            "add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;",
            &["u32"; 4],
            |a, b, c| c + ((a + b) >> 32),
        ),
        (
            "sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;",
            &["u32"; 4],
            |a, b, c| c.wrapping_sub(u64::from(a < b)),
        ),
        (
            "mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;",
            &["u32"; 4],
            |a, b, c| ((a * b) >> 32) + ((((a * b) & 0xffff_ffff) + c) >> 32),
        ),
    ];
    for (text, types, expected) in cases {
        check(text, types, *expected);
    }
}
