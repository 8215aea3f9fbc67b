//! Every committed kernel builds; the important ones run and are checked.

use device_cpu::{Engine, EngineConfig, FaultKind, Grid, Instance, LaunchError, Memory, Program};
use std::sync::Arc;

const BASE: u64 = 0x1000_0000_0000;

fn kernels() -> impl Iterator<Item = (String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/kernels");
    let files = std::fs::read_dir(folder).expect("the kernels are committed");
    let paths = files.filter_map(|file| file.ok().map(|file| file.path()));
    paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "ptx"))
        .map(|path| {
            (
                path.display().to_string(),
                std::fs::read_to_string(&path).expect("readable"),
            )
        })
}

fn program(name: &str) -> Arc<Program> {
    let (_, text) = kernels()
        .find(|(path, _)| path.ends_with(name))
        .expect("committed");
    Program::build(&text).expect("decodes")
}

struct Bench {
    memory: Memory,
    engine: Engine,
    instance: Instance,
    next: u64,
}

impl Bench {
    fn new(name: &str, config: EngineConfig) -> Self {
        let mut memory = Memory::new(BASE, 16 << 30, 1 << 30).expect("reserved");
        let instance = Instance::new(&program(name), &mut memory).expect("placed");
        Self {
            memory,
            engine: Engine::new(config),
            instance,
            next: BASE,
        }
    }

    fn buffer(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next;
        self.memory.alloc(at, bytes.len() as u64).expect("room");
        self.memory.write(at, bytes).expect("live");
        self.next += (bytes.len() as u64).next_multiple_of(512);
        at
    }

    fn words(&mut self, words: &[u32]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.buffer(&bytes)
    }

    fn floats(&mut self, floats: &[f32]) -> u64 {
        let words: Vec<u32> = floats.iter().map(|x| x.to_bits()).collect();
        self.words(&words)
    }

    fn read(&self, at: u64, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.memory.read(at, &mut bytes).expect("live");
        let (chunks, _) = bytes.as_chunks::<4>();
        chunks
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect()
    }

    fn run(
        &mut self,
        entry: &str,
        grid: u32,
        block: u32,
        params: &[u8],
    ) -> Result<device_cpu::Stats, LaunchError> {
        self.run_shared(entry, grid, block, 0, params)
    }

    fn run_shared(
        &mut self,
        entry: &str,
        grid: u32,
        block: u32,
        shared: u32,
        params: &[u8],
    ) -> Result<device_cpu::Stats, LaunchError> {
        let index = self.instance.program().entry(entry).expect("defined");
        let dims = Grid {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared,
        };
        self.engine
            .launch(&self.instance, index, dims, params, &mut self.memory)
    }
}

/// Packs parameters, each at its natural alignment.
fn params(list: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for bytes in list {
        out.resize(out.len().next_multiple_of(bytes.len()), 0);
        out.extend_from_slice(bytes);
    }
    out
}

macro_rules! params {
    ($($value:expr),* $(,)?) => { params(&[$(&$value.to_le_bytes()),*]) };
}

#[test]
fn every_committed_kernel_builds() {
    let mut count = 0;
    for (path, text) in kernels() {
        let built = Program::build(&text);
        assert!(built.is_ok(), "{path}: {}", built.expect_err("failed"));
        count += 1;
    }
    assert!(count > 5, "found {count} modules");
}

#[test]
fn saxpy_is_a_fused_multiply_add() {
    for threads in [1, 3] {
        let config = EngineConfig {
            threads,
            ..EngineConfig::default()
        };
        let mut bench = Bench::new("saxpy.ptx", config);
        let n = 10_007_u32;
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 1000.0).collect();
        let y: Vec<f32> = (0..n).map(|i| (i % 77) as f32).collect();
        let (px, py) = (bench.floats(&x), bench.floats(&y));
        bench
            .run("saxpy", n.div_ceil(256), 256, &params!(n, 1.7_f32, px, py))
            .expect("runs");
        let got = bench.read(py, n as usize);
        for i in 0..n as usize {
            assert_eq!(
                f32::from_bits(got[i]),
                x[i].mul_add(1.7, y[i]),
                "element {i}"
            );
        }
    }
}

