//! Random kernels with branches and loops: the same bits, faults and counts as in the interpreter.

use super::{BASE, Choice, DATA, HEAD, RESULTS, instruction, results};
use device_cpu::{
    Engine, EngineConfig, Grid, Instance, Isa, LaunchError, Memory, Program, Progress, Stats,
};
use proptest::prelude::*;
use ptx::ParsedModule;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

/// A statement of a kernel.
#[derive(Clone, Debug)]
enum Statement {
    Plain(Choice),
    /// A load or store at an address in steps: its kind, its address register, its offset.
    Access(u8, u8, u8),
    /// Under a condition: equal in all lanes, all or none, or arbitrary.
    If(u8, Vec<Statement>),
    /// A fixed number of times, or as often as the lane's number.
    Loop(u8, Vec<Statement>),
    Barrier,
}

fn statements() -> impl Strategy<Value = Vec<Statement>> {
    let plain = (any::<usize>(), any::<[u8; 4]>(), any::<u8>());
    let leaf = prop_oneof![
        6 => plain.prop_map(Statement::Plain),
        4 => any::<(u8, u8, u8)>().prop_map(|(a, b, c)| Statement::Access(a, b, c)),
        1 => Just(Statement::Barrier),
    ];
    let tree = leaf.prop_recursive(3, 40, 6, |inner| {
        let list = proptest::collection::vec(inner, 1..6);
        prop_oneof![
            (any::<u8>(), list.clone()).prop_map(|(kind, list)| Statement::If(kind, list)),
            (any::<u8>(), list).prop_map(|(kind, list)| Statement::Loop(kind, list)),
        ]
    });
    proptest::collection::vec(tree, 1..12)
}

/// Addresses in steps: consecutive words, with gaps, backwards, one for all; shared ones too.
const STEPPED: &str = "
.reg .b64 %g<8>;
.reg .b32 %c<64>;
.reg .b32 %m, %z;
.reg .pred %b<64>;
.reg .pred %y;
mul.wide.u32 %g0, %i, 4;
add.s64 %g0, %g0, %a;
mul.wide.u32 %g1, %i, 8;
add.s64 %g1, %g1, %a;
mov.u64 %g2, %a;
mul.wide.s32 %g3, %i, -4;
add.s64 %g3, %g3, %a;
add.s64 %g3, %g3, 2048;
mov.u64 %g4, tile;
mul.wide.u32 %g5, %i, 4;
add.s64 %g4, %g4, %g5;
mov.u64 %g5, tile;
mov.u32 %m, tile;
shl.b32 %z, %i, 3;
add.u32 %m, %m, %z;
";

fn access(text: &mut String, kind: u8, register: u8, offset: u8) {
    let place = match kind % 7 {
        at @ 0..4 => format!("global.u32 [%g{at}+{}]", 4 * u32::from(offset % 16)),
        at @ 4..6 => format!("shared.u32 [%g{at}+{}]", 4 * u32::from(offset % 16)),
        _ => format!("shared.u32 [%m+{}]", 4 * u32::from(offset % 16)),
    };
    let (space, address) = place.split_once(' ').expect("a place");
    let guard = match offset / 16 {
        n @ 0..4 => format!("@%p{n} "),
        _ => String::new(),
    };
    let register = register % 8;
    if (kind / 7).is_multiple_of(2) {
        writeln!(text, "{guard}ld.{space} %r{register}, {address};").expect("memory");
    } else {
        writeln!(text, "{guard}st.{space} {address}, %r{register};").expect("memory");
    }
}

