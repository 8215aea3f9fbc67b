//! Allocations that move to other addresses, and allocations that are reached at several.

use bus_schemas::{Code, ModuleHash, Op, limits};
use device::{Completion, Device};

use crate::kernels::{alloc, copy, copy_in, copy_out, free, increment_params, launch, load, set};
use crate::program::{TestProgram, complete, opened, run};
use crate::swapping::{back, out};

const UNIT: u64 = limits::MAP_ALIGN;
/// Bytes of the allocation.
const BYTES: u64 = 2 * UNIT;

fn moved(to: u64, from: u64, keep: bool) -> (Op, &'static [u8]) {
    let bytes = BYTES;
    let op = Op::Move {
        to,
        from,
        bytes,
        keep,
    };
    (op, &[])
}

fn map(to: u64, from: u64) -> (Op, &'static [u8]) {
    let bytes = BYTES;
    (Op::Map { to, from, bytes }, &[])
}

/// The addresses of a program: the first of its allocation, and others that it is moved to and mapped at.
fn places(program: &TestProgram) -> [u64; 4] {
    let base = program.window().base.next_multiple_of(UNIT);
    [0, 4, 6, 10].map(|at| base + at * UNIT)
}

fn read(done: &Completion) -> Vec<Vec<u8>> {
    let copied = done.results.iter().filter_map(|it| it.copied());
    copied.collect()
}

pub(super) fn all(device: &mut dyn Device, hash: ModuleHash) {
    bytes_go_along(device);
    every_place_is_the_same(device, hash);
    mistakes_are_told(device);
    if device.swap_use().is_some() {
        leave_and_come(device, hash);
    }
}

/// Moved memory is at the new addresses, charged once, and gone from the old ones.
fn bytes_go_along(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    let [first, second, ..] = places(&program);
    let ops = [
        alloc(first, BYTES),
        set(first, 8, 0x0102_0304, 4),
        set(first + BYTES - 4, 4, 9, 1),
        moved(second, first, false),
        copy_out(second, 8),
        copy_out(second + BYTES - 8, 8),
        // Other allocations have the addresses then, and find no old bytes there.
        alloc(first, UNIT),
        copy_out(first, 8),
        free(first),
    ];
    let done = run(device, &mut program, &ops);
    let there = [
        vec![4, 3, 2, 1, 4, 3, 2, 1],
        vec![0, 0, 0, 0, 9, 9, 9, 9],
        vec![0; 8],
    ];
    assert_eq!((read(&done), done.resident), (there.to_vec(), BYTES));
    let back = [moved(first, second, false), copy_out(first, 4)];
    let done = run(device, &mut program, &back);
    assert_eq!(read(&done), [[4, 3, 2, 1]]);
    let done = run(device, &mut program, &[free(first)]);
    assert_eq!(done.resident, 0);
    device.close(program.session());
}

/// Copies, fills and kernels reach the same bytes at each address, until that is freed.
fn every_place_is_the_same(device: &mut dyn Device, hash: ModuleHash) {
    let mut program = opened(device, 1);
    let [first, home, other, last] = places(&program);
    let params = increment_params(last, 1_000);
    let ops = [
        load(hash),
        alloc(first, BYTES),
        set(first, BYTES / 4, 5, 4),
        moved(home, first, true),
        map(other, home),
        map(last, home),
        (launch(0, 1_000), &params),
        copy_out(home, 4),
        copy_out(other + 3_996, 8),
        (copy_in(first + UNIT, 8, 0), &[1, 2, 3, 4, 5, 6, 7, 8]),
        copy(other + 16, last + UNIT, 8),
        copy_out(home + 16, 8),
        // Copies may cross mappings that lie side by side.
        copy_out(other + BYTES - 4, 4),
        free(last),
        free(first),
        copy_out(other + UNIT, 2),
    ];
    let done = run(device, &mut program, &ops);
    let there: [&[u8]; 5] = [
        &[6, 0, 0, 0],
        &[6, 0, 0, 0, 5, 0, 0, 0],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[5, 0, 0, 0],
        &[1, 2],
    ];
    assert_eq!(read(&done), there);
    assert_eq!(done.resident, BYTES);
    // Freed addresses are free, and zeros when allocated again.
    let ops = [
        alloc(first, BYTES),
        copy_out(first + UNIT, 8),
        free(first),
        map(first, home),
        copy_out(first + UNIT, 2),
        free(home),
    ];
    let done = run(device, &mut program, &ops);
    assert_eq!(read(&done), [vec![0; 8], vec![1, 2]]);
    assert_eq!(done.resident, 0);
    device.close(program.session());
    // A session that ends with everything mapped leaves nothing behind.
    let mut next = opened(device, 1);
    let ops = [alloc(first, BYTES), map(home, first), map(other, first)];
    run(device, &mut next, &ops);
    device.close(next.session());
    let mut next = opened(device, 1);
    let ops = [
        alloc(first, BYTES),
        alloc(home, BYTES),
        set(home, 8, 1, 1),
        copy_out(first, 8),
        copy_out(home + 8, 8),
    ];
    let done = run(device, &mut next, &ops);
    assert_eq!(read(&done), [[0; 8]; 2]);
    device.close(next.session());
}

