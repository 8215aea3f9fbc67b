//! Generated code against the interpreter, bit for bit: random programs. `ops/workloads/tests/suite.rs`
//! does the same for the benchmark's kernels.

mod flow;
#[path = "../launch/mod.rs"]
mod launch;

use device_cpu::{EngineConfig, Grid, Isa, LaunchError, Program};
use launch::{BASE, launch};
use proptest::prelude::*;
use ptx::ParsedModule;
use std::fmt::Write;

/// Bytes that the random programs read and write, before their results.
const DATA: usize = 4096;
/// Results of a thread, four bytes each.
const RESULTS: usize = 8 + 8 + 2 * 4 + 1;

/// One instruction: an opcode with its operands still numbers.
type Choice = (usize, [u8; 4], u8);

/// Opcodes with the kinds of their operands. `r` are words, `f` floats, `d` doubles, and `p`
/// predicates. `a` and `s` are addresses in global and shared memory; `v` and `w` are two and four
/// floats.
const OPCODES: &[(&str, &str)] = &[
    ("mov.u32", "rr"),
    ("mov.b32", "fr"),
    ("mov.b32", "rf"),
    ("mov.u64", "dd"),
    ("add.s32", "rrr"),
    ("sub.u32", "rrr"),
    ("mul.lo.s32", "rrr"),
    ("mad.lo.s32", "rrrr"),
    ("mul.wide.s32", "drr"),
    ("mul.wide.u32", "drr"),
    ("mad.wide.s32", "drrd"),
    ("min.s32", "rrr"),
    ("max.u32", "rrr"),
    ("and.b32", "rrr"),
    ("or.b32", "rrr"),
    ("xor.b32", "rrr"),
    ("not.b32", "rr"),
    ("neg.s32", "rr"),
    ("shl.b32", "rrr"),
    ("shr.u32", "rrr"),
    ("shr.s32", "rrr"),
    ("add.s64", "ddd"),
    ("sub.s64", "ddd"),
    ("and.b64", "ddd"),
    ("xor.b64", "ddd"),
    ("shl.b64", "ddr"),
    ("shr.u64", "ddr"),
    ("cvt.s64.s32", "dr"),
    ("cvt.u64.u32", "dr"),
    ("cvt.u32.u64", "rd"),
    ("cvt.rn.f32.s32", "fr"),
    ("cvt.rn.f32.u32", "fr"),
    ("cvt.sat.f32.f32", "ff"),
    ("add.f32", "fff"),
    ("sub.ftz.f32", "fff"),
    ("mul.f32", "fff"),
    ("mul.sat.f32", "fff"),
    ("add.rm.f32", "fff"),
    ("mul.rp.ftz.f32", "fff"),
    ("div.rn.f32", "fff"),
    ("min.f32", "fff"),
    ("max.f32", "fff"),
    ("max.ftz.f32", "fff"),
    ("fma.rn.f32", "ffff"),
    ("fma.rz.f32", "ffff"),
    ("fma.rn.ftz.sat.f32", "ffff"),
    ("neg.f32", "ff"),
    ("abs.f32", "ff"),
    ("rcp.rn.f32", "ff"),
    ("sqrt.rn.f32", "ff"),
    ("rsqrt.approx.f32", "ff"),
    ("ex2.approx.f32", "ff"),
    ("ex2.approx.ftz.f32", "ff"),
    ("setp.lt.s32", "prr"),
    ("setp.hi.u32", "prr"),
    ("setp.ne.u32", "prr"),
    ("setp.ge.s64", "pdd"),
    ("setp.lo.u64", "pdd"),
    ("setp.eq.u64", "pdd"),
    ("setp.gt.f32", "pff"),
    ("setp.neu.f32", "pff"),
    ("setp.leu.ftz.f32", "pff"),
    ("setp.ne.f32", "pff"),
    ("setp.lt.and.u32", "prrp"),
    ("and.pred", "ppp"),
    ("xor.pred", "ppp"),
    ("not.pred", "pp"),
    ("selp.b32", "rrrp"),
    ("selp.f32", "fffp"),
    ("selp.b64", "dddp"),
    ("ld.global.u32", "ra"),
    ("ld.global.f32", "fa"),
    ("ld.global.u8", "ra"),
    ("ld.global.s16", "ra"),
    ("ld.global.u64", "da"),
    ("ld.global.v2.f32", "va"),
    ("st.global.u32", "ar"),
    ("st.global.f32", "af"),
    ("st.global.u16", "ar"),
    ("st.global.u64", "ad"),
    ("st.global.v2.f32", "av"),
    ("ld.shared.f32", "fs"),
    ("ld.shared.u64", "ds"),
    ("ld.shared.v4.f32", "ws"),
    ("st.shared.f32", "sf"),
    ("st.shared.u8", "sr"),
    // Not generated, so it splits a run.
    ("popc.b32", "rr"),
];

