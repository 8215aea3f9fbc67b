//! Loads and stores of every space, type and vector; conversions between kinds of addresses.
//!
//! Each thread has its own sixteen bytes in the space. The 64-bit register contents after a load,
//! and the bytes that a store changes, are computed here from the bytes alone.

use crate::launch::launch;
use crate::vector::Test;
use device_cpu::{EngineConfig, Grid, Program};
use std::fmt::Write as _;

const THREADS: u64 = 48;
/// Bytes of each thread in the space, and bytes of results for each form and thread.
const SLOT: u64 = 16;
const RESULT: u64 = 32;

/// Types with their bytes, and true for sign extension.
const TYPES: [(&str, u64, bool); 14] = [
    ("b8", 1, false),
    ("u8", 1, false),
    ("s8", 1, true),
    ("b16", 2, false),
    ("u16", 2, false),
    ("s16", 2, true),
    ("b32", 4, false),
    ("u32", 4, false),
    ("s32", 4, true),
    ("f32", 4, false),
    ("b64", 8, false),
    ("u64", 8, false),
    ("s64", 8, true),
    ("f64", 8, false),
];

/// A way to write an access: the text before the space, the space, and the text behind it.
type Way = (&'static str, &'static str, &'static str);

const LOADS: &[Way] = &[
    ("", ".global", ""), ("", ".global", ".ca"), ("", ".global", ".cg"), ("", ".global", ".cs"),
    ("", ".global", ".lu"), ("", ".global", ".cv"), ("", ".global", ".nc"),
    ("", ".global", ".ca.nc"), ("", ".global", ".nc.L1::no_allocate"),
    ("", ".global", ".nc.L1::evict_last.L2::128B"), ("", ".global", ".L1::evict_first"),
    ("", ".global", ".L2::64B"), ("", ".global", ".L2::cache_hint"),
    ("", ".global", ".L1::evict_first.L2::cache_hint"), (".weak", ".global", ""), (".volatile", ".global", ""),
    (".relaxed.cta", ".global", ""), (".relaxed.gpu", ".global", ""), (".relaxed.sys", ".global", ""),
    (".relaxed.cluster", ".global", ""), (".acquire.cta", ".global", ""),
    (".acquire.gpu", ".global", ""), (".acquire.sys", ".global", ""),
    (".mmio.relaxed.sys", ".global", ""), ("", ".shared", ""), ("", ".shared::cta", ""),
    (".volatile", ".shared", ""), (".relaxed.cta", ".shared", ""), (".acquire.cta", ".shared", ""),
    (".weak", ".shared", ""), ("", ".local", ""), (".volatile", ".local", ""), ("", ".local", ".ca"),
    ("", "", ""), (".volatile", "", ""), (".relaxed.gpu", "", ""), (".acquire.gpu", "", ""),
    (".weak", "", ""), (".acquire.cta", "", ""), (".acquire.sys", "", ""), (".relaxed.cta", "", ""),
    (".relaxed.sys", "", ""), ("", ".const", ""), ("", ".param", ""),
];

const STORES: &[Way] = &[
    ("", ".global", ""), ("", ".global", ".wb"), ("", ".global", ".cg"), ("", ".global", ".cs"),
    ("", ".global", ".wt"), ("", ".global", ".L1::no_allocate"), ("", ".global", ".L2::cache_hint"),
    ("", ".global", ".L1::evict_last.L2::cache_hint"), (".weak", ".global", ""),
    (".volatile", ".global", ""), (".relaxed.cta", ".global", ""), (".relaxed.gpu", ".global", ""),
    (".relaxed.sys", ".global", ""), (".release.cta", ".global", ""), (".release.gpu", ".global", ""),
    (".release.sys", ".global", ""), (".mmio.relaxed.sys", ".global", ""), ("", ".shared", ""),
    ("", ".shared::cta", ""), (".volatile", ".shared", ""), (".relaxed.cta", ".shared", ""),
    (".release.cta", ".shared", ""), ("", ".local", ""), (".volatile", ".local", ""), ("", "", ""),
    (".volatile", "", ""), (".relaxed.gpu", "", ""), (".release.gpu", "", ""),
    (".relaxed.cta", "", ""), (".relaxed.sys", "", ""), (".release.cta", "", ""), (".release.sys", "", ""),
];

/// The operand of a cache hint, if any.
fn policy(behind: &str) -> &'static str {
    if behind.ends_with("cache_hint") { ", %policy" } else { "" }
}

