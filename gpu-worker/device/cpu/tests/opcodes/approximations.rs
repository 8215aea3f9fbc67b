//! Approximate functions, within the error bounds of the ISA manual.

use crate::exact::{Format, Round};
use crate::vector::{Expect, Test};

/// Maximum distance of a result from the exact one, given the source and the exact result.
type Bound = fn(f64, f64) -> f64;

/// Relative errors as powers of two, as the manual states them.
fn relative(error: f64) -> impl Fn(f64) -> f64 {
    move |want: f64| want.abs() * error.exp2()
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() {
        0_f32.copysign(x)
    } else {
        x
    }
}

/// Checks that an f32 is near enough; NaN must be the canonical one.
fn near(got: f32, want: f64, bound: f64, ftz: bool) -> Result<(), String> {
    if want.is_nan() {
        return match got.to_bits() {
            0x7fff_ffff => Ok(()),
            bits => Err(format!("gave {bits:#x}, expected the canonical NaN")),
        };
    }
    let rounded = want as f32;
    // Half a unit in the last place of subnormals is always near enough.
    let off = (f64::from(got) - want).abs() <= bound + f64::exp2(-150.0);
    let zero = ftz && got == 0.0 && want.abs() < f64::from(f32::MIN_POSITIVE) * 1.000_001;
    let sign = bound > 1.0 || got.is_sign_negative() == want.is_sign_negative();
    let infinite = got.is_infinite() && (rounded.is_infinite() || want.abs() > 3.4e38);
    let kept = !(ftz && got.is_subnormal());
    if kept && (got == rounded || off || zero || infinite) && (sign || got != 0.0) {
        return Ok(());
    }
    Err(format!("gave {got:e}, expected {want:e} within {bound:e}"))
}

fn one(tests: &mut Vec<Test>, op: &'static str, exact: fn(f64) -> f64, bound: Bound) {
    for ftz in [false, true] {
        if ftz && op == "tanh" {
            continue;
        }
        let modifier = if ftz { ".ftz" } else { "" };
        let check = move |[a, ..]: [u64; 4], got: u64| {
            let x = f32::from_bits(a as u32);
            let x = f64::from(if ftz { flushed(x) } else { x });
            let want = exact(x);
            near(f32::from_bits(got as u32), want, bound(x, want), ftz)
        };
        let form = format!("{op}.approx{modifier}.f32");
        tests.push(Test::with(form, "f32 = f32", Expect::Within(Box::new(check))));
    }
}

/// Sine and cosine: two ranges have a bound; beyond them any value in [-1, 1] is accepted.
fn wave_bound(x: f64, _: f64) -> f64 {
    let turns = x.abs() / std::f64::consts::TAU;
    if turns <= 1.0 {
        f64::exp2(-20.5)
    } else if turns <= 50.0 {
        f64::exp2(-14.7)
    } else {
        2.0
    }
}

fn quotients(tests: &mut Vec<Test>) {
    for (mode, ftz) in [("approx", false), ("approx", true), ("full", false), ("full", true)] {
        let modifier = if ftz { ".ftz" } else { "" };
        let check = move |[a, b, ..]: [u64; 4], got: u64| {
            let enter = |bits: u64| {
                let x = f32::from_bits(bits as u32);
                f64::from(if ftz { flushed(x) } else { x })
            };
            let (a, b) = (enter(a), enter(b));
            // Divisors from 2^126 on have a special rule.
            if mode == "approx" && b.is_finite() && b.abs() > f64::exp2(126.0) {
                let want = if a.is_infinite() { f64::NAN } else { 0.0 };
                let sign = if a.is_sign_negative() == b.is_sign_negative() { want } else { -want };
                return near(f32::from_bits(got as u32), sign, 0.0, ftz);
            }
            let want = a / b;
            let ulp = (want.abs() * f64::exp2(-23.0)).max(f64::exp2(-149.0));
            near(f32::from_bits(got as u32), want, 2.0 * ulp, ftz)
        };
        let form = format!("div.{mode}{modifier}.f32");
        tests.push(Test::with(form, "f32 = f32 f32", Expect::Within(Box::new(check))));
    }
}

