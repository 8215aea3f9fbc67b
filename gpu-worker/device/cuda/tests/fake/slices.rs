//! Slices of several sessions: their bytes, their order, their time, and the calls that they cost.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use fake_cuda::FakeCuda;

use crate::setup::{
    CAPACITY, LONG, NOTHING, OpBytes, SPIN, alloc, bare, copy_in, copy_out, enter, finish, free,
    increment, launch, open, opened, run, set, submit,
};

/// Bytes of each session's memory.
const BYTES: u64 = 3 << 20;
/// Number of launches of a slice.
const LAUNCHES: usize = 64;
/// Slices of which one is measured launch by launch.
const SAMPLED: usize = 16;

/// A slice that writes bytes, changes some and reads them; and the bytes that it must read.
fn written(program: &TestProgram, turn: u8) -> (Vec<OpBytes>, Vec<u8>) {
    let base = program.window().base;
    let words: Vec<u8> = (0..500_u32)
        .flat_map(|n| (n * u32::from(turn)).to_le_bytes())
        .collect();
    let mut wanted: Vec<u8> = (0..500_u32)
        .flat_map(|n| (n * u32::from(turn) + 1).to_le_bytes())
        .collect();
    wanted.extend([turn; 1_000]);
    wanted.extend_from_within(..48);
    let ops = vec![
        copy_in(base, &words),
        launch(SPIN),
        increment(base, 500),
        set(base + 2_000, 1_000, turn),
        bare(bus_schemas::Op::Copy {
            to: base + 3_000,
            from: base,
            bytes: 48,
        }),
        copy_out(base, 3_048),
    ];
    (ops, wanted)
}