/// A type with a vector of at most sixteen bytes.
#[derive(Clone, Copy)]
struct Shape {
    ty: &'static str,
    size: u64,
    signed: bool,
    lanes: u64,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        let of = |(ty, size, signed)| {
            [1, 2, 4].into_iter().map(move |lanes| Self {
                ty,
                size,
                signed,
                lanes,
            })
        };
        TYPES.into_iter().flat_map(of).filter(|shape| shape.size * shape.lanes <= SLOT)
    }

    fn text(self) -> String {
        match self.lanes {
            1 => format!(".{}", self.ty),
            lanes => format!(".v{lanes}.{}", self.ty),
        }
    }

    /// Offset of the access in the slot: at the end of the slot.
    fn offset(self) -> u64 {
        SLOT - self.size * self.lanes
    }

    /// Registers of 64 bits, or of the type's own width for a float.
    fn registers(self) -> String {
        let prefix = if self.ty == "f32" { "%f" } else { "%v" };
        let list: Vec<_> = (0..self.lanes).map(|lane| format!("{prefix}{lane}")).collect();
        match self.lanes {
            1 => list[0].clone(),
            _ => format!("{{{}}}", list.join(", ")),
        }
    }
}

/// A byte of a thread's slot.
fn byte(thread: u64, at: u64) -> u8 {
    (thread * 37 + at * 101 + 0x83) as u8
}

/// Code that computes the address of the thread's slot in `%slot`, and copies `%mine` (global)
/// there.
fn slot(space: &str) -> String {
    let symbol = |name: &str| format!("mov.u64 %slot, {name}; mad.wide.u32 %slot, %tid, {SLOT}, %slot;");
    let fill = |space: &str| {
        format!("ld.global.v4.b32 {{%w0, %w1, %w2, %w3}}, [%mine]; st{space}.v4.b32 [%slot], {{%w0, %w1, %w2, %w3}};")
    };
    match space {
        ".shared" | ".shared::cta" => symbol("all") + &fill(".shared"),
        ".local" => "mov.u64 %slot, own;".to_owned() + &fill(".local"),
        ".const" => symbol("fixed"),
        ".param" => symbol("bytes"),
        _ => "mov.u64 %slot, %mine;".to_owned(),
    }
}

/// Runs a text of accesses; there are `count` results for every thread.
fn run(space: &str, text: &str, count: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..THREADS).flat_map(|t| (0..SLOT).map(move |at| byte(t, at))).collect();
    let list: Vec<_> = bytes.iter().map(u8::to_string).collect();
    let size = bytes.len();
    let source = format!(
        ".version 8.3\n.target sm_90\n.address_size 64
        .const .align 16 .b8 fixed[{size}] = {{{}}};
        .entry k(.param .u64 base, .param .align 16 .b8 bytes[{size}]) {{
        .reg .b64 %policy; createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;
        .reg .b64 %base, %mine, %slot, %out, %v<4>; .reg .f32 %f<4>; .reg .b32 %tid, %w<4>;
        .shared .align 16 .b8 all[{size}]; .local .align 16 .b8 own[{SLOT}];
        ld.param.u64 %base, [base]; mov.u32 %tid, %tid.x; mad.wide.u32 %mine, %tid, {SLOT}, %base;
        mad.wide.u32 %out, %tid, {RESULT}, %base; add.u64 %out, %out, {size};
        {}\n{text} ret; }}",
        list.join(", "),
        slot(space),
    );
    let program = Program::build(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let more = [&[0; 8], &bytes[..]].concat();
    let mut room = bytes;
    room.resize(size + count * (THREADS * RESULT) as usize, 0);
    let grid = Grid::flat(1, THREADS as u32);
    launch(&program, EngineConfig::default(), grid, room, &more)
        .unwrap_or_else(|error| panic!("{error}\n{source}"))
        .split_off(size)
}

