//! `wmma`: matrices in memory, of every layout, stride and space, loaded, multiplied and stored.
//! The layout of a fragment is unspecified, so memory is compared with memory.

use crate::fragments::{bits, dot, random, sizes};
use crate::vector::Test;
use crate::warp::{BUFFER, EMPTY, Random, Warp, isas};

/// A matrix in the buffer.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    /// Elements between rows, or columns if `by_column`.
    stride: usize,
    by_column: bool,
    width: usize,
}

impl Place {
    fn bit(self, row: usize, column: usize) -> usize {
        let (line, at) = if self.by_column {
            (column, row)
        } else {
            (row, column)
        };
        8 * self.start + (line * self.stride + at) * self.width
    }

    fn get(self, buffer: &[u8], row: usize, column: usize) -> u64 {
        let bit = self.bit(row, column);
        let bytes = (0..self.width.div_ceil(8)).map(|at| u64::from(buffer[bit / 8 + at]) << (8 * at));
        let whole = bytes.fold(0, |all, byte| all | byte);
        if self.width < 8 {
            whole >> (bit % 8) & ((1 << self.width) - 1)
        } else {
            whole
        }
    }

    fn set(self, buffer: &mut [u8], row: usize, column: usize, value: u64) {
        let bit = self.bit(row, column);
        if self.width < 8 {
            let mask = ((1 << self.width) - 1) << (bit % 8);
            buffer[bit / 8] = buffer[bit / 8] & !mask | (value as u8) << (bit % 8) & mask;
            return;
        }
        for at in 0..self.width / 8 {
            buffer[bit / 8 + at] = (value >> (8 * at)) as u8;
        }
    }
}

struct Case {
    shape: &'static str,
    /// Types of A, B, C, D.
    types: [&'static str; 4],
    /// True for each of A, B, C and D that is stored by columns.
    by_column: [bool; 4],
    modifier: &'static str,
    space: &'static str,
    padded: bool,
}

/// Registers of a fragment.
fn registers(case: &Case, at: usize) -> usize {
    let [m, n, k] = sizes(case.shape);
    let ty = case.types[at];
    match (at, ty) {
        (0 | 1, "f16") => 8,
        (0, _) => (m * k * bits(ty)).div_ceil(32 * bits(ty).max(32)),
        (1, _) => (k * n * bits(ty)).div_ceil(32 * bits(ty).max(32)),
        _ => m * n * bits(ty) / 32 / bits(ty).max(32),
    }
}

fn vector(name: &str, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|at| format!("%{name}{at}")).collect();
    format!("{{{}}}", names.join(", "))
}

const LAYOUT: [&str; 2] = ["row", "col"];

impl Case {
    fn layout(&self, at: usize) -> &'static str {
        LAYOUT[usize::from(self.by_column[at])]
    }

    fn moving(&self, at: usize) -> String {
        let (op, name) = [("load", "a"), ("load", "b"), ("load", "c"), ("store", "d")][at];
        format!(
            "wmma.{op}.{name}.sync.aligned.{}.{}{}.{}",
            self.layout(at),
            self.shape,
            self.space,
            self.types[at]
        )
    }

    fn multiplying(&self) -> String {
        let [a, b, c, d] = self.types;
        let types = if a == "f16" {
            format!("{d}.{c}")
        } else {
            format!("{d}.{a}.{b}.{c}")
        };
        let (op, end) = match self.modifier {
            "xor" | "and" => (format!(".{}.popc", self.modifier), String::new()),
            "" => Default::default(),
            modifier => (String::new(), format!(".{modifier}")),
        };
        let (a, b) = (self.layout(0), self.layout(1));
        format!("wmma.mma{op}.sync.aligned.{a}.{b}.{}.{types}{end}", self.shape)
    }

    fn places(&self) -> [Place; 4] {
        let [m, n, k] = sizes(self.shape);
        let dims = [(m, k), (k, n), (m, n), (m, n)];
        let mut start = 0;
        std::array::from_fn(|at| {
            let (rows, columns) = dims[at];
            let width = bits(self.types[at]);
            let (lines, length) = if self.by_column[at] {
                (columns, rows)
            } else {
                (rows, columns)
            };
            // Sixteen bytes more than a line, and not at the buffer's beginning.
            let stride = length + if self.padded { 128 / width } else { 0 };
            let place = Place {
                start: start + if self.padded { 32 } else { 0 },
                stride,
                by_column: self.by_column[at],
                width,
            };
            start = (place.start + lines * stride * width / 8).next_multiple_of(32);
            assert!(start <= BUFFER, "the buffer holds all four");
            place
        })
    }

    fn text(&self, places: &[Place; 4]) -> String {
        let mut text = String::new();
        let base = match self.space {
            ".global" => "mov.u64 %base, %g;",
            ".shared" => "mov.u64 %base, buffer;",
            _ if self.padded => "mov.u64 %base, buffer; cvta.shared.u64 %base, %base;",
            _ => "mov.u64 %base, %g;",
        };
        text += &format!(".reg .b64 %base; .reg .b32 %step<4>; {base}\n");
        for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let width = bits(self.types[at]).max(32);
            let count = registers(self, at);
            text += &format!(".reg .b{width} %{name}<{count}>;\n");
        }
        let operand = |at: usize| {
            let place = places[at];
            let stride = match (self.padded, at % 2) {
                (false, _) => String::new(),
                (true, 0) => format!(", {}", place.stride),
                (true, _) => format!(", %step{at}"),
            };
            (format!("[%base+{}]", place.start), stride)
        };
        for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
            let (address, stride) = operand(at);
            text += &format!("mov.u32 %step{at}, {};\n", places[at].stride);
            let list = vector(name, registers(self, at));
            text += &format!("{} {list}, {address}{stride};\n", self.moving(at));
        }
        let [a, b, c, d] = [0, 1, 2, 3].map(|at| vector(["a", "b", "c", "d"][at], registers(self, at)));
        text += &format!("{} {d}, {a}, {b}, {c};\n", self.multiplying());
        let (address, stride) = operand(3);
        text += &format!("mov.u32 %step3, {};\n", places[3].stride);
        text += &format!("{} {address}, {d}{stride};\n", self.moving(3));
        text
    }

    fn check(&self) {
        let [m, n, k] = sizes(self.shape);
        let places = self.places();
        let dims = [(m, k), (k, n), (m, n), (m, n)];
        for isa in isas() {
            let mut numbers = Random::new(m as u64 * 31 + k as u64);
            let mut buffer: Vec<u8> = (0..BUFFER).map(|_| numbers.word() as u8).collect();
            for at in 0..3 {
                for row in 0..dims[at].0 {
                    for column in 0..dims[at].1 {
                        let element = random(self.types[at], &mut numbers, self.padded);
                        places[at].set(&mut buffer, row, column, element);
                    }
                }
            }
            let text = self.text(&places);
            let shared = self.space == ".shared" || self.space.is_empty() && self.padded;
            let left = Warp { text: &text, buffer: &buffer, shared, ..EMPTY }.run(isa);
            let [a, b, c, d] = self.types;
            let mut want = buffer.clone();
            for row in 0..m {
                for column in 0..n {
                    let factors = (0..k).map(|k| {
                        (places[0].get(&buffer, row, k), places[1].get(&buffer, k, column))
                    });
                    let start = places[2].get(&buffer, row, column);
                    let sum = dot((a, b, c, d), self.modifier, start, factors);
                    places[3].set(&mut want, row, column, sum);
                }
            }
            let differs = (0..BUFFER).find(|at| left.buffer[*at] != want[*at]);
            assert!(differs.is_none(), "{} {isa:?} at byte {differs:?}:\n{text}", self.multiplying());
        }
    }
}

