//! Floating-point arithmetic: exact results, directed roundings, and the bounds of approximations.

use device_cpu::Isa;

use crate::lanes::{COUNT, Expected, check, d, f, run, single, values};

#[test]
fn floats() {
    let w: &[&str] = &["f32", "f32", "f32"];
    fn flushed(x: f32) -> f32 {
        if x.is_subnormal() {
            0.0_f32.copysign(x)
        } else {
            x
        }
    }
    let cases: &[(&str, &[&str], Expected)] = &[
        ("add.f32 %d, %a, %b;", w, |a, b, _| single(f(a) + f(b))),
        ("add.ftz.f32 %d, %a, %b;", w, |a, b, _| {
            single(flushed(flushed(f(a)) + flushed(f(b))))
        }),
        ("sub.rn.f32 %d, %a, %b;", w, |a, b, _| single(f(a) - f(b))),
        ("mul.sat.f32 %d, %a, %b;", w, |a, b, _| {
            let x = f(a) * f(b);
            single(if x > 0.0 { x.min(1.0) } else { 0.0 })
        }),
        ("fma.rn.f32 %d, %a, %b, %c;", &["f32"; 4], |a, b, c| {
            single(f(a).mul_add(f(b), f(c)))
        }),
        ("div.rn.f32 %d, %a, %b;", w, |a, b, _| single(f(a) / f(b))),
        ("sqrt.rn.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            single(f(a).sqrt())
        }),
        ("rcp.rn.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            single(1.0 / f(a))
        }),
        ("min.f32 %d, %a, %b;", w, |a, b, _| {
            match (f(a).is_nan(), f(b).is_nan()) {
                (true, _) => single(f(b)),
                (_, true) => single(f(a)),
                _ if f(a) == f(b) => a | b,
                _ => single(f(a).min(f(b))),
            }
        }),
        ("abs.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            a & 0x7fff_ffff
        }),
        ("neg.f32 %d, %a;", &["f32", "f32"], |a, _, _| {
            a ^ 0x8000_0000
        }),
        ("copysign.f32 %d, %a, %b;", w, |a, b, _| {
            a & 0x8000_0000 | b & 0x7fff_ffff
        }),
        (
            "setp.lt.f32 %d, %a, %b;",
            &["pred", "f32", "f32"],
            |a, b, _| u64::from(f(a) < f(b)),
        ),
        (
            "setp.ne.f32 %d, %a, %b;",
            &["pred", "f32", "f32"],
            |a, b, _| u64::from(f(a) < f(b) || f(a) > f(b)),
        ),
        (
            "setp.geu.f32 %d, %a, %b;",
            &["pred", "f32", "f32"],
            |a, b, _| {
                u64::from(
                    f(a).partial_cmp(&f(b))
                        .is_none_or(std::cmp::Ordering::is_ge),
                )
            },
        ),
        (
            "setp.gt.and.s32 %d, %a, %b, %c;",
            &["pred", "s32", "s32", "pred"],
            |a, b, c| u64::from(a as i32 > b as i32 && c & 1 != 0),
        ),
        (
            "selp.f32 %d, %a, %b, %c;",
            &["f32", "f32", "f32", "pred"],
            |a, b, c| {
                if c & 1 != 0 { a } else { b }
            },
        ),
        (
            "slct.s32.f32 %d, %a, %b, %c;",
            &["s32", "s32", "s32", "f32"],
            |a, b, c| {
                if f(c) >= 0.0 { a } else { b }
            },
        ),
        (
            "set.le.u32.u32 %d, %a, %b;",
            &["u32", "u32", "u32"],
            |a, b, _| {
                if a <= b { u64::MAX } else { 0 }
            },
        ),
        ("fma.rn.f64 %d, %a, %b, %c;", &["f64"; 4], |a, b, c| {
            d(a).mul_add(d(b), d(c)).to_bits()
        }),
        ("testp.normal.f32 %d, %a;", &["pred", "f32"], |a, _, _| {
            u64::from(f(a).is_normal())
        }),
    ];
    for (text, types, expected) in cases {
        if text.contains("f64") {
            // NaN payloads of f64 are the machine's; compare numbers only.
            continue;
        }
        check(text, types, *expected);
    }
    for isa in [Isa::Portable, Isa::detect()] {
        for text in [
            "fma.rn.f64 %d, %a, %b, %c;",
            "mul.f64 %d, %a, %b;",
            "add.f64 %d, %a, %b;",
        ] {
            let got = run(isa, text, &["f64"; 4]);
            let (a, b, c) = (values(1), values(2), values(3));
            for i in 0..COUNT {
                let (x, y, z) = (d(a[i]), d(b[i]), d(c[i]));
                let want = match &text[..3] {
                    "fma" => x.mul_add(y, z),
                    "mul" => x * y,
                    _ => x + y,
                };
                let same = d(got[i]).to_bits() == want.to_bits();
                assert!(
                    same || d(got[i]).is_nan() && want.is_nan(),
                    "{text} lane {i}"
                );
            }
        }
    }
}

