//! Prints what the engine costs: nanoseconds per thread instruction of three kernels, and of an
//! empty launch. Counts are dynamic PTX instructions of active warps, 32 threads each.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Memory, Program};
use std::time::Instant;

const BASE: u64 = 0x1000_0000_0000;

const KERNELS: &str = include_str!("engine_speed.ptx");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut memory = Memory::new(BASE, 16 << 30, 1 << 30)?;
    let program = Program::build(KERNELS)?;
    let instance = Instance::new(&program, &mut memory)?;
    let engine = Engine::new(EngineConfig::default());
    memory.alloc(BASE, 64 << 20)?;
    memory.fill(BASE, 0x3f80_0000, 4, 16 << 20)?;
    let mut run = |name: &str, grid: [u32; 3], block: u32, params: &[u8], times: u32| {
        let entry = program.entry(name).ok_or(name.to_owned())?;
        let dims = Grid {
            grid,
            block: [block, 1, 1],
            shared: 0,
        };
        let mut best = f64::MAX;
        let mut instructions = 0;
        for _ in 0..5 {
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
    let (ns, _) = run("empty", [1; 3], 1, &[], 200_000)?;
    println!("empty launch: {ns:.0} ns");
    let address = |n: u64| (BASE + (n << 24)).to_le_bytes();
    let n = (1_u32 << 20).to_le_bytes();
    let saxpy = [&n[..], &1.5_f32.to_le_bytes(), &address(0), &address(1)].concat();
    let size = 512_u32.to_le_bytes();
    let matmul = [&address(0)[..], &address(1), &address(2), &size].concat();
    let reduce = [&address(0)[..], &address(1), &n].concat();
    for (name, grid, params) in [
        ("saxpy", [1 << 12, 1, 1], &saxpy),
        ("matmul", [32, 32, 1], &matmul),
        ("reduce", [1 << 12, 1, 1], &reduce),
    ] {
        let (ns, instructions) = run(name, grid, 256, params, 1)?;
        let per = ns / (instructions as f64 * 32.0);
        println!(
            "{name}: {:.2} ms, {per:.3} ns per thread instruction",
            ns / 1e6
        );
    }
    Ok(())
}
