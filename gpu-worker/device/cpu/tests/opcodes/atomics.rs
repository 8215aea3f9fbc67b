//! `atom` and `red`: every operation, type, space, order and scope, on cells that lanes share.
//! The lanes of a warp go one after the other, lowest first, so that all is determined.

use crate::fragments::{brain, half, random, value};
use crate::vector::Test;
use crate::warp::{BUFFER, Random, Register, Warp, isas};
use device_cpu::Program;

#[derive(Clone, Copy)]
struct Case {
    fetch: bool,
    op: &'static str,
    ty: &'static str,
    /// Elements of a vector.
    lanes: usize,
    space: &'static str,
    /// Where a generic address points.
    shared: bool,
    order: &'static str,
    hint: bool,
}

/// Bits of one element.
fn width(ty: &str) -> usize {
    let digits = ty.trim_end_matches("x2");
    let bits: usize = digits.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    let pair = if ty.ends_with("x2") { 2 } else { 1 };
    bits * pair
}

/// Bytes between the cells, of which there are four.
const STEP: usize = 32;
const START: usize = 64;

/// One half of a float pair, or a float of 16 bits.
fn narrow(op: &str, ty: &str, old: u64, b: u64) -> u64 {
    let bf16 = ty.starts_with("bf16");
    let name = if bf16 { "bf16" } else { "f16" };
    let (x, y) = (value(name, old & 0xffff), value(name, b & 0xffff));
    let least = op == "min";
    let exact = match op {
        "add" => x + y,
        _ if x.is_nan() => y,
        _ if y.is_nan() => x,
        _ if x == y && (x.is_sign_negative() == least) => x,
        _ if x == y => y,
        _ if least == (x < y) => x,
        _ => y,
    };
    if bf16 { brain(exact) } else { half(exact) }
}

/// What is stored, from what was there.
fn next(op: &str, ty: &str, global: bool, old: u128, b: u128, c: u128) -> u128 {
    let (low, low_b) = (old as u64, b as u64);
    let float = |bits: u64| {
        let x = f32::from_bits(bits as u32);
        if global && x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
    };
    let signed = |bits: u64| match ty {
        "s32" => i128::from(bits as u32 as i32),
        "s64" => i128::from(bits as i64),
        _ => i128::from(bits),
    };
    let whole = match (op, ty) {
        ("add", "f32") => {
            let sum = float(low) + float(low_b);
            let sum = if global && sum.is_subnormal() { 0.0_f32.copysign(sum) } else { sum };
            if sum.is_nan() { 0x7fff_ffff } else { u64::from(sum.to_bits()) }
        }
        ("add", "f64") => (f64::from_bits(low) + f64::from_bits(low_b)).to_bits(),
        (_, "f16" | "bf16") => narrow(op, ty, low, low_b),
        (_, "f16x2" | "bf16x2") => {
            narrow(op, ty, low >> 16, low_b >> 16) << 16 | narrow(op, ty, low, low_b)
        }
        ("add", _) => low.wrapping_add(low_b),
        ("min", _) => if signed(low_b) < signed(low) { low_b } else { low },
        ("max", _) => if signed(low_b) > signed(low) { low_b } else { low },
        ("inc", _) => if low >= low_b { 0 } else { low + 1 },
        ("dec", _) => if low == 0 || low > low_b { low_b } else { low - 1 },
        ("and", _) => low & low_b,
        ("or", _) => low | low_b,
        ("xor", _) => low ^ low_b,
        ("exch", _) => return b,
        _ if old == b => return c,
        _ => return old,
    };
    let bits = width(ty);
    u128::from(if bits < 64 { whole & ((1 << bits) - 1) } else { whole })
}

