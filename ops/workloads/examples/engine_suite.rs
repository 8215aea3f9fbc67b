//! A runner of the suite's kernels: it answers a line `steady NAME` on stdin with a line `ok
//! NANOSECONDS` on stdout. `warploom bench ptx` builds it with and without address checks and
//! compares the two.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use device_cpu::{Engine, EngineConfig, Grid, Instance, Memory, Program};
use workloads::Params;
use workloads::suite::{CASES, Case};

const BASE: u64 = 0x1000_0000_0000;
/// Time for which a kernel is repeated; the fastest launch counts.
const STRETCH: Duration = Duration::from_millis(25);

struct Loaded {
    case: &'static Case,
    instance: Instance,
    entry: usize,
    memory: Memory,
    params: Params,
}

fn load(name: &str) -> Result<Loaded, Box<dyn std::error::Error>> {
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or("no such kernel")?;
    let mut memory = Memory::new(BASE, 16 << 30, 1 << 30)?;
    let mut addresses = vec![BASE];
    for data in case.input() {
        let (at, bytes) = (addresses[addresses.len() - 1], data.bytes());
        memory.alloc(at, bytes.len() as u64)?;
        memory.write(at, &bytes)?;
        addresses.push(at + (bytes.len() as u64).next_multiple_of(1 << 16) + (1 << 16));
    }
    let program = Program::build(case.ptx)?;
    Ok(Loaded {
        case,
        instance: Instance::new(&program, &mut memory)?,
        entry: program.entry(name).ok_or("no such entry")?,
        memory,
        params: case.parameters(&addresses),
    })
}

impl Loaded {
    fn fastest(&mut self, engine: &Engine) -> Result<Duration, Box<dyn std::error::Error>> {
        let grid = Grid {
            grid: self.case.grid,
            block: self.case.block,
            shared: 0,
        };
        let (began, mut best, mut times) = (Instant::now(), Duration::MAX, 0);
        while times < 2 || began.elapsed() < STRETCH {
            let start = Instant::now();
            let params = self.params.bytes();
            engine.launch(&self.instance, self.entry, grid, params, &mut self.memory)?;
            best = best.min(start.elapsed());
            times += 1;
        }
        Ok(best)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(EngineConfig::default());
    let mut loaded = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line?;
        let name = line
            .strip_prefix("steady ")
            .ok_or("steady NAME")?
            .to_owned();
        if !loaded.contains_key(&name) {
            loaded.insert(name.clone(), load(&name)?);
        }
        if let Some(kernel) = loaded.get_mut(&name) {
            println!("ok {}", kernel.fastest(&engine)?.as_secs_f64() * 1e9);
        }
    }
    Ok(())
}
