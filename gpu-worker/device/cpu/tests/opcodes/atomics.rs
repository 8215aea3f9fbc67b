//! `atom` and `red`: every operation, type, space, order and scope, on cells that lanes share. The
//! lanes of a warp run one after the other, lowest first, so that the result is deterministic.

use crate::cells::{element, next, width};
use crate::refusals::refused;
use crate::vector::Test;
use crate::warp::{BUFFER, EMPTY, Random, Register, Warp, isas};

#[derive(Clone, Copy)]
struct Case {
    fetch: bool,
    op: &'static str,
    ty: &'static str,
    /// Number of elements of a vector.
    lanes: usize,
    space: &'static str,
    /// True if a generic address points to shared memory.
    shared: bool,
    order: &'static str,
    hint: bool,
    spelling: Spelling,
}

/// Order in which compilers write the parts of an opcode.
#[derive(Clone, Copy, PartialEq)]
enum Spelling {
    /// `atom.relaxed.gpu.global.add.u32`, as in the ISA.
    Standard,
    /// `atom.add.relaxed.gpu.u32`
    OperationFirst,
    /// `atom.global.relaxed.gpu.add.u32`
    SpaceFirst,
    /// `atom.global.gpu.relaxed.add.u32`
    ScopeFirst,
}

/// The most common case; others state the differences.
const CASE: Case = Case {
    fetch: true,
    op: "add",
    ty: "f32",
    lanes: 1,
    space: ".global",
    shared: false,
    order: "",
    hint: false,
    spelling: Spelling::Standard,
};

/// Bytes between the four cells.
const STEP: usize = 32;
const START: usize = 64;

impl Case {
    fn form(&self) -> String {
        let head = if self.fetch { "atom" } else { "red" };
        let exact = if self.ty.contains("16") && self.op != "cas" { ".noftz" } else { "" };
        let hint = if self.hint { ".L2::cache_hint" } else { "" };
        let vector = if self.lanes > 1 { format!(".v{}", self.lanes) } else { String::new() };
        let Case { op, ty, space, order, .. } = self;
        let tail = format!("{exact}{hint}{vector}.{ty}");
        match self.spelling {
            Spelling::Standard => format!("{head}{order}{space}.{op}{tail}"),
            Spelling::OperationFirst => format!("{head}{space}.{op}{order}{tail}"),
            Spelling::SpaceFirst => format!("{head}{space}{order}.{op}{tail}"),
            Spelling::ScopeFirst => {
                let order: String = order.split('.').skip(1).fold(String::new(), |rest, part| {
                    format!(".{part}{rest}")
                });
                format!("{head}{space}{order}.{op}{tail}")
            }
        }
    }

    /// Registers of the operation's type for each value, made of inputs or split into outputs:
    /// their names, and the text that moves them.
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
            // Declared before, split behind.
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

/// Orders and scopes, in all combinations.
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

/// Spaces, and true for shared memory.
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
    let lines = [
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
    ];
    refused(".reg .b32 %r; .reg .b64 %p, %q;", &lines);
}

/// Fences order one thread's accesses as written, so the only visible effect is that they run.
const FENCES: &str = "membar.cta; membar.gl; membar.sys; fence.cta; fence.gpu; fence.sys;
    fence.cluster; fence.sc.cta; fence.sc.cluster; fence.sc.gpu; fence.sc.sys; fence.acq_rel.cta;
    fence.acq_rel.cluster; fence.acq_rel.gpu; fence.acq_rel.sys; fence.acquire.gpu;
    fence.release.gpu; fence.proxy.alias; fence.proxy.async; fence.proxy.async.global;
    fence.proxy.async.shared::cta; fence.proxy.async.shared::cluster; membar.proxy.alias;
    fence.mbarrier_init.release.cluster; fence.cta.sc; fence.cluster.sc; fence.gpu.sc; fence.sys.sc;
    fence.cta.acq_rel; fence.cluster.acq_rel; fence.gpu.acq_rel; fence.sys.acq_rel;";

