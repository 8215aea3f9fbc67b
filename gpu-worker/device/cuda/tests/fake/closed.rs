//! Closed sessions with work under way: it ends behind other sessions' launches, and only then their memory
//! goes.

use std::sync::Arc;
use std::time::Duration;

use bus_schemas::{Code, Op};
use device::Device;
use device_conformance::TestProgram;
use device_cuda::CudaDevice;
use fake_cuda::{FakeCuda, Planned};

use crate::setup::{
    BUDGET, CAPACITY, HELD, NOTHING, alloc, bare, completes, copy_out, enter, finish, launch, open,
    opened, run, set, submit,
};

const MIB: u64 = 1 << 20;
/// Bytes of a device that is small.
const SMALL: u64 = 64 * MIB;
/// Virtual time for which no kernel of a second was waited, and of that kernel.
const SHORT: Duration = Duration::from_millis(10);
const LONG: Duration = Duration::from_secs(1);

/// A device on which a session was closed while its kernel of a second runs, and two programs of others.
struct Scene {
    fake: Arc<FakeCuda>,
    device: CudaDevice,
    closed: TestProgram,
    others: [TestProgram; 2],
    began: u64,
}

impl Scene {
    /// Closes a session of so many bytes on a device of so many, with its kernel.
    fn new(fake: &Arc<FakeCuda>, capacity: u64, bytes: u64) -> Self {
        let mut device = open(fake, capacity);
        let [mut closed, one, two] = [1, 2, 3].map(|n| opened(&mut device, n));
        let base = closed.window().base;
        run(&mut device, &mut closed, &[alloc(base, bytes)]);
        fake.clear();
        let began = fake.now();
        // Work on memory that is unmapped ends the context.
        let work = [launch(HELD), set(base, bytes, 7)];
        submit(&mut device, &mut closed, &work);
        device.close(closed.session());
        Self {
            fake: Arc::clone(fake),
            device,
            closed,
            others: [one, two],
            began,
        }
    }

    fn passed(&self) -> Duration {
        Duration::from_nanos(self.fake.now() - self.began)
    }

    /// Another session runs a small slice at once.
    fn other_works(&mut self) {
        let [_, other] = &mut self.others;
        submit(&mut self.device, other, &[launch(NOTHING), bare(Op::Sync)]);
        assert_eq!(completes(&mut self.device, other).fault, None);
        assert!(self.passed() < SHORT, "{:?}", self.passed());
    }

    /// True while the device has something of the session; and the number of its extents that are gone.
    fn left(&mut self) -> (bool, u64) {
        (self.device.tend(), self.fake.count("cuMemUnmap"))
    }
}

#[test]
fn a_close_behind_a_kernel_keeps_no_other_session() {
    let Some(fake) = enter(
        module_path!(),
        "a_close_behind_a_kernel_keeps_no_other_session",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake, CAPACITY, MIB);
    scene.other_works();
    assert!(!scene.device.is_busy(), "nothing polls for it");
    assert_eq!(scene.left(), (true, 0));
    fake.pass(2 * LONG);
    assert_eq!(scene.left(), (false, 1));
    assert_eq!(scene.device.lost(), None);
}

#[test]
fn slices_that_have_not_begun_are_given_up_in_silence() {
    let Some(fake) = enter(
        module_path!(),
        "slices_that_have_not_begun_are_given_up_in_silence",
    ) else {
        return;
    };
    let mut device = open(&fake, CAPACITY);
    let [mut closed, mut urgent] = [1, 2].map(|n| opened(&mut device, n));
    urgent = urgent.at(0);
    submit(&mut device, &mut urgent, &[launch(HELD)]);
    submit(&mut device, &mut closed, &[launch(NOTHING)]);
    let session = closed.session();
    device.close(session);
    let done = finish(&mut device);
    assert!(done.iter().all(|it| it.session != session), "{done:?}");
    assert_eq!(done.len(), 1);
}

#[test]
fn an_allocation_waits_for_the_memory_of_a_closed_session() {
    let Some(fake) = enter(
        module_path!(),
        "an_allocation_waits_for_the_memory_of_a_closed_session",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake, SMALL, 48 * MIB);
    let base = scene.others[0].window().base;
    let ops = [alloc(base, 32 * MIB), copy_out(base, 64)];
    submit(&mut scene.device, &mut scene.others[0], &ops);
    scene.other_works();
    assert_eq!(scene.left(), (true, 0));
    let done = completes(&mut scene.device, &scene.others[0]);
    assert_eq!((done.fault, done.resident), (None, 32 * MIB));
    assert_eq!(done.results[0].copied(), Some(vec![0; 64]));
    assert!(scene.passed() >= LONG, "{:?}", scene.passed());
    assert_eq!(scene.left(), (false, 1));
}

#[test]
fn an_allocation_fails_that_no_closed_session_leaves_room_for() {
    let Some(fake) = enter(
        module_path!(),
        "an_allocation_fails_that_no_closed_session_leaves_room_for",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake, SMALL, 48 * MIB);
    let base = scene.others[0].window().base;
    let ops = [launch(NOTHING), alloc(base, SMALL + 1)];
    submit(&mut scene.device, &mut scene.others[0], &ops);
    scene.other_works();
    let fault = completes(&mut scene.device, &scene.others[0]).fault;
    let fault = fault.map(|(op, why)| (op, why.code));
    // Number 1 has loaded its module.
    assert_eq!(fault, Some((3, Code::OutOfMemory)));
}

#[test]
fn its_addresses_are_free_when_they_are_asked_for() {
    let Some(fake) = enter(
        module_path!(),
        "its_addresses_are_free_when_they_are_asked_for",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake, CAPACITY, MIB);
    let (session, window) = (scene.closed.session(), scene.closed.window());
    let opened = scene.device.open(session, window, None);
    opened.expect("a closed window is free");
    assert!(scene.passed() >= LONG, "{:?}", scene.passed());
    assert_eq!(scene.left(), (false, 1));
}

#[test]
fn a_device_that_ends_leaves_nothing_of_it() {
    let Some(fake) = enter(module_path!(), "a_device_that_ends_leaves_nothing_of_it") else {
        return;
    };
    let scene = Scene::new(&fake, CAPACITY, MIB);
    drop(scene.device);
    let calls = ["cuMemUnmap", "cuMemAddressFree", "cuModuleUnload"];
    assert_eq!(calls.map(|call| fake.count(call)), [1, 3, 3]);
    assert_eq!(fake.busy(), 0);
}

#[test]
fn nothing_of_it_is_waited_for_in_a_context_that_has_ended() {
    let Some(fake) = enter(
        module_path!(),
        "nothing_of_it_is_waited_for_in_a_context_that_has_ended",
    ) else {
        return;
    };
    let mut scene = Scene::new(&fake, CAPACITY, MIB);
    let (nth, code, sticky) = (1, 719, true);
    fake.fail("cuEventQuery", Planned { nth, code, sticky });
    scene.device.poll(BUDGET, &mut Vec::new());
    let lost = scene.device.lost().map(|why| why.code);
    assert_eq!(lost, Some(Code::DeviceLost));
    assert!(!scene.device.tend() && scene.passed() < SHORT);
}