/// A program of these instructions; it writes its registers behind the data.
fn source(choices: &[Choice]) -> String {
    let mut text = String::from(HEAD);
    for choice in choices {
        instruction(&mut text, choice);
    }
    results(&mut text);
    text
}

/// Writes an instruction; a third of them have a guard.
fn instruction(text: &mut String, (which, operands, guard): &Choice) {
    let (opcode, kinds) = OPCODES[which % OPCODES.len()];
    let list: Vec<String> = kinds
        .chars()
        .zip(operands)
        .enumerate()
        // A result cannot be a number.
        .map(|(at, (kind, number))| operand(kind, if at == 0 { number % 8 } else { *number }))
        .collect();
    let guard = match guard % 12 {
        n @ 0..4 => format!("@%p{n} "),
        4 => "@!%p1 ".to_owned(),
        _ => String::new(),
    };
    writeln!(text, "{guard}{opcode} {};", list.join(", ")).expect("memory");
}

/// Writes the registers behind the data, and ends the kernel.
fn results(text: &mut String) {
    for n in 0..8 {
        writeln!(text, "st.global.u32 [%o+{}], %r{n};", 4 * n).expect("memory");
        writeln!(text, "st.global.f32 [%o+{}], %f{n};", 32 + 4 * n).expect("memory");
    }
    for n in 0..4 {
        writeln!(text, "mov.b64 {{%q{n}, %h{n}}}, %d{n};").expect("memory");
        writeln!(text, "st.global.u32 [%o+{}], %q{n};", 64 + 8 * n).expect("memory");
        writeln!(text, "st.global.u32 [%o+{}], %h{n};", 68 + 8 * n).expect("memory");
        writeln!(
            text,
            "selp.u32 %t, {}, 0, %p{n};\nadd.u32 %u, %u, %t;",
            1 << n
        )
        .expect("memory");
    }
    text.push_str("st.global.u32 [%o+96], %u;\nret;\n}\n");
}