#[test]
fn divergent_loops_end_at_their_own_time() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let out = bench.words(&[0; 1000]);
    bench
        .run("corners_divergence", 4, 256, &params!(out, 1000_u32))
        .expect("runs");
    let want: Vec<u32> = (0..1000_u32)
        .map(|i| {
            let (mut v, mut steps) = (i + 1, 0);
            while v != 1 {
                v = if v % 2 == 0 { v / 2 } else { 3 * v + 1 };
                steps += 1;
            }
            steps
        })
        .collect();
    assert_eq!(bench.read(out, 1000), want);
}

#[test]
fn votes_and_shuffles_see_the_whole_warp() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let v: Vec<u32> = (0..64_u32).map(|i| (i * 37 + 11) % 256).collect();
    let (input, out) = (bench.words(&v), bench.words(&[0; 512]));
    bench
        .run("corners_warp", 1, 64, &params!(input, out))
        .expect("runs");
    let got = bench.read(out, 512);
    for t in 0..64 {
        let (lane, warp) = (t % 32, &v[t / 32 * 32..][..32]);
        let ballot = (0..32).fold(0, |m, l| m | (warp[l] & 1) << l);
        let want = [
            ballot,
            u32::from(warp.iter().any(|x| *x > 250)),
            1,
            if lane >= 3 {
                warp[lane - 3]
            } else {
                warp[lane]
            },
            if lane + 5 < 32 {
                warp[lane + 5]
            } else {
                warp[lane]
            },
            warp[lane ^ 9],
            warp[(lane * 7 + 3) % 32],
            warp[lane / 8 * 8 + 2],
        ];
        assert_eq!(got[t * 8..][..8], want, "thread {t}");
    }
}

#[test]
fn local_memory_sorts() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let mut v: Vec<u32> = (0..512_u32)
        .map(|i| i.wrapping_mul(2_654_435_761) >> 7)
        .collect();
    let (input, out) = (bench.words(&v), bench.words(&[0; 512]));
    bench
        .run("corners_local", 1, 64, &params!(input, out))
        .expect("runs");
    for keys in v.chunks_mut(8) {
        keys.sort_unstable();
    }
    assert_eq!(bench.read(out, 512), v);
}

#[test]
fn module_variables_live_as_long_as_the_session() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let out = bench.words(&[0]);
    for round in 0..3 {
        bench
            .run("corners_global", 1, 32, &params!(out))
            .expect("runs");
        assert_eq!(bench.read(out, 1), [41 + round]);
    }
    assert!(
        bench
            .instance
            .global("launches")
            .is_some_and(|(_, size)| size == 4)
    );
}

#[test]
fn functions_are_called() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let x: Vec<f64> = (0..64).map(|i| f64::from(i) * 0.125 - 3.0).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (input, out) = (bench.buffer(&bytes), bench.buffer(&[0; 512]));
    bench
        .run("corners_double", 2, 32, &params!(input, out, 9_i32))
        .expect("runs");
    let mut got = vec![0; 512];
    bench.memory.read(out, &mut got).expect("live");
    for (i, x) in x.iter().enumerate() {
        let sum = (1..=9)
            .rev()
            .fold(0.0_f64, |s, d| s.mul_add(*x, 1.0 / f64::from(d)));
        let want = sum.abs().sqrt() / x.mul_add(*x, 1.0);
        let bytes: [u8; 8] = got[8 * i..][..8].try_into().expect("eight");
        let got = f64::from_le_bytes(bytes);
        assert!(
            (got - want).abs() <= 1e-15 * want.abs(),
            "{x}: {got} {want}"
        );
    }
}

