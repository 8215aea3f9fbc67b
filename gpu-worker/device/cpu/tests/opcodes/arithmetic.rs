//! Sums, products, quotients and roots of every float format, with every rounding.

use crate::exact::{Exact, Format, NEAREST, ROUNDS, Round};
use crate::vector::Test;

/// Modifiers of the operation.
#[derive(Clone, Copy, Default)]
struct Around {
    ftz: bool,
    sat: bool,
    relu: bool,
}

/// Applies an operation to one number.
fn number(format: Format, exact: Exact, round: Round, around: Around, sources: [u64; 3]) -> u64 {
    let enter = |bits| if around.ftz { format.flush(bits) } else { bits };
    let result = format.calculate(exact, sources.map(enter), round);
    let negative = format.is_negative(result);
    let nan = format.is_nan(result);
    if around.sat {
        return match (nan || negative, result > format.one()) {
            (true, _) => 0,
            (_, true) => format.one(),
            _ => if around.ftz { format.flush(result) } else { result },
        };
    }
    if around.relu && negative && !nan {
        return 0;
    }
    if around.ftz { format.flush(result) } else { result }
}

fn test(form: String, ty: &str, exact: Exact, round: Round, around: Around) -> Test {
    let sources = match exact {
        Exact::Fma => 3,
        Exact::Rcp | Exact::Sqrt => 1,
        _ => 2,
    };
    let signature = format!("{ty} = {}", [ty; 3][..sources].join(" "));
    let format = Format::of(ty);
    let pair = ty.ends_with("x2");
    Test::new(form, &signature, move |[a, b, c, _]| {
        let at = |shift: u32, mask| {
            let part = |bits: u64| bits >> shift & mask;
            number(format, exact, round, around, [part(a), part(b), part(c)])
        };
        if pair { at(0, 0xffff) | at(16, 0xffff) << 16 } else { at(0, u64::MAX) }
    })
}

const BASIC: [(&str, Exact); 3] = [("add", Exact::Add), ("sub", Exact::Sub), ("mul", Exact::Mul)];

fn flags() -> impl Iterator<Item = (String, Around)> {
    [false, true].into_iter().flat_map(|ftz| {
        [false, true].map(|sat| {
            let text = format!("{}{}", if ftz { ".ftz" } else { "" }, if sat { ".sat" } else { "" });
            (text, Around { ftz, sat, relu: false })
        })
    })
}

fn singles(tests: &mut Vec<Test>) {
    for (flags, around) in flags() {
        for (op, exact) in BASIC {
            tests.push(test(format!("{op}{flags}.f32"), "f32", exact, NEAREST, around));
        }
        for (name, round) in ROUNDS {
            for (op, exact) in BASIC {
                tests.push(test(format!("{op}{name}{flags}.f32"), "f32", exact, round, around));
            }
            for op in ["fma", "mad"] {
                let form = format!("{op}{name}{flags}.f32");
                tests.push(test(form, "f32", Exact::Fma, round, around));
            }
            if !around.sat {
                for (op, exact) in [("div", Exact::Div), ("rcp", Exact::Rcp), ("sqrt", Exact::Sqrt)] {
                    tests.push(test(format!("{op}{name}{flags}.f32"), "f32", exact, round, around));
                }
            }
        }
    }
}

fn doubles(tests: &mut Vec<Test>) {
    let around = Around::default();
    for (op, exact) in BASIC {
        tests.push(test(format!("{op}.f64"), "f64", exact, NEAREST, around));
    }
    let rounded = [
        ("fma", Exact::Fma),
        ("mad", Exact::Fma),
        ("div", Exact::Div),
        ("rcp", Exact::Rcp),
        ("sqrt", Exact::Sqrt),
    ];
    for (name, round) in ROUNDS {
        for (op, exact) in BASIC.into_iter().chain(rounded) {
            tests.push(test(format!("{op}{name}.f64"), "f64", exact, round, around));
        }
    }
}

fn narrow(tests: &mut Vec<Test>) {
    for ty in ["f16", "f16x2"] {
        for (flags, around) in flags() {
            for (op, exact) in BASIC {
                for round in ["", ".rn"] {
                    let form = format!("{op}{round}{flags}.{ty}");
                    tests.push(test(form, ty, exact, NEAREST, around));
                }
            }
            let form = format!("fma.rn{flags}.{ty}");
            tests.push(test(form, ty, Exact::Fma, NEAREST, around));
            if !around.sat {
                let form = format!("fma.rn{flags}.relu.{ty}");
                let around = Around { relu: true, ..around };
                tests.push(test(form, ty, Exact::Fma, NEAREST, around));
            }
        }
    }
    for ty in ["bf16", "bf16x2"] {
        let around = Around::default();
        for (op, exact) in BASIC {
            for round in ["", ".rn"] {
                tests.push(test(format!("{op}{round}.{ty}"), ty, exact, NEAREST, around));
            }
        }
        tests.push(test(format!("fma.rn.{ty}"), ty, Exact::Fma, NEAREST, around));
        let around = Around { relu: true, ..around };
        tests.push(test(format!("fma.rn.relu.{ty}"), ty, Exact::Fma, NEAREST, around));
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    singles(&mut tests);
    doubles(&mut tests);
    narrow(&mut tests);
    tests
}