/// Every choice of layouts of a type, each with a space, padded or not.
fn layouts(fixed: bool) -> impl Iterator<Item = ([bool; 4], &'static str, bool)> {
    (0..16).filter_map(move |bits: usize| {
        let by_column = std::array::from_fn(|at| bits >> at & 1 != 0);
        if fixed && (by_column[0] || !by_column[1]) {
            return None;
        }
        // Each operand's layout is combined with each space, and with both strides.
        let space = [".global", ".shared", ""][(bits + bits / 4) % 3];
        Some((by_column, space, bits.count_ones().is_multiple_of(2)))
    })
    .flat_map(move |(by_column, space, padded)| {
        // If there are few layouts, each is combined with every space.
        let spaces: &[_] = if fixed { &[".global", ".shared", ""] } else { &[space] };
        let all: Vec<_> = spaces.iter().map(|space| (by_column, *space, padded)).collect();
        all
    })
}

pub(crate) fn tests() -> Vec<Test> {
    let mut kinds: Vec<(&'static str, [&'static str; 4], &'static str)> = Vec::new();
    for shape in ["m16n16k16", "m8n32k16", "m32n8k16"] {
        for (c, d) in [("f32", "f32"), ("f16", "f16"), ("f32", "f16"), ("f16", "f32")] {
            kinds.push((shape, ["f16", "f16", c, d], ""));
            kinds.push((shape, ["f16", "f16", c, d], "satfinite"));
        }
        kinds.push((shape, ["bf16", "bf16", "f32", "f32"], ""));
        for ty in ["s8", "u8"] {
            kinds.push((shape, [ty, ty, "s32", "s32"], ""));
            kinds.push((shape, [ty, ty, "s32", "s32"], "satfinite"));
        }
    }
    kinds.push(("m16n16k8", ["tf32", "tf32", "f32", "f32"], ""));
    kinds.push(("m8n8k4", ["f64"; 4], ""));
    kinds.push(("m8n8k4", ["f64"; 4], "rn"));
    for ty in ["s4", "u4"] {
        kinds.push(("m8n8k32", [ty, ty, "s32", "s32"], ""));
        kinds.push(("m8n8k32", [ty, ty, "s32", "s32"], "satfinite"));
    }
    for op in ["xor", "and"] {
        kinds.push(("m8n8k128", ["b1", "b1", "s32", "s32"], op));
    }
    let mut tests = Vec::new();
    for (shape, types, modifier) in kinds {
        for (by_column, space, padded) in layouts(bits(types[0]) < 8) {
            let case = Case {
                shape,
                types,
                by_column,
                modifier,
                space,
                padded,
            };
            let mut forms: Vec<_> = (0..4).map(|at| case.moving(at)).collect();
            forms.push(case.multiplying());
            tests.push(Test::check(forms, move || case.check()));
        }
    }
    tests
}
