//! Modules with very many variables, and with large ones: placed, filled and freed piece by piece,
//! at a cost in proportion to their size.

use bus_schemas::{Column, ModuleHash, Op, Symbol};
use device::Device;
use device_conformance::{TestProgram as Session, complete};
use device_cpu::{CpuConfig, CpuDevice, Instance, Memory, Program};
use std::fmt::Write as _;
use std::time::Duration;

const BASE: u64 = 0x1000_0000_0000;

/// Variables that contain their number, some behind the address of another one; and a large one.
fn module(count: usize, words: usize) -> String {
    let mut text = ".version 8.3\n.target sm_80\n.address_size 64\n".to_owned();
    for at in 0..count {
        let _ = match at % 7 {
            3 => writeln!(text, ".global .u64 v{at}[2] = {{v{}, {at}}};", at / 2),
            5 => writeln!(text, ".global .align 1024 .u64 v{at} = {at};"),
            _ => writeln!(text, ".global .u64 v{at} = {at};"),
        };
    }
    let list: Vec<String> = (0..words).map(|at| at.to_string()).collect();
    if words > 0 {
        let _ = writeln!(text, ".const .u32 large[{words}] = {{{}}};", list.join(","));
    }
    text + ".visible .entry k(.param .u64 out) { ret; }\n"
}

/// Contents of the variable `at`, if variable `n` is at `address(n)`.
fn held(at: usize, address: impl Fn(usize) -> u64) -> Vec<u8> {
    let number = (at as u64).to_le_bytes();
    match at % 7 {
        3 => [address(at / 2).to_le_bytes(), number].concat(),
        _ => number.to_vec(),
    }
}

#[test]
fn two_hundred_thousand_are_placed_and_freed_again_and_again() {
    const COUNT: usize = 200_000;
    let program = Program::build(&module(COUNT, 0)).expect("builds");
    let mut memory = Memory::new(BASE, 8 << 30, 1 << 30).expect("reserved");
    let mut held_by = Vec::new();
    for round in 0..6 {
        let instance = Instance::new(&program, &mut memory).expect("room");
        let addresses: Vec<u64> = instance.variables().map(|(at, _, _)| at).collect();
        assert!(addresses.is_sorted_by(|a, b| b - a >= 256));
        assert!((0..COUNT).all(|at| at % 7 != 5 || addresses[at].is_multiple_of(1024)));
        for at in (round..COUNT).step_by(97) {
            let mut bytes = held(at, |n| addresses[n]);
            let right = bytes.clone();
            bytes.fill(0);
            memory.read(addresses[at], &mut bytes).expect("live");
            assert_eq!(bytes, right, "variable {at}");
        }
        // The next instance must not see data that this one left.
        memory.write(addresses[0], &[0xff; 8]).expect("live");
        held_by.push(instance);
        if round % 2 == 1 {
            held_by.remove(0).release(&mut memory);
        }
    }
    held_by.into_iter().for_each(|it| it.release(&mut memory));
    assert_eq!(memory.used(), 0);
}

#[test]
fn what_does_not_fit_leaves_nothing() {
    let program = Program::build(&module(50_000, 0)).expect("builds");
    let mut memory = Memory::new(BASE, 8 << 30, 200_000).expect("reserved");
    for _ in 0..3 {
        assert!(Instance::new(&program, &mut memory).is_err());
        assert_eq!(memory.used(), 0);
    }
    let small = Program::build(&module(20, 0)).expect("builds");
    Instance::new(&small, &mut memory).expect("room");
    let huge = ".version 8.3\n.target sm_80\n.address_size 64\n
        .global .align 8 .b8 a[9223372036854775807]; .global .align 8 .b8 b[9223372036854775807];
        .global .align 8 .b8 c[9223372036854775807]; .visible .entry k() { ret; }";
    if let Ok(huge) = Program::build(huge) {
        assert!(Instance::new(&huge, &mut memory).is_err());
    }
}

/// Another session always wants to run: loads and unloads are parked repeatedly, with the same
/// result.
#[test]
fn loads_are_parked_between_pieces() {
    const COUNT: usize = 60_000;
    const WORDS: usize = 2 << 20;
    let text = module(COUNT, WORDS);
    let mut device = CpuDevice::new(CpuConfig {
        threads: 1,
        capacity: 256 << 20,
        ..CpuConfig::default()
    });
    let hash = ModuleHash::of(text.as_bytes());
    device.prepare(hash, text.as_bytes()).expect("builds");
    let mut session = Session::new(1);
    let (id, window) = (session.session(), session.window());
    device.open(id, window, None).expect("a free window");
    let interrupt = device.interrupt().expect("preemptive");
    let ops = [
        Op::LoadModule { slot: 0, hash },
        Op::LoadModule { slot: 0, hash },
        Op::Symbols { slot: 0 },
    ];
    let ops: Vec<(Op, &[u8])> = ops.into_iter().map(|op| (op, &[][..])).collect();
    device.submit(session.slice(&ops));
    let (mut completions, mut polls) = (Vec::new(), 0);
    interrupt.raise();
    while device.is_busy() {
        device.poll(Duration::from_secs(60), &mut completions);
        polls += 1;
    }
    assert!(polls > 40, "{polls} polls");
    assert_eq!(completions[0].fault, None);
    let rows = completions[0].results[0].copied().expect("the symbols");
    let symbols: Vec<Symbol> = Column::new(&rows).expect("whole rows").iter().collect();
    assert_eq!(symbols.len(), COUNT + 1);
    interrupt.lower();
    let mut read = |at: usize| {
        let Symbol { address, bytes, .. } = symbols[at];
        let copied = complete(
            &mut device,
            session.slice(&[(Op::CopyOut { address, bytes }, &[])]),
        );
        assert_eq!(copied.fault, None);
        copied.results[0].copied().expect("a copy")
    };
    for at in (0..COUNT).step_by(997) {
        assert_eq!(read(at), held(at, |n| symbols[n].address), "variable {at}");
    }
    let large: Vec<u8> = (0..WORDS as u32).flat_map(u32::to_le_bytes).collect();
    assert!(read(COUNT) == large, "the large one");
    let gone = complete(
        &mut device,
        session.slice(&[(Op::UnloadModule { slot: 0 }, &[])]),
    );
    assert_eq!((gone.fault, gone.resident), (None, 0));
}