/// An operand or a cell. Small numbers where equality or order matters.
fn element(op: &str, ty: &str, numbers: &mut Random) -> u128 {
    let narrow = ty.trim_end_matches("x2");
    let one = |numbers: &mut Random| match (op, narrow) {
        ("inc" | "dec", _) => numbers.below(6),
        ("cas", _) => numbers.below(3) * 0x11,
        (_, "f16" | "bf16") => random(narrow, numbers, true),
        ("add", "f32") if numbers.below(4) == 0 => numbers.below(1 << 23) | numbers.below(2) << 31,
        (_, "f32" | "f64") => random(narrow, numbers, false),
        _ => numbers.next(),
    };
    let low = u128::from(one(numbers));
    let value = match ty {
        "f16x2" | "bf16x2" => low | u128::from(one(numbers)) << 16,
        "b128" if op == "cas" => low << 64 | 5,
        "b128" => low << 64 | u128::from(one(numbers)),
        _ => low,
    };
    let bits = width(ty);
    if bits < 128 { value & ((1 << bits) - 1) } else { value }
}

impl Case {
    fn form(&self) -> String {
        let head = if self.fetch { "atom" } else { "red" };
        let exact = if self.ty.contains("16") && self.op != "cas" { ".noftz" } else { "" };
        let hint = if self.hint { ".L2::cache_hint" } else { "" };
        let vector = if self.lanes > 1 { format!(".v{}", self.lanes) } else { String::new() };
        let Case { op, ty, space, order, .. } = self;
        format!("{head}{order}{space}.{op}{exact}{hint}{vector}.{ty}")
    }

    /// Registers of the operation's type for each value, made of inputs or to be taken apart into
    /// outputs: their names, and the text that moves them.
    fn registers(&self, name: &str, other: &str, first: usize) -> (String, String, usize) {
        let (bits, lanes) = (width(self.ty), self.lanes);
        let mut text = String::new();
        let mut names = Vec::new();
        let words = if bits == 128 { 2 } else { 1 };
        for lane in 0..lanes {
            let (own, at) = (format!("%{name}{lane}"), first + lane * words);
            text += &format!(".reg .b{bits} {own};\n");
            let given = other == "i";
            text += &match (bits, given) {
                (16, true) => format!("cvt.u16.u32 {own}, %i{at};\n"),
                (16, false) => format!("cvt.u32.u16 %o{at}, {own};\n"),
                (128, true) => format!("mov.b128 {own}, {{%i{at}, %i{}}};\n", at + 1),
                (128, false) => format!("mov.b128 {{%o{at}, %o{}}}, {own};\n", at + 1),
                (_, true) => format!("mov.b{bits} {own}, %i{at};\n"),
                (_, false) => format!("mov.b{bits} %o{at}, {own};\n"),
            };
            names.push(own);
        }
        let list = names.join(", ");
        let list = if lanes > 1 { format!("{{{list}}}") } else { list };
        (list, text, lanes * words)
    }

    fn text(&self) -> String {
        let (b, mut text, count) = self.registers("b", "i", 0);
        let mut operands = b;
        if self.op == "cas" {
            let (c, more, _) = self.registers("c", "i", count);
            text += &more;
            operands += &format!(", {c}");
        }
        if self.hint {
            operands += ", %policy";
        }
        let base = match (self.space, self.shared) {
            ("", true) => "mov.u64 %p, buffer; cvta.shared.u64 %p, %p;",
            (_, true) => "mov.u64 %p, buffer;",
            _ => "mov.u64 %p, %g;",
        };
        text += &format!(
            ".reg .b64 %p, %cell, %policy; mov.b64 %policy, 0; {base}
             and.b32 %n, %lane, 3; mul.wide.u32 %cell, %n, {STEP}; add.u64 %p, %p, %cell;\n"
        );
        if self.fetch {
            let (d, after, _) = self.registers("d", "o", 0);
            // Declared before, taken apart behind.
            let (declared, moved): (Vec<_>, Vec<_>) =
                after.lines().partition(|line| line.starts_with(".reg"));
            text += &declared.join("\n");
            text += &format!("\n{} {d}, [%p+{START}], {operands};\n", self.form());
            text += &moved.join("\n");
        } else {
            text += &format!("{} [%p+{START}], {operands};\n", self.form());
        }
        text
    }

