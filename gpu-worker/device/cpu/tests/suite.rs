//! The kernels of `warploom bench ptx`, each compared with its native loop.

use device_cpu::{Engine, EngineConfig, Grid, Instance, Memory, Program};
use workloads::suite::{CASES, Case};

const BASE: u64 = 0x1000_0000_0000;

/// The bytes of a kernel's result, and of the native loop's difference from it.
fn run(case: &Case, threads: usize) -> (Vec<u8>, Option<String>) {
    let mut memory = Memory::new(BASE, 16 << 30, 1 << 30).expect("a window");
    let program = Program::build(case.ptx).expect(case.name);
    let instance = Instance::new(&program, &mut memory).expect("room");
    let mut input = case.input();
    let mut next = BASE;
    let mut addresses = Vec::new();
    for data in &input {
        let bytes = data.bytes();
        memory.alloc(next, bytes.len() as u64).expect("room");
        memory.write(next, &bytes).expect("allocated");
        addresses.push(next);
        next += (bytes.len() as u64).next_multiple_of(4096) + 4096;
    }
    let engine = Engine::new(EngineConfig {
        threads,
        ..EngineConfig::default()
    });
    let shape = Grid {
        grid: case.grid,
        block: case.block,
        shared: 0,
    };
    let entry = program.entry(case.name).expect("its entry");
    let params = case.parameters(&addresses);
    let ran = engine.launch(&instance, entry, shape, params.bytes(), &mut memory);
    ran.unwrap_or_else(|error| panic!("{}: {error}", case.name));
    let mut bytes = input[case.output].bytes();
    memory
        .read(addresses[case.output], &mut bytes)
        .expect("allocated");
    case.native(&mut input);
    let actual = input[case.output].with_bytes(&bytes);
    (bytes, case.difference(&actual, &input[case.output]))
}

#[test]
fn the_suite_computes_what_native_loops_do() {
    for case in &CASES {
        if case.name == "mma" && Program::build(case.ptx).is_err() {
            continue;
        }
        let (one, wrong) = run(case, 1);
        assert_eq!(wrong, None, "{}", case.name);
        assert!(
            one == run(case, 2).0,
            "{}: two threads, other bits",
            case.name
        );
    }
}
