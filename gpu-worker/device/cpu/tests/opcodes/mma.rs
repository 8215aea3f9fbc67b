//! `mma.sync` of every shape, type and modifier: random fragments, unpacked by the layouts of the
//! ISA manual, against the plain triple loop.

use crate::fragments::{a_place, b_place, bits, c_place, dot, random, sizes};
use crate::vector::Test;
use crate::warp::{EMPTY, Random, Register, Warp, isas};

/// One form: `mma.sync.aligned.SHAPE.row.col…`.
#[derive(Clone)]
struct Case {
    form: String,
    shape: &'static str,
    /// A, B, C, D.
    types: [&'static str; 4],
    modifier: &'static str,
}

/// Elements of a fragment, lane by lane, by row and column of their matrix.
struct Held {
    registers: Vec<Register>,
    matrix: Vec<Vec<u64>>,
}

/// Random elements, placed in a matrix and packed into registers.
fn fill(
    ty: &str,
    (rows, columns): (usize, usize),
    numbers: &mut Random,
    wild: bool,
    place: impl Fn(usize, usize) -> (usize, usize),
) -> Held {
    let width = bits(ty);
    let register = width.max(32);
    let each = register / width;
    let count = rows * columns / 32;
    let mut matrix = vec![vec![0; columns]; rows];
    let mut registers = Vec::new();
    for first in (0..count).step_by(each) {
        let mut lanes = [0; 32];
        for (lane, held) in lanes.iter_mut().enumerate() {
            for part in 0..each {
                let element = random(ty, numbers, wild);
                let (row, column) = place(lane, first + part);
                matrix[row][column] = element;
                *held |= element << (width * part);
            }
        }
        let bits = register as u32;
        registers.push(Register { bits, lanes });
    }
    Held { registers, matrix }
}

/// `{%i3, %i4, …}`
fn vector(name: &str, first: usize, count: usize) -> String {
    let list: Vec<_> = (first..first + count)
        .map(|at| format!("%{name}{at}"))
        .collect();
    format!("{{{}}}", list.join(", "))
}

fn check(case: &Case) {
    let [m, n, k] = sizes(case.shape);
    let [a_ty, b_ty, c_ty, d_ty] = case.types;
    for (round, isa) in isas().into_iter().enumerate() {
        for wild in [false, true] {
            let mut numbers = Random::new(case.form.len() as u64 + 7 * round as u64);
            let place = |lane, i| a_place(case.shape, a_ty, lane, i);
            let a = fill(a_ty, (m, k), &mut numbers, wild, place);
            let place = |lane, i| b_place(case.shape, b_ty, lane, i);
            let b = fill(b_ty, (k, n), &mut numbers, wild, place);
            let place = |lane, i| c_place(case.shape, lane, i);
            let c = fill(c_ty, (m, n), &mut numbers, wild, place);
            let (an, bn, cn) = (a.registers.len(), b.registers.len(), c.registers.len());
            let width = bits(d_ty);
            let each = width.max(32) / width;
            let outputs = vec![width.max(32) as u32; m * n / 32 / each];
            let text = format!(
                "{} {}, {}, {}, {};",
                case.form,
                vector("o", 0, outputs.len()),
                vector("i", 0, an),
                vector("i", an, bn),
                vector("i", an + bn, cn)
            );
            let inputs = [a.registers, b.registers, c.registers].concat();
            let left = Warp { text: &text, inputs: &inputs, outputs: &outputs, ..EMPTY }.run(isa);
            for lane in 0..32 {
                for i in 0..m * n / 32 {
                    let (row, column) = c_place(case.shape, lane, i);
                    let factors = (0..k).map(|k| (a.matrix[row][k], b.matrix[k][column]));
                    let types = (a_ty, b_ty, c_ty, d_ty);
                    let want = dot(types, case.modifier, c.matrix[row][column], factors);
                    let held = left.outputs[i / each][lane] >> (width * (i % each));
                    let got = if width == 64 { held } else { held & ((1 << width) - 1) };
                    assert!(
                        got == want,
                        "{} {isa:?} lane {lane} element {i}: {got:#x}, expected {want:#x}",
                        case.form
                    );
                }
            }
        }
    }
}

fn case(shape: &'static str, types: [&'static str; 4], modifier: &'static str) -> Case {
    let [a, b, c, d] = types;
    let form = match modifier {
        "" => format!("mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c}"),
        "xor" | "and" => format!("mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{c}.{modifier}.popc"),
        _ => format!("mma.sync.aligned.{shape}.row.col.{modifier}.{d}.{a}.{b}.{c}"),
    };
    Case {
        form,
        shape,
        types,
        modifier,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in ["m16n8k8", "m16n8k16"] {
        for (c, d) in [("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32")] {
            cases.push(case(shape, ["f16", "f16", c, d], ""));
        }
        cases.push(case(shape, ["bf16", "bf16", "f32", "f32"], ""));
    }
    for shape in ["m16n8k4", "m16n8k8"] {
        cases.push(case(shape, ["tf32", "tf32", "f32", "f32"], ""));
    }
    for shape in ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"] {
        cases.push(case(shape, ["f64"; 4], ""));
    }
    let integers: [(_, _, &[_]); 2] = [
        ("u8", "s8", &["m8n8k16", "m16n8k16", "m16n8k32"]),
        ("u4", "s4", &["m8n8k32", "m16n8k32", "m16n8k64"]),
    ];
    for (unsigned, signed, shapes) in integers {
        for shape in shapes {
            for a in [unsigned, signed] {
                for b in [unsigned, signed] {
                    for modifier in ["", "satfinite"] {
                        cases.push(case(shape, [a, b, "s32", "s32"], modifier));
                    }
                }
            }
        }
    }
    for shape in ["m8n8k128", "m16n8k128", "m16n8k256"] {
        for modifier in ["xor", "and"] {
            cases.push(case(shape, ["b1", "b1", "s32", "s32"], modifier));
        }
    }
    for shape in ["m16n8k16", "m16n8k32"] {
        for a in ["e4m3", "e5m2"] {
            for b in ["e4m3", "e5m2"] {
                for sum in ["f32", "f16"] {
                    cases.push(case(shape, [a, b, sum, sum], ""));
                }
            }
        }
    }
    cases
}

