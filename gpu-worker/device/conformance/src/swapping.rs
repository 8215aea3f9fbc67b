//! Sessions with memory that leaves the device and returns, unnoticed by programs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{Code, Column, Failure, Launch, ModuleHash, Op, SessionId, Symbol};
use device::{Completion, CopyBytes, Device, Moved};

use crate::answers::VARIABLES;
use crate::kernels::{PTX, alloc, copy_in, copy_out, free, increment_params, launch, load, set};
use crate::program::{TestProgram, complete, completed, opened, run};

/// Bytes of a program's memory: fewer than the swap space has, more than either part of it.
const BYTES: u64 = 12 << 20;
const MIB: u64 = 1 << 20;
/// The slot of the module with variables.
const SLOT: u32 = 9;

/// A device without a swap space reports a failure, and the session stays.
pub(super) fn is_refused(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    device.swap_out(program.session());
    let moved = ended(device);
    assert!(moved.out && moved.failure.is_some(), "{moved:?}");
    works(device, &mut program);
    device.close(program.session());
}

/// Checks everything that a device with a swap space of 16 MiB must do.
pub(super) fn moves(device: &mut dyn Device) {
    let room = device.swap_use().expect("a swap space");
    let (memory, file) = (room.memory.1, room.file.1);
    assert!(
        memory < BYTES && file < BYTES && memory + file >= BYTES,
        "{room:?}"
    );
    assert!(memory + file <= 16 * MIB, "{room:?}");
    goes_and_comes(device);
    is_told_of_once(device);
    waits_with_its_slices(device);
    ends_while_it_is_out(device);
    is_closed_anywhere(device);
    stays_where_there_is_no_room(device);
    stays_while_it_has_work(device);
    emptied(device);
}

/// Polls the moves that have ended, until one has.
fn ended(device: &mut dyn Device) -> Moved {
    let until = Instant::now() + Duration::from_secs(60);
    let mut moved = Vec::new();
    while moved.is_empty() {
        assert!(Instant::now() < until, "no move ends");
        device.moved(&mut moved);
        std::thread::yield_now();
    }
    assert_eq!(moved.len(), 1, "{moved:?}");
    moved.remove(0)
}

/// Checks that no move is in progress, and none has ended.
fn nothing_moves(device: &mut dyn Device) {
    let mut moved = Vec::new();
    assert!(!device.moved(&mut moved) && moved.is_empty(), "{moved:?}");
}

/// Moves a session out; returns the number of bytes.
pub(crate) fn out(device: &mut dyn Device, session: SessionId) -> u64 {
    device.swap_out(session);
    let moved = ended(device);
    assert_eq!((moved.session, moved.out), (session, true));
    assert_eq!((moved.failure, moved.resident), (None, 0));
    moved.bytes
}

/// Brings a session back; returns its charge.
pub(crate) fn back(device: &mut dyn Device, session: SessionId) -> u64 {
    device.swap_in(session);
    let moved = ended(device);
    assert_eq!((moved.session, moved.out), (session, false));
    assert_eq!(moved.failure, None);
    moved.resident
}

/// Checks that the swap space is empty once closed sessions are gone. Until then the device has work to tend, so
/// that its caller looks again.
fn emptied(device: &mut dyn Device) {
    let until = Instant::now() + Duration::from_secs(60);
    while device.tend() {
        assert!(Instant::now() < until, "{:?}", device.swap_use());
        std::thread::yield_now();
    }
    let room = device.swap_use().expect("a swap space");
    assert_eq!((room.memory.0, room.file.0), (0, 0), "{room:?}");
}

fn read(done: &Completion, place: usize) -> Vec<u8> {
    done.results[place].copied().expect("bytes")
}

/// Bytes in which no two pages are alike.
fn pattern() -> Vec<u8> {
    let words = 0..(BYTES / 4) as u32;
    words
        .flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect()
}

/// Fills a program's memory; returns its content.
fn filled(device: &mut dyn Device, program: &mut TestProgram) -> Vec<u8> {
    let (address, mut bytes) = (program.window().base, pattern());
    let mut slice = program.slice(&[
        alloc(address, BYTES),
        (copy_in(address, BYTES, 3), &[]),
        set(address + 5 * MIB + 3, 1_000, 7, 1),
    ]);
    let staged = Arc::new(CopyBytes::from(&bytes[..]));
    slice.transfers.push((3, staged));
    assert_eq!(complete(device, slice).fault, None);
    bytes[5 * MIB as usize + 3..][..1_000].fill(7);
    bytes
}

