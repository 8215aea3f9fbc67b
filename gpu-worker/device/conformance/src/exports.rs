//! Memory of one session that another session uses as well.

use bus_schemas::{Code, ExportPlace, ModuleHash, Op, SessionId, limits};
use device::{Device, ExportMemory, OpResult};

use crate::kernels::{alloc, copy_in, copy_out, free, increment_params, launch, load, set};
use crate::program::{TestProgram, complete, opened};

/// Small allocations, so that exported ones lie between others on their pages.
const SIZES: [u64; 3] = [512, 70_400, 4_352];
/// Offset in the owner's window at which they begin.
const BEGIN: u64 = (6 << 20) + 768;

fn exchange(device: &mut dyn Device) -> &mut dyn ExportMemory {
    device.exports().expect("it has that")
}

fn run(device: &mut dyn Device, program: &mut TestProgram, ops: &[(Op, &[u8])]) -> Vec<Vec<u8>> {
    let slice = program.slice(ops);
    let done = complete(device, slice);
    assert_eq!(done.fault, None);
    let copied = done.results.iter().filter_map(OpResult::copied);
    copied.collect()
}

/// Address at which an importer with a free window puts it.
fn room(program: &TestProgram, place: ExportPlace) -> u64 {
    let first = program.window().base.next_multiple_of(limits::IPC_ALIGN);
    first + limits::IPC_ALIGN + place.before
}

fn codes(device: &mut dyn Device, at: &[(SessionId, u64, u64)]) -> Vec<Option<Code>> {
    let mut code = |(session, address, export): &(SessionId, u64, u64)| {
        let came = exchange(device).import(*session, *address, *export);
        came.err().map(|why| why.code)
    };
    at.iter().map(&mut code).collect()
}

/// Checks which bytes both sessions see, which none sees, and which remain when the owner frees the memory or
/// leaves.
#[expect(clippy::too_many_lines, reason = "steps that share state")]
pub(super) fn are_reached(device: &mut dyn Device, hash: ModuleHash) {
    for owner_closes in [false, true] {
        let (mut owner, mut other) = (opened(device, 1), opened(device, 2));
        let mut at = owner.window().base + BEGIN;
        let places = SIZES.map(|bytes| {
            let place = at;
            at += bytes;
            place
        });
        let mut ops: Vec<(Op, &[u8])> = vec![load(hash)];
        ops.extend(
            places
                .iter()
                .zip(SIZES)
                .map(|(at, bytes)| alloc(*at, bytes)),
        );
        ops.extend(
            (1..)
                .zip(places.iter().zip(SIZES))
                .map(|(n, (at, bytes))| set(*at, bytes, n, 1)),
        );
        run(device, &mut owner, &ops);
        run(device, &mut other, &[load(hash)]);
        let [_, middle, last] = places;
        let bytes = SIZES[1];
        let not_there = exchange(device).export(owner.session(), middle + 256, 1);
        assert!(not_there.is_err(), "none begins there");
        let place = exchange(device)
            .export(owner.session(), middle, 7)
            .expect("it begins there");
        assert!(
            place.bytes == bytes && place.before + bytes <= place.span,
            "{place:?}"
        );
        let mine = room(&other, place);
        let wrong = [
            (other.session(), mine, 8),
            (owner.session(), middle, 7),
            (other.session(), other.window().end(), 7),
            (SessionId(77), mine, 7),
        ];
        let wanted = [
            Code::NotExported,
            Code::BadAddress,
            Code::BadAddress,
            Code::SessionGone,
        ];
        assert_eq!(codes(device, &wrong), wanted.map(Some));
        exchange(device)
            .import(other.session(), mine, 7)
            .expect("there is room");
        // Only its owner is charged for it.
        let read = other.slice(&[copy_out(mine, bytes)]);
        let done = complete(device, read);
        assert_eq!((done.fault.clone(), done.resident), (None, 0));
        assert!(
            done.results[0]
                .copied()
                .expect("bytes")
                .iter()
                .all(|byte| *byte == 2)
        );
        written_by_both(device, &mut owner, &mut other, (middle, mine));
        only_its_bytes(device, &other, (mine, bytes));
        let mut gone = Vec::new();
        exchange(device).take_gone(&mut gone);
        assert_eq!(gone, [], "it is there");
        if owner_closes {
            device.close(owner.session());
        } else {
            run(device, &mut owner, &[free(middle), free(last)]);
        }
        exchange(device).take_gone(&mut gone);
        assert_eq!(gone, [7]);
        let slice = other.slice(&[copy_out(mine, 16)]);
        let fault = complete(device, slice).fault.map(|(_, why)| why.code);
        assert_eq!(
            fault,
            Some(Code::IllegalAddress),
            "what was freed is reached"
        );
        device.close(other.session());
        if !owner_closes {
            // A session that gets the memory next finds zeros.
            let again = run(
                device,
                &mut owner,
                &[alloc(middle, bytes), copy_out(middle, bytes)],
            );
            assert!(again[0].iter().all(|byte| *byte == 0));
            device.close(owner.session());
        }
    }
    dropped(device);
    twice(device);
}

