//! Video instructions of one value, of halves and of bytes: every type, modifier and second
//! operation, each with several selectors, against sums of powers of two.

use crate::vector::{Inputs, Test};
use crate::warp::Random;

const SIGNS: [&str; 2] = ["u32", "s32"];

/// `2^bits`.
fn count(bits: u32) -> i128 {
    (0..bits).fold(1, |count, _| 2 * count)
}

/// The number in `bits` bits of a word, from bit `first`.
fn number(word: u64, first: u32, bits: u32, ty: &str) -> i128 {
    let part = i128::from(word) / count(first) % count(bits);
    if ty == "s32" && 2 * part >= count(bits) {
        part - count(bits)
    } else {
        part
    }
}

/// The bits of a number, truncated.
fn bits_of(value: i128, bits: u32) -> u64 {
    value.rem_euclid(count(bits)) as u64
}

/// The nearest number of the type.
fn nearest(value: i128, bits: u32, ty: &str) -> i128 {
    let least = if ty == "s32" { -count(bits) / 2 } else { 0 };
    let most = least + count(bits) - 1;
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}

/// The operation of an opcode.
fn exact(op: &str, mode: &str, x: i128, y: i128) -> i128 {
    let by = || count(if mode == "wrap" { y % 32 } else if y > 32 { 32 } else { y } as u32);
    let one = |held: bool| if held { 1 } else { 0 };
    match op {
        "vadd" => x + y,
        "vsub" => x - y,
        "vabsdiff" if x > y => x - y,
        "vabsdiff" => y - x,
        "vmin" => if y < x { y } else { x },
        "vmax" => if y < x { x } else { y },
        // The mean rounds away from zero if it is between two numbers.
        "vavrg" if (x + y) % 2 == 0 => (x + y) / 2,
        "vavrg" => (x + y + if x + y < 0 { -1 } else { 1 }) / 2,
        "vshl" => x * by(),
        "vshr" => x.div_euclid(by()),
        _ => match mode {
            "eq" => one(x == y),
            "ne" => one(x != y),
            "lt" => one(x < y),
            "le" => one(x <= y),
            "gt" => one(x > y),
            _ => one(x >= y),
        },
    }
}