fn has(device: &mut dyn Device, program: &mut TestProgram, bytes: &[u8]) {
    let address = program.window().base;
    let done = run(device, program, &[copy_out(address, BYTES)]);
    assert!(read(&done, 0) == bytes, "the program has other bytes");
}

/// Checks that the session is on the device and runs slices.
fn works(device: &mut dyn Device, program: &mut TestProgram) {
    let address = program.window().base + (1 << 31);
    let done = run(
        device,
        program,
        &[
            alloc(address, 8),
            set(address, 2, 5, 4),
            copy_out(address, 8),
            free(address),
        ],
    );
    assert_eq!(read(&done, 0), [5, 0, 0, 0, 5, 0, 0, 0]);
}

/// Runs the kernel that changes the module's variables; returns the first variable after it.
fn touched(device: &mut dyn Device, program: &mut TestProgram, counter: u64) -> Vec<u8> {
    let touch = Op::Launch(Launch {
        module: SLOT,
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    });
    let done = run(device, program, &[(touch, &[]), copy_out(counter, 8)]);
    read(&done, 0)
}

fn goes_and_comes(device: &mut dyn Device) {
    let mut one = opened(device, 1);
    let mut bytes = filled(device, &mut one);
    let hash = ModuleHash::of(VARIABLES.as_bytes());
    device
        .prepare(hash, VARIABLES.as_bytes())
        .expect("it builds");
    let done = run(
        device,
        &mut one,
        &[
            load(ModuleHash::of(PTX.as_bytes())),
            (Op::LoadModule { slot: SLOT, hash }, &[]),
            (Op::Symbols { slot: SLOT }, &[]),
        ],
    );
    let (rows, charge) = (read(&done, 0), done.resident);
    let rows: Vec<Symbol> = Column::new(&rows).expect("whole rows").iter().collect();
    let counter = rows[0].address;
    assert_eq!(touched(device, &mut one, counter), 9_u64.to_le_bytes());
    assert!(out(device, one.session()) >= BYTES);
    let room = device.swap_use().expect("a swap space");
    assert_eq!(room.memory.0, room.memory.1, "memory is filled first");
    assert!(room.file.0 > 0 && room.moving == (0, 0), "{room:?}");
    // Another session gets the memory that it left, and sees none of its bytes; nor the other way round.
    let mut two = opened(device, 2);
    let base = two.window().base;
    let done = run(
        device,
        &mut two,
        &[alloc(base, 2 * BYTES), copy_out(base, 2 * BYTES)],
    );
    assert!(
        read(&done, 0).iter().all(|byte| *byte == 0),
        "memory is not leaked"
    );
    run(device, &mut two, &[set(base, 2 * BYTES, 0xee, 1)]);
    device.close(two.session());
    assert_eq!(back(device, one.session()), charge);
    emptied(device);
    has(device, &mut one, &bytes);
    let params = increment_params(one.window().base, 1_000);
    run(device, &mut one, &[(launch(0, 1_000), &params)]);
    for word in bytes[..4_000].as_chunks_mut::<4>().0 {
        *word = u32::from_le_bytes(*word).wrapping_add(1).to_le_bytes();
    }
    assert_eq!(touched(device, &mut one, counter), 13_u64.to_le_bytes());
    // This works any number of times.
    for _ in 0..3 {
        out(device, one.session());
        back(device, one.session());
    }
    has(device, &mut one, &bytes);
    device.close(one.session());
}

fn is_told_of_once(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    let session = program.session();
    let bytes = filled(device, &mut program);
    for _ in 0..2 {
        device.swap_in(session);
        device.swap_out(SessionId(77));
        device.swap_in(SessionId(77));
        nothing_moves(device);
        device.swap_out(session);
        // It is on its way, in either direction.
        device.swap_out(session);
        device.swap_in(session);
        assert!(ended(device).out);
        device.swap_out(session);
        nothing_moves(device);
        device.swap_in(session);
        device.swap_in(session);
        device.swap_out(session);
        assert!(!ended(device).out);
        nothing_moves(device);
    }
    let opened = device.open(session, TestProgram::new(3).window(), None);
    assert!(opened.is_err(), "it is open");
    out(device, session);
    let opened = device.open(session, TestProgram::new(3).window(), None);
    assert!(opened.is_err(), "it is open");
    let opened = device.open(SessionId(3), program.window(), None);
    assert!(opened.is_err(), "its window is taken");
    back(device, session);
    has(device, &mut program, &bytes);
    device.close(session);
}