/// An op on an address that is not mapped, not free or not whole is refused, and ends the session.
fn mistakes_are_told(device: &mut dyn Device) {
    let [first, home, other, _] = places(&TestProgram::new(1));
    let end = TestProgram::new(1).window().end() & !(UNIT - 1);
    let there = alloc(first, BYTES);
    let part = Op::Map {
        to: home,
        from: first,
        bytes: UNIT,
    };
    let bad = Code::BadAddress;
    let cases = [
        (vec![there, moved(home, other, false)], bad),
        (vec![there, map(home, other)], bad),
        (vec![there, map(home, first + UNIT)], bad),
        (vec![there, (part, &[])], bad),
        (vec![there, map(first + UNIT, first)], bad),
        (vec![there, moved(first + UNIT, first, false)], bad),
        (vec![there, map(end, first)], bad),
        (vec![there, moved(end, first, true)], bad),
        (vec![there, map(home, first), map(home, first)], bad),
        (vec![there, map(home, first), map(other, home)], bad),
        (
            vec![there, map(home, first), moved(other, first, false)],
            bad,
        ),
        (
            vec![there, map(home, first), moved(other, home, false)],
            bad,
        ),
        (vec![there, map(home, first), alloc(home + UNIT, 256)], bad),
        (vec![there, map(home, first), free(home + UNIT)], bad),
        (
            vec![there, map(home, first), free(first), copy_out(home, 4)],
            Code::IllegalAddress,
        ),
        (
            vec![there, moved(home, first, false), copy_out(first, 4)],
            Code::IllegalAddress,
        ),
        (
            vec![there, map(home, first), free(home), copy_out(home, 4)],
            Code::IllegalAddress,
        ),
    ];
    for (index, (ops, code)) in cases.into_iter().enumerate() {
        let mut program = opened(device, 1);
        let slice = program.slice(&ops);
        let last = slice.first + ops.len() as u64 - 1;
        let (op, failure) = complete(device, slice)
            .fault
            .unwrap_or_else(|| panic!("case {index} has no fault"));
        assert_eq!((failure.code, op), (code, last), "case {index}: {failure}");
        device.close(program.session());
    }
}

/// A session with maps leaves the device and returns: its bytes move once, and its mappings still reach them.
fn leave_and_come(device: &mut dyn Device, hash: ModuleHash) {
    let mut program = opened(device, 1);
    let [first, home, other, last] = places(&program);
    let ops = [
        load(hash),
        alloc(first, BYTES),
        set(first, BYTES / 4, 5, 4),
        moved(home, first, true),
        map(other, home),
        alloc(last, 4_096),
        set(last, 4_096, 3, 1),
    ];
    run(device, &mut program, &ops);
    for round in 0..3_u8 {
        let left = out(device, program.session());
        assert!(left < 2 * BYTES, "{left} bytes left, of {BYTES}");
        back(device, program.session());
        let params = increment_params(other, 1_000);
        let ops = [
            (launch(0, 1_000), &params[..]),
            copy_out(first, 4),
            copy_out(home + 4_000, 4),
            copy_out(other + BYTES - 4, 4),
            copy_out(last, 4),
        ];
        let done = run(device, &mut program, &ops);
        let there = [[6 + round, 0, 0, 0], [5, 0, 0, 0], [5, 0, 0, 0], [3; 4]];
        assert_eq!(read(&done), there, "round {round}");
    }
    // Freed mappings are gone after it has left and returned.
    run(device, &mut program, &[free(other)]);
    out(device, program.session());
    back(device, program.session());
    let done = run(
        device,
        &mut program,
        &[
            alloc(other, BYTES),
            copy_out(other, 4),
            copy_out(first, 4),
            free(home),
        ],
    );
    assert_eq!(read(&done), [[0; 4], [8, 0, 0, 0]]);
    device.close(program.session());
}