/// Kernels, copies and fills of either session are seen by the other.
fn written_by_both(
    device: &mut dyn Device,
    owner: &mut TestProgram,
    other: &mut TestProgram,
    (middle, mine): (u64, u64),
) {
    let words: Vec<u8> = (0..1_000_u32).flat_map(u32::to_le_bytes).collect();
    run(device, owner, &[(copy_in(middle, 4_000, 0), &words)]);
    let params = increment_params(mine, 1_000);
    let seen = run(
        device,
        other,
        &[(launch(0, 1_000), &params), copy_out(mine, 4_000)],
    );
    let plus: Vec<u8> = (1..=1_000_u32).flat_map(u32::to_le_bytes).collect();
    assert!(
        seen[0] == plus,
        "the importer's kernel sees the owner's copy"
    );
    let params = increment_params(middle, 1_000);
    let seen = run(
        device,
        owner,
        &[(launch(0, 1_000), &params), copy_out(middle, 4_000)],
    );
    let plus: Vec<u8> = (2..=1_001_u32).flat_map(u32::to_le_bytes).collect();
    assert!(seen[0] == plus, "the owner's kernel sees the importer's");
    let large = vec![5; SIZES[1] as usize];
    run(device, other, &[set(mine + 8, 100, 9, 4)]);
    let seen = run(device, owner, &[copy_out(middle + 8, 400)]);
    assert_eq!(seen[0][..4], 9_u32.to_le_bytes());
    run(device, owner, &[set(middle, SIZES[1], 5, 1)]);
    assert!(run(device, other, &[copy_out(mine, SIZES[1])])[0] == large);
    let before = run(
        device,
        owner,
        &[
            copy_out(middle - 512, 512),
            copy_out(middle + SIZES[1], 256),
        ],
    );
    assert!(before[0].iter().all(|byte| *byte == 1) && before[1].iter().all(|byte| *byte == 3));
}

/// Other bytes on the same pages are not reached, and no memory is allocated there.
fn only_its_bytes(device: &mut dyn Device, other: &TestProgram, (mine, bytes): (u64, u64)) {
    let mistakes = [
        (copy_out(mine - 4, 4), Code::IllegalAddress),
        (copy_out(mine + bytes, 4), Code::IllegalAddress),
        (copy_out(mine + 8, bytes), Code::IllegalAddress),
        (free(mine), Code::BadAddress),
        (alloc(mine + bytes, 256), Code::BadAddress),
    ];
    for (n, (op, code)) in (31..).zip(mistakes) {
        // A fresh session imports it in the same way.
        let mut fresh = opened(device, n);
        let at = fresh.window().base + (mine - other.window().base);
        exchange(device)
            .import(fresh.session(), at, 7)
            .expect("there is room");
        let op = match op.0 {
            Op::CopyOut { address, bytes } => copy_out(address + at - mine, bytes),
            Op::Free { .. } => free(at),
            _ => alloc(at + bytes, 256),
        };
        let slice = fresh.slice(&[op]);
        let fault = complete(device, slice).fault.map(|(_, why)| why.code);
        assert_eq!(fault, Some(code), "{op:?}");
        device.close(fresh.session());
    }
}

/// An importer that drops it, or is closed, leaves the owner's memory unchanged. A session with exports or
/// imports stays on the device.
fn dropped(device: &mut dyn Device) {
    let (mut owner, mut other) = (opened(device, 1), opened(device, 2));
    let at = owner.window().base;
    run(
        device,
        &mut owner,
        &[alloc(at, 4 << 20), set(at, 4 << 20, 8, 1)],
    );
    let place = exchange(device)
        .export(owner.session(), at, 9)
        .expect("it begins there");
    let mine = room(&other, place);
    exchange(device)
        .import(other.session(), mine, 9)
        .expect("there is room");
    for session in [owner.session(), other.session()] {
        device.swap_out(session);
        let mut moved = Vec::new();
        device.moved(&mut moved);
        assert!(moved.len() == 1 && moved[0].failure.is_some(), "{moved:?}");
    }
    exchange(device)
        .drop_import(other.session(), mine)
        .expect("it is there");
    assert!(exchange(device).drop_import(other.session(), mine).is_err());
    let ops = [alloc(mine, 4 << 20), copy_out(mine, 4 << 20)];
    let own = run(device, &mut other, &ops);
    assert!(
        own[0].iter().all(|byte| *byte == 0),
        "its own memory is fresh"
    );
    run(device, &mut other, &[free(mine)]);
    exchange(device)
        .import(other.session(), mine, 9)
        .expect("once more");
    device.close(other.session());
    let seen = run(device, &mut owner, &[copy_out(at, 4 << 20)]);
    assert!(
        seen[0].iter().all(|byte| *byte == 8),
        "the owner's is as it was"
    );
    device.close(owner.session());
}

/// A session has its own allocation at a second address, until it frees it.
fn twice(device: &mut dyn Device) {
    let mut owner = opened(device, 1);
    let at = owner.window().base;
    run(
        device,
        &mut owner,
        &[alloc(at, 4 << 20), set(at, 4 << 20, 8, 1)],
    );
    let place = exchange(device)
        .export(owner.session(), at, 11)
        .expect("it begins there");
    let second = room(&owner, place) + (64 << 20);
    exchange(device)
        .import(owner.session(), second, 11)
        .expect("there is room");
    let seen = run(device, &mut owner, &[set(second, 4, 3, 1), copy_out(at, 8)]);
    assert_eq!(seen[0], [3, 3, 3, 3, 8, 8, 8, 8]);
    run(device, &mut owner, &[free(at)]);
    let slice = owner.slice(&[copy_out(second, 8)]);
    let fault = complete(device, slice).fault.map(|(_, why)| why.code);
    assert_eq!(
        fault,
        Some(Code::IllegalAddress),
        "what was freed is reached"
    );
    device.close(owner.session());
}