fn fences() {
    for isa in isas() {
        let text = format!(
            "st.global.u32 [%g+4], 17; {FENCES} ld.global.u32 %o0, [%g+4];"
        );
        let left = Warp { text: &text, outputs: &[32], ..EMPTY }.run(isa);
        assert!(left.outputs[0] == [17; 32]);
    }
}

/// The other spellings of an operation, by NVRTC and Triton.
fn spellings(cases: &mut Vec<Case>, op: &'static str, ty: &'static str) {
    let scopes = [".cta", ".cluster", ".gpu", ".sys"];
    let both = ORDERS.into_iter().skip(1);
    let all = [
        ("", Spelling::OperationFirst),
        (".global", Spelling::SpaceFirst),
        (".global", Spelling::ScopeFirst),
    ];
    let ordered = all.into_iter().flat_map(|(space, spelling)| {
        both.clone().map(move |order| (space, order, spelling))
    });
    let scoped = scopes.into_iter().flat_map(|scope| {
        [".global", ".shared"].map(|space| (space, scope, Spelling::SpaceFirst))
    });
    for (space, order, spelling) in ordered.chain(scoped) {
        for fetch in fetches(op) {
            let shared = space == ".shared";
            cases.push(Case { fetch, op, ty, space, shared, order, spelling, ..CASE });
        }
    }
}

/// Forms with and without the old value; some operations need it.
fn fetches(op: &str) -> impl Iterator<Item = bool> {
    let only = matches!(op, "cas" | "exch");
    [true, false].into_iter().filter(move |fetch| *fetch || !only)
}

/// An operation on one value, in every order and space.
fn singles(cases: &mut Vec<Case>, op: &'static str, ty: &'static str) {
    for (at, order) in ORDERS.into_iter().enumerate() {
        for (which, (space, shared)) in SPACES.into_iter().enumerate() {
            let hint = space == ".global" && (at + which) % 4 == 3;
            for fetch in fetches(op) {
                cases.push(Case { fetch, op, ty, space, shared, order, hint, ..CASE });
            }
        }
    }
}

/// Operations on vectors of values.
fn vectors(cases: &mut Vec<Case>) {
    let all: [(_, _, &[_]); 3] = [
        (&["add"][..], &["f32"][..], &[2, 4]),
        (&["add", "min", "max"], &["f16", "bf16"], &[2, 4, 8]),
        (&["add", "min", "max"], &["f16x2", "bf16x2"], &[2, 4]),
    ];
    let ways = [
        (true, "", false),
        (false, "", false),
        (true, ".relaxed.gpu", true),
        (false, ".release.sys", true),
    ];
    for (ops, types, counts) in all {
        for (op, ty) in ops.iter().flat_map(|op| types.iter().map(move |ty| (op, ty))) {
            for (lanes, (fetch, order, hint)) in
                counts.iter().flat_map(|lanes| ways.map(|way| (*lanes, way)))
            {
                cases.push(Case { fetch, op, ty, lanes, order, hint, ..CASE });
            }
        }
    }
    for (lanes, order) in [(2, ".cta"), (4, ".cta"), (2, ".sys"), (4, ".sys")] {
        cases.push(Case { lanes, order, spelling: Spelling::SpaceFirst, ..CASE });
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let mut cases = Vec::new();
    for (op, types) in SINGLES {
        for ty in types {
            singles(&mut cases, op, ty);
            spellings(&mut cases, op, ty);
        }
    }
    vectors(&mut cases);
    let forms = |case: &Case| {
        let moved = (width(case.ty) == 128).then(|| "mov.b128".to_owned());
        [case.form()].into_iter().chain(moved).collect()
    };
    let mut tests: Vec<Test> = cases
        .into_iter()
        .map(|case| Test::check(forms(&case), move || case.check()))
        .collect();
    let names = FENCES.split(';').map(|fence| fence.trim().to_owned());
    let names = names.filter(|fence| !fence.is_empty()).collect();
    tests.push(Test::check(names, fences));
    tests.push(Test::check(Vec::new(), refusals));
    tests
}
