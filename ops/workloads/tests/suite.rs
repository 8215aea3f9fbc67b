//! The kernels of `warploom bench ptx`: each is compared with its native loop, and generated code
//! with the interpreter.

use std::sync::Arc;

use device_cpu::{Engine, EngineConfig, Grid, Instance, Isa, Memory, Program};
use ptx::ParsedModule;
use workloads::suite::{CASES, Case};

const BASE: u64 = 0x1000_0000_0000;

/// The bytes of a kernel's result.
fn run(case: &Case, program: &Arc<Program>, grid: [u32; 3], threads: usize) -> Vec<u8> {
    let mut memory = Memory::new(BASE, 16 << 30, 1 << 30).expect("a window");
    let instance = Instance::new(program, &mut memory).expect("room");
    let mut next = BASE;
    let mut addresses = Vec::new();
    let mut result = Vec::new();
    for (index, data) in case.input().iter().enumerate() {
        let bytes = data.bytes();
        memory.alloc(next, bytes.len() as u64).expect("room");
        memory.write(next, &bytes).expect("allocated");
        addresses.push(next);
        next += (bytes.len() as u64).next_multiple_of(4096) + 4096;
        if index == case.output {
            result = bytes;
        }
    }
    let engine = Engine::new(EngineConfig {
        threads,
        ..EngineConfig::default()
    });
    let shape = Grid {
        grid,
        block: case.block,
        shared: 0,
    };
    let entry = program.entry(case.name).expect("its entry");
    let params = case.parameters(&addresses);
    let ran = engine.launch(&instance, entry, shape, params.bytes(), &mut memory);
    ran.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let output = addresses[case.output];
    memory.read(output, &mut result).expect("allocated");
    result
}

#[test]
fn the_suite_computes_what_native_loops_do() {
    for case in &CASES {
        let program = match Program::build(case.ptx) {
            Err(_) if case.name == "mma" => continue,
            built => built.expect(case.name),
        };
        let one = run(case, &program, case.grid, 1);
        let mut native = case.input();
        case.native(&mut native);
        let native = &native[case.output];
        let wrong = case.difference(&native.with_bytes(&one), native);
        assert_eq!(wrong, None, "{}", case.name);
        assert!(
            one == run(case, &program, case.grid, 2),
            "{}: two threads, other bits",
            case.name
        );
    }
}

#[test]
fn the_suite_leaves_the_same_bits() {
    for case in &CASES {
        let results = [Isa::Avx2, Isa::Native].map(|isa| {
            let module = ParsedModule::parse(case.ptx).expect(case.name);
            let program = Program::build_for(&module, isa).expect(case.name);
            // A few blocks are enough.
            run(case, &program, case.grid.map(|blocks| blocks.min(6)), 1)
        });
        assert!(results[0] == results[1], "{}", case.name);
    }
}
