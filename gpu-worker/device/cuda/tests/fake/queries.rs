//! A query of an event that fails says nothing of the work: it goes on, and its memory stays until it is done.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use fake_cuda::{FakeCuda, Planned};

use crate::setup::{
    BUDGET, CAPACITY, LONG, alloc, copy_out, enter, finish, free, launch, open, opened, run, set,
    submit,
};

const BYTES: u64 = 4_096;

/// Two sessions with some memory, full of 1 and of 2.
fn two(device: &mut CudaDevice) -> [TestProgram; 2] {
    [1, 2].map(|n| {
        let mut program = opened(device, n);
        let base = program.window().base;
        run(
            device,
            &mut program,
            &[alloc(base, BYTES), set(base, BYTES, n as u8)],
        );
        program
    })
}

/// Lets the nth query from now on fail, and polls.
fn fails(fake: &Arc<FakeCuda>, device: &mut CudaDevice, nth: u64) -> usize {
    let planned = Planned {
        nth,
        code: 999,
        sticky: false,
    };
    fake.fail("cuEventQuery", planned);
    let mut done = Vec::new();
    device.poll(Duration::ZERO, &mut done);
    done.iter().filter(|it| it.fault.is_some()).count()
}

#[test]
fn no_other_session_gets_the_buffer_of_a_copy_under_way() {
    let Some(fake) = enter(
        module_path!(),
        "no_other_session_gets_the_buffer_of_a_copy_under_way",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let [mut one, mut two] = two(&mut device);
    let read = [launch(LONG), copy_out(one.window().base, BYTES)];
    submit(&mut device, &mut one, &read);
    assert_eq!(fails(&fake, &mut device, 1), 1);
    // Its buffer has its bytes at once; the slice ends when the other's copy has been done.
    let read = [
        copy_out(two.window().base, BYTES),
        launch(LONG),
        launch(LONG),
    ];
    submit(&mut device, &mut two, &read);
    let done = finish(&mut device).pop().expect("a completion");
    assert_eq!((done.session, done.fault.clone()), (two.session(), None));
    let bytes = done.results[0].copied().expect("bytes");
    assert!(
        bytes.iter().all(|byte| *byte == 2),
        "the other's bytes came into the buffer"
    );
}

#[test]
fn freed_memory_stays_until_work_has_passed() {
    let Some(fake) = enter(module_path!(), "freed_memory_stays_until_work_has_passed") else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let [mut one, _two] = two(&mut device);
    let base = one.window().base;
    let used = [launch(LONG), set(base, BYTES, 5), free(base)];
    submit(&mut device, &mut one, &used);
    device.poll(BUDGET, &mut Vec::new());
    // The first query is for the end of the slice, the second for the memory.
    assert_eq!(fails(&fake, &mut device, 2), 0);
    let done = finish(&mut device).pop().expect("a completion");
    assert_eq!((done.fault, device.lost()), (None, None));
}