    fn check(&self) {
        let (bits, lanes) = (width(self.ty), self.lanes);
        let bytes = bits / 8;
        for isa in isas() {
            let mut numbers = Random::new(bits as u64 * 3 + lanes as u64);
            let mut buffer: Vec<u8> = (0..BUFFER).map(|_| numbers.word() as u8).collect();
            for cell in 0..4 {
                for part in 0..lanes {
                    let start = START + cell * STEP + part * bytes;
                    let value = element(self.op, self.ty, &mut numbers).to_le_bytes();
                    buffer[start..start + bytes].copy_from_slice(&value[..bytes]);
                }
            }
            let values = if self.op == "cas" { 2 } else { 1 };
            let given: Vec<[u128; 32]> = (0..values * lanes)
                .map(|_| std::array::from_fn(|_| element(self.op, self.ty, &mut numbers)))
                .collect();
            let mut inputs = Vec::new();
            for row in &given {
                match bits {
                    64 => inputs.push(Register::doubles(row.map(|x| x as u64))),
                    128 => {
                        inputs.push(Register::doubles(row.map(|x| x as u64)));
                        inputs.push(Register::doubles(row.map(|x| (x >> 64) as u64)));
                    }
                    _ => inputs.push(Register::words(row.map(|x| x as u32))),
                }
            }
            let words = if bits == 128 { 2 } else { 1 };
            let outputs = vec![bits.clamp(32, 64) as u32; if self.fetch { lanes * words } else { 0 }];
            let left = Warp {
                text: &self.text(),
                inputs: &inputs,
                outputs: &outputs,
                buffer: &buffer,
                shared: self.shared,
            }
            .run(isa);
            let mut want = buffer.clone();
            let parts = |lane| (0..lanes).map(move |part| (lane, part));
            for (lane, part) in (0..32).flat_map(parts) {
                    let start = START + lane % 4 * STEP + part * bytes;
                    let mut held = [0; 16];
                    held[..bytes].copy_from_slice(&want[start..start + bytes]);
                    let old = u128::from_le_bytes(held);
                    let (b, c) = (given[part][lane], given[part + (values - 1) * lanes][lane]);
                    let new = next(self.op, self.ty, !self.shared, old, b, c);
                    want[start..start + bytes].copy_from_slice(&new.to_le_bytes()[..bytes]);
                    if self.fetch {
                        let got = if words == 2 {
                            let [low, high] = [0, 1].map(|at| left.outputs[2 * part + at][lane]);
                            u128::from(high) << 64 | u128::from(low)
                        } else {
                            u128::from(left.outputs[part][lane])
                        };
                        assert!(got == old, "{} {isa:?} lane {lane}: {got:#x}, was {old:#x}", self.form());
                    }
            }
            let differs = (0..BUFFER).find(|at| left.buffer[*at] != want[*at]);
            assert!(differs.is_none(), "{} {isa:?} at byte {differs:?}", self.form());
        }
    }
}

/// Orders and scopes, of which every one goes with every other.
const ORDERS: [&str; 17] = [
    "",
    ".relaxed.cta",
    ".relaxed.cluster",
    ".relaxed.gpu",
    ".relaxed.sys",
    ".acquire.cta",
    ".acquire.cluster",
    ".acquire.gpu",
    ".acquire.sys",
    ".release.cta",
    ".release.cluster",
    ".release.gpu",
    ".release.sys",
    ".acq_rel.cta",
    ".acq_rel.cluster",
    ".acq_rel.gpu",
    ".acq_rel.sys",
];

/// Spaces, and whether they are shared memory.
const SPACES: [(&str, bool); 6] = [
    (".global", false),
    (".shared", true),
    (".shared::cta", true),
    (".shared::cluster", true),
    ("", false),
    ("", true),
];

const SINGLES: [(&str, &[&str]); 10] = [
    ("and", &["b32", "b64"]),
    ("or", &["b32", "b64"]),
    ("xor", &["b32", "b64"]),
    ("exch", &["b32", "b64", "b128"]),
    ("cas", &["b16", "b32", "b64", "b128"]),
    ("inc", &["u32"]),
    ("dec", &["u32"]),
    ("min", &["u32", "s32", "u64", "s64"]),
    ("max", &["u32", "s32", "u64", "s64"]),
    (
        "add",
        &["u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"],
    ),
];

