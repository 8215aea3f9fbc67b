//! Vector registers, registers with a number added, arrays indexed by registers, variables that are
//! local to a function, and accesses of 256 bits.

use crate::vector::{Expect, Inputs, Test};
use crate::warp::{Random, Register, Warp, isas};

/// `.reg .v2 …` and `.v4`: whole ones are moved, their elements are registers.
fn moves(tests: &mut Vec<Test>) {
    let all = ["b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"];
    for ty in all {
        let signature = format!("{ty} {ty} = {ty} {ty}");
        let swapped = |[a, b, ..]: Inputs| [b, a, 0, 0];
        let test = Test::with(format!("mov.v2.{ty}"), &signature, Expect::Each(Box::new(swapped)));
        tests.push(test.body(format!(
            ".reg .v2 .{ty} v; mov.{ty} v.x, %a; mov.{ty} v.y, %b;
             mov.v2.{ty} v, {{v.y, v.x}}; mov.v2.{ty} {{%d, %e}}, v;"
        )));
        if ty.ends_with("64") {
            continue;
        }
        let signature = format!("{ty} {ty} {ty} {ty} = {ty} {ty} {ty} {ty}");
        let turned = |[a, b, c, h]: Inputs| [h, a, c, b];
        let test = Test::with(format!("mov.v4.{ty}"), &signature, Expect::Each(Box::new(turned)));
        tests.push(test.body(format!(
            ".reg .v4 .{ty} v<3>; mov.v4.{ty} v1, {{%a, %b, %c, %h}}; mov.v4.{ty} v2, v1;
             mov.v4.{ty} v1, {{v2.w, v2.r, v1.b, v1.g}}; mov.v4.{ty} {{%d, %e, %f, %g}}, v1;"
        )));
    }
}

/// Whole vectors in place of a register or a list of registers.
fn wholes(tests: &mut Vec<Test>) {
    let joined = |[a, b, ..]: Inputs| b << 32 | a;
    tests.push(
        Test::new("mov.b64", "b64 = b32 b32", joined)
            .body(".reg .v2 .b32 v; mov.b32 v.r, %a; mov.b32 v.g, %b; mov.b64 %d, v;"),
    );
    let apart = |[a, ..]: Inputs| [a >> 16 & 0xffff, a & 0xffff, 0, 0];
    tests.push(
        Test::with("mov.b32", "b16 b16 = b32", Expect::Each(Box::new(apart)))
            .body(".reg .v2 .b16 v; mov.b32 v, %a; mov.b16 %d, v.y; mov.b16 %e, v.x;"),
    );
    let halves = |[a, b, ..]: Inputs| [b, a, 0, 0];
    tests.push(
        Test::with("mov.b128", "b64 b64 = b64 b64", Expect::Each(Box::new(halves))).body(
            ".reg .v2 .b64 v; .reg .b128 w; mov.v2.b64 v, {%b, %a}; mov.b128 w, v;
             mov.b128 {%d, %e}, w;",
        ),
    );
    let quarters = |[a, b, c, h]: Inputs| [a, b, c, h];
    tests.push(
        Test::with("mov.b128", "b32 b32 b32 b32 = b32 b32 b32 b32", Expect::Each(Box::new(quarters)))
            .body(
                ".reg .v4 .b32 v; .reg .b128 w; mov.b128 w, {%a, %b, %c, %h}; mov.b128 v, w;
                 mov.v4.b32 {%d, %e, %f, %g}, v;",
            ),
    );
    // An element is written under a guard; the others stay unchanged.
    tests.push(
        Test::with("mov.v2.b32", "b32 b32 = b32 b32 pred", Expect::Each(Box::new(|[a, b, p, _]| {
            [if p != 0 { b } else { a }, b, 0, 0]
        })))
        .body(".reg .v2 .b32 v; mov.v2.b32 v, {%a, %b}; @%c mov.b32 v.x, v.y; mov.v2.b32 {%d, %e}, v;"),
    );
    // Vectors are passed to functions and returned.
    tests.push(
        Test::with("call", "b32 b32 = b32 b32", Expect::Each(Box::new(|[a, b, ..]| {
            [b, a.wrapping_add(b) & 0xffff_ffff, 0, 0]
        })))
        .module(
            ".func (.reg .v2 .b32 r) turn(.reg .v2 .b32 v, .reg .b32 n) {
                mov.b32 r.x, v.y; add.u32 r.y, v.x, n; ret; }",
        )
        .body(
            ".reg .v2 .b32 v; mov.v2.b32 v, {%a, %b}; call (v), turn, (v, %b);
             call (_), turn, (v, %b); mov.v2.b32 {%d, %e}, v;",
        ),
    );
}