/// Row and column of element `i` of A in `mma.m8n8k4` of halves, in the lane's own multiplication.
fn quad_a(by_column: bool, lane: usize, i: usize) -> (usize, usize) {
    let high = if lane < 16 { 0 } else { 4 };
    if by_column {
        (i % 4 + high, lane % 4)
    } else {
        (lane % 4 + high, i)
    }
}

fn quad_b(by_column: bool, lane: usize, i: usize) -> (usize, usize) {
    let high = if lane < 16 { 0 } else { 4 };
    if by_column {
        (i, lane % 4 + high)
    } else {
        (lane % 4, i + high)
    }
}

fn quad_c(ty: &str, lane: usize, i: usize) -> (usize, usize) {
    let high = if lane < 16 { 0 } else { 4 };
    if ty == "f16" {
        return (lane % 4 + high, i);
    }
    let row = (lane & 1) + (i & 2) + high;
    (row, (i & 4) + (lane & 2) + (i & 1))
}

/// `mma.m8n8k4` of halves: four multiplications, of lanes 4 q .. and 16 + 4 q ...
fn check_quads(form: &str, layouts: [bool; 2], c_ty: &'static str, d_ty: &'static str) {
    for isa in isas() {
        let mut numbers = Random::new(form.len() as u64);
        // All four in one matrix: eight rows each.
        let stack = |lane: usize, (row, column): (usize, usize)| (lane % 16 / 4 * 8 + row, column);
        let wild = true;
        let a = fill("f16", (32, 4), &mut numbers, wild, |lane, i| {
            stack(lane, quad_a(layouts[0], lane, i))
        });
        let b = fill("f16", (16, 8), &mut numbers, wild, |lane, i| {
            let (row, column) = quad_b(layouts[1], lane, i);
            (lane % 16 / 4 * 4 + row, column)
        });
        let c = fill(c_ty, (32, 8), &mut numbers, wild, |lane, i| {
            stack(lane, quad_c(c_ty, lane, i))
        });
        let cn = c.registers.len();
        let outputs = vec![32; if d_ty == "f16" { 4 } else { 8 }];
        let text = format!(
            "{form} {}, {}, {}, {};",
            vector("o", 0, outputs.len()),
            vector("i", 0, 2),
            vector("i", 2, 2),
            vector("i", 4, cn)
        );
        let inputs = [a.registers, b.registers, c.registers].concat();
        let left = Warp { text: &text, inputs: &inputs, outputs: &outputs, ..EMPTY }.run(isa);
        let width = bits(d_ty);
        for lane in 0..32 {
            let quad = lane % 16 / 4;
            for i in 0..8 {
                let (row, column) = quad_c(d_ty, lane, i);
                let row = 8 * quad + row;
                let factors = (0..4).map(|k| (a.matrix[row][k], b.matrix[4 * quad + k][column]));
                let types = ("f16", "f16", c_ty, d_ty);
                let want = dot(types, "", c.matrix[row][column], factors);
                let held = left.outputs[i * width / 32][lane] >> (width * i % 32);
                let got = held & ((1 << width) - 1);
                assert!(
                    got == want,
                    "{form} {isa:?} lane {lane} element {i}: {got:#x}, expected {want:#x}"
                );
            }
        }
    }
}