fn refusals() {
    for line in [
        "atom.global.add.b32 %r, [%p], %r;",
        "atom.global.min.f32 %r, [%p], %r;",
        "atom.global.inc.u64 %q, [%p], %q;",
        "atom.global.add.noftz.f32 %r, [%p], %r;",
        "atom.shared.add.v2.f32 {%r, %r}, [%p], {%r, %r};",
        "atom.global.add.v8.f32 {%r, %r}, [%p], {%r, %r};",
        "red.global.exch.b32 [%p], %r;",
        "red.global.cas.b32 [%p], %r, %r;",
        "atom.local.add.u32 %r, [%p], %r;",
        "atom.global.add.u32 %r, [%p];",
        "fence.tensormap;",
    ] {
        let source = format!(
            ".version 8.5\n.target sm_90\n.address_size 64\n.entry k() {{
             .reg .b32 %r; .reg .b64 %p, %q;\n{line}\nret; }}"
        );
        assert!(Program::build(&source).is_err(), "{line}");
    }
}

/// Fences order one thread's accesses as they stand, so all that can be seen is that they run.
const FENCES: &str = "membar.cta; membar.gl; membar.sys; fence.cta; fence.gpu; fence.sys;
    fence.cluster; fence.sc.cta; fence.sc.cluster; fence.sc.gpu; fence.sc.sys; fence.acq_rel.cta;
    fence.acq_rel.cluster; fence.acq_rel.gpu; fence.acq_rel.sys; fence.acquire.gpu;
    fence.release.gpu; fence.proxy.alias; fence.proxy.async; fence.proxy.async.global;
    fence.proxy.async.shared::cta; fence.proxy.async.shared::cluster; membar.proxy.alias;
    fence.mbarrier_init.release.cluster;";

fn fences() {
    for isa in isas() {
        let text = format!(
            "st.global.u32 [%g+4], 17; {FENCES} ld.global.u32 %o0, [%g+4];"
        );
        let left = Warp {
            text: &text,
            inputs: &[],
            outputs: &[32],
            buffer: &[],
            shared: false,
        }
        .run(isa);
        assert!(left.outputs[0] == [17; 32]);
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut cases = Vec::new();
    for (op, types) in SINGLES {
        for ty in types {
            for (at, order) in ORDERS.into_iter().enumerate() {
                for (which, (space, shared)) in SPACES.into_iter().enumerate() {
                    for fetch in [true, false] {
                        if !fetch && matches!(op, "cas" | "exch") {
                            continue;
                        }
                        cases.push(Case {
                            fetch,
                            op,
                            ty,
                            lanes: 1,
                            space,
                            shared,
                            order,
                            hint: space == ".global" && (at + which) % 4 == 3,
                        });
                    }
                }
            }
        }
    }
    let vectors: [(_, _, &[_]); 3] = [
        (&["add"][..], &["f32"][..], &[2, 4]),
        (&["add", "min", "max"], &["f16", "bf16"], &[2, 4, 8]),
        (&["add", "min", "max"], &["f16x2", "bf16x2"], &[2, 4]),
    ];
    for (ops, types, counts) in vectors {
        for op in ops {
            for ty in types {
                for lanes in counts {
                    for (fetch, order, hint) in [
                        (true, "", false),
                        (false, "", false),
                        (true, ".relaxed.gpu", true),
                        (false, ".release.sys", true),
                    ] {
                        cases.push(Case {
                            fetch,
                            op,
                            ty,
                            lanes: *lanes,
                            space: ".global",
                            shared: false,
                            order,
                            hint,
                        });
                    }
                }
            }
        }
    }
    let mut tests: Vec<Test> = cases
        .into_iter()
        .map(|case| Test::check(vec![case.form()], move || case.check()))
        .collect();
    let names = FENCES.split(';').map(|fence| fence.trim().to_owned());
    let names = names.filter(|fence| !fence.is_empty()).collect();
    tests.push(Test::check(names, fences));
    tests.push(Test::check(Vec::new(), refusals));
    tests
}