/// Writes statements; `labels` numbers those with jumps, `parted` means that lanes may have
/// diverged.
fn write(text: &mut String, list: &[Statement], labels: &mut usize, parted: bool) {
    for statement in list {
        match statement {
            Statement::Plain(choice) => instruction(text, choice),
            Statement::Access(kind, register, offset) => access(text, *kind, *register, *offset),
            Statement::Barrier if parted => {}
            Statement::Barrier => text.push_str("bar.sync 0;\n"),
            Statement::If(kind, inner) => {
                let n = *labels;
                *labels += 1;
                let apart = match kind % 5 {
                    0 => format!("setp.eq.u32 %b{n}, %n, {n};\n"),
                    1 => format!("setp.lt.u32 %b{n}, %i, {};\n", 32 * (n + 1)),
                    2 => format!("setp.ge.u32 %b{n}, %i, {};\n", n * 5),
                    3 => format!("setp.lt.s32 %b{n}, %r{}, 9;\n", n % 8),
                    _ => format!("and.b32 %c{n}, %i, 1;\nsetp.ne.u32 %b{n}, %c{n}, 0;\n"),
                };
                let not = if kind & 64 == 0 { "" } else { "!" };
                writeln!(text, "{apart}@{not}%b{n} bra SKIP{n};").expect("memory");
                write(text, inner, labels, true);
                writeln!(text, "SKIP{n}:").expect("memory");
            }
            Statement::Loop(kind, inner) => {
                let n = *labels;
                *labels += 1;
                let times = u32::from(kind / 4 % 4);
                let uniform = kind % 4 < 2;
                let limit = if uniform {
                    format!("mov.u32 %c{n}, {times};\n")
                } else {
                    format!("and.b32 %c{n}, %i, {};\n", 4 * times + 3)
                };
                writeln!(text, "{limit}LOOP{n}:").expect("memory");
                write(text, inner, labels, parted || !uniform);
                let count = format!("sub.u32 %c{n}, %c{n}, 1;\nsetp.gt.s32 %b{n}, %c{n}, 0;\n");
                writeln!(text, "{count}@%b{n} bra LOOP{n};").expect("memory");
            }
        }
    }
}

fn source(list: &[Statement]) -> Option<String> {
    let mut text = HEAD.to_owned() + STEPPED;
    let mut labels = 0;
    write(&mut text, list, &mut labels, false);
    results(&mut text);
    (labels < 64).then_some(text)
}

/// Result of a launch: bytes and cost, or the place of its fault.
type Outcome = Result<(Vec<u8>, Stats), String>;

fn run(text: &str, isa: Isa, block: [u32; 3], config: EngineConfig, budget: u64) -> Outcome {
    let module = ParsedModule::parse(text).map_err(|error| format!("{error}\n{text}"))?;
    let program = Program::build_for(&module, isa).map_err(|error| format!("{error}\n{text}"))?;
    let mut memory = Memory::new(BASE, 1 << 30, 1 << 20).expect("a window");
    let threads: u32 = block.iter().product();
    let size = DATA + threads as usize * 4 * RESULTS;
    memory.alloc(BASE, size as u64).expect("room");
    let data: Vec<u8> = (0..DATA).map(|at| (at * at * 31 % 251) as u8).collect();
    memory.write(BASE, &data).expect("allocated");
    let instance = Instance::new(&program, &mut memory).expect("room");
    let grid = Grid {
        grid: [2, 1, 1],
        block,
        shared: 0,
    };
    let engine = Engine::new(config);
    let started = engine.start(&instance, 0, grid, &BASE.to_le_bytes());
    let mut running = started.map_err(|error| error.to_string())?;
    let stop = AtomicBool::new(false);
    let stats = loop {
        match running.step(&mut memory, budget, &stop) {
            Ok(Progress::Running) => {}
            Ok(Progress::Done(stats)) => break stats,
            Err(fault) => return Err(format!("{fault:?}")),
        }
    };
    let mut bytes = vec![0; size];
    memory.read(BASE, &mut bytes).expect("allocated");
    Ok((bytes, stats))
}

fn compare(
    list: &[Statement],
    block: [u32; 3],
    config: EngineConfig,
    budget: u64,
) -> Result<(), TestCaseError> {
    let Some(text) = source(list) else {
        return Ok(());
    };
    let interpreted = run(&text, Isa::Avx2, block, config, budget);
    let native = run(&text, Isa::Native, block, config, budget);
    match (&interpreted, &native) {
        (Ok((bytes, stats)), Ok((others, counted))) => {
            let at = bytes.iter().zip(others).position(|(a, b)| a != b);
            let same = at.is_none() && stats == counted;
            prop_assert!(same, "byte {at:?}, {stats:?}, {counted:?}\n{text}");
        }
        _ => prop_assert!(interpreted == native, "{interpreted:?}\n{native:?}\n{text}"),
    }
    Ok(())
}