/// Double precision: the fast forms read and return the upper 32 bits only.
fn doubles(tests: &mut Vec<Test>) {
    for (op, exact) in [
        ("rcp", (|x| 1.0 / x) as fn(f64) -> f64),
        ("rsqrt", |x| 1.0 / x.sqrt()),
    ] {
        let check = move |[a, ..]: [u64; 4], got: u64| {
            let nan = f64::from_bits(a).is_nan();
            let x = if nan { f64::NAN } else { f64::from_bits(a & !0xffff_ffff) };
            let x = if x.is_subnormal() { 0_f64.copysign(x) } else { x };
            double(got, exact(x), -20.0, true)
        };
        let form = format!("{op}.approx.ftz.f64");
        tests.push(Test::with(form, "f64 = f64", Expect::Within(Box::new(check))));
    }
    let check = |[a, ..]: [u64; 4], got: u64| {
        double(got, 1.0 / f64::from_bits(a).sqrt(), -50.0, false)
    };
    let form = "rsqrt.approx.f64";
    tests.push(Test::with(form, "f64 = f64", Expect::Within(Box::new(check))));
    // Not in the manual, but tinygrad emits it and the assembler accepts it.
    let check = |[a, ..]: [u64; 4], got: u64| double(got, 1.0 / f64::from_bits(a), -52.0, false);
    let form = "rcp.approx.f64";
    tests.push(Test::with(form, "f64 = f64", Expect::Within(Box::new(check))));
}

fn double(bits: u64, want: f64, error: f64, short: bool) -> Result<(), String> {
    let got = f64::from_bits(bits);
    if short && !want.is_nan() && bits & 0xffff_ffff != 0 {
        return Err(format!("{bits:#x} has lower bits"));
    }
    let off = (got - want).abs() <= relative(error)(want);
    let zero = short && want.is_subnormal() && got == 0.0;
    if got.is_nan() && want.is_nan() || got == want || off || zero {
        return Ok(());
    }
    Err(format!("gave {got:e}, expected {want:e}"))
}

/// Every value of the formats of 16 bits, alone and in pairs.
fn halves(tests: &mut Vec<Test>) {
    type Case = (&'static str, &'static str, fn(f64) -> f64, Bound);
    let cases: [Case; 4] = [
        ("ex2.approx", "f16", f64::exp2, |_, want| relative(-9.9)(want)),
        ("ex2.approx.ftz", "bf16", f64::exp2, |_, want| relative(-7.0)(want)),
        ("tanh.approx", "f16", f64::tanh, |_, _| f64::exp2(-10.987)),
        ("tanh.approx", "bf16", f64::tanh, |_, want| relative(-8.0)(want)),
    ];
    for (op, ty, exact, bound) in cases {
        let format = Format::of(ty);
        let one = move |bits: u64, got: u64| {
            let x = format.wide(if op.contains("ftz") { format.flush(bits) } else { bits });
            let (want, got) = (exact(x), format.wide(got));
            let last = f64::exp2(if ty == "f16" { -25.0 } else { -134.0 });
            let top = Format::F64.convert(format, want.to_bits(), Round::NearestTiesToEven);
            let near = (got - want).abs() <= bound(x, want) + last || got == format.wide(top);
            let zero = op.contains("ftz") && got == 0.0 && want.abs() < f64::exp2(-126.0);
            let sign = got.is_sign_negative() == want.is_sign_negative();
            if (near || zero) && sign || got.is_nan() && want.is_nan() {
                return Ok(());
            }
            Err(format!("gave {got:e} for {x:e}, expected {want:e}"))
        };
        let check = Box::new(move |[a, ..]: [u64; 4], got| one(a, got));
        let form = format!("{op}.{ty}");
        let test = Test::with(form, &format!("{ty} = {ty}"), Expect::Within(check));
        tests.push(test.lanes(1 << 16));
        let check = Box::new(move |[a, ..]: [u64; 4], got| {
            one(a & 0xffff, got & 0xffff)?;
            one(a >> 16, got >> 16)
        });
        let form = format!("{op}.{ty}x2");
        tests.push(Test::with(form, &format!("{ty}x2 = {ty}x2"), Expect::Within(check)));
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    one(&mut tests, "ex2", f64::exp2, |_, want| relative(-22.0)(want));
    one(&mut tests, "lg2", f64::log2, |x, want| {
        if (0.5..2.0).contains(&x) { f64::exp2(-22.0) } else { relative(-22.0)(want) }
    });
    one(&mut tests, "sin", f64::sin, wave_bound);
    one(&mut tests, "cos", f64::cos, wave_bound);
    one(&mut tests, "tanh", f64::tanh, |_, want| relative(-11.0)(want));
    one(&mut tests, "rcp", |x| 1.0 / x, |_, want| relative(-23.0)(want));
    one(&mut tests, "sqrt", f64::sqrt, |_, want| relative(-23.0)(want));
    one(&mut tests, "rsqrt", |x| 1.0 / x.sqrt(), |_, want| relative(-22.9)(want));
    quotients(&mut tests);
    doubles(&mut tests);
    halves(&mut tests);
    tests
}
