//! One module through all it can reach: parse, summary, decode, placement, every entry.
//!
//! Shared by the libFuzzer target and by the tests of the CPU device.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use ptx::{LinkImage, Module, ModuleInfo};
use std::sync::Arc;

/// Where the session's window begins.
const BASE: u64 = 0x1000_0000_0000;
/// Bytes of the buffer that parameters point into.
const BUFFER: u64 = 1 << 16;
/// Warp instructions of one launch.
const FUEL: u64 = 10_000;
/// Entries of one module that are run.
const ENTRIES: usize = 4;

/// A hash of the input: what a launch is given depends on nothing else.
fn seed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Parameters of which every word may be a pointer, one byte of them disturbed.
fn params(size: u32, seed: u64) -> Vec<u8> {
    let size = size as usize;
    let mut params = BASE.to_le_bytes().repeat(size / 8 + 1);
    params.truncate(size);
    if seed & 1 != 0
        && let Some(byte) = params.get_mut((seed >> 8) as usize % size.max(1))
    {
        *byte ^= (seed >> 32) as u8;
    }
    params
}

/// Runs every entry and gives back what the session's buffer then holds.
fn run(program: &Arc<Program>, seed: u64) -> Option<Vec<u8>> {
    let mut memory = Memory::new(BASE, 128 << 20, 32 << 20).ok()?;
    memory.alloc(BASE, BUFFER).ok()?;
    let start: Vec<u8> = (0..BUFFER).map(|at| ((at * 7) >> 3) as u8).collect();
    memory.write(BASE, &start).ok()?;
    let instance = Instance::new(program, &mut memory).ok()?;
    let config = EngineConfig {
        fuel: FUEL,
        ..EngineConfig::default()
    };
    let engine = Engine::new(config);
    let sizes: Vec<u32> = program.entries().map(|(_, bytes)| bytes).collect();
    let block = [[48, 2, 1], [32, 1, 1], [7, 3, 2], [256, 1, 1]][(seed >> 16) as usize % 4];
    let grid = Grid {
        grid: [2, 1, 1],
        block,
        shared: 64,
    };
    for (entry, size) in sizes.into_iter().enumerate().take(ENTRIES) {
        // Faults and refusals are good ends; what must not happen is a panic, a hang or a write
        // outside the session.
        let _ = engine.launch(&instance, entry, grid, &params(size, seed), &mut memory);
    }
    instance.release(&mut memory);
    let mut out = vec![0; BUFFER as usize];
    memory.read(BASE, &mut out).ok()?;
    Some(out)
}

/// Parses, decodes, links and runs; what was linked must decode again, and where the text asks for no clock, the portable lane loops must leave
/// the same bytes as the vector ones.
pub(crate) fn exercise(bytes: &[u8]) {
    let _ = ModuleInfo::parse(bytes);
    let Ok(module) = Module::parse_bytes(bytes) else {
        return;
    };
    let seed = seed(bytes);
    let Ok(program) = Program::build_for(&module, Isa::detect()) else {
        return;
    };
    let found = run(&program, seed);
    let image = LinkImage {
        name: "one",
        image: bytes,
    };
    if let Ok(linked) = ptx::link(&[image]) {
        let again = Program::build(&linked);
        assert!(again.is_ok(), "linked: {:?}\n{linked}", again.err());
    }
    if seed & 14 == 0 {
        let portable = Program::build_for(&module, Isa::Portable).expect("it decoded before");
        assert!(run(&portable, seed) == found, "lane loops differ");
    }
}
