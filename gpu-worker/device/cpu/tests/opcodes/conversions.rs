//! `cvt`: every pair of types, every rounding, every way to saturate.

use crate::exact::{Format, NEAREST, ROUNDS, Round};
use crate::integers::{range, value};
use crate::vector::Test;

const INTEGERS: [&str; 8] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"];
const FLOATS: [&str; 4] = ["f16", "bf16", "f32", "f64"];

/// The roundings to whole numbers by their modifiers.
const WHOLE: [(&str, Round); 4] = [
    (".rni", Round::NearestTiesToEven),
    (".rzi", Round::TowardZero),
    (".rmi", Round::TowardNegative),
    (".rpi", Round::TowardPositive),
];

fn signature(to: &str, from: &str) -> String {
    format!("{to} = {from}")
}

fn integers(tests: &mut Vec<Test>) {
    for to in INTEGERS {
        for from in INTEGERS {
            let want = move |[a, ..]: [u64; 4]| value(to, value(from, a) as u64) as u64;
            tests.push(Test::new(format!("cvt.{to}.{from}"), &signature(to, from), want));
            let want = move |[a, ..]: [u64; 4]| {
                let (low, high) = range(to);
                value(from, a).clamp(low, high) as u64
            };
            tests.push(Test::new(format!("cvt.sat.{to}.{from}"), &signature(to, from), want));
        }
    }
}

/// Clamps to the range from zero to one; NaN becomes zero.
fn saturated(format: Format, bits: u64) -> u64 {
    if format.is_nan(bits) || format.is_negative(bits) {
        return 0;
    }
    bits.min(format.one())
}

fn to_floats(tests: &mut Vec<Test>) {
    for to in FLOATS {
        let format = Format::of(to);
        for from in INTEGERS {
            for (name, round) in ROUNDS {
                for sat in ["", ".sat"] {
                    if to == "bf16" && !sat.is_empty() {
                        continue;
                    }
                    let form = format!("cvt{name}{sat}.{to}.{from}");
                    tests.push(Test::new(form, &signature(to, from), move |[a, ..]| {
                        let bits = format.integer(value(from, a), round);
                        if sat.is_empty() { bits } else { saturated(format, bits) }
                    }));
                }
            }
        }
    }
}

fn to_integers(tests: &mut Vec<Test>) {
    for from in FLOATS {
        let format = Format::of(from);
        for to in INTEGERS {
            for (name, round) in WHOLE {
                for flags in ["", ".ftz", ".sat", ".ftz.sat"] {
                    if from != "f32" && flags.contains(".ftz") {
                        continue;
                    }
                    let form = format!("cvt{name}{flags}.{to}.{from}");
                    tests.push(Test::new(form, &signature(to, from), move |[a, ..]| {
                        let a = if flags.contains(".ftz") { format.flush(a) } else { a };
                        let (low, high) = range(to);
                        // NaN becomes zero, or the top bit for wide sources and targets.
                        let wide = from == "f64" || to.ends_with("64");
                        let lost = if wide { value(to, 1 << (crate::integers::width(to) - 1)) } else { 0 };
                        format.whole(a, round).map_or(lost, |x| x.clamp(low, high)) as u64
                    }));
                }
            }
        }
    }
}

/// A NaN of one format in another: f64 keeps the payload, the rest have one NaN.
fn converted(from: Format, to: Format, bits: u64, round: Round) -> u64 {
    if !from.is_nan(bits) {
        return from.convert(to, bits, round);
    }
    if to != Format::F64 {
        return to.nan(&[]);
    }
    let (width, mantissa) = from.shape();
    let payload = bits << (52 - mantissa) & ((1 << 52) - 1);
    bits >> (width - 1) << 63 | 0x7ff8 << 48 | payload
}

fn between_floats(tests: &mut Vec<Test>) {
    for to in FLOATS {
        for from in FLOATS {
            let (target, source) = (Format::of(to), Format::of(from));
            let roundings: Vec<(&str, Round, bool)> = if to == from {
                let whole = WHOLE.map(|(name, round)| (name, round, true));
                whole.into_iter().chain([("", NEAREST, false)]).collect()
            } else if source.fits(target) {
                vec![("", NEAREST, false)]
            } else {
                ROUNDS.map(|(name, round)| (name, round, false)).to_vec()
            };
            for (name, round, whole) in roundings {
                for flags in ["", ".ftz", ".sat", ".ftz.sat"] {
                    let (ftz, sat) = (flags.contains(".ftz"), flags.contains(".sat"));
                    let single = from == "f32" || to == "f32";
                    if ftz && !single || sat && to == "bf16" {
                        continue;
                    }
                    let flush = move |format: Format, bits| {
                        if ftz && format == Format::F32 { format.flush(bits) } else { bits }
                    };
                    let form = format!("cvt{name}{flags}.{to}.{from}");
                    let test = Test::new(form, &signature(to, from), move |[a, ..]| {
                        let a = flush(source, a);
                        let a = if whole { source.integral(a, round) } else { a };
                        let bits = converted(source, target, a, round);
                        flush(target, if sat { saturated(target, bits) } else { bits })
                    });
                    tests.push(if from.ends_with("16") && flags.is_empty() { test.lanes(1 << 16) } else { test });
                }
            }
        }
    }
}