/// Sums of f64 in each rounding: every step is the nearest one or the next to it.
fn check_rounding(form: &str, round: &str) {
    let up = match round {
        "rp" => Some(true),
        "rm" => Some(false),
        _ => None,
    };
    for isa in isas() {
        let mut numbers = Random::new(99);
        let shape = "m8n8k4";
        let place = |lane, i| a_place(shape, "f64", lane, i);
        let a = fill("f64", (8, 4), &mut numbers, false, place);
        let place = |lane, i| b_place(shape, "f64", lane, i);
        let b = fill("f64", (4, 8), &mut numbers, false, place);
        let place = |lane, i| c_place(shape, lane, i);
        let c = fill("f64", (8, 8), &mut numbers, false, place);
        let inputs = [a.registers, b.registers, c.registers].concat();
        let left = Warp {
            text: &format!("{form} {{%o0, %o1}}, {{%i0}}, {{%i1}}, {{%i2, %i3}};"), inputs: &inputs, outputs: &[64, 64],
            ..EMPTY
        }.run(isa);
        for lane in 0..32 {
            for i in 0..2 {
                let (row, column) = c_place(shape, lane, i);
                let start = f64::from_bits(c.matrix[row][column]);
                let want = (0..4).fold(start, |sum, k| {
                    let (a, b) = (a.matrix[row][k], b.matrix[k][column]);
                    let (a, b) = (f64::from_bits(a), f64::from_bits(b));
                    if round == "rn" {
                        a.mul_add(b, sum)
                    } else {
                        directed(a, b, sum, up)
                    }
                });
                let got = f64::from_bits(left.outputs[i][lane]);
                assert!(got == want, "{form} {isa:?} lane {lane}: {got:e} {want:e}");
            }
        }
    }
}

/// a b + c rounded up, down or to zero. It uses the nearest result and the sign of its error, from
/// two exact halves of the product.
fn directed(a: f64, b: f64, c: f64, up: Option<bool>) -> f64 {
    let near = a.mul_add(b, c);
    let (high, low) = (a * b, a.mul_add(b, -(a * b)));
    // The operands are of similar size. So high + c - near is exact, or its rounding does not
    // change the sign of the whole.
    let (sum, rest) = {
        let sum = high + c;
        let part = sum - high;
        (sum, (high - (sum - part)) + (c - part))
    };
    let missed = (sum - near) + (rest + low);
    let up = up.unwrap_or(near < 0.0);
    match missed.partial_cmp(&0.0) {
        Some(std::cmp::Ordering::Greater) if up => near.next_up(),
        Some(std::cmp::Ordering::Less) if !up => near.next_down(),
        _ => near,
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = cases()
        .into_iter()
        .map(|case| Test::check(vec![case.form.clone()], move || check(&case)))
        .collect();
    for a in [false, true] {
        for b in [false, true] {
            for (c, d) in [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16")] {
                let name = |by_column| if by_column { "col" } else { "row" };
                let form = format!(
                    "mma.sync.aligned.m8n8k4.{}.{}.{d}.f16.f16.{c}",
                    name(a),
                    name(b)
                );
                let forms = vec![form.clone()];
                tests.push(Test::check(forms, move || check_quads(&form, [a, b], c, d)));
            }
        }
    }
    // A fragment of `wmma` has the same layout here as one of `mma`.
    for (op, types) in [("mma", "f64.f64.f64.f64"), ("wmma.mma", "f64.f64.f64.f64")] {
        for round in ["rn", "rm", "rp", "rz"] {
            let place = if op == "mma" {
                "m8n8k4.row.col"
            } else {
                "row.col.m8n8k4"
            };
            let form = format!("{op}.sync.aligned.{place}.{round}.{types}");
            let forms = vec![form.clone()];
            tests.push(Test::check(forms, move || check_rounding(&form, round)));
        }
    }
    tests
}