/// Every rounding of every operation: what the vector unit gives equals the integer arithmetic of
/// the portable path, and both bracket the nearest result.
#[test]
fn directed_rounding_agrees_with_exact_arithmetic() {
    let forms = [
        ("add", "%d, %a, %b;"),
        ("sub", "%d, %a, %b;"),
        ("mul", "%d, %a, %b;"),
        ("fma", "%d, %a, %b, %c;"),
        ("div", "%d, %a, %b;"),
        ("sqrt", "%d, %a;"),
        ("rcp", "%d, %a;"),
    ];
    for ty in ["f32", "f64"] {
        for (op, operands) in forms {
            let results = ["rm", "rn", "rz", "rp"].map(|round| {
                let text = format!("{op}.{round}.{ty} {operands}");
                let soft = run(Isa::Portable, &text, &[ty; 4]);
                let vector = run(Isa::detect(), &text, &[ty; 4]);
                let value = |bits: u64| {
                    if ty == "f32" {
                        f64::from(f(bits))
                    } else {
                        d(bits)
                    }
                };
                for i in 0..COUNT {
                    let nan = value(soft[i]).is_nan() && value(vector[i]).is_nan();
                    assert!(
                        soft[i] == vector[i] || nan,
                        "{text} lane {i}: {:#x} {:#x}",
                        soft[i],
                        vector[i]
                    );
                }
                soft.into_iter().map(value).collect::<Vec<_>>()
            });
            for i in 0..COUNT {
                let [down, near, zero, up] = [0, 1, 2, 3].map(|at: usize| results[at][i]);
                if near.is_nan() {
                    continue;
                }
                assert!(down <= near && near <= up, "{op}.{ty} lane {i}");
                let towards = if near.is_sign_negative() { up } else { down };
                assert!(zero == towards, "{op}.{ty} lane {i}: {zero} {towards}");
            }
        }
    }
}

#[test]
fn approximations_are_within_their_bounds() {
    type Case = (&'static str, fn(f64) -> f64, f64);
    let cases: [Case; 7] = [
        ("ex2", f64::exp2, 3e-7),
        ("lg2", f64::log2, 3e-7),
        ("sin", f64::sin, 6e-7),
        ("cos", f64::cos, 6e-7),
        ("tanh", f64::tanh, 5e-4),
        ("rsqrt", |x| 1.0 / x.sqrt(), 3e-7),
        ("rcp", |x| 1.0 / x, 2e-7),
    ];
    for (op, exact, bound) in cases {
        let text = format!(
            ".reg .s32 %i; .reg .f32 %x; and.b32 %i, %a, 0xfffff; cvt.rn.f32.s32 %x, %i; mul.f32 %x, %x, 0f36000000; {op}.approx.f32 %d, %x;"
        );
        for isa in [Isa::Portable, Isa::detect()] {
            let got = run(isa, &text, &["f32", "b32"]);
            for (i, a) in values(1).iter().enumerate() {
                let x = (a & 0xf_ffff) as f32 * f32::from_bits(0x3600_0000);
                let want = exact(f64::from(x));
                let error = (f64::from(f(got[i])) - want).abs();
                let near = error <= bound * want.abs().max(if op == "lg2" { 1.0 } else { 0.01 });
                assert!(
                    near || f64::from(f(got[i])) == want,
                    "{op}({x}): {} {want}",
                    f(got[i])
                );
            }
        }
    }
}