/// Stores the loaded registers in the results of form number `at`.
fn keep(text: &mut String, shape: Shape, at: usize) {
    for lane in 0..shape.lanes {
        if shape.ty == "f32" {
            write!(text, "mov.b32 %w0, %f{lane}; cvt.u64.u32 %v{lane}, %w0;").expect("a string");
        }
        let place = at as u64 * THREADS * RESULT + 8 * lane;
        writeln!(text, "st.global.u64 [%out+{place}], %v{lane};").expect("a string");
    }
}

fn loads(way: Way, opcode: &str, shapes: &[Shape]) {
    let (before, space, behind) = way;
    let mut text = String::new();
    for (at, shape) in shapes.iter().enumerate() {
        let form = format!("{opcode}{before}{space}{behind}{}", shape.text());
        let policy = policy(behind);
        writeln!(text, "{form} {}, [%slot+{}]{policy};", shape.registers(), shape.offset()).expect("a string");
        keep(&mut text, *shape, at);
    }
    let out = run(space, &text, shapes.len());
    for (at, shape) in shapes.iter().enumerate() {
        for thread in 0..THREADS {
            for lane in 0..shape.lanes {
                let from = shape.offset() + lane * shape.size;
                let value = (0..shape.size).rev().fold(0_u64, |value, k| {
                    value << 8 | u64::from(byte(thread, from + k))
                });
                let unused = 64 - 8 * shape.size as u32;
                let want = match shape.signed {
                    true => ((value << unused) as i64 >> unused) as u64,
                    false => value,
                };
                let place = (at as u64 * THREADS * RESULT + thread * RESULT + 8 * lane) as usize;
                let have = u64::from_le_bytes(out[place..place + 8].try_into().expect("eight"));
                let form = format!("{opcode}{before}{space}{behind}{}", shape.text());
                assert_eq!(have, want, "{form}, thread {thread}, element {lane}");
            }
        }
    }
}

