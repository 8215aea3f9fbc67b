//! Prints what the engine costs: nanoseconds per thread instruction of three kernels, and of an
//! empty launch, alone and in the slices of a device. Counts are dynamic PTX instructions of active
//! warps, 32 threads each.

use bus_schemas::{Launch, ModuleHash, Op};
use device::Device;
use device_cpu::{CpuConfig, CpuDevice, Engine, EngineConfig, Grid, Instance, Memory, Program};
use std::time::{Duration, Instant};

const BASE: u64 = 0x1000_0000_0000;

const KERNELS: &str = include_str!("engine_speed.ptx");

/// Launches of a slice, as many as a client sends in a batch.
const SLICE: usize = 64;

/// Nanoseconds of an empty launch in the slices of a device of one thread.
fn empty_in_slices() -> Result<f64, String> {
    let mut device = CpuDevice::new(CpuConfig {
        threads: 1,
        ..CpuConfig::default()
    });
    let hash = ModuleHash::of(KERNELS.as_bytes());
    let failed = |failure: bus_schemas::Failure| failure.to_string();
    device.prepare(hash, KERNELS.as_bytes()).map_err(failed)?;
    let mut program = device_conformance::Program::new(1);
    let (session, window) = (program.session(), program.window());
    device.open(session, window, None).map_err(failed)?;
    let load = program.slice(&[(Op::LoadModule { slot: 0, hash }, &[])]);
    let launch = Op::Launch(Launch {
        module: 0,
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
    });
    let ops: [(Op, &[u8]); SLICE] = [(launch, &[]); SLICE];
    let mut completions = Vec::new();
    device.submit(load);
    device.poll(Duration::from_secs(1), &mut completions);
    let mut best = Duration::MAX;
    for _ in 0..500 {
        let slices: Vec<_> = (0..50).map(|_| program.slice(&ops)).collect();
        let start = Instant::now();
        for slice in slices {
            device.submit(slice);
            device.poll(Duration::from_secs(1), &mut completions);
        }
        best = best.min(start.elapsed());
    }
    match completions.iter().find_map(|done| done.fault.clone()) {
        Some((_, failure)) => Err(failure.to_string()),
        None => Ok(best.as_secs_f64() * 1e9 / (50 * SLICE) as f64),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Memory::new(BASE, 16 << 30, 1 << 30)?;
    let program = Program::build(KERNELS)?;
    let instance = Instance::new(&program, &mut memory)?;
    let engine = Engine::new(EngineConfig::default());
    memory.alloc(BASE, 64 << 20)?;
    memory.fill(BASE, 0x3f80_0000, 4, 16 << 20)?;
    let mut run =
        |name: &str, grid: [u32; 3], block: u32, params: &[u8], (rounds, times): (u32, u32)| {
            let entry = program.entry(name).ok_or(name.to_owned())?;
            let dims = Grid {
                grid,
                block: [block, 1, 1],
                shared: 0,
            };
            let mut best = f64::MAX;
            let mut instructions = 0;
            for _ in 0..rounds {
                let start = Instant::now();
                for _ in 0..times {
                    let stats = engine
                        .launch(&instance, entry, dims, params, &mut memory)
                        .map_err(|error| error.to_string())?;
                    instructions = stats.instructions;
                }
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(times));
            }
            Ok::<_, String>((best, instructions))
        };
    let (ns, _) = run("empty", [1; 3], 1, &[], (500, 2_000))?;
    println!("empty launch: {ns:.1} ns");
    println!("empty launch in slices: {:.1} ns", empty_in_slices()?);
    let address = |n: u64| (BASE + (n << 24)).to_le_bytes();
    let n = (1_u32 << 18).to_le_bytes();
    let saxpy = [&n[..], &1.5_f32.to_le_bytes(), &address(0), &address(1)].concat();
    let size = 128_u32.to_le_bytes();
    let matmul = [&address(0)[..], &address(1), &address(2), &size].concat();
    let reduce = [&address(0)[..], &address(1), &n].concat();
    for (name, grid, params) in [
        ("saxpy", [1 << 10, 1, 1], &saxpy),
        ("matmul", [8, 8, 1], &matmul),
        ("reduce", [1 << 10, 1, 1], &reduce),
    ] {
        let (ns, instructions) = run(name, grid, 256, params, (50, 1))?;
        let per = ns / (instructions as f64 * 32.0);
        println!(
            "{name}: {:.3} ms, {per:.4} ns per thread instruction",
            ns / 1e6
        );
    }
    Ok(())
}
