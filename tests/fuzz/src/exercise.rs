//! Runs one module through everything it can reach: parse, summary, decode, placement, every entry.
//!
//! Shared by the libFuzzer target and by the tests of the CPU device.

use device_cpu::{
    Engine, EngineConfig, Grid, Instance, Isa, LaunchError, Memory, Program, Progress, Stats,
};
use ptx::{LinkImage, ModuleInfo, ParsedModule};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Start of the session's address window.
const BASE: u64 = 0x1000_0000_0000;
/// Size of the buffer that parameters point into, in bytes.
const BUFFER: u64 = 1 << 16;
/// Limit of warp instructions of one launch.
const FUEL: u64 = 10_000;
/// Maximum number of a module's entries that are run.
const ENTRIES: usize = 4;
/// Maximum number of a module's variables that are read.
const VARIABLES: usize = 16;

/// A hash of the input; the inputs of a launch depend on nothing else.
fn seed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Parameters of which every word may be a pointer, with one byte changed.
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

/// The result of a launch, and its printed output.
type Ending = (Result<Stats, LaunchError>, Vec<u8>);

/// The result of a module: the ending of each entry, and the bytes of the session's buffer and of
/// the module's own variables.
#[derive(Debug, PartialEq)]
struct RunResult {
    endings: Vec<Ending>,
    memory: Vec<Vec<u8>>,
}

/// Runs a launch in steps, so that it is parked and resumed; its fuel bounds it.
fn launch(
    engine: &Engine,
    (instance, entry): (&Instance, usize),
    grid: Grid,
    params: &[u8],
    memory: &mut Memory,
) -> Ending {
    let mut running = match engine.start(instance, entry, grid, params) {
        Ok(running) => running,
        Err(error) => return (Err(error), Vec::new()),
    };
    let kill = AtomicBool::new(false);
    let ended = loop {
        match running.step(memory, FUEL / 3, &kill) {
            Ok(Progress::Running) => {}
            Ok(Progress::Done(stats)) => break Ok(stats),
            Err(fault) => break Err(LaunchError::Fault(fault)),
        }
    };
    let printed = running.printed();
    engine.recycle(running);
    (ended, printed)
}

/// Runs every entry.
fn run(program: &Arc<Program>, module: &ParsedModule<'_>, seed: u64) -> Option<RunResult> {
    let mut memory = Memory::new(BASE, 128 << 20, 32 << 20).ok()?;
    memory.alloc(BASE, BUFFER).ok()?;
    let start: Vec<u8> = (0..BUFFER).map(|at| ((at * 7) >> 3) as u8).collect();
    memory.write(BASE, &start).ok()?;
    let instance = Instance::new(program, &mut memory).ok()?;
    let engine = Engine::new(EngineConfig {
        fuel: FUEL,
        ..EngineConfig::default()
    });
    let block = [[48, 2, 1], [32, 1, 1], [7, 3, 2], [256, 1, 1]][(seed >> 16) as usize % 4];
    let grid = Grid {
        grid: [2, 1, 1],
        block,
        shared: 64,
    };
    // Faults and refusals are fine; a panic, a hang or a write outside the session is not.
    let sizes: Vec<u32> = program.entries().map(|(_, bytes)| bytes).collect();
    let entries = sizes.into_iter().enumerate().take(ENTRIES);
    let endings = entries
        .map(|(entry, size)| {
            let params = params(size, seed);
            launch(&engine, (&instance, entry), grid, &params, &mut memory)
        })
        .collect();
    let own = module.variables.iter().take(VARIABLES);
    let places = own.filter_map(|variable| instance.global(variable.name));
    let mut bytes = Vec::new();
    for (address, size) in [(BASE, BUFFER)].into_iter().chain(places) {
        let mut out = vec![0; size.min(BUFFER) as usize];
        memory.read(address, &mut out).ok()?;
        bytes.push(out);
    }
    instance.release(&mut memory);
    Some(RunResult {
        endings,
        memory: bytes,
    })
}

/// Parses, decodes, links and runs a module. A linked module must decode again. All engines must
/// give the same result: native code and the interpreter, and sometimes the portable lane loops.
pub(crate) fn exercise(bytes: &[u8]) {
    let _ = ModuleInfo::parse(bytes);
    let Ok(module) = ParsedModule::parse_bytes(bytes) else {
        return;
    };
    let seed = seed(bytes);
    let Ok(program) = Program::build_for(&module, Isa::Native) else {
        return;
    };
    let found = run(&program, &module, seed);
    let image = LinkImage {
        name: "one",
        image: bytes,
    };
    if let Ok(linked) = ptx::link(&[image]) {
        let again = Program::build(&linked);
        assert!(again.is_ok(), "linked: {:?}\n{linked}", again.err());
    }
    let portable = (seed & 14 == 0).then_some(Isa::Portable);
    for isa in [Isa::Avx2].into_iter().chain(portable) {
        let other = Program::build_for(&module, isa).expect("it decoded before");
        let did = run(&other, &module, seed);
        let endings =
            |result: &Option<RunResult>| result.as_ref().map(|it| format!("{:?}", it.endings));
        assert!(
            did == found,
            "{isa:?} {:?}\nnative {:?}",
            endings(&did),
            endings(&found)
        );
    }
}
