//! `mma.sp`: every shape, type, modifier and selector, against the plain sum over the elements that
//! A stores.

use crate::fragments::{a_place, bits, c_place, dot, random, sizes};
use crate::vector::Test;
use crate::warp::{Random, Register, Warp, isas};

/// One form, with the selector of the lanes that provide the positions.
#[derive(Clone)]
struct Case {
    form: String,
    ordered: bool,
    shape: &'static str,
    /// Types of A, B, C, D.
    types: [&'static str; 4],
    modifier: &'static str,
    selector: usize,
}

/// A row of a matrix in chunks: columns of a chunk, columns of a unit, units of a chunk.
fn chunks(ty: &str) -> (usize, usize, usize) {
    match bits(ty) {
        32 => (2, 1, 2),
        4 => (8, 2, 4),
        _ => (4, 1, 4),
    }
}

/// Place of the numbers of a chunk: the lane of its group of four, and the lowest bit.
fn numbers_at(ty: &str, row: usize, column: usize) -> (usize, usize) {
    let below = usize::from(row >= 8);
    match bits(ty) {
        16 => (column / 16, 16 * below + column % 16),
        32 => (column / 8, 16 * below + 2 * (column % 8)),
        8 => (2 * (column / 32) + below, column % 32),
        _ => (2 * (column / 64) + below, column % 64 / 2),
    }
}

/// Number of lanes of each group of four that hold numbers.
fn holders(ty: &str, k: usize) -> usize {
    let last = numbers_at(ty, 15, k - 1).0;
    last + 1
}

/// Row of element `i` of a lane's fragment of B; registers follow one another down the rows.
fn b_row(ty: &str, lane: usize, i: usize) -> usize {
    let each = 32 / bits(ty);
    i / each * 4 * each + lane % 4 * each + i % each
}

/// The stored columns of a row, in order, and the four bits of each chunk.
fn choose(ty: &str, k: usize, ordered: bool, numbers: &mut Random) -> (Vec<usize>, Vec<u32>) {
    let (chunk, unit, units) = chunks(ty);
    let (mut columns, mut codes) = (Vec::new(), Vec::new());
    for first in (0..k).step_by(chunk) {
        if units == 2 {
            let second = numbers.below(2) as usize;
            columns.push(first + second);
            codes.push([0b0100, 0b1110][second]);
            continue;
        }
        let a = numbers.below(4) as usize;
        let b = (a + 1 + numbers.below(3) as usize) % 4;
        let pair = if ordered { [a.min(b), a.max(b)] } else { [a, b] };
        codes.push((pair[0] | pair[1] << 2) as u32);
        for at in pair {
            columns.extend((0..unit).map(|part| first + unit * at + part));
        }
    }
    (columns, codes)
}

/// Packs elements into registers of 32 bits.
fn packed(ty: &str, count: usize, element: impl Fn(usize, usize) -> u64) -> Vec<Register> {
    let width = bits(ty);
    let each = 32 / width;
    let register = |at: usize| Register {
        bits: 32,
        lanes: std::array::from_fn(|lane| {
            (0..each).fold(0, |word, part| {
                word | element(lane, at * each + part) << (width * part)
            })
        }),
    };
    (0..count / each).map(register).collect()
}

fn vector(name: char, first: usize, count: usize) -> String {
    let list: Vec<_> = (first..first + count).map(|at| format!("%{name}{at}")).collect();
    format!("{{{}}}", list.join(", "))
}

fn check(case: &Case) {
    let [m, n, k] = sizes(case.shape);
    let stored_shape = format!("m16n8k{}", k / 2);
    let [a_ty, b_ty, c_ty, d_ty] = case.types;
    for (round, isa) in isas().into_iter().enumerate() {
        for wild in [false, true] {
            let mut numbers = Random::new(case.form.len() as u64 + 7 * round as u64 + case.selector as u64);
            let mut matrix = |ty, rows: usize, columns: usize| -> Vec<Vec<u64>> {
                let mut row = || (0..columns).map(|_| random(ty, &mut numbers, wild)).collect();
                (0..rows).map(|_| row()).collect()
            };
            let (a, b, c) = (matrix(a_ty, m, k / 2), matrix(b_ty, k, n), matrix(c_ty, m, n));
            let mut words: [u64; 32] = std::array::from_fn(|_| u64::from(numbers.word()));
            let holders = holders(a_ty, k);
            let mut columns = Vec::new();
            for row in 0..m {
                let (chosen, codes) = choose(a_ty, k, case.ordered, &mut numbers);
                for (chunk, code) in codes.iter().enumerate() {
                    let (lane, bit) = numbers_at(a_ty, row, chunk * chunks(a_ty).0);
                    let word = &mut words[4 * (row % 8) + case.selector * holders + lane];
                    *word = *word & !(15 << bit) | u64::from(*code) << bit;
                }
                columns.push(chosen);
            }
            let a_registers = packed(a_ty, m * k / 64, |lane, i| {
                let (row, column) = a_place(&stored_shape, a_ty, lane, i);
                a[row][column]
            });
            let b_registers = packed(b_ty, k * n / 32, |lane, i| b[b_row(b_ty, lane, i)][lane / 4]);
            let c_registers = packed(c_ty, m * n / 32, |lane, i| {
                let (row, column) = c_place(case.shape, lane, i);
                c[row][column]
            });
            let (an, bn, cn) = (a_registers.len(), b_registers.len(), c_registers.len());
            let width = bits(d_ty);
            let outputs = vec![32; m * n * width / 1024];
            let text = format!(
                "{} {}, {}, {}, {}, %i{}, {:#x};",
                case.form,
                vector('o', 0, outputs.len()),
                vector('i', 0, an),
                vector('i', an, bn),
                vector('i', an + bn, cn),
                an + bn + cn,
                case.selector
            );
            let last = Register { bits: 32, lanes: words };
            let inputs = [a_registers, b_registers, c_registers, vec![last]].concat();
            let left = Warp { text: &text, inputs: &inputs, outputs: &outputs, buffer: &[], shared: false }.run(isa);
            for lane in 0..32 {
                for i in 0..m * n / 32 {
                    let (row, column) = c_place(case.shape, lane, i);
                    let has = columns[row].iter().enumerate();
                    let factors = has.map(|(at, k)| (a[row][at], b[*k][column]));
                    let types = (a_ty, b_ty, c_ty, d_ty);
                    let want = dot(types, case.modifier, c[row][column], factors);
                    let held = left.outputs[i * width / 32][lane] >> (width * i % 32);
                    let got = held & ((1 << width) - 1);
                    assert!(
                        got == want,
                        "{} selector {} {isa:?} lane {lane} element {i}: {got:#x}, expected {want:#x}",
                        case.form,
                        case.selector
                    );
                }
            }
        }
    }
}

fn add(cases: &mut Vec<Case>, shape: &'static str, types: [&'static str; 4], modifier: &'static str) {
    let [a, b, c, d] = types;
    let selectors = 4 / holders(a, sizes(shape)[2]);
    for (variant, ordered) in [("sp", false), ("sp::ordered_metadata", true)] {
        let dot = if modifier.is_empty() { "" } else { "." };
        let form = format!("mma.{variant}.sync.aligned.{shape}.row.col{dot}{modifier}.{d}.{a}.{b}.{c}");
        for selector in 0..selectors {
            let form = form.clone();
            cases.push(Case { form, ordered, shape, types, modifier, selector });
        }
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in ["m16n8k16", "m16n8k32"] {
        for (c, d) in [("f32", "f32"), ("f16", "f16")] {
            add(&mut cases, shape, ["f16", "f16", c, d], "");
        }
        add(&mut cases, shape, ["bf16", "bf16", "f32", "f32"], "");
    }
    for shape in ["m16n8k8", "m16n8k16"] {
        add(&mut cases, shape, ["tf32", "tf32", "f32", "f32"], "");
    }
    for a in ["e4m3", "e5m2"] {
        for b in ["e4m3", "e5m2"] {
            add(&mut cases, "m16n8k64", [a, b, "f32", "f32"], "");
        }
    }
    for (pair, shapes) in [(["u8", "s8"], ["m16n8k32", "m16n8k64"]), (["u4", "s4"], ["m16n8k64", "m16n8k128"])] {
        for shape in shapes {
            for a in pair {
                for b in pair {
                    for modifier in ["", "satfinite"] {
                        add(&mut cases, shape, [a, b, "s32", "s32"], modifier);
                    }
                }
            }
        }
    }
    cases
}

pub(crate) fn tests() -> Vec<Test> {
    let one = |case: Case| Test::check(vec![case.form.clone()], move || check(&case));
    cases().into_iter().map(one).collect()
}