fn blocks() -> impl Strategy<Value = [u32; 3]> {
    prop_oneof![
        Just([32, 1, 1]),
        Just([96, 1, 1]),
        Just([50, 1, 1]),
        Just([32, 2, 1]),
        Just([32, 1, 3]),
        Just([16, 4, 1]),
        Just([8, 4, 2]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn branches_and_loops_leave_the_same_bits(list in statements(), block in blocks()) {
        compare(&list, block, EngineConfig::default(), u64::MAX)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn fuel_and_preemption_come_at_the_same_places(
        list in statements(),
        block in blocks(),
        fuel in 20_u64..2000,
        budget in 1_u64..60,
    ) {
        let config = EngineConfig { fuel, ..EngineConfig::default() };
        compare(&list, block, config, u64::MAX)?;
        compare(&list, block, EngineConfig::default(), budget)?;
    }
}

/// A loop over an array in steps, with a given number of words per lane.
fn walk(step: &str, address: &str) -> String {
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry test(.param .u64 data, .param .u32 first)
{{
.reg .b32 %r<8>;
.reg .b64 %d<4>;
.reg .pred %p<2>;
ld.param.u64 %d0, [data];
ld.param.u32 %r0, [first];
mov.u32 %r1, %tid.x;
mov.u32 %r5, 7;
mov.u32 %r4, 0;
AGAIN:
add.u32 %r2, %r1, %r0;
{address}
add.s64 %d2, %d0, %d1;
ld.global.u32 %r3, [%d2];
add.u32 %r5, %r5, %r3;
st.global.u32 [%d2], %r5;
add.u32 %r0, %r0, {step};
add.u32 %r4, %r4, 1;
setp.lt.u32 %p0, %r4, 40;
@%p0 bra AGAIN;
ret;
}}
"
    )
}

#[test]
fn faults_and_wraps_in_loops_are_the_same() {
    let forms = [
        "mul.wide.u32 %d1, %r2, 4;",
        "mul.wide.s32 %d1, %r2, 4;",
        "cvt.u64.u32 %d1, %r2;\nshl.b64 %d1, %d1, 2;",
        "shl.b32 %r6, %r2, 2;\ncvt.s64.s32 %d1, %r6;",
        "mul.wide.u32 %d1, %r2, 6;",
    ];
    let firsts = [0_u32, 1, 900, u32::MAX - 15, u32::MAX / 2 - 7, 0x4000_0000];
    for (form, step) in forms.iter().flat_map(|form| [(form, "32"), (form, "-3")]) {
        let text = walk(step, form);
        for first in firsts {
            let outcomes = [Isa::Avx2, Isa::Native].map(|isa| {
                let module = ParsedModule::parse(&text).expect("a module");
                let program = Program::build_for(&module, isa).expect("a program");
                let mut memory = Memory::new(BASE, 1 << 30, 1 << 20).expect("a window");
                memory.alloc(BASE, 4096).expect("room");
                let instance = Instance::new(&program, &mut memory).expect("room");
                let grid = Grid::flat(1, 64);
                let params = [&BASE.to_le_bytes()[..], &first.to_le_bytes()].concat();
                let engine = Engine::new(EngineConfig::default());
                match engine.launch(&instance, 0, grid, &params, &mut memory) {
                    Ok(stats) => {
                        let mut left = vec![0; 4096];
                        memory.read(BASE, &mut left).expect("allocated");
                        Ok((left, stats))
                    }
                    Err(LaunchError::Fault(fault)) => Err(format!("{fault:?}")),
                    Err(error) => panic!("{error}"),
                }
            });
            assert!(outcomes[0] == outcomes[1], "{first}\n{text}");
        }
    }
}

#[test]
fn constant_memory_read_by_a_kernel_is_still_not_written() {
    let text = "
.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b8 table[256];
.visible .entry test()
{
.reg .b32 %r<4>;
.reg .b64 %d<4>;
mov.u64 %d0, table;
cvta.const.u64 %d0, %d0;
mov.u32 %r0, %tid.x;
mul.wide.u32 %d1, %r0, 4;
add.s64 %d2, %d0, %d1;
ld.global.u32 %r1, [%d2];
add.u32 %r1, %r1, 1;
st.global.u32 [%d2], %r1;
ret;
}
";
    let outcomes = [Isa::Avx2, Isa::Native].map(|isa| {
        let module = ParsedModule::parse(text).expect("a module");
        let program = Program::build_for(&module, isa).expect("a program");
        let mut memory = Memory::new(BASE, 1 << 30, 1 << 20).expect("a window");
        let instance = Instance::new(&program, &mut memory).expect("room");
        let grid = Grid::flat(1, 32);
        let engine = Engine::new(EngineConfig::default());
        match engine.launch(&instance, 0, grid, &[], &mut memory) {
            Err(LaunchError::Fault(fault)) => format!("{fault:?}"),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(outcomes[0], outcomes[1]);
}