#[test]
fn dynamic_shared_memory_and_barriers() {
    let mut bench = Bench::new("corners.ptx", EngineConfig::default());
    let v: Vec<u32> = (0..512).collect();
    let words = bench.words(&v);
    bench
        .run_shared("corners_dynamic", 2, 256, 1024, &params!(words))
        .expect("runs");
    let want: Vec<u32> = (0..512).map(|i| i / 256 * 256 + 255 - i % 256).collect();
    assert_eq!(bench.read(words, 512), want);
    let error = bench.run_shared("corners_dynamic", 2, 256, 200 << 10, &params!(words));
    assert!(matches!(error, Err(LaunchError::Shared(..))));
}

#[test]
fn blocks_that_wait_for_one_another_make_progress() {
    for threads in [1, 2] {
        let config = EngineConfig {
            threads,
            ..EngineConfig::default()
        };
        let mut bench = Bench::new("spin.ptx", config);
        let lock = bench.words(&[0; 2]);
        bench
            .run("spin_lock", 40, 64, &params!(lock, lock + 4))
            .expect("runs");
        assert_eq!(bench.read(lock, 2), [0, 40 * 64]);
        let ticket = bench.words(&[0; 2]);
        let order = bench.words(&[0; 40]);
        bench
            .run("spin_turns", 40, 32, &params!(ticket, ticket + 4, order))
            .expect("runs");
        let want: Vec<u32> = (0..40).map(|i| 3 * i + 1).collect();
        assert_eq!(bench.read(order, 40), want);
    }
}

fn fault(result: Result<device_cpu::Stats, LaunchError>) -> device_cpu::Fault {
    match result {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

#[test]
fn faults_name_kind_line_thread_and_address() {
    let mut bench = Bench::new("faulty.ptx", EngineConfig::default());
    let p = bench.words(&[7; 16]);
    let out = bench.words(&[0; 1]);
    bench
        .run("faulty_write", 1, 1, &params!(p, 15_u64))
        .expect("the last word is inside");
    let it = fault(bench.run("faulty_write", 1, 1, &params!(p, 16_u64)));
    assert_eq!(
        (it.kind, it.address),
        (FaultKind::IllegalAddress, Some(p + 64))
    );
    assert!(it.line > 0 && it.kernel == "faulty_write");
    let it = fault(bench.run("faulty_misaligned", 1, 1, &params!(p, 2_u64, out)));
    assert_eq!((it.kind, it.address), (FaultKind::Misaligned, Some(p + 2)));
    let it = fault(bench.run("faulty_trap", 1, 96, &params!(77_u32)));
    assert_eq!((it.kind, it.thread), (FaultKind::Trap, [77, 0, 0]));
    let it = fault(bench.run("faulty_shared", 1, 32, &params!(out, 32_u32)));
    assert_eq!(
        (it.kind, it.address),
        (FaultKind::IllegalAddress, Some(128))
    );
    bench.memory.free(p).expect("allocated");
    let it = fault(bench.run("faulty_write", 1, 1, &params!(p, 0_u64)));
    assert_eq!(it.kind, FaultKind::IllegalAddress);
}

#[test]
fn an_endless_kernel_runs_out_of_fuel() {
    let config = EngineConfig {
        fuel: 1_000_000,
        ..EngineConfig::default()
    };
    let mut bench = Bench::new("faulty.ptx", config);
    let stop = bench.words(&[0; 2]);
    let it = fault(bench.run("faulty_endless", 1, 32, &params!(stop, stop + 4)));
    assert_eq!(it.kind, FaultKind::Timeout);
}

#[test]
fn launches_are_checked() {
    let mut bench = Bench::new("saxpy.ptx", EngineConfig::default());
    let good = params!(1_u32, 1_f32, BASE, BASE);
    assert!(matches!(
        bench.run("saxpy", 0, 1, &good),
        Err(LaunchError::Grid(_))
    ));
    assert!(matches!(
        bench.run("saxpy", 1, 1025, &good),
        Err(LaunchError::Block(_))
    ));
    assert!(matches!(
        bench.run("saxpy", 1, 1, &good[1..]),
        Err(LaunchError::Params { .. })
    ));
}
