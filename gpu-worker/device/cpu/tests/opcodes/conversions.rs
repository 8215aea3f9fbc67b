//! Conversions between widths and kinds of numbers.

use crate::lanes::{Expected, check, d, f, single};

#[test]
fn conversions() {
    let cases: &[(&str, &[&str], Expected)] = &[
        ("cvt.s64.s32 %d, %a;", &["s64", "s32"], |a, _, _| {
            i64::from(a as i32) as u64
        }),
        ("cvt.u64.u32 %d, %a;", &["u64", "u32"], |a, _, _| a),
        ("cvt.u32.u16 %d, %a;", &["u32", "u16"], |a, _, _| a),
        ("cvt.sat.s8.s32 %d, %a;", &["s32", "s32"], |a, _, _| {
            i64::from((a as i32).clamp(-128, 127)) as u64
        }),
        ("cvt.rn.f32.s32 %d, %a;", &["f32", "s32"], |a, _, _| {
            single(a as i32 as f32)
        }),
        ("cvt.rn.f32.u64 %d, %a;", &["f32", "u64"], |a, _, _| {
            single(a as f32)
        }),
        ("cvt.rzi.s32.f32 %d, %a;", &["s32", "f32"], |a, _, _| {
            f(a) as i32 as u64
        }),
        ("cvt.rni.u32.f32 %d, %a;", &["u32", "f32"], |a, _, _| {
            f(a).round_ties_even() as u64 & !(u64::MAX << 32)
                | if f(a) > 4.3e9 { 0xffff_ffff } else { 0 }
        }),
        ("cvt.rmi.s32.f32 %d, %a;", &["s32", "f32"], |a, _, _| {
            f(a).floor() as i32 as u64
        }),
        ("cvt.rzi.s64.f32 %d, %a;", &["s64", "f32"], |a, _, _| {
            if f(a).is_nan() {
                1 << 63
            } else {
                f(a) as i64 as u64
            }
        }),
        ("cvt.rpi.f32.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            single(f(a).ceil())
        }),
        ("cvt.sat.f32.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            single(if f(a) > 0.0 { f(a).min(1.0) } else { 0.0 })
        }),
        ("cvt.rn.f32.f64 %d, %a;", &["f32", "f64"], |a, _, _| {
            single(d(a) as f32)
        }),
        ("mov.b64 {%d, _}, %a;", &["b32", "b64"], |a, _, _| a),
        (
            "mov.b64 %d, {%a, %b};",
            &["b64", "b32", "b32"],
            |a, b, _| b << 32 | a,
        ),
        (
            "mov.b32 %d, {%a, %b};",
            &["b32", "b16", "b16"],
            |a, b, _| b << 16 | a,
        ),
    ];
    for (text, types, expected) in cases {
        check(text, types, *expected);
    }
    // Every half is itself again after a way through f32, and rounding is to nearest even.
    let text = ".reg .f32 %x; cvt.f32.f16 %x, %a; cvt.rn.f16.f32 %d, %x;";
    check(text, &["b16", "b16"], |a, _, _| {
        if a & 0x7c00 == 0x7c00 && a & 0x3ff != 0 {
            0x7fff
        } else {
            a
        }
    });
    check("cvt.rn.bf16.f32 %d, %a;", &["b16", "f32"], |a, _, _| {
        if f(a).is_nan() {
            0x7fff
        } else {
            (a + 0x7fff + (a >> 16 & 1)) >> 16
        }
    });
}