/// One number converted to a format of 8, 16 or 19 bits. `.relu` turns negative ones into zero,
/// `.satfinite` limits to finite ones.
fn packed(from: Format, to: Format, flags: &str, round: Round, a: u64) -> u64 {
    if from.is_nan(a) {
        return if to == Format::Tf32 { 0x7fff_ffff } else { to.nan(&[]) };
    }
    if flags.contains(".relu") && from.is_negative(a) {
        return 0;
    }
    let bits = from.convert(to, a, round);
    let most = to.greatest();
    let finite = if flags.contains(".satfinite") && from.wide(a).abs() > to.wide(most) {
        most | bits & 1 << (to.shape().0 - 1)
    } else {
        bits
    };
    if to == Format::Tf32 { finite << 13 } else { finite }
}

fn packs(tests: &mut Vec<Test>) {
    let flags = ["", ".relu", ".satfinite", ".relu.satfinite"];
    let single = Format::F32;
    for flags in flags {
        for (name, round) in &ROUNDS[..2] {
            let round = *round;
            for ty in ["f16", "bf16", "tf32"] {
                let to = Format::of(ty);
                // Without flags it is one of the plain conversions.
                if !flags.is_empty() || ty == "tf32" {
                    let order = if ty == "tf32" { flip(flags) } else { flags.to_owned() };
                    let form = format!("cvt{name}{order}.{ty}.f32");
                    tests.push(Test::new(form, &signature(ty, "f32"), move |[a, ..]| {
                        packed(single, to, flags, round, a)
                    }));
                }
                if ty != "tf32" {
                    let form = format!("cvt{name}{flags}.{ty}x2.f32");
                    let signature = format!("{ty}x2 = f32 f32");
                    tests.push(Test::new(form, &signature, move |[a, b, ..]| {
                        let one = |x| packed(single, to, flags, round, x);
                        one(a) << 16 | one(b)
                    }));
                }
            }
        }
        if !flags.contains(".relu") {
            let form = format!("cvt.rna{flags}.tf32.f32");
            tests.push(Test::new(form, "tf32 = f32", move |[a, ..]| {
                packed(single, Format::Tf32, flags, Round::NearestTiesToAway, a)
            }));
        }
    }
}

/// tf32 names its modifiers in reverse order.
fn flip(flags: &str) -> String {
    match flags {
        ".relu.satfinite" => ".satfinite.relu".to_owned(),
        _ => flags.to_owned(),
    }
}

fn bytes(tests: &mut Vec<Test>) {
    for ty in ["e4m3", "e5m2"] {
        let small = Format::of(ty);
        for relu in ["", ".relu"] {
            let flags = [".satfinite", relu].concat();
            let form = format!("cvt.rn.satfinite{relu}.{ty}x2.f32");
            tests.push(Test::new(form, "b16 = f32 f32", {
                let flags = flags.clone();
                move |[a, b, ..]| {
                    let one = |x| packed(Format::F32, small, &flags, NEAREST, x);
                    one(a) << 8 | one(b)
                }
            }));
            let form = format!("cvt.rn.satfinite{relu}.{ty}x2.f16x2");
            tests.push(Test::new(form, "b16 = f16x2", move |[a, ..]| {
                let one = |x| packed(Format::F16, small, &flags, NEAREST, x);
                one(a >> 16) << 8 | one(a & 0xffff)
            }));
            let form = format!("cvt.rn{relu}.f16x2.{ty}x2");
            let test = Test::new(form, "f16x2 = b16", move |[a, ..]| {
                let one = |x| packed(small, Format::F16, relu, NEAREST, x);
                one(a >> 8) << 16 | one(a & 0xff)
            });
            tests.push(test.lanes(1 << 16));
        }
    }
}

/// `cvt.pack`: two integers saturated side by side, merged into a third source.
fn side_by_side(tests: &mut Vec<Test>) {
    for ty in ["u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"] {
        let n = crate::integers::width(ty);
        let (low, high) = range(ty);
        let one = move |bits| value("s32", bits).clamp(low, high) as u64 & ((1 << n) - 1);
        let (form, signature) = if n == 16 {
            (format!("cvt.pack.sat.{ty}.s32"), "b32 = s32 s32")
        } else {
            (format!("cvt.pack.sat.{ty}.s32.b32"), "b32 = s32 s32 b32")
        };
        tests.push(Test::new(form, signature, move |[a, b, c, _]| {
            let above = if n == 16 { 0 } else { c << (2 * n) };
            above | one(a) << n | one(b)
        }));
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    integers(&mut tests);
    to_floats(&mut tests);
    to_integers(&mut tests);
    between_floats(&mut tests);
    packs(&mut tests);
    bytes(&mut tests);
    side_by_side(&mut tests);
    tests
}