fn waits_with_its_slices(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    filled(device, &mut program);
    out(device, program.session());
    let address = program.window().base;
    let slice = program.slice(&[copy_out(address, 4)]);
    let position = slice.position;
    device.submit(slice);
    let mut other = opened(device, 2);
    works(device, &mut other);
    device.close(other.session());
    assert!(!device.is_busy(), "it waits");
    back(device, program.session());
    let done = completed(device, 1);
    assert_eq!((done[0].position, &done[0].fault), (position, &None));
    assert_eq!(read(&done[0], 0), pattern()[..4]);
    device.close(program.session());
}

fn ends_while_it_is_out(device: &mut dyn Device) {
    let why = Failure::new(Code::Killed, "a test stops it");
    for before in [true, false] {
        let mut program = opened(device, 1);
        filled(device, &mut program);
        let session = program.session();
        out(device, session);
        let first = program.slice(&[(Op::Sync, &[])]);
        let number = first.first;
        let second = program.slice(&[(Op::Sync, &[])]);
        if before {
            device.stop(session, why.clone());
            device.submit(first);
        } else {
            device.submit(first);
            assert!(!device.is_busy());
            device.stop(session, why.clone());
            assert!(device.is_busy(), "what has come completes now");
        }
        device.submit(second);
        let done = completed(device, 2);
        let faults: Vec<_> = done.iter().map(|it| it.fault.clone()).collect();
        let fault = |op| Some((op, why.clone()));
        assert_eq!(faults, [fault(number), fault(number + 1)]);
        device.close(session);
    }
}

/// A step done to a session before it is closed.
type Step<'s> = &'s dyn Fn(&mut dyn Device, SessionId);

fn is_closed_anywhere(device: &mut dyn Device) {
    let steps: [Step<'_>; 4] = [
        &|device, session| device.swap_out(session),
        &|device, session| {
            out(device, session);
        },
        &|device, session| {
            out(device, session);
            device.swap_in(session);
        },
        &|device, session| {
            out(device, session);
            device.submit(TestProgram::new(1).slice(&[(Op::Sync, &[])]));
        },
    ];
    for step in steps {
        let mut program = opened(device, 1);
        filled(device, &mut program);
        step(device, program.session());
        device.close(program.session());
        nothing_moves(device);
        assert!(!device.is_busy());
        // The same session number, in the same window.
        let mut program = opened(device, 1);
        let base = program.window().base;
        let done = run(
            device,
            &mut program,
            &[alloc(base, BYTES), copy_out(base, BYTES)],
        );
        assert!(
            read(&done, 0).iter().all(|byte| *byte == 0),
            "memory is not leaked"
        );
        device.close(program.session());
        emptied(device);
    }
}

fn stays_where_there_is_no_room(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    let bytes = filled(device, &mut program);
    let address = program.window().base + 2 * BYTES;
    let more = 16 * MIB;
    let charge = run(
        device,
        &mut program,
        &[alloc(address, more), set(address, more, 9, 1)],
    );
    device.swap_out(program.session());
    let moved = ended(device);
    let failure = moved.failure.expect("no room");
    assert_eq!(
        (moved.out, moved.bytes, failure.code),
        (true, 0, Code::OutOfMemory)
    );
    assert_eq!(moved.resident, charge.resident);
    let done = run(device, &mut program, &[copy_out(address, more)]);
    assert!(read(&done, 0).iter().all(|byte| *byte == 9));
    has(device, &mut program, &bytes);
    emptied(device);
    // With less memory in use, it leaves.
    run(device, &mut program, &[free(address)]);
    out(device, program.session());
    back(device, program.session());
    has(device, &mut program, &bytes);
    device.close(program.session());
}

fn stays_while_it_has_work(device: &mut dyn Device) {
    let mut program = opened(device, 1);
    let bytes = filled(device, &mut program);
    let address = program.window().base;
    let slice = program.slice(&[copy_out(address, BYTES)]);
    device.submit(slice);
    device.swap_out(program.session());
    let moved = ended(device);
    assert!(moved.out && moved.failure.is_some(), "{moved:?}");
    let done = completed(device, 1);
    assert!(read(&done[0], 0) == bytes);
    works(device, &mut program);
    device.close(program.session());
}