/// A register and a number form one value: their sum.
fn sums(tests: &mut Vec<Test>) {
    for (ty, bits) in [("u16", 16), ("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)] {
        let ones = u64::MAX >> (64 - bits);
        let two = format!("{ty} = {ty} {ty}");
        let want = move |[a, b, ..]: Inputs| {
            a.wrapping_add(5).wrapping_mul(b.wrapping_add(0x1_0007)) & ones
        };
        tests.push(
            Test::new(format!("mul.lo.{ty}"), &two, want)
                .body(format!("mul.lo.{ty} %d, %a+5, %b+65543;")),
        );
    }
    tests.push(
        Test::new("mov.b32", "b32 = b32", |[a, ..]| a.wrapping_add(8) & 0xffff_ffff)
            .body("mov.b32 %d, %a+4*2;"),
    );
    tests.push(
        Test::new("st.local.u32", "b32 = b32", |[a, ..]| a.wrapping_add(3) & 0xffff_ffff)
            .body(".local .b32 here; st.local.u32 [here], %a+3; ld.local.b32 %d, [here];"),
    );
    tests.push(
        Test::new("setp.eq.u32", "pred = u32 u32", |[a, b, ..]| {
            u64::from(a.wrapping_add(1) & 0xffff_ffff == b)
        })
        .body("setp.eq.u32 %d, %a+1, %b;"),
    );
    // Predicates may be negated in every source.
    tests.push(
        Test::new("selp.b32", "b32 = b32 b32 pred", |[a, b, p, _]| if p == 0 { a } else { b })
            .body("selp.b32 %d, %a, %b, !%c;"),
    );
}

/// `.global` and `.const` in a body, and arrays indexed by registers.
fn variables(tests: &mut Vec<Test>) {
    let table = |[a, ..]: Inputs| [11, 22, 33, 44][(a & 3) as usize];
    let index = ".reg .b32 n; .reg .b64 at; and.b32 n, %a, 3;";
    for (space, load) in [("global", "ld.global.u32"), ("const", "ld.const.u32")] {
        let declared = format!("{index} .{space} .align 8 .u32 own[4] = {{11, 22, 33, 44}};");
        tests.push(
            Test::new(load, "b32 = b32", table).body(format!("{declared} {load} %d, own[n];")),
        );
        tests.push(Test::new(load, "b32 = b32", table).body(format!(
            "{declared} mov.u64 at, own[n+1]; {load} %d, [at+-4];"
        )));
    }
    // Scopes and functions have their own variables, whatever their names are.
    tests.push(
        Test::new("ld.global.u32", "b32 =", |_| 1234)
            .module(
                ".global .u32 own = 4;
                 .func (.reg .u32 r) other() {
                    .global .u32 own = 200; ld.global.u32 r, [own]; ret; }",
            )
            .body(
                ".reg .u32 r, s; .reg .b64 at; ld.global.u32 s, [own];
                 { .global .u32 own = 30; .global .u64 to = own;
                   ld.global.u64 at, [to]; ld.global.u32 r, [at]; add.u32 s, s, r;
                   { .const .u32 own[] = {900, 1000};
                     mov.u64 at, own; ld.const.u32 r, [at+4]; add.u32 s, s, r; } }
                 call (r), other, (); add.u32 %d, s, r;",
            )
            .lanes(128),
    );
    // One variable for all threads, which persists.
    tests.push(
        Test::new("atom.global.add.u32", "b32 =", |_| 1)
            .body(
                ".global .u32 sum; .reg .u32 r; .reg .pred p; bar.sync 0;
                 atom.global.add.u32 r, [sum], 1; setp.lt.u32 p, r, 1000; selp.u32 %d, 1, 0, p;",
            )
            .lanes(128),
    );
}

/// `{%o0, %o1, …}`
fn list(letter: char, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("%{letter}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Accesses of eight values, or of four of 64 bits. Values narrower than 32 bits are in registers
/// of 32 bits.
fn check_wide(form: &str, store: bool, space: &str, (count, bits): (usize, u32)) {
    let wide = bits.max(32);
    let signed = form.ends_with(".s16") || form.ends_with(".s8");
    for isa in isas() {
        let mut numbers = Random::new(form.len() as u64);
        let bytes: Vec<u8> = (0..1024).map(|_| numbers.next() as u8).collect();
        let mut lanes = [[0; 32]; 8].map(|lanes| Register { bits: wide, lanes });
        for register in &mut lanes {
            for lane in &mut register.lanes {
                *lane = numbers.next() & (u64::MAX >> (64 - wide));
            }
        }
        let base = if space == ".shared" { "mov.u64 x, buffer;" } else { "mov.u64 x, %g;" };
        let access = if store {
            format!("{form} [x+-32], {};", list('i', count))
        } else {
            format!("{form} {}, [x+-32];", list('o', count))
        };
        let text = format!(
            ".reg .b64 x, y; .reg .b32 n; mov.u32 n, %laneid; mul.wide.u32 y, n, 32;
             {base} add.u64 x, x, y; add.u64 x, x, 32; {access}"
        );
        let outputs = vec![wide; if store { 0 } else { count }];
        let left = Warp {
            text: &text,
            inputs: if store { &lanes[..count] } else { &[] },
            outputs: &outputs,
            buffer: &bytes,
            shared: space == ".shared",
        }
        .run(isa);
        for lane in 0..32 {
            for (part, register) in lanes.iter().enumerate().take(count) {
                let size = bits as usize / 8;
                let at = 32 * lane + size * part;
                let from = if store { &left.buffer } else { &bytes };
                let held = from[at..at + size].iter().rev();
                let held = held.fold(0, |word, byte| word << 8 | u64::from(*byte));
                let (want, other) = if store {
                    (held, register.lanes[lane] & (u64::MAX >> (64 - bits)))
                } else {
                    let negative = signed && held >> (bits - 1) != 0;
                    let above = if negative { (1 << 32) - (1 << bits) } else { 0 };
                    (held + above, left.outputs[part][lane])
                };
                assert!(want == other, "{form} {isa:?} lane {lane} part {part}");
            }
        }
        // An address that is aligned to less than the whole is misaligned.
        let text = text.replace("-32]", &format!("{}]", count as i64 * i64::from(bits) / 16 - 32));
        let wrong = Warp { text: &text, inputs: &lanes, outputs: &outputs, buffer: &[], shared: true };
        assert!(wrong.result(isa).is_err(), "{form}: {text}");
    }
}

fn wide(tests: &mut Vec<Test>) {
    let all = [
        ("v4.b64", 64), ("v4.u64", 64), ("v4.s64", 64), ("v4.f64", 64), ("v8.b32", 32), ("v8.u32", 32),
        ("v8.s32", 32), ("v8.f32", 32), ("v8.b16", 16), ("v8.u16", 16), ("v8.s16", 16), ("v8.b8", 8),
        ("v8.u8", 8), ("v8.s8", 8),
    ];
    for space in [".global", ".shared", ""] {
        for (ty, bits) in all {
            let count = if bits == 64 { 4 } else { 8 };
            for (op, store) in [("ld", false), ("st", true)] {
                let form = format!("{op}{space}.{ty}");
                let name = form.clone();
                let check = move || check_wide(&form, store, space, (count, bits));
                tests.push(Test::check(vec![name], check));
            }
        }
    }
}

/// Special registers as vectors.
fn places(tests: &mut Vec<Test>) {
    for (ty, bits) in [("u32", 32), ("u16", 16)] {
        let form = format!("mov.v4.{ty}");
        let check = move || {
            for (name, want) in [("%tid", [None, Some(0)]), ("%ntid", [Some(32), Some(1)])] {
                let text = format!(
                    ".reg .v4 .{ty} v; mov.v4.{ty} v, {name}; cvt.u32.{ty} %o0, v.x;
                     cvt.u32.{ty} %o1, v.y; cvt.u32.{ty} %o2, v.z;"
                );
                let outputs = [32; 3];
                let left = Warp { text: &text, inputs: &[], outputs: &outputs, buffer: &[], shared: false };
                let left = left.run(device_cpu::Isa::Native);
                for lane in 0..32 {
                    let first = want[0].unwrap_or(lane as u64);
                    let rest = want[1].unwrap_or_default();
                    let got = [0, 1, 2].map(|at| left.outputs[at][lane]);
                    assert_eq!(got, [first, rest, rest], "{name}, {bits} bits");
                }
            }
        };
        tests.push(Test::check(vec![form], check));
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    moves(&mut tests);
    wholes(&mut tests);
    sums(&mut tests);
    variables(&mut tests);
    wide(&mut tests);
    places(&mut tests);
    tests
}