const HEAD: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 data)
{
.reg .b32 %r<8>;
.reg .f32 %f<8>;
.reg .b64 %d<4>;
.reg .pred %p<4>;
.reg .b32 %q<4>;
.reg .b32 %h<4>;
.reg .b32 %t, %u, %i, %s, %n;
.reg .b64 %a, %b, %o, %w;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %a, [data];
mov.u32 %i, %tid.x;
mov.u32 %u, 0;
mad.wide.u32 %o, %i, 100, %a;
add.s64 %o, %o, 4096;
mul.wide.u32 %w, %i, 16;
add.s64 %b, %a, %w;
mul.lo.u32 %n, %i, 16;
mov.u32 %s, tile;
add.u32 %s, %s, %n;
mul.wide.u32 %w, %i, 4;
add.s64 %w, %a, %w;
ld.global.u32 %r0, [%w+2048];
mul.lo.u32 %r1, %i, 77773;
mov.u32 %r2, 5;
xor.b32 %r3, %r0, %r1;
mov.u32 %r4, %i;
mov.u32 %r5, 0x80000000;
mov.u32 %r6, 0xffffffff;
shr.u32 %r7, %r0, 7;
ld.global.f32 %f0, [%w+2112];
cvt.rn.f32.u32 %f1, %i;
mov.f32 %f2, 0f7fc12345;
mov.f32 %f3, 0f80000000;
mov.f32 %f4, 0f00012345;
mov.f32 %f5, 0f3f9d70a4;
mov.f32 %f6, 0fff800000;
ld.global.f32 %f7, [%w+2176];
mul.wide.u32 %d0, %r0, %r1;
mov.u64 %d1, 3;
cvt.s64.s32 %d2, %r5;
mov.u64 %d3, 0x123456789abcdef0;
setp.lt.u32 %p0, %i, 11;
setp.lt.s32 %p1, %r0, 0;
setp.ge.u32 %p2, %i, 0;
setp.lt.u32 %p3, %i, 0;
st.shared.v4.u32 [%s], {%r0, %r1, %r3, %r7};
";

fn operand(kind: char, number: u8) -> String {
    let n = number % 8;
    match kind {
        'r' if number & 0x38 == 0x38 => (i32::from(number) - 200).to_string(),
        'r' => format!("%r{n}"),
        'f' => format!("%f{n}"),
        'd' => format!("%d{}", n % 4),
        'p' => format!("%p{}", n % 4),
        'v' => format!("{{%f{n}, %f{}}}", (n + 3) % 8),
        'w' => format!(
            "{{%f{n}, %f{}, %f{}, %f{}}}",
            (n + 1) % 8,
            (n + 2) % 8,
            (n + 5) % 8
        ),
        // Each thread has its own 16 bytes: contiguous ones, spread ones, and one for all.
        'a' => match n % 3 {
            0 => format!("[%b+{}]", number & 8),
            _ => "[%b]".to_owned(),
        },
        _ => "[%s]".to_owned(),
    }
}

fn run(text: &str, isa: Isa, threads: u32) -> Result<Vec<u8>, String> {
    let module = ParsedModule::parse(text).map_err(|error| format!("{error}\n{text}"))?;
    let program = Program::build_for(&module, isa).map_err(|error| format!("{error}\n{text}"))?;
    let mut bytes: Vec<u8> = (0..DATA).map(|at| (at * at * 31 % 251) as u8).collect();
    bytes.resize(DATA + threads as usize * 4 * RESULTS, 0);
    launch(
        &program,
        EngineConfig::default(),
        Grid::flat(1, threads),
        bytes,
        &[],
    )
    .map_err(|error| format!("{error}\n{text}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs_leave_the_same_bits(
        choices in proptest::collection::vec((any::<usize>(), any::<[u8; 4]>(), any::<u8>()), 1..60),
        threads in prop_oneof![Just(32_u32), Just(64), Just(50)],
    ) {
        let text = source(&choices);
        let interpreted = run(&text, Isa::Avx2, threads).map_err(TestCaseError::fail)?;
        let native = run(&text, Isa::Native, threads).map_err(TestCaseError::fail)?;
        if interpreted != native {
            let at = interpreted.iter().zip(&native).position(|(a, b)| a != b).unwrap_or(0);
            return Err(TestCaseError::fail(format!("byte {at} differs\n{text}")));
        }
    }
}

#[test]
fn every_opcode_alone_leaves_the_same_bits() {
    for (which, opcode) in OPCODES.iter().enumerate() {
        for operands in [
            [0, 1, 2, 3],
            [1, 0, 3, 2],
            [2, 4, 5, 1],
            [3, 7, 6, 0],
            [4, 2, 0, 1],
        ] {
            for guard in [0, 2, 3, 4, 11] {
                let text = source(&[(which, operands, guard)]);
                let interpreted = run(&text, Isa::Avx2, 64).expect("it runs");
                let native = run(&text, Isa::Native, 64).expect("it runs");
                assert!(interpreted == native, "{:?} {operands:?} {guard}", opcode);
            }
        }
    }
}

/// A kernel that writes one word per thread at a stride.
const STRIDED: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 data, .param .u32 stride)
{
.reg .b32 %r<4>;
.reg .b64 %d<4>;
ld.param.u64 %d0, [data];
ld.param.u32 %r0, [stride];
mov.u32 %r1, %tid.x;
mul.lo.u32 %r2, %r0, %r1;
cvt.u64.u32 %d1, %r2;
add.s64 %d2, %d0, %d1;
add.u32 %r3, %r1, 1;
st.global.u32 [%d2], %r3;
ret;
}
";

#[test]
fn faults_name_the_same_thread_and_address() {
    // Past the end by stride, misaligned, and right.
    for (stride, bytes) in [
        (4_u32, 128_u64),
        (4, 124),
        (4, 60),
        (8, 200),
        (2, 128),
        (0, 4),
        (0, 3),
    ] {
        let run = |isa| {
            let module = ParsedModule::parse(STRIDED).expect("a module");
            let program = Program::build_for(&module, isa).expect("a program");
            let (config, grid) = (EngineConfig::default(), Grid::flat(1, 32));
            let room = vec![0; bytes as usize];
            match launch::<u8>(&program, config, grid, room, &stride.to_le_bytes()) {
                Err(LaunchError::Fault(fault)) => {
                    Err((fault.kind, fault.line, fault.thread, fault.address))
                }
                left => Ok(left.unwrap_or_else(|error| panic!("{error}"))),
            }
        };
        assert_eq!(run(Isa::Avx2), run(Isa::Native), "{stride} {bytes}");
    }
}