/// The value that thread `thread` stores as element `lane`.
fn stored(thread: u64, lane: u64) -> u64 {
    (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lane.wrapping_mul(0x1234_5678_9abc_def1)
}

fn stores((before, space, behind): Way, shapes: &[Shape]) {
    let back = match space {
        ".shared::cta" => ".shared",
        other => other,
    };
    let mut text = String::from(".reg .b64 %n, %s<4>; cvt.u64.u32 %n, %tid; add.u64 %n, %n, 1;\n");
    text += "mul.lo.u64 %n, %n, 0x9e3779b97f4a7c15;\n";
    for lane in 0..4_u64 {
        let with = lane.wrapping_mul(0x1234_5678_9abc_def1);
        writeln!(text, "xor.b64 %s{lane}, %n, {with:#x};").expect("a string");
    }
    for (at, shape) in shapes.iter().enumerate() {
        let form = format!("st{before}{space}{behind}{}", shape.text());
        for lane in 0..shape.lanes {
            writeln!(text, "mov.b64 %v{lane}, %s{lane}; cvt.u32.u64 %w0, %v{lane}; mov.b32 %f{lane}, %w0;")
                .expect("a string");
        }
        let place = at as u64 * THREADS * RESULT;
        writeln!(
            text,
            "{form} [%slot+{}], {}{}; ld{back}.v2.u64 {{%v0, %v1}}, [%slot]; st.global.v2.u64 [%out+{place}], {{%v0, %v1}};",
            shape.offset(),
            shape.registers(),
            policy(behind),
        )
        .expect("a string");
    }
    let out = run(space, &text, shapes.len());
    for thread in 0..THREADS {
        let mut slot: Vec<u8> = (0..SLOT).map(|at| byte(thread, at)).collect();
        for (at, shape) in shapes.iter().enumerate() {
            for lane in 0..shape.lanes {
                let (from, size) = (shape.offset() + lane * shape.size, shape.size as usize);
                let value = stored(thread, lane).to_le_bytes();
                slot[from as usize..from as usize + size].copy_from_slice(&value[..size]);
            }
            let place = (at as u64 * THREADS * RESULT + thread * RESULT) as usize;
            let form = format!("st{before}{space}{behind}{}", shape.text());
            assert_eq!(out[place..place + 16], slot[..], "{form}, thread {thread}");
        }
    }
}

/// Conversion of addresses in both directions, and queries of them.
fn addresses() {
    let spaces = ["global", "shared", "local", "const", "param"];
    let mut text = String::from(".reg .pred %p; .reg .b64 %g, %b;\n");
    let symbols = ["", "all", "own", "fixed", "bytes"];
    for (at, (space, symbol)) in spaces.iter().zip(symbols).enumerate() {
        let take = if symbol.is_empty() { "%mine" } else { symbol };
        let place = at as u64 * THREADS * RESULT;
        writeln!(
            text,
            "mov.u64 %b, {take}; cvta.{space}.u64 %g, %b; ld.u8 %v0, [%g+3]; cvta.to.{space}.u64 %v2, %g;
            sub.u64 %v2, %v2, %b; mov.u64 %v1, 0;"
        )
        .expect("a string");
        for (bit, asked) in spaces.iter().enumerate() {
            let value = 1 << bit;
            writeln!(text, "isspacep.{asked} %p, %g; @%p or.b64 %v1, %v1, {value};").expect("a string");
        }
        writeln!(text, "isspacep.shared::cta %p, %g; @%p or.b64 %v1, %v1, 64;").expect("a string");
        for (lane, value) in ["%v0", "%v1", "%v2"].into_iter().enumerate() {
            writeln!(text, "st.global.u64 [%out+{}], {value};", place + 8 * lane as u64).expect("a string");
        }
    }
    // The shared and local symbols are thread 0's slots; each thread has its own local memory.
    let fill = slot(".shared") + &slot(".local");
    let out = run("", &(fill + &text), spaces.len());
    let (words, _) = out.as_chunks::<8>();
    for thread in [0, 31, 47] {
        for (at, space) in spaces.iter().enumerate() {
            let place = (at as u64 * THREADS + thread) as usize * 4;
            let found: Vec<u64> = words[place..place + 3].iter().map(|w| u64::from_le_bytes(*w)).collect();
            let owner = if ["global", "local"].contains(space) { thread } else { 0 };
            let cta = if *space == "shared" { 64 } else { 0 };
            let want = [u64::from(byte(owner, 3)), 1 << at | cta, 0];
            assert_eq!(found, want, "{space}, thread {thread}");
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    let shapes: Vec<Shape> = Shape::all().collect();
    let forms = |opcode: &str, (before, space, behind): Way, shapes: &[Shape]| {
        let form = |shape: &Shape| format!("{opcode}{before}{space}{behind}{}", shape.text());
        shapes.iter().map(form).collect::<Vec<_>>()
    };
    let mut tests = Vec::new();
    for &way in LOADS {
        let shapes = shapes.clone();
        tests.push(Test::check(forms("ld", way, &shapes), move || loads(way, "ld", &shapes)));
    }
    let way = ("", ".global", "");
    let wide = shapes.clone();
    tests.push(Test::check(forms("ldu", way, &shapes), move || loads(way, "ldu", &wide)));
    for &way in STORES {
        let shapes = shapes.clone();
        tests.push(Test::check(forms("st", way, &shapes), move || stores(way, &shapes)));
    }
    let mut of_addresses = Vec::new();
    for space in ["global", "shared", "local", "const", "param"] {
        of_addresses.push(format!("cvta.{space}.u64"));
        of_addresses.push(format!("cvta.to.{space}.u64"));
        of_addresses.push(format!("isspacep.{space}"));
    }
    of_addresses.push("isspacep.shared::cta".to_owned());
    tests.push(Test::check(of_addresses, addresses));
    tests
}
