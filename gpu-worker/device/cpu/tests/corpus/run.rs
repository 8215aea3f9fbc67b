//! Running a case on the engine.

use crate::compare;
use crate::data;
use crate::manifest::{Arg, Buffer, Case, Launch};
use device_cpu::{BlockOrder, Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use ptx::ParsedModule;
use std::collections::HashMap;
use std::sync::Arc;

const BASE: u64 = 0x1000_0000_0000;

/// Gap between two buffers: an access beyond an end must not reach the next one.
const GAP: u64 = 4096;

/// Engine, threads, and order of blocks of each run. Each run must match the reference, and all
/// must leave the same bytes.
const RUNS: [(Isa, usize, BlockOrder); 4] = [
    (Isa::Avx2, 1, BlockOrder::Ascending),
    (Isa::Native, 1, BlockOrder::Scattered),
    (Isa::Native, 2, BlockOrder::Ascending),
    (Isa::Native, 5, BlockOrder::Descending),
];

/// Cases with bytes that depend on the order of blocks: sums of floats and places in lists, both by
/// atomics. Their results are right in any order.
const BY_CHANCE: [&str; 5] = [
    "numba/block_sum",
    "nvrtc/atomics_lists",
    "nvrtc/sorting_compact",
    "triton/split_k",
    "warp/particles_loss",
];

/// Maximum number of warp instructions of a launch; the largest cases need a few million.
const FUEL: u64 = 400_000_000;

/// Runs a case and compares its results; returns the number of warp instructions in words.
pub(crate) fn check(case: &Case) -> Result<String, String> {
    let data = case.data()?;
    let mut instructions = 0;
    let mut first: Option<Vec<Vec<u8>>> = None;
    for (isa, threads, order) in RUNS {
        let programs = programs(case, isa)?;
        let config = EngineConfig {
            threads,
            fuel: FUEL,
            order,
            ..EngineConfig::default()
        };
        let mut stage = Stage::new(case, &programs, &data)?;
        let engine = Engine::new(config);
        instructions = 0;
        for launch in &case.launches {
            instructions += stage.launch(&engine, launch)?;
        }
        stage
            .compare(&data)
            .map_err(|error| format!("{isa:?} with {threads} threads: {error}"))?;
        let left = stage.contents()?;
        match &first {
            None => first = Some(left),
            Some(first) if *first == left || BY_CHANCE.contains(&case.name.as_str()) => {}
            Some(_) => {
                return Err(format!(
                    "other bytes, {isa:?} with {threads} threads, {order:?}"
                ));
            }
        }
    }
    Ok(format!(" ({instructions} warp instructions)"))
}

/// Builds the case's modules.
fn programs(case: &Case, isa: Isa) -> Result<HashMap<&str, Arc<Program>>, String> {
    let mut programs = HashMap::new();
    for launch in &case.launches {
        if !programs.contains_key(launch.ptx.as_str()) {
            let path = case.folder.join(&launch.ptx);
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            let module = ParsedModule::parse(&text).map_err(|error| error.to_string())?;
            let program = Program::build_for(&module, isa)
                .map_err(|error| format!("{} does not build: {error}", launch.ptx))?;
            programs.insert(launch.ptx.as_str(), program);
        }
    }
    Ok(programs)
}

/// A session's memory with the buffers of a case.
struct Stage<'a> {
    case: &'a Case,
    memory: Memory,
    instances: HashMap<&'a str, Instance>,
    /// Address of each buffer.
    buffers: Vec<u64>,
}

impl<'a> Stage<'a> {
    fn new(
        case: &'a Case,
        programs: &HashMap<&'a str, Arc<Program>>,
        data: &[u8],
    ) -> Result<Self, String> {
        let text = |error: device_cpu::MemoryError| error.to_string();
        let mut memory = Memory::new(BASE, 4 << 30, 1 << 30).map_err(text)?;
        let mut instances = HashMap::new();
        for (name, program) in programs {
            instances.insert(*name, Instance::new(program, &mut memory).map_err(text)?);
        }
        let (mut buffers, mut next) = (Vec::new(), BASE);
        for buffer in &case.buffers {
            let bytes = data::contents(buffer, data)?;
            let at = match &buffer.symbol {
                Some(symbol) => instances
                    .values()
                    .find_map(|instance| instance.global(symbol))
                    .map(|(address, _)| address)
                    .ok_or_else(|| format!("no module has a variable {symbol}"))?,
                None => {
                    let size = bytes.len().max(1) as u64;
                    memory.alloc(next, size).map_err(text)?;
                    let at = next;
                    next += size.next_multiple_of(512) + GAP;
                    at
                }
            };
            memory.write(at, &bytes).map_err(text)?;
            buffers.push(at);
        }
        Ok(Self {
            case,
            memory,
            instances,
            buffers,
        })
    }

    /// Appends one argument to a parameter block.
    fn pack(&self, arg: &Arg, out: &mut Vec<u8>) -> Result<(), String> {
        let (align, bytes) = match arg {
            Arg::Buffer(index, offset) => {
                let base = self.buffers.get(*index).ok_or("no such buffer")?;
                (8, (base + offset).to_le_bytes().to_vec())
            }
            Arg::Bytes(hex, align) => (*align, data::unhex(hex)?),
            Arg::Struct(align, fields) => {
                let mut inside = Vec::new();
                for field in fields {
                    self.pack(field, &mut inside)?;
                }
                inside.resize(inside.len().next_multiple_of(*align), 0);
                (*align, inside)
            }
        };
        out.resize(out.len().next_multiple_of(align), 0);
        out.extend_from_slice(&bytes);
        Ok(())
    }

    fn launch(&mut self, engine: &Engine, launch: &Launch) -> Result<u64, String> {
        let instance = &self.instances[launch.ptx.as_str()];
        let entry = instance
            .program()
            .entry(&launch.entry)
            .ok_or_else(|| format!("{} has no entry {}", launch.ptx, launch.entry))?;
        let mut params = Vec::new();
        for arg in &launch.args {
            self.pack(arg, &mut params)?;
        }
        let dims = Grid {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
        };
        let stats = engine
            .launch(instance, entry, dims, &params, &mut self.memory)
            .map_err(|error| format!("{} in {}: {error}", launch.entry, launch.ptx))?;
        Ok(stats.instructions)
    }

    /// Contents of all buffers.
    fn contents(&self) -> Result<Vec<Vec<u8>>, String> {
        let read = |(buffer, at): (&Buffer, &u64)| {
            let mut bytes = vec![0; data::size(&buffer.dtype)? * buffer.count];
            let read = self.memory.read(*at, &mut bytes);
            read.map_err(|error| error.to_string()).map(|()| bytes)
        };
        self.case
            .buffers
            .iter()
            .zip(&self.buffers)
            .map(read)
            .collect()
    }

    fn compare(&self, data: &[u8]) -> Result<(), String> {
        for check in &self.case.checks {
            let size = data::size(&check.dtype)? * check.count;
            let mut got = vec![0; size];
            let at = self.buffers[check.buffer] + check.from as u64;
            self.memory
                .read(at, &mut got)
                .map_err(|error| error.to_string())?;
            let want = data
                .get(check.data..check.data + size)
                .ok_or("the data file is too short")?;
            compare::compare(check, &got, want)?;
        }
        Ok(())
    }
}
