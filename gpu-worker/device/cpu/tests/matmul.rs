//! Matrix products by `mma` and `wmma`, as compiled by NVRTC, against plain loops. They are
//! compared bit by bit, because the engine sums in the order of k.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use ptx::ParsedModule;
use std::fmt::Write as _;

const BASE: u64 = 0x1000_0000_0000;
const PTX: &str = include_str!("../../../../tests/kernels/matmul_mma.ptx");

/// The f16 of a value that can be represented.
fn half(x: f32) -> u16 {
    if x == 0.0 {
        return 0;
    }
    let bits = x.to_bits();
    assert!(bits & 0x1fff == 0, "{x} is no half");
    ((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3_ffff) - (112 << 10))) as u16
}

/// Multiples of 1/64, a different sequence for each seed.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as i32 % 1024 - 512) as f32 / 64.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Runs an entry on matrices of bytes; returns the bytes of the third one.
fn run(
    (isa, threads): (Isa, usize),
    entry: &str,
    (grid, block): ([u32; 3], u32),
    [a, b]: [&[u8]; 2],
    (m, n, k): (u32, u32, u32),
) -> Vec<u8> {
    let module = ParsedModule::parse(PTX).expect("parses");
    let program = Program::build_for(&module, isa).expect("decodes");
    let mut memory = Memory::new(BASE, 16 << 20, 16 << 20).expect("reserved");
    let size = 4 * u64::from(m * n);
    let places = [BASE, BASE + (1 << 20), BASE + (2 << 20)];
    for (at, bytes) in places.into_iter().zip([a, b]) {
        memory.alloc(at, bytes.len() as u64).expect("room");
        memory.write(at, bytes).expect("live");
    }
    memory.alloc(places[2], size).expect("room");
    let instance = Instance::new(&program, &mut memory).expect("placed");
    let mut params: Vec<u8> = places.iter().flat_map(|at| at.to_le_bytes()).collect();
    params.extend([m, n, k].iter().flat_map(|n| n.to_le_bytes()));
    let engine = Engine::new(EngineConfig {
        threads,
        ..EngineConfig::default()
    });
    let index = program.entry(entry).expect("defined");
    let grid = Grid {
        grid,
        block: [block, 1, 1],
        shared: 0,
    };
    engine
        .launch(&instance, index, grid, &params, &mut memory)
        .unwrap_or_else(|error| panic!("{entry}: {error}"));
    let mut out = vec![0; size as usize];
    memory.read(places[2], &mut out).expect("live");
    out
}

fn check_half(entry: &str, (m, n, k): (u32, u32, u32), grid: [u32; 3], block: u32) {
    let [rows, columns, depth] = [m, n, k].map(|size| size as usize);
    let (a, b) = (numbers(rows * depth, 3), numbers(depth * columns, 5));
    let bytes =
        |list: &[f32]| -> Vec<u8> { list.iter().flat_map(|x| half(*x).to_le_bytes()).collect() };
    let mut want = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            let sum = (0..depth).fold(0.0_f32, |sum, k| {
                a[row * depth + k].mul_add(b[k * columns + column], sum)
            });
            want.extend(sum.to_le_bytes());
        }
    }
    for means in [(Isa::detect(), 1), (Isa::detect(), 2), (Isa::Portable, 1)] {
        let sides = [&bytes(&a)[..], &bytes(&b)];
        let got = run(means, entry, (grid, block), sides, (m, n, k));
        let differs = (0..rows * columns).find(|at| got[4 * at..][..4] != want[4 * at..][..4]);
        assert!(differs.is_none(), "{entry} {means:?} at {differs:?}");
    }
}

#[test]
fn halves_through_shared_memory_and_mma() {
    check_half("matmul_f16_mma", (128, 192, 96), [3, 2, 1], 128);
    check_half("matmul_f16_mma", (64, 64, 32), [1, 1, 1], 128);
}

#[test]
fn halves_through_wmma() {
    // Ten warps for nine tiles; the last one has no work.
    check_half("matmul_f16_wmma", (48, 48, 80), [5, 1, 1], 64);
}

#[test]
fn bytes_through_mma() {
    let (m, n, k) = (48_usize, 24, 64);
    let byte = |x: f32| x as i8;
    let a: Vec<i8> = numbers(m * k, 7)
        .into_iter()
        .map(|x| byte(16.0 * x))
        .collect();
    let b: Vec<i8> = numbers(n * k, 9)
        .into_iter()
        .map(|x| byte(16.0 * x))
        .collect();
    let mut want = Vec::new();
    for row in 0..m {
        for column in 0..n {
            let products =
                (0..k).map(|at| i32::from(a[row * k + at]) * i32::from(b[column * k + at]));
            want.extend(products.sum::<i32>().to_le_bytes());
        }
    }
    let bytes = |list: &[i8]| list.iter().map(|x| *x as u8).collect::<Vec<u8>>();
    for means in [(Isa::detect(), 1), (Isa::Portable, 2)] {
        let sides = [&bytes(&a)[..], &bytes(&b)];
        let sizes = (m as u32, n as u32, k as u32);
        let got = run(means, "matmul_s8_mma", ([3, 1, 1], 96), sides, sizes);
        assert!(got == want, "{means:?}");
    }
}

/// The tested kernels really contain copies, matrix loads and products.
#[test]
fn the_kernels_use_what_they_are_to_show() {
    let mut missing = String::new();
    for opcode in [
        "cp.async.cg.shared.global",
        "cp.async.commit_group",
        "cp.async.wait_group",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
        "wmma.load.b.sync.aligned.row.m16n16k16.global.f16",
        "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32",
    ] {
        if !PTX.contains(opcode) {
            let _ = writeln!(missing, "{opcode}");
        }
    }
    assert!(missing.is_empty(), "not in the PTX:\n{missing}");
}
