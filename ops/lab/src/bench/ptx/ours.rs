//! Our side of the suite: the engine, in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use device_cpu::{Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use workloads::Params;
use workloads::suite::{Case, Data};

use super::peer::difference;

/// First of the session's addresses.
const BASE: u64 = 0x1000_0000_0000;
const WINDOW: u64 = 16 << 30;
const CAPACITY: u64 = 1 << 30;

/// A kernel in a session of its own.
#[derive(Debug)]
pub(super) struct Loaded {
    case: &'static Case,
    instance: Instance,
    entry: usize,
    memory: Memory,
    params: Params,
}

impl Loaded {
    /// Decodes the kernel for an instruction set, runs it once, and compares the result with the native
    /// loop's.
    ///
    /// # Errors
    /// If it does not decode, faults, or computes a wrong result.
    pub(super) fn checked(case: &'static Case, engine: &Engine, isa: Isa) -> Result<Self> {
        let input = case.input();
        let mut loaded = Self::new(case, &input, isa)?;
        loaded.launch(engine, case.grid)?;
        let mut bytes = input[case.output].bytes();
        let addresses = places(&input);
        loaded.memory.read(addresses[case.output], &mut bytes)?;
        let actual = input[case.output].with_bytes(&bytes);
        if let Some(wrong) = difference(case, input, &actual) {
            bail!("the engine's result is wrong: {wrong}");
        }
        Ok(loaded)
    }

    fn new(case: &'static Case, input: &[Data], isa: Isa) -> Result<Self> {
        let mut memory = Memory::new(BASE, WINDOW, CAPACITY)?;
        let addresses = places(input);
        for (data, address) in input.iter().zip(&addresses) {
            let bytes = data.bytes();
            memory.alloc(*address, bytes.len() as u64)?;
            memory.write(*address, &bytes)?;
        }
        let program = Program::build_image(case.ptx.as_bytes(), isa)?;
        let instance = Instance::new(&program, &mut memory)?;
        Ok(Self {
            case,
            entry: entry(&program, case)?,
            params: case.parameters(&addresses),
            instance,
            memory,
        })
    }

    /// Runs it once, to its end.
    ///
    /// # Errors
    /// The kernel's fault.
    pub(super) fn launch(&mut self, engine: &Engine, grid: [u32; 3]) -> Result<Duration> {
        run(
            engine,
            &self.instance,
            self.entry,
            (grid, self.case.block),
            &self.params,
            &mut self.memory,
        )
    }

    /// Time from its text to the end of a launch of one block.
    ///
    /// # Errors
    /// The kernel's fault.
    pub(super) fn first(&mut self, engine: &Engine) -> Result<Duration> {
        let began = Instant::now();
        let program = Program::build(self.case.ptx)?;
        let instance = Instance::new(&program, &mut self.memory)?;
        let entry = entry(&program, self.case)?;
        let shape = ([1; 3], self.case.block);
        run(
            engine,
            &instance,
            entry,
            shape,
            &self.params,
            &mut self.memory,
        )?;
        let time = began.elapsed();
        instance.release(&mut self.memory);
        Ok(time)
    }
}

/// An engine of this many threads.
pub(super) fn engine(threads: usize) -> Engine {
    Engine::new(EngineConfig {
        threads,
        ..EngineConfig::default()
    })
}

fn entry(program: &Arc<Program>, case: &Case) -> Result<usize> {
    program
        .entry(case.name)
        .context("the image lacks its entry")
}

/// Addresses of the buffers, with a guard's distance between them.
fn places(input: &[Data]) -> Vec<u64> {
    let mut next = BASE;
    let place = |data: &Data| {
        let at = next;
        next += (data.bytes().len() as u64).next_multiple_of(1 << 16) + (1 << 16);
        at
    };
    input.iter().map(place).collect()
}

fn run(
    engine: &Engine,
    instance: &Instance,
    entry: usize,
    (grid, block): ([u32; 3], [u32; 3]),
    params: &Params,
    memory: &mut Memory,
) -> Result<Duration> {
    let shape = Grid {
        grid,
        block,
        shared: 0,
    };
    let began = Instant::now();
    let ran = engine.launch(instance, entry, shape, params.bytes(), memory);
    ran.map_err(|error| anyhow!("{error}"))?;
    Ok(began.elapsed())
}