/// A source of a scalar instruction: the text behind its register, first bit, bits.
#[derive(Clone, Copy)]
struct Piece(&'static str, u32, u32);

const PIECES: [Piece; 7] = [
    Piece("", 0, 32), Piece(".b0", 0, 8), Piece(".b1", 8, 8), Piece(".b2", 16, 8),
    Piece(".b3", 24, 8), Piece(".h0", 0, 16), Piece(".h1", 16, 16),
];

/// One form of a scalar instruction, with its secondary operation.
struct Scalar {
    op: &'static str,
    mode: &'static str,
    /// Types of D, A and B.
    types: [&'static str; 3],
    sat: bool,
    second: &'static str,
    to: Piece,
    a: Piece,
    b: Piece,
}

impl Scalar {
    fn wanted(&self, [a, b, c, _]: Inputs) -> u64 {
        let [ty, a_ty, b_ty] = self.types;
        let x = number(a, self.a.1, self.a.2, a_ty);
        let y = number(b, self.b.1, self.b.2, b_ty);
        let mut value = exact(self.op, self.mode, x, y);
        if self.sat {
            value = nearest(value, self.to.2, ty);
        }
        if self.to.2 < 32 {
            let (first, bits) = (self.to.1, self.to.2);
            let old = number(c, first, bits, "u32") as u64;
            let step = count(first) as u64;
            return c - old * step + bits_of(value, bits) * step;
        }
        // A second operation works on 32 bits of the result's type.
        let (kept, c) = (number(bits_of(value, 32), 0, 32, ty), number(c, 0, 32, ty));
        bits_of(
            match self.second {
                "add" => kept + c,
                "min" if c < kept => c,
                "max" if c > kept => c,
                _ => kept,
            },
            32,
        )
    }

    fn test(self) -> Test {
        let [ty, a_ty, b_ty] = self.types;
        let mut form = self.op.to_owned();
        if self.op != "vset" {
            form += &format!(".{ty}");
        }
        form += &format!(".{a_ty}.{b_ty}");
        for part in [if self.sat { "sat" } else { "" }, self.mode, self.second] {
            if !part.is_empty() {
                form += &format!(".{part}");
            }
        }
        let third = !self.second.is_empty() || !self.to.0.is_empty();
        let body = format!(
            "{form} %d{}, %a{}, %b{}{};",
            self.to.0,
            self.a.0,
            self.b.0,
            if third { ", %c" } else { "" }
        );
        let by = if self.op.starts_with("vsh") { "amount" } else { "b32" };
        let signature = format!("b32 = b32 {by} b32");
        Test::new(form, &signature, move |inputs| self.wanted(inputs)).body(body)
    }
}

fn scalars(tests: &mut Vec<Test>) {
    let ops: [(_, &[&str]); 8] = [
        ("vadd", &[""]), ("vsub", &[""]), ("vabsdiff", &[""]), ("vmin", &[""]), ("vmax", &[""]),
        ("vshl", &["clamp", "wrap"]), ("vshr", &["clamp", "wrap"]),
        ("vset", &["eq", "ne", "lt", "le", "gt", "ge"]),
    ];
    let mut numbers = Random::new(4);
    for (op, modes) in ops {
        for mode in modes {
            for form in 0..16 {
                let types = [SIGNS[form & 1], SIGNS[form >> 1 & 1], SIGNS[form >> 2 & 1]];
                let sat = form & 8 != 0;
                if op == "vset" && (sat || form & 1 != 0) || op.starts_with("vsh") && form & 4 != 0 {
                    continue;
                }
                let mut piece = || PIECES[numbers.below(7) as usize];
                let mut add = |second, to, a, b| {
                    tests.push(Scalar { op, mode, types, sat, second, to, a, b }.test());
                };
                for second in ["", "add", "min", "max"] {
                    add(second, PIECES[0], PIECES[0], PIECES[0]);
                    add(second, PIECES[0], piece(), piece());
                }
                for to in &PIECES[1..] {
                    add("", *to, piece(), piece());
                    add("", *to, PIECES[0], PIECES[0]);
                }
            }
        }
    }
}

/// Numbers in place of registers, and an unused third source.
fn immediates(tests: &mut Vec<Test>) {
    let two = "b32 = b32 b32";
    tests.push(
        Test::new("vadd.s32.s32.u32.sat.max", two, |[a, b, ..]| {
            let sum = nearest(number(a, 16, 16, "s32") + 7, 32, "s32");
            bits_of(sum.max(number(b, 0, 32, "s32")), 32)
        })
        .body("vadd.s32.s32.u32.sat.max %d, %a.h1, 7, %b;"),
    );
    tests.push(
        Test::new("vsub.u32.s32.u32", two, |[a, ..]| {
            bits_of(-3 - number(a, 0, 8, "u32"), 32)
        })
        .body("vsub.u32.s32.u32 %d, -3, %a.b0;"),
    );
    tests.push(
        Test::new("vadd.u32.u32.u32", two, |[a, b, ..]| bits_of(i128::from(a + b), 32))
            .body("vadd.u32.u32.u32 %d, %a, %b, %a;"),
    );
    tests.push(
        Test::new("vmad.s32.s32.u32", two, |[a, ..]| {
            bits_of(number(a, 8, 8, "s32") * 5 - 9, 32)
        })
        .body("vmad.s32.s32.u32 %d, %a.b1, 5, -9;"),
    );
}

/// `vmad`: a product, a summand, either of them possibly negated, and a shift.
fn products(tests: &mut Vec<Test>) {
    let mut numbers = Random::new(5);
    for form in 0..16 {
        let types = [SIGNS[form & 1], SIGNS[form >> 1 & 1], SIGNS[form >> 2 & 1]];
        let sat = if form & 8 != 0 { ".sat" } else { "" };
        for (scale, by) in [("", 0), (".shr7", 7), (".shr15", 15)] {
            for (minus, po) in [
                (["", "", ""], ""), (["-", "", ""], ""), (["", "-", ""], ""), (["-", "-", ""], ""),
                (["", "", "-"], ""), (["", "", ""], ".po"), (["-", "-", ""], ".po"),
            ] {
                let [ty, a_ty, b_ty] = types;
                for whole in [true, false] {
                    let mut piece = || PIECES[if whole { 0 } else { numbers.below(7) as usize }];
                    let (a, b) = (piece(), piece());
                    let form = format!("vmad.{ty}.{a_ty}.{b_ty}{po}{sat}{scale}");
                    let want = move |[x, y, c, _]: Inputs| {
                        let product = number(x, a.1, a.2, a_ty) * number(y, b.1, b.2, b_ty);
                        let turned = minus[0] != minus[1];
                        let less = minus[2] == "-";
                        let signed = a_ty == "s32" || b_ty == "s32" || turned || less;
                        let result_ty = if signed { "s32" } else { "u32" };
                        // Minus a word is the sum of its complement and one, as a signed word.
                        let c = if less {
                            number(count(32) as u64 - 1 - c, 0, 32, result_ty) + 1
                        } else {
                            number(c, 0, 32, result_ty)
                        };
                        let sum = if turned { -product } else { product } + c;
                        let sum = sum + if po.is_empty() { 0 } else { 1 };
                        let result = sum.div_euclid(count(by));
                        bits_of(if sat.is_empty() { result } else { nearest(result, 32, result_ty) }, 32)
                    };
                    let body = format!(
                        "{form} %d, {}%a{}, {}%b{}, {}%c;",
                        minus[0], a.0, minus[1], b.0, minus[2]
                    );
                    tests.push(Test::new(form, "b32 = b32 b32 b32", want).body(body));
                }
            }
        }
    }
}

/// A selector of parts of both sources: its text, and the parts, the lowest first.
fn selector(letter: char, parts: u32, numbers: &mut Random) -> (String, Vec<u32>) {
    let chosen: Vec<u32> = (0..parts).map(|_| numbers.below(u64::from(2 * parts)) as u32).collect();
    let digits: String = chosen.iter().rev().map(u32::to_string).collect();
    (format!(".{letter}{digits}"), chosen)
}

/// One form of an instruction of parts.
struct Parts {
    op: &'static str,
    mode: &'static str,
    parts: u32,
    types: [&'static str; 3],
    end: &'static str,
}

impl Parts {
    fn form(&self) -> String {
        let [ty, a_ty, b_ty] = self.types;
        let (op, parts, mode) = (self.op, self.parts, self.mode);
        match (op, self.end) {
            ("vset", "") => format!("vset{parts}.{a_ty}.{b_ty}.{mode}"),
            ("vset", end) => format!("vset{parts}.{a_ty}.{b_ty}.{mode}.{end}"),
            (_, "") => format!("{op}{parts}.{ty}.{a_ty}.{b_ty}"),
            (_, end) => format!("{op}{parts}.{ty}.{a_ty}.{b_ty}.{end}"),
        }
    }

    /// Builds the test for the parts in the mask, and the selected parts of both sources.
    fn test(self, mask: (String, Vec<u32>), a: (String, Vec<u32>), b: (String, Vec<u32>)) -> Test {
        let form = self.form();
        let body = format!("{form} %d{}, %a{}, %b{}, %c;", mask.0, a.0, b.0);
        let want = move |[x, y, c, _]: Inputs| {
            let bits = 32 / self.parts;
            let both = y * count(32) as u64 + x;
            let [ty, a_ty, b_ty] = self.types;
            let mut word = c;
            for at in mask.1.iter().copied() {
                let part = |list: &[u32], ty| number(both, bits * list[at as usize], bits, ty);
                let mut value = exact(self.op, self.mode, part(&a.1, a_ty), part(&b.1, b_ty));
                if self.end == "sat" {
                    value = nearest(value, bits, ty);
                }
                if self.end == "add" {
                    word = bits_of(i128::from(word) + value, 32);
                    continue;
                }
                let step = count(bits * at) as u64;
                let old = number(word, bits * at, bits, "u32") as u64;
                word = word - old * step + bits_of(value, bits) * step;
            }
            word
        };
        Test::new(form, "b32 = b32 b32 b32", want).body(body)
    }
}

fn parts(tests: &mut Vec<Test>) {
    let mut numbers = Random::new(6);
    let compares = ["eq", "ne", "lt", "le", "gt", "ge"];
    for (op, modes) in [
        ("vadd", &[""][..]), ("vsub", &[""]), ("vavrg", &[""]), ("vabsdiff", &[""]),
        ("vmin", &[""]), ("vmax", &[""]), ("vset", &compares),
    ] {
        for (parts, letter) in [(2, 'h'), (4, 'b')] {
            for mode in modes {
                for form in 0..8 {
                    let types = [SIGNS[form & 1], SIGNS[form >> 1 & 1], SIGNS[form >> 2 & 1]];
                    for end in ["", "sat", "add"] {
                        if op == "vset" && (end == "sat" || form & 1 != 0) {
                            continue;
                        }
                        let new = || Parts { op, mode, parts, types, end };
                        let all = |first| (String::new(), (first..first + parts).collect());
                        tests.push(new().test(all(0), all(0), all(parts)));
                        let mut select = || selector(letter, parts, &mut numbers);
                        let (a, b) = (select(), select());
                        let some = 1 + numbers.below((1 << parts) - 1);
                        let mask: Vec<u32> = (0..parts).filter(|at| some >> at & 1 != 0).collect();
                        let digits: String = mask.iter().rev().map(u32::to_string).collect();
                        tests.push(new().test((format!(".{letter}{digits}"), mask), a, b));
                    }
                }
            }
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    scalars(&mut tests);
    immediates(&mut tests);
    products(&mut tests);
    parts(&mut tests);
    tests
}
