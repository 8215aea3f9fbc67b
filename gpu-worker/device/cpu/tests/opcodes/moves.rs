//! `mov`: registers, numbers, parts of registers, addresses.

use crate::vector::{Expect, Inputs, Test};

const TYPES: [&str; 12] = [
    "pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64",
];

/// Spellings of numbers, and their bits.
fn numbers(tests: &mut Vec<Test>) {
    let single = |x: f32| u64::from(x.to_bits());
    let cases: Vec<(&str, &str, u64)> = vec![
        ("u16", "65535", 65_535),
        ("s16", "-2", 0xfffe),
        ("u32", "0xdeadBEEF", 0xdead_beef),
        ("u32", "0b1011U", 11),
        ("u32", "0777", 511),
        ("s32", "-2147483648", 0x8000_0000),
        ("u32", "WARP_SZ", 32),
        ("b32", "0f3f800001", 0x3f80_0001),
        ("b32", "1 << 4 | 3", 19),
        ("u64", "18446744073709551615", u64::MAX),
        ("s64", "-1", u64::MAX),
        ("b64", "0d400921fb54442d18", std::f64::consts::PI.to_bits()),
        ("f32", "1.5", single(1.5)),
        ("f32", "-0.1", single(-0.1)),
        ("f32", "0f80000000", 0x8000_0000),
        ("f32", "1e10", single(1e10)),
        ("f64", "0.1", 0.1_f64.to_bits()),
        ("f64", "-2.5e-300", (-2.5e-300_f64).to_bits()),
        ("f64", "0dfff0000000000000", 0xfff0 << 48),
    ];
    for (ty, text, bits) in cases {
        let body = format!("mov.{ty} %d, {text};");
        let test = Test::new(format!("mov.{ty}"), &format!("{ty} ="), move |_| bits);
        tests.push(test.body(body).lanes(128));
    }
}

/// Registers of `parts` pieces of `n` bits each, packed and unpacked.
fn pieces(tests: &mut Vec<Test>, whole: u32, parts: usize) {
    let n = whole / parts as u32;
    let ones = u64::MAX >> (64 - n);
    let part = format!("b{n}");
    let sources = vec![part.as_str(); parts].join(" ");
    let names = ["a", "b", "c", "h"][..parts].iter();
    let list: Vec<_> = names.map(|name| format!("%{name}")).collect();
    let form = format!("mov.b{whole}");
    let joined = move |inputs: Inputs| {
        (0..parts).fold(0, |word, at| word | (inputs[at] & ones) << (n * at as u32))
    };
    let test = Test::new(&form, &format!("b{whole} = {sources}"), joined);
    tests.push(test.body(format!("mov.b{whole} %d, {{{}}};", list.join(", "))));
    let names = ["d", "e", "f", "g"][..parts].iter();
    let list: Vec<_> = names.map(|name| format!("%{name}")).collect();
    let apart = move |[a, ..]: Inputs| [0, 1, 2, 3].map(|at| a >> (n * at % 64) & ones);
    let signature = format!("{sources} = b{whole}");
    let test = Test::with(&form, &signature, Expect::Each(Box::new(apart)));
    tests.push(test.body(format!("mov.b{whole} {{{}}}, %a;", list.join(", "))));
    // A piece that is not used.
    let sinks = vec!["_"; parts - 1].join(", ");
    let last = n * (parts as u32 - 1);
    let test = Test::new(&form, &format!("{part} = b{whole}"), move |[a, ..]| a >> last & ones);
    tests.push(test.body(format!("mov.b{whole} {{{sinks}, %d}}, %a;")));
}

/// A register can be a piece of itself.
fn overlaps(tests: &mut Vec<Test>) {
    let swap = ".reg .b32 %x, %y; mov.b64 {%x, %y}, %a; mov.b64 %d, {%y, %x};";
    let test = Test::new("mov.b64", "b64 = b64", |[a, ..]| a.rotate_left(32));
    tests.push(test.body(swap));
    let halves = ".reg .b16 %x, %y; mov.b32 %d, %a; mov.b32 {%x, %y}, %d; mov.b32 {%y, %x}, %d;
         mov.b32 %d, {%x, %y};";
    let test = Test::new("mov.b32", "b32 = b32", |[a, ..]| a << 16 | a >> 16);
    tests.push(test.body(halves));
}

/// Addresses of variables, with bytes or elements added.
fn addresses(tests: &mut Vec<Test>) {
    let module = ".global .u32 table[4] = {20, 21, 22, 23};\n";
    for (text, value) in [("table", 20), ("table+8", 22), ("table[1]", 21)] {
        let body = format!(".reg .b64 %x; mov.u64 %x, {text}; ld.global.u32 %d, [%x];");
        let test = Test::new("mov.u64", "u32 =", move |_| value);
        tests.push(test.body(body).module(module).lanes(128));
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for ty in TYPES {
        tests.push(Test::new(format!("mov.{ty}"), &format!("{ty} = {ty}"), |[a, ..]| a));
    }
    for (whole, parts) in [(16, 2), (32, 2), (32, 4), (64, 2), (64, 4)] {
        pieces(&mut tests, whole, parts);
    }
    numbers(&mut tests);
    addresses(&mut tests);
    overlaps(&mut tests);
    tests
}