#[test]
fn slices_of_three_sessions_have_their_bytes_and_their_order() {
    let Some(fake) = enter(
        module_path!(),
        "slices_of_three_sessions_have_their_bytes_and_their_order",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut programs: Vec<_> = (1..=3).map(|n| opened(&mut device, n)).collect();
    for program in &mut programs {
        let base = program.window().base;
        run(&mut device, program, &[alloc(base, BYTES)]);
    }
    let mut wanted = Vec::new();
    for turn in 1..=5 {
        for program in &mut programs {
            let (ops, bytes) = written(program, turn);
            submit(&mut device, program, &ops);
            wanted.push((program.session(), bytes));
        }
    }
    let done = finish(&mut device);
    assert_eq!(done.len(), wanted.len());
    for program in &programs {
        let mine = done.iter().filter(|it| it.session == program.session());
        let positions: Vec<_> = mine.clone().map(|it| it.position).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        let read = mine.map(|it| it.results[0].copied().expect("bytes"));
        let mine = wanted.iter().filter(|it| it.0 == program.session());
        assert!(
            read.eq(mine.map(|it| it.1.clone())),
            "{:?}",
            program.session()
        );
    }
    for program in &programs {
        device.close(program.session());
    }
    let again = opened(&mut device, 1);
    assert_eq!(
        again.session(),
        programs[0].session(),
        "its addresses are free"
    );
}

/// Runs slices of launches; returns the number of calls of each slice, at its submission and in all.
fn launch_calls(
    fake: &Arc<FakeCuda>,
    device: &mut CudaDevice,
    program: &mut TestProgram,
    slices: usize,
) -> Vec<(u64, u64)> {
    let ops: Vec<OpBytes> = (0..LAUNCHES).map(|_| launch(NOTHING)).collect();
    let slices = (0..slices).map(|_| {
        let before = fake.all_calls();
        submit(device, program, &ops);
        let submitted = fake.all_calls() - before;
        // Looks at the device are not the slice's: it is idle when it is looked at.
        fake.pass(Duration::from_millis(1));
        let done = finish(device);
        assert_eq!(
            (done[0].launches, done[0].fault.clone()),
            (LAUNCHES as u64, None)
        );
        (submitted, fake.all_calls() - before)
    });
    slices.collect()
}

#[test]
fn a_launch_costs_about_one_call() {
    let Some(fake) = enter(module_path!(), "a_launch_costs_about_one_call") else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut program = opened(&mut device, 1);
    // From then on its kernel is known.
    launch_calls(&fake, &mut device, &mut program, 2);
    let mut calls = launch_calls(&fake, &mut device, &mut program, SAMPLED);
    calls.sort_unstable();
    println!("calls of slices of {LAUNCHES} launches, at submission and in all: {calls:?}");
    let sampled = calls.pop().expect("slices");
    for (submitted, all) in calls {
        assert!(10 * submitted <= 11 * LAUNCHES as u64, "{submitted} calls");
        assert!(8 * all <= 9 * LAUNCHES as u64, "{all} calls in all");
    }
    assert!(
        sampled.1 <= 4 * LAUNCHES as u64,
        "each launch has its mark: {sampled:?}"
    );
}

#[test]
fn sessions_run_side_by_side_and_the_urgent_one_first() {
    let Some(fake) = enter(
        module_path!(),
        "sessions_run_side_by_side_and_the_urgent_one_first",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let (mut one, mut two) = (opened(&mut device, 1), opened(&mut device, 2));
    let began = fake.now();
    submit(&mut device, &mut one, &[launch(LONG)]);
    submit(&mut device, &mut two, &[launch(LONG)]);
    finish(&mut device);
    let took = fake.now() - began;
    assert!(
        (5_000_000..5_200_000).contains(&took),
        "{took} ns side by side"
    );
    // The urgent one comes last, while the other has begun one of its slices.
    let mut urgent = opened(&mut device, 3).at(0);
    let full = |kernel| bare(device_conformance::flat_launch(kernel, 132 * 32, 1_024));
    submit(&mut device, &mut one, &[full(LONG)]);
    submit(&mut device, &mut two, &[full(LONG)]);
    submit(&mut device, &mut urgent, &[launch(SPIN)]);
    let ended: Vec<_> = finish(&mut device).iter().map(|it| it.session.0).collect();
    assert_eq!(ended, [1, 3, 2]);
}

/// Runs slices of three sessions on a fresh driver; returns the virtual time and the number of calls.
fn whole_run(fake: &Arc<FakeCuda>) -> (u64, u64) {
    let mut device = open(fake, CAPACITY);
    let mut programs: Vec<_> = (1..=3).map(|n| opened(&mut device, n)).collect();
    // The loader's clock is ahead by what it did at the end of a device before.
    let began = fake.now();
    for program in &mut programs {
        let base = program.window().base;
        submit(&mut device, program, &[alloc(base, BYTES)]);
        for turn in 1..=4 {
            let (ops, _) = written(program, turn);
            submit(&mut device, program, &ops);
        }
    }
    assert_eq!(finish(&mut device).len(), 15);
    // The loader unloads modules beside the device's end.
    let took = fake.now() - began;
    drop(device);
    let run = (took, fake.all_calls());
    fake.reset();
    run
}

#[test]
fn a_run_takes_the_same_time_each_time() {
    let Some(fake) = enter(module_path!(), "a_run_takes_the_same_time_each_time") else {
        return;
    };
    let first = whole_run(&fake);
    assert!(first.0 > 200_000 && first.1 > 300, "{first:?}");
    assert_eq!([(); 3].map(|()| whole_run(&fake)), [first; 3]);
}

#[test]
fn a_poll_keeps_its_budget() {
    let Some(fake) = enter(module_path!(), "a_poll_keeps_its_budget") else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut program = opened(&mut device, 1);
    submit(&mut device, &mut program, &[launch(LONG)]);
    for budget in [50_000, 100_000, 400_000] {
        let began = fake.now();
        let mut done = Vec::new();
        device.poll(Duration::from_nanos(budget), &mut done);
        let took = fake.now() - began;
        assert!(
            done.is_empty() && (budget..budget + 25_000).contains(&took),
            "{took}"
        );
    }
    assert_eq!(finish(&mut device).len(), 1);
}

#[test]
fn freed_memory_is_unmapped_behind_the_work_that_uses_it() {
    let Some(fake) = enter(
        module_path!(),
        "freed_memory_is_unmapped_behind_the_work_that_uses_it",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let mut program = opened(&mut device, 1);
    let base = program.window().base;
    run(&mut device, &mut program, &[alloc(base, BYTES)]);
    fake.clear();
    submit(
        &mut device,
        &mut program,
        &[launch(LONG), set(base, BYTES, 7), free(base)],
    );
    let mut done = Vec::new();
    device.poll(Duration::from_millis(1), &mut done);
    assert_eq!((done.len(), fake.count("cuMemUnmap")), (0, 0));
    let done = finish(&mut device);
    // Work on memory that is unmapped ends the context.
    assert_eq!((done[0].fault.clone(), done[0].resident), (None, 0));
    assert_eq!(fake.count("cuMemUnmap"), 1);
}
